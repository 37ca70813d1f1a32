"""Work on executors and clusters: slices of chains and shards of tensors as tasks, and what workers keep."""
