"""The numerical core: random numbers, distributions, SIMD, sums over observed cells, and threads.

It may import `tensor` and everything before it. `model` and everything after it may import this package; numba code
elsewhere uses its decorators.
"""
