"""Comparison of models on held-out cells. Each fit (a model, a budget, a split) is a job in its own process."""
