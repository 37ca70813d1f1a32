"""From event tables to a labelled tensor.

sources.py         paths -> the files they name, how each file is written, and the SQL that reads it
compressed.py      lines of text files, compressed or not; compressed files that are cut off
formats.py         what the columns of known event data sets mean
event_tables.py    files or a data frame: columns, format, loading, and the line of a bad row
conditions.py      `where`: one expression in SQL, checked, or a dict
number_columns.py  columns that `where` compares to numbers, read as numbers
pandas_columns.py  periods and intervals of pandas, as columns that duckdb reads
loading.py         rows -> a table of the needed columns, with bad rows set apart
dates.py           the moments in that table: time zones, and whether the day or the month comes first
periods.py         the labels of hours, days, weeks, months, quarters and years, and the words for these
label_template.py  modes and labels as in another tensor, and labels that it does not have
vocabulary.py      the texts in a column -> the labels of a mode
tensors.py         that table -> labels, and a table of cells
event_cells.py     cells with their counts, without the labels that are too rare, as a table of duckdb
table_tensor.py    the tensor of these cells: in memory, or in shards on disk
bad_rows.py        the first row that cannot be read, as an error
reports.py         the report on the rows
read_events.py     `read_events`: all of this in order
"""
