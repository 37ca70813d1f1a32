"""The model in plain NumPy: specification, state, rates, log joint, forward simulation. What judges the kernels."""
