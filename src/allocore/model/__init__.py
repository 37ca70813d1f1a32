"""The model in plain NumPy: specification, likelihoods, state, joint density and simulation.

It may import `kernels` and everything before it. `gibbs` and everything after it may import this package.
"""
