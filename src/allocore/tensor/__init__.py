"""The count tensor: cells, labels, missing patterns, hold-out, files and shards.

It imports `errors` and the private modules `_text`, `_io`, `_memory` and `_zarr`; every other package may import it.
"""
