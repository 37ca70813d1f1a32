"""Models compared on held-out cells, and the choice of the budget Q.

May import everything up to the estimators and figures. Only the command line and the top of the package import it.
"""
