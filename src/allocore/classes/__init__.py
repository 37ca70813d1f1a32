"""What the draws mean: the classes of a draw, their names, and the classes that the chains agree on.

It may import `posterior` and everything before it. `forecast` and everything after it may import this package.
"""
