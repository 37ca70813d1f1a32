"""The model in plain NumPy: specification, likelihoods, state, joint density and simulation.

Imports `errors`, `tensor` and `kernels`. `gibbs`, `em` and everything above may import it.
"""
