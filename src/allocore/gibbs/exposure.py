"""Exposure: how many counts row d would expect from class q, were its factor entry and its core value 1.

    X[m][d, q] / lambda_q  =  prod_{m' != m} colsum[m'][k[q, m']]  -  the same over the missing cells with d_m = d

Kept without lambda ("reach", `reach_DQ`), which may be too small for a float; the steps multiply it in. The sums are
those of kernels/signed_patterns.py. The reach in mode m does not depend on the locations or factors of mode m.
Cost: (D_m + patterns * M) * Q.
"""

from typing import NamedTuple

import numpy as np

from allocore.gibbs.layout import Layout
from allocore.gibbs.workspace import Workspace
from allocore.kernels.arrays import Floats, Ints


class ModeView(NamedTuple):
    """One mode as its steps see it: the counts of each class in its rows, and X / lambda."""

    mode: int
    y_DQ: Ints
    reach_DQ: Floats

    def reach_Q(self, phi_DQ: Floats) -> Floats:
        """X_q / lambda_q of the classes, with these expanded factors in the rows of the mode."""
        return np.asarray(np.einsum("dq,dq->q", self.reach_DQ, phi_DQ))


def reach(layout: Layout, workspace: Workspace, mode: int) -> Floats:
    """X / lambda of one mode as `reach_DQ`."""
    return layout.missing.sums_by_row(workspace.expanded, mode, layout.workers)
