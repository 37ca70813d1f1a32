"""Poisson Tucker by maximum likelihood: the EM algorithm known as NNTuck."""
