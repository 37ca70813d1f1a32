"""The Gibbs sampler: one file per step, formula first; sweep.py is the algorithm.

It may import `model` and everything before it. `storage` and everything after it may import this package.
"""

# It is here so that reading it does not load numba. The same data, settings and seed give the same bytes as long as it
# stays the same. Raise it, and update the hashes in `tests/test_golden_draws.py`, with any deliberate change to a draw
# or to EM's estimates. Only a sampler of the same version continues a stored run or comparison.
# 1: the first version that runs store.
# 2: the exposure of a class that a merge has emptied is summed by the kernel that sums all others: last bits differ.
# 3: exp and log are those of the C library on all processors, not NumPy's own where there are 512-bit vectors.
# 4: exp and log of arrays are vector code of our own, some sums are made in another order and by fused multiply-add,
#    and gamma variates of a row, choices of a factor and splits of large counts use their random numbers otherwise.
# 5: with one p, the prior of the core values of the negative binomial is on expected counts, p is drawn by slice
#    sampling, and the core values are shifted with it. All other draws are those of version 4.
SAMPLER_VERSION = 5
