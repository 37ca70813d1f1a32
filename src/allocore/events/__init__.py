"""Event tables in, tensors out. Imported only when events are read, because it imports duckdb, narwhals and pandas."""
