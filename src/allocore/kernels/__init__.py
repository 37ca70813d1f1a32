"""The numerical core: random numbers, distributions, SIMD, sums over observed cells, and threads.

Imports `errors` and `tensor`. `model` and everything above it may import it; numba code elsewhere uses its decorators.
"""
