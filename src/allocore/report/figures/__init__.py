"""Figures drawn with matplotlib, each from a posterior. `allocore.figures` also takes fitted models and paths of runs.

It may import what `report` may; `figures`, `comparison` and `cli` import it. Nothing is imported here, so matplotlib is
loaded only when a figure is made.
"""
