"""The model in plain NumPy, which the kernels are tested against: specification, state, log joint, simulation."""
