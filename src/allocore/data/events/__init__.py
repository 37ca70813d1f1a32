"""From the event tables people have to a labelled tensor.

sources.py   files or a data frame -> relations of duckdb, one column a text
formats.py   what the columns of known event data sets mean
loading.py   a relation -> a table of the columns that matter, bad rows set apart
tensors.py   that table -> labels, coordinates, counts
cells.py     the cells without the labels that too few rows have
report.py    what was read, dropped and repaired
reading.py   `read_events`, all of it in order
"""
