"""Event tables in, tensors out: `read_events` and the known formats of event data.

Imports `tensor` and what is below it. Imported only by the package itself and the command line, and only when events
are read: its modules import duckdb, narwhals and pandas at the top.
"""
