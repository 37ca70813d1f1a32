"""Small cases on which the package's kernels and the naive oracle can be put side by side."""

from dataclasses import dataclass, fields

import numpy as np
from scipy.special import expit, logit

from allocore.gibbs.factors import ModeView, Priors, exposure
from allocore.gibbs.layout import Layout, Workspace
from allocore.gibbs.thinning import Allocation
from allocore.kernels.workers import Workers
from allocore.model.known import KnownFactors
from allocore.model.spec import Spec
from allocore.model.state import Dispersion, State
from allocore.tensor.count_tensor import CountTensor
from allocore.tensor.missing import Missing
from support import naive

# Overlapping on purpose: a slice, a fibre inside and outside of it, single cells, a wildcard in every mode somewhere.
PATTERNS = {
    2: [(1, None), (1, 2), (None, 0), (3, 1)],
    3: [(1, None, None), (1, 2, None), (None, 0, 1), (2, 1, 0), (0, None, 1)],
    4: [(0, 0, None, None), (1, 1, None, None), (None, 1, 0, None), (2, 0, 1, None), (1, 2, 1, 0)],
    5: [(0, None, None, None, 1), (None, 1, 0, None, None), (2, 1, 1, 0, 1)],
    6: [(0, 0, None, None, None, None), (None, None, 1, 0, 1, None), (1, 1, 1, 1, 1, 1)],
}
TIED_SHAPES = {2: (4, 4), 3: (4, 4, 3), 4: (3, 4, 3, 4)}
SHAPES = {2: (4, 3), 3: (4, 3, 2), 4: (3, 3, 2, 2), 5: (3, 2, 2, 2, 2), 6: (2, 2, 2, 2, 2, 2)}


@dataclass
class Case:
    """One state with data and an allocation, in the oracle's form and in the package's."""

    spec: Spec
    priors: naive.Priors
    missing: Missing
    observed: np.ndarray
    Y: np.ndarray
    dense: naive.NaiveState
    alloc: np.ndarray
    state: State
    layout: Layout
    allocation: Allocation


def make(modes=3, budget=4, core_shape=None, with_missing=True, seed=0, scale=1.0, threads=1, **priors) -> Case:
    """A case drawn from the prior; `scale` multiplies the core values so that counts are not all small.

    `priors` are hyperparameters, the likelihood, and `dispersion_by`. The allocation is that of the latent counts.
    """
    rng = np.random.default_rng(seed)
    tied = priors.get("tied")
    shape = SHAPES[modes] if tied is None else TIED_SHAPES[modes]
    core_shape = core_shape or tuple(min(budget, 3 + m % 2) for m in range(modes))
    chosen = {"e0": 1.0, "f0": 1.0, "alpha0": 2.0, **priors}
    spec = Spec(budget, core_shape, **chosen)
    told = priors_of(spec)
    patterns = [tuple(pattern) for pattern in PATTERNS[modes]] if with_missing else []
    if tied is not None:
        patterns += [tuple(v if m in tied else None for m in range(modes)) for v in range(shape[tied[0]])]
    missing = Missing(patterns or np.empty((0, modes), dtype=int), shape)
    observed = ~missing.contains(np.indices(shape).reshape(modes, -1)).reshape(shape)
    dense = naive.sample_prior(shape, core_shape, budget, told, rng)
    dense.core *= scale
    Y = np.where(observed, naive.sample_data(dense, shape, rng, told), 0)
    alloc = naive.thin(naive.draw_latent(Y, observed, dense, told, rng), observed, dense, rng)
    layout = layout_of(Y, missing, Workers(threads))
    return Case(
        spec, told, missing, observed, Y, dense, alloc, state_of(dense, tied, spec.known), layout, allocation_of(alloc)
    )


def priors_of(spec: Spec) -> naive.Priors:
    """The priors of a specification as the oracle is told them."""
    return naive.Priors(**{field.name: getattr(spec, field.name) for field in fields(naive.Priors)})


def priors_of_rows(rows: int, weights=(), e0=1.0, seed=(), **given) -> Priors:
    """The priors of a mode with so many rows, as the kernels read them; with factors of kind 1 if there is a seed."""
    known = (KnownFactors(seeds=(seed,), seed_weight=6.0),) if seed else ()
    spec = Spec(1, (1,), **given, e0="infer", exposures=(tuple(weights),), known=known)
    state = State(np.zeros(1), np.zeros((1, 1), dtype=np.int64), (np.zeros((rows, 1)),), np.array([e0]))
    return Priors.of(spec, state, 0)


def tensor_of(case: Case) -> CountTensor:
    """The data of a case, as a user has them."""
    coords = np.array(np.nonzero(case.Y))
    return CountTensor(coords, case.Y[tuple(coords)], case.Y.shape, missing=case.missing)


def layout_of(Y, missing, workers=None) -> Layout:
    """The package's view of a dense tensor; it may be all zeros, which a CountTensor may not."""
    coords = np.array(np.nonzero(Y))
    return Layout.of_cells(coords, Y[tuple(coords)], missing, workers or Workers(1))


def state_of(dense: naive.NaiveState, tied: tuple[int, int] | None = None, known=()) -> State:
    """An oracle's state as the package keeps it: logarithms, factors times the weights, and none that no class uses.

    Frozen factors, of which `known` has the numbers, are kept.
    """
    log_phi = []
    for m, phi_DK in enumerate(dense.factors):
        log_phi_DK = np.full(phi_DK.shape, -np.inf)
        used = np.unique(dense.locations[:, tied if tied is not None and m in tied else m])
        used = np.union1d(used, np.arange(len(known[m].frozen) if known else 0))
        log_phi_DK[:, used] = np.log(phi_DK[:, used])
        if dense.weights is not None:
            log_phi_DK += np.log(dense.weights[m])[:, None]
        log_phi.append(log_phi_DK)
    learned_M = np.empty(0) if dense.concentrations is None else dense.concentrations.copy()
    dispersion = None
    if dense.p is not None:
        by = next((m for m, length in enumerate(dense.p.shape) if length > 1), None)
        dispersion = Dispersion(logit(dense.p.ravel()), by)
    return State(np.log(dense.core), dense.locations.astype(np.int64), tuple(log_phi), learned_M, dispersion)


def naive_of(state: State) -> naive.NaiveState:
    """A package's state as the oracle keeps it; without weights, which the factors have in them."""
    factors = [state.factors(m) for m in range(len(state.log_phi))]
    learned_M = state.concentrations_M.copy() if state.concentrations_M.size else None
    p = None
    if state.dispersion is not None:
        by, log_odds_D = state.dispersion.mode, state.dispersion.log_odds_D
        p = expit(log_odds_D).reshape([-1 if m == by else 1 for m in range(len(factors))])
    return naive.NaiveState(state.core_values(), state.subs_QM.copy(), factors, p, learned_M)


def allocation_of(alloc) -> Allocation:
    """The sums over cells that the package keeps of an allocation (Q, *shape)."""
    tables = [
        naive.sum_to_mode(np.moveaxis(alloc, 0, -1)[..., q], m)
        for m in range(alloc.ndim - 1)
        for q in range(len(alloc))
    ]
    width = len(alloc)
    rows = [np.stack(tables[m * width : (m + 1) * width], axis=1) for m in range(alloc.ndim - 1)]
    return Allocation(np.ascontiguousarray(np.concatenate(rows), dtype=np.int64), 0.0)


def view_of(layout, state, allocation, mode, workspace=None) -> ModeView:
    """One mode of a state as the steps of a sweep see it."""
    workspace = workspace or Workspace.of(layout, state)
    return ModeView(mode, allocation.y_RQ[layout.rows(mode)], exposure(layout, workspace, mode))
