"""Functions on draws: sums of cells, predictions, scores, diagnostics and surprising cells.

It imports `storage`, `model`, `kernels` and `tensor`. `classes`, `forecast`, `report`, `results` and later packages
import it.
"""
