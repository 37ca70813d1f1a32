"""Event tables in, tensors out.

It may import `tensor` and everything before it. Only `allocore` itself and the command line import it, and only when
events are read, because it loads duckdb, narwhals and pandas.
"""
