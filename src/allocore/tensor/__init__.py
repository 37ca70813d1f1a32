"""The count tensor: cells, labels, missing patterns, hold-out, files and shards."""
