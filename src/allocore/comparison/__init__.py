"""Comparing models on held-out cells: every model, budget and split is a job in a process of its own."""
