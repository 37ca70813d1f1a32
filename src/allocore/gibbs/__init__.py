"""The Gibbs sampler: one file per conditional, `sweep.py` the whole algorithm."""
