"""The count tensor: cells, labels, missing patterns, hold-out, files and shards.

It may import `errors`, `findings`, `_io`, `_memory`, `_text` and `_zarr`. Every other package may import it.
"""
