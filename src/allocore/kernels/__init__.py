"""The shared numerical core: random numbers, distributions, SIMD, signed patterns, fibres, rates."""
