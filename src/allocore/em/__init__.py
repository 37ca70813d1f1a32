"""Poisson Tucker by maximum likelihood: the EM algorithm that is known as NNTuck."""
