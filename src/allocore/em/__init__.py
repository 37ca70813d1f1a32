"""The same model by maximum likelihood: EM for Poisson Tucker (NNTuck).

It may import `run` and everything before it. Only the estimators import it.
"""
