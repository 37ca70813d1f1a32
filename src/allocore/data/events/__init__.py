"""From the event tables people have to a labelled tensor.

sources.py      paths -> the files they name, how each is written, and the SQL that reads it
compressed.py   lines of text files, compressed or not, and files that are cut off
formats.py      what the columns of known event data sets mean
event_tables.py files or a data frame: columns, format, loading, and the line of a bad row
loading.py      their rows -> a table of the columns that matter, bad rows set apart
dates.py        the dates in that table, and whether day or month comes first
tensors.py      that table -> labels, coordinates, counts
event_cells.py  the cells without the labels that too few rows have
event_report.py what was read, dropped and repaired
read_events.py  `read_events`, all of it in order
"""
