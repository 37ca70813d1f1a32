"""The numerical core that several rooms need: random numbers, distributions, SIMD, patterns, fibres, rates."""
