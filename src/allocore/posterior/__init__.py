"""Functions on draws: sums of cells, predictions, scores, diagnostics and surprising cells.

It may import `run` and everything before it. `classes` and everything after it may import this package.
"""
