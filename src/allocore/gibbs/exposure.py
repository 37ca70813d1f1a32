"""Exposure: how many latent counts to expect from class q in row d per unit of its factor entry.

    X[m][d, q] / lambda_q  =  prod_{m' != m} colsum[m'][k[q, m']]  -  the same over the missing cells with d_m = d

for a Poisson likelihood. For the negative binomial every cell of the sum has the factor c (model/likelihood.py).

The code keeps the exposure per unit of core value, `exposure_DQ` = X / lambda, because lambda may be too small for a
float; the steps multiply by it. kernels/signed_patterns.py computes the sums. X / lambda of mode m does not depend on
the locations or factors of mode m. Cost: (D_m + patterns * M) * Q.
"""

from typing import NamedTuple

import numpy as np

from allocore.gibbs.layout import Layout
from allocore.gibbs.workspace import Workspace
from allocore.kernels.arrays import Floats, Ints


class ModeView(NamedTuple):
    """What the steps read about one mode: the counts of each class in its rows, and X / lambda."""

    mode: int
    y_DQ: Ints
    exposure_DQ: Floats

    def exposure_Q(self, phi_DQ: Floats) -> Floats:
        """X_q / lambda_q of the classes, given the expanded factors of the mode."""
        return np.asarray(np.einsum("dq,dq->q", self.exposure_DQ, phi_DQ))


def exposure(layout: Layout, workspace: Workspace, mode: int) -> Floats:
    """X / lambda of one mode as `exposure_DQ`."""
    return layout.missing.sums_by_row(workspace.expanded, mode, layout.workers, workspace.scale)
