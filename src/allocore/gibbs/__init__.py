"""The Gibbs sampler: one file per conditional; `sweep.py` is the whole algorithm."""
