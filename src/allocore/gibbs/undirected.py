"""Undirected ties: a pair {i, j} is one cell, with the sum of the rates of both directions (tensor/undirected.py).

With r(i, j) the rate of a directed tie, y of a pair has the likelihood at the rate r(i, j) + r(j, i). Given the rates,
its latent count L (latent_counts.py) is split between the directions and, in each of them, between the classes:

    L(i, j) ~ Binomial( L,  r(i, j) / (r(i, j) + r(j, i)) ),      L(j, i) = L - L(i, j),
    (L(i, j)_1 .. L(i, j)_Q) ~ Multinomial( L(i, j), p ),      p_q proportional to lambda_q prod_m phi[m][d_m, k[q, m]].

Both steps at once are one multinomial over 2 Q classes: every class, and its *mirror image*, in which the two modes
have exchanged their factors. So thinning (thinning.py) gets the cells of pairs and a state of 2 Q classes, and finds
the rates of pairs, the latent counts and the log-likelihood by itself. A count of a mirror image is one of the class
in the cell (j, i): its rows in the two modes are exchanged again (`fold_counts`).

Given these counts, all other steps are those of directed ties: a directed cell has a Poisson latent count again, and
a missing pair is missing in both directions. Cost: thinning takes as long as for the same pairs in both directions.

Ball, Karrer and Newman (2011) have Poisson ties of pairs, with both ends of a class in the same community.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocore.gibbs.layout import Layout
from allocore.model.state import State


def with_mirror_images(state: State, pair: tuple[int, int]) -> State:
    """The state in which class Q + q is class q with the factors of the two modes exchanged."""
    first, second = pair
    log_phi, subs_QM = list(state.log_phi), [state.subs_QM, state.subs_QM.copy()]
    log_phi[first] = np.concatenate([state.log_phi[first], state.log_phi[second]], axis=1)
    log_phi[second] = np.concatenate([state.log_phi[second], state.log_phi[first]], axis=1)
    subs_QM[1][:, first] = state.subs_QM[:, second] + state.log_phi[first].shape[1]
    subs_QM[1][:, second] = state.subs_QM[:, first] + state.log_phi[second].shape[1]
    return replace(
        state,
        log_core_Q=np.tile(state.log_core_Q, 2),
        subs_QM=np.concatenate(subs_QM),
        log_phi=tuple(log_phi),
    )


def fold_counts(y_RQ: NDArray[Any], layout: Layout, pair: tuple[int, int]) -> NDArray[Any]:
    """Counts by row and class, given those by row, class and mirror image."""
    direct_RQ, mirror_RQ = np.split(y_RQ, 2, axis=1)
    folded_RQ: NDArray[Any] = direct_RQ + mirror_RQ
    first, second = (layout.rows(mode) for mode in pair)
    folded_RQ[first] = direct_RQ[first] + mirror_RQ[second]
    folded_RQ[second] = direct_RQ[second] + mirror_RQ[first]
    return folded_RQ
