"""What the draws mean: the classes of a draw, their names, and the classes that the chains agree on.

It imports `posterior` and what comes before it. `forecast`, `report`, `results` and later packages import it.
"""
