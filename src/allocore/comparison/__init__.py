"""Models compared on held-out cells, and the choice of the budget Q.

It may import everything up to the estimators and figures. Only the command line and `allocore` itself import it.
"""
