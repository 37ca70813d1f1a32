"""The version of the sampler: one number for the bytes of its draws.

The same data, settings and seed give the same bytes for as long as this number stays. It is raised, together with the
hashes in `tests/test_golden_draws.py`, whenever a change alters any draw on purpose (of EM's estimates too). Runs and
comparisons keep the number, and are only continued by a sampler of the same version.
"""

SAMPLER_VERSION = 1
