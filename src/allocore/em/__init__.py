"""The same model by maximum likelihood: EM for Poisson Tucker (NNTuck).

Imports `tensor`, `kernels`, `model`, `storage`, `progress` and `run`. Only the estimators import it.
"""
