"""What the chains agree on: classes of all draws matched, clustered, averaged, and kept with the run."""
