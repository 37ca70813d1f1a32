"""The kind of a factor: frozen, drawn with the prior of a seed, or free. Kernels and the model read it here."""

FROZEN = -1  # a seeded factor has the number of its seed, from 1; the others are of kind 0
