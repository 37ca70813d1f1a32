"""The version of the sampler: one number for the bytes of its draws.

The same data, settings and seed give the same bytes as long as this number stays the same. Raise it, and update the
hashes in `tests/test_golden_draws.py`, with every deliberate change to any draw or to EM's estimates. Runs and
comparisons store the number; only a sampler of the same version continues them.
"""

SAMPLER_VERSION = 1
