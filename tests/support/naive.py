"""A slow, obvious, dense sampler of Bayesian ALL0CORE: the oracle that judges the package's kernels.

    r_d      = prod_m w[m][d_m] * sum_q lambda_q * prod_m phi[m][d_m, k[q, m]]
    y_d      ~ Poisson(r_d), or negative binomial: G(y + r) / (y! G(r)) p^y (1 - p)^r, or 1 with P = 1 - exp(-r_d)
    lambda_q ~ Gamma(a0, rate b0 o)          phi[m][d, k] ~ Gamma(e0, rate f0)
    k[q, m]  ~ Categorical(pi[m])            pi[m] ~ Dirichlet(alpha0 / D_m, ...) over K_m entries
    p        ~ Beta(g0, h0), one or one for each row of a mode; e0 may differ by mode, and be ~ Gamma(s0, rate t0)

o is the odds p / (1 - p) if there is one p for all cells, and 1 otherwise. w are known weights (exposures), or 1; the
factors are those per unit of weight, where the package has w phi. Counts that are not Poisson have latent counts
L_d ~ Poisson(c r_d), with c = -ln(1 - p) or 1, which are allocated in their place.

Factors may be known. In a seeded one, e0 is (1 + seed_weight) e0 for the labels of the seed. A frozen one has given
shares of the labels, times D_m e0 / f0, with the mean of e0 if it is learned. The frozen come first, then the seeded.

Two modes may be tied: they have the same factors, and one pi for the locations in both.

Everything is dense: `Y` is an array of counts and `observed` a boolean array of the same shape, False where a
cell is missing. Missing cells contribute nothing anywhere. Nothing here is shared with the package.

Suffixes: Q classes, M modes, D rows of one mode, K factors of one mode. `alloc` is (Q, *shape): the counts of
each cell allocated to each class, zero at missing cells. The counts and exposures of class q along mode m are

    y_D[d] = sum of alloc[q] over observed cells with d_m = d
    x_D[d] = lambda_q * sum over observed cells with d_m = d of c * (weight of the cell) * prod_{m' != m} phi[m'][...]

Every step takes and returns a whole state, never changes its arguments, and leaves the posterior invariant on
its own, whatever the order of the steps.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np
from scipy import stats
from scipy.special import gammaln, xlogy

NEW = "new"
LOG_CORES = np.arange(-18.0, 7.0, 0.04)
LOG_ODDS = np.arange(-30.0, 30.0, 0.005)


@dataclass(frozen=True)
class Priors:
    """The likelihood and the hyperparameters; Gammas have a shape and a rate. e0 may be "infer", or one per mode."""

    a0: float = 1.0
    b0: float = 1.0
    e0: float | tuple[float, ...] | str = 1.0
    f0: float = 10.0
    alpha0: float = 0.1
    likelihood: str = "poisson"
    dispersion_by: int | None = None
    g0: float = 1.0
    h0: float = 1.0
    s0: float = 1.0
    t0: float = 1.0
    exposures: tuple[tuple[float, ...], ...] = ()
    tied: tuple[int, int] | None = None
    known: tuple = ()  # objects with frozen, seeds and seed_weight, one for each mode


@dataclass
class NaiveState:
    """core (Q,), locations (Q, M) of integers, factors: one (D_m, K_m) per mode, unused factors included.

    Only for the negative binomial: p, as an array that can be multiplied with one of all cells, such as (1, 1, 1) or
    (1, D, 1). Only if they are learned: concentrations (M,). Only if there are exposures: the weights w of each mode.
    """

    core: np.ndarray
    locations: np.ndarray
    factors: list[np.ndarray]
    p: np.ndarray | None = None
    concentrations: np.ndarray | None = None
    weights: list[np.ndarray] | None = None

    def copy(self) -> "NaiveState":
        factors = [phi_DK.copy() for phi_DK in self.factors]
        rest = [None if array is None else array.copy() for array in (self.p, self.concentrations)]
        return NaiveState(self.core.copy(), self.locations.copy(), factors, *rest, self.weights)


# Forward simulation


def sample_prior(shape, core_shape, budget, priors, rng) -> NaiveState:
    """Draw pi, then locations, core values, concentrations if they are learned, factors, and p, which scales them."""
    columns, pi = [], {}
    for m, (rows, width) in enumerate(zip(shape, core_shape, strict=True)):
        first = roles(m, priors)[0]
        pi[m] = pi[first] if m > first else rng.dirichlet(np.full(width, priors.alpha0 / rows))
        columns.append(rng.choice(width, size=budget, p=pi[m]))
    core_Q = rng.gamma(priors.a0, 1, size=budget)
    learned = rng.gamma(priors.s0, 1 / priors.t0, size=len(shape)) if priors.e0 == "infer" else None
    factors = [
        rng.gamma(shapes_of(m, rows, width, learned, priors), 1 / priors.f0)
        for m, (rows, width) in enumerate(zip(shape, core_shape, strict=True))
    ]
    for m, phi_DK in enumerate(factors):
        with_frozen(m, phi_DK, priors)
    if priors.tied is not None:
        first, second = priors.tied
        factors[second] = factors[first].copy()
        if learned is not None:
            learned[second] = learned[first]
    p = None
    if priors.likelihood == "negative-binomial":
        p = rng.beta(priors.g0, priors.h0, size=[n if m == priors.dispersion_by else 1 for m, n in enumerate(shape)])
    core_Q /= core_rate(p, priors)
    pairs = zip(priors.exposures, shape, strict=True)
    weights = [np.array(given or [1.0] * rows) for given, rows in pairs] if priors.exposures else None
    return NaiveState(core_Q, np.stack(columns, axis=1), factors, p, learned, weights)


def roles(m, priors) -> tuple[int, ...]:
    """The modes with the factors of mode m."""
    return priors.tied if priors.tied is not None and m in priors.tied else (m,)


def core_rate(p, priors) -> float:
    """The rate of the prior of the core values: b0, times the odds if there is one p."""
    return priors.b0 if p is None or priors.dispersion_by is not None else priors.b0 * (p / (1 - p)).item()


def concentration(m, learned, priors) -> float:
    """e0 of mode m."""
    if priors.e0 == "infer":
        return learned[m]
    return priors.e0[m] if isinstance(priors.e0, tuple) else priors.e0


def frozen_number(m, priors) -> int:
    """The number of frozen factors of mode m."""
    return len(priors.known[m].frozen) if priors.known else 0


def shapes_of(m, rows, width, learned, priors) -> np.ndarray:
    """The shape of the prior of every entry of the factors of mode m, (D, K)."""
    shape_DK = np.full((rows, width), float(concentration(m, learned, priors)))
    if priors.known:
        for place, labels in enumerate(priors.known[m].seeds):
            for d in labels:
                shape_DK[d, frozen_number(m, priors) + place] *= 1 + priors.known[m].seed_weight
    return shape_DK


def with_frozen(m, phi_DK, priors) -> np.ndarray:
    """Write the frozen factors of mode m into its factors."""
    for k in range(frozen_number(m, priors)):
        share_D = np.array(priors.known[m].frozen[k])
        e0 = priors.s0 / priors.t0 if priors.e0 == "infer" else concentration(m, None, priors)
        phi_DK[:, k] = share_D / share_D.sum() * len(share_D) * e0 / priors.f0
    return phi_DK


def sample_data(state, shape, rng, priors=None) -> np.ndarray:
    """Draw the counts of all cells, observed or not."""
    likelihood = "poisson" if priors is None else priors.likelihood
    if likelihood == "negative-binomial":
        return rng.negative_binomial(rates(state), 1 - state.p, size=shape)
    if likelihood == "bernoulli":
        return (rng.random(shape) < 1 - np.exp(-rates(state))).astype(np.int64)
    return rng.poisson(rates(state), size=shape)


def latent_scale(state) -> np.ndarray | float:
    """c, of every cell or of all."""
    return 1.0 if state.p is None else -np.log(1 - state.p)


def cell_weights(state) -> np.ndarray | float:
    """The product of the known weights of every cell."""
    return 1.0 if state.weights is None else outer(state.weights)


def rates(state) -> np.ndarray:
    """The rate of every cell."""
    return class_rates(state).sum(axis=0)


def class_rates(state) -> np.ndarray:
    """The rate of every class in every cell: (Q, *shape)."""
    return np.stack([cell_weights(state) * state.core[q] * outer(columns_of(q, state)) for q in range(len(state.core))])


def columns_of(q, state) -> list[np.ndarray]:
    """The factor of class q in each mode: phi[m][:, k[q, m]]."""
    return [phi_DK[:, k] for phi_DK, k in zip(state.factors, state.locations[q], strict=True)]


def outer(vectors) -> np.ndarray:
    """The dense array of products v_1[d_1] * v_2[d_2] * ... ."""
    return reduce(np.multiply.outer, vectors)


# Sums over the observed cells


def sum_to_mode(cells, m) -> np.ndarray:
    """Add up a dense array over every mode but m."""
    return cells.sum(axis=tuple(axis for axis in range(cells.ndim) if axis != m))


def class_counts(q, m, alloc, observed) -> np.ndarray:
    """y_D: the counts allocated to class q in each row of mode m."""
    return sum_to_mode(np.where(observed, alloc[q], 0), m)


def class_exposure(q, m, observed, state) -> np.ndarray:
    """x_D: what multiplies phi[m][d, k[q, m]] in the latent rate of class q, added up over observed cells."""
    columns = columns_of(q, state)
    columns[m] = np.ones(len(columns[m]))
    reached = latent_scale(state) * cell_weights(state) * state.core[q] * outer(columns)
    return sum_to_mode(np.where(observed, reached, 0.0), m)


# 0. The dispersion and the latent counts


def counts_and_rates(Y, observed, state, priors) -> tuple[np.ndarray, np.ndarray]:
    """The sums of the counts and of the rates over the observed cells of each p, in the shape of p."""
    shared = tuple(m for m in range(Y.ndim) if m != priors.dispersion_by)
    count = np.where(observed, Y, 0).sum(axis=shared, keepdims=True)
    return count, np.where(observed, rates(state), 0.0).sum(axis=shared, keepdims=True)


def dispersion_log_density(row, Y, observed, state, priors) -> np.ndarray:
    """The log density of the log odds of one p on the grid `LOG_ODDS`, given the others and the core values.

    Latent counts are integrated out. Not normalised.
    """
    count, rate = (each.ravel()[row] for each in counts_and_rates(Y, observed, state, priors))
    log_p, log_rest = -np.logaddexp(0.0, -LOG_ODDS), -np.logaddexp(0.0, LOG_ODDS)
    prior = priors.g0 * log_p + priors.h0 * log_rest  # Beta, and the change of variables to log odds
    rate_of_core = priors.b0 * (np.exp(LOG_ODDS) if priors.dispersion_by is None else np.ones_like(LOG_ODDS))
    core = stats.gamma.logpdf(state.core, priors.a0, scale=1 / rate_of_core[:, None]).sum(axis=1)
    return prior + count * log_p + rate * log_rest + core


def draw_dispersion(Y, observed, state, priors, rng) -> NaiveState:
    """Draw each p in turn, if there is any, on a fine grid of log odds."""
    if state.p is None:
        return state
    new, width = state.copy(), LOG_ODDS[1] - LOG_ODDS[0]
    for row in range(new.p.size):
        place = rng.choice(len(LOG_ODDS), p=normalised(dispersion_log_density(row, Y, observed, new, priors)))
        new.p.flat[row] = 1 / (1 + np.exp(-LOG_ODDS[place] - width * (rng.random() - 0.5)))
    return new


def shift_dispersion(latent, Y, observed, state, priors, rng) -> NaiveState:
    """Shift the log odds of one p, and the log core values against it, given the latent counts, on a fine grid.

    Without it, the two change so little in a sweep that a chain of thousands is too short.
    """
    if state.p is None or priors.dispersion_by is not None:
        return state
    shifts = np.arange(-4.0, 4.0, 0.005)
    log_odds = np.log(state.p / (1 - state.p)).item() + shifts
    log_p, log_rest = -np.logaddexp(0.0, -log_odds), -np.logaddexp(0.0, log_odds)
    count, rate = (each.item() for each in counts_and_rates(Y, observed, state, priors))
    density = (priors.g0 + count) * log_p + (priors.h0 + rate * np.exp(-shifts)) * log_rest
    density -= latent[observed].sum() * shifts
    shift = rng.choice(shifts, p=normalised(density)) + 0.005 * (rng.random() - 0.5)
    new = state.copy()
    new.core, new.p = state.core * np.exp(-shift), 1 / (1 + (1 - state.p) / state.p * np.exp(-shift))
    return new


def draw_latent(Y, observed, state, priors, rng, rate=None) -> np.ndarray:
    """Draw the latent count of every observed cell; the Poisson likelihood has the counts themselves."""
    latent, rate = np.zeros_like(Y), rates(state) if rate is None else rate
    for cell in np.ndindex(Y.shape):
        if not observed[cell] or Y[cell] == 0:
            continue
        if priors.likelihood == "negative-binomial":
            latent[cell] = chinese_restaurant(Y[cell], rate[cell], rng)
        elif priors.likelihood == "bernoulli":
            latent[cell] = positive_poisson(rate[cell], rng)
        else:
            latent[cell] = Y[cell]
    return latent


def chinese_restaurant(customers, r, rng) -> int:
    """CRT: the sum over i = 0 .. customers - 1 of Bernoulli(r / (r + i))."""
    return sum(int(rng.random() < r / (r + i)) for i in range(customers))


def positive_poisson(rate, rng) -> int:
    """Poisson(rate), drawn again until it is not zero; in one go where that would take long."""
    if rate < 0.01:
        k = np.arange(1, 40)
        return int(rng.choice(k, p=normalised(stats.poisson.logpmf(k, rate))))
    while True:
        count = int(rng.poisson(rate))
        if count > 0:
            return count


def pair_rates(state, pair) -> np.ndarray:
    """The rate of every undirected tie between two modes, in either direction."""
    rate = rates(state)
    return rate + np.swapaxes(rate, *pair)


def split_pairs(Y, observed, state, priors, pair, rng) -> np.ndarray:
    """Latent counts of directed ties, given counts of pairs at (i, j) with i < j: one latent count, then a binomial."""
    latent = draw_latent(Y, observed, state, priors, rng, pair_rates(state, pair))
    share = rates(state) / pair_rates(state, pair)
    directed = np.zeros_like(latent)
    for cell in map(tuple, np.argwhere(latent > 0)):
        other = list(cell)
        other[pair[0]], other[pair[1]] = cell[pair[1]], cell[pair[0]]
        directed[cell] = rng.binomial(latent[cell], share[cell])
        directed[tuple(other)] = latent[cell] - directed[cell]
    return directed


# 1. Thinning


def thin(Y, observed, state, rng) -> np.ndarray:
    """Share the count of each observed cell among the classes: multinomial, in proportion to their rates."""
    rate = class_rates(state)
    alloc = np.zeros(rate.shape, dtype=np.int64)
    for cell in np.ndindex(Y.shape):
        if observed[cell] and Y[cell] > 0:
            rate_Q = rate[(slice(None), *cell)]
            alloc[(slice(None), *cell)] = rng.multinomial(Y[cell], rate_Q / rate_Q.sum())
    return alloc


# 2. Core values


def core_conditional(alloc, observed, state, priors) -> tuple[np.ndarray, np.ndarray]:
    """Shape and rate of each core value's Gamma conditional: a0 + y_q and b0 o + sum of c prod_m w phi."""
    shape_Q, rate_Q = np.empty(len(state.core)), np.empty(len(state.core))
    for q in range(len(state.core)):
        shape_Q[q] = priors.a0 + alloc[q][observed].sum()
        reached = latent_scale(state) * cell_weights(state) * outer(columns_of(q, state))
        rate_Q[q] = core_rate(state.p, priors) + reached[observed].sum()
    return shape_Q, rate_Q


def draw_core(alloc, observed, state, priors, rng) -> NaiveState:
    """Draw every core value from its conditional."""
    new = state.copy()
    shape_Q, rate_Q = core_conditional(alloc, observed, state, priors)
    new.core = rng.gamma(shape_Q, 1 / rate_Q)
    return new


# 3. Relocation, with pi integrated out


def other_users(q, m, state, priors=None) -> np.ndarray:
    """n_K: how many locations use each factor of mode m, in all modes that have it, without that of class q in m."""
    modes = (m,) if priors is None else roles(m, priors)
    places = [state.locations[r, mode] for mode in modes for r in range(len(state.core)) if (r, mode) != (q, m)]
    return np.bincount(np.array(places, dtype=int), minlength=state.factors[m].shape[1])


def conditioning_log_weights(q, m, alloc, observed, state, priors) -> np.ndarray:
    """log(n_k + alpha0/D_m) + sum_d y log phi[d, k] - phi[d, k] x, for every k, given every factor."""
    n_K = other_users(q, m, state, priors)
    y_D = class_counts(q, m, alloc, observed)
    x_D = class_exposure(q, m, observed, state)
    weight_K = np.empty(len(n_K))
    for k in range(len(n_K)):
        phi_D = state.factors[m][:, k]
        weight_K[k] = np.log(n_K[k] + priors.alpha0 / len(phi_D)) + np.sum(xlogy(y_D, phi_D) - phi_D * x_D)
    return weight_K


def relocation_log_weights(q, m, alloc, observed, state, priors) -> dict[int | str, float]:
    """The log weight of each factor that another class uses, and of NEW: all the unused ones together.

    The factors that no other class uses are integrated out, class q's own included if it is alone there:
    log(U alpha0/D_m) + sum_d log of the integral of Gamma(phi; e0, f0) phi^y exp(-phi x). No NEW if U = 0.
    A seeded factor has its own weight if it is unused, the integral with its own prior. A frozen one is never unused.
    """
    n_K = other_users(q, m, state, priors)
    weight_K = conditioning_log_weights(q, m, alloc, observed, state, priors)
    y_D, x_D = class_counts(q, m, alloc, observed), class_exposure(q, m, observed, state)
    frozen, shape_DK = frozen_number(m, priors), factor_shapes(m, state, priors)
    seeded = frozen + (len(priors.known[m].seeds) if priors.known else 0)
    unused = np.flatnonzero((n_K == 0) & (np.arange(len(n_K)) >= seeded))
    weights: dict[int | str, float] = {}
    for k in range(len(n_K)):
        if n_K[k] > 0 or k < frozen:
            weights[k] = float(weight_K[k])
        elif k < seeded:
            weights[k] = float(np.log(priors.alpha0 / len(y_D)) + log_integral(shape_DK[:, k], priors.f0, y_D, x_D))
    if unused.size:
        integral = log_integral(shape_DK[:, unused[0]], priors.f0, y_D, x_D)
        weights[NEW] = float(np.log(unused.size * priors.alpha0 / len(y_D)) + integral)
    return weights


def log_integral(e_D, f0, y_D, x_D) -> float:
    """The sum over d of the log of the integral of Gamma(phi; e, f0) phi^y exp(-phi x)."""
    return float(np.sum(gammaln(e_D + y_D) - gammaln(e_D) + e_D * np.log(f0) - (e_D + y_D) * np.log(f0 + x_D)))


def factor_shapes(m, state, priors) -> np.ndarray:
    """The shape of the prior of every entry of the factors of mode m of a state, (D, K)."""
    return shapes_of(m, *state.factors[m].shape, state.concentrations, priors)


def relocation_probabilities(q, m, alloc, observed, state, priors) -> dict[int | str, float]:
    """`relocation_log_weights`, normalised to sum to one."""
    weights = relocation_log_weights(q, m, alloc, observed, state, priors)
    return dict(zip(weights, normalised(list(weights.values())).tolist(), strict=True))


def integrated_log_weights(q, m, alloc, observed, state, priors) -> tuple[dict[int | str, float], np.ndarray]:
    """`relocation_log_weights` with the core value of class q integrated out as well, by quadrature over its logarithm.

    Also returns the log density of the log core value at NEW, on the grid `LOG_CORES`, not normalised.
    """
    total, densities = alloc[q][observed].sum(), []
    for t in LOG_CORES:
        at = state.copy()
        at.core[q] = np.exp(t)
        scale = 1 / core_rate(state.p, priors)
        prior = stats.gamma.logpdf(at.core[q], priors.a0, scale=scale) + (1 + total) * t
        weights = relocation_log_weights(q, m, alloc, observed, at, priors)
        densities.append({k: weight + prior for k, weight in weights.items()})
    step = LOG_CORES[1] - LOG_CORES[0]
    tables = {k: np.array([density[k] for density in densities]) for k in densities[0]}
    return {k: float(np.logaddexp.reduce(table) + np.log(step)) for k, table in tables.items()}, tables.get(NEW)


def normalised(log_weights) -> np.ndarray:
    """Probabilities in proportion to the exponentials of log weights."""
    return np.exp(log_weights - np.logaddexp.reduce(log_weights))


def relocate_class(q, m, alloc, observed, state, priors, rng) -> NaiveState:
    """Draw k[q, m] and, given it, every factor of mode m that no other class uses.

    A factor that class q takes comes from its conditional, one that stays unused from the prior. Which of the
    unused factors is taken is a fair choice.
    """
    new, shape_DK = state.copy(), factor_shapes(m, state, priors)
    n_K = other_users(q, m, state, priors)
    unused = [k for k in np.flatnonzero(n_K == 0) if k >= frozen_number(m, priors)]
    probabilities = relocation_probabilities(q, m, alloc, observed, state, priors)
    choice = list(probabilities)[rng.choice(len(probabilities), p=list(probabilities.values()))]
    for k in unused:
        new.factors[m][:, k] = rng.gamma(shape_DK[:, k], 1 / priors.f0)
    if choice == NEW:
        choice = rng.choice([k for k in unused if k not in probabilities])
    if choice in unused:
        y_D = class_counts(q, m, alloc, observed)
        x_D = class_exposure(q, m, observed, state)
        new.factors[m][:, choice] = rng.gamma(shape_DK[:, choice] + y_D, 1 / (priors.f0 + x_D))
    new.locations[q, m] = choice
    for mode in roles(m, priors):
        new.factors[mode] = new.factors[m].copy()
    return new


def relocate(alloc, observed, state, priors, rng) -> NaiveState:
    """Relocate mode by mode, classes one after another, with unused factors integrated out."""
    for m in range(len(state.factors)):
        for q in range(len(state.core)):
            state = relocate_class(q, m, alloc, observed, state, priors, rng)
    return state


def relocate_conditioning(alloc, observed, state, priors, rng) -> NaiveState:
    """The paper's plain step: the same posterior, but given the prior draws of unused factors."""
    new = state.copy()
    for m in range(len(new.factors)):
        for q in range(len(new.core)):
            weight_K = conditioning_log_weights(q, m, alloc, observed, new, priors)
            new.locations[q, m] = rng.choice(len(weight_K), p=normalised(weight_K))
    return new


# 4. Concentrations and factors


def concentration_conditional(m, alloc, observed, state, priors, rng) -> tuple[float, float]:
    """Shape and rate of the Gamma conditional of e_m, factors integrated out, given tables l[d, k] that are drawn."""
    shape_DK, rate_DK = factor_conditional(m, alloc, observed, state, priors)
    e_DK, drawn = factor_shapes(m, state, priors), slice(frozen_number(m, priors), None)
    counts_DK = np.rint(shape_DK - e_DK).astype(int)
    pairs = zip(counts_DK[:, drawn].ravel(), e_DK[:, drawn].ravel(), strict=True)
    tables = sum(chinese_restaurant(count, e, rng) for count, e in pairs)
    logs_DK = e_DK / state.concentrations[m] * np.log(rate_DK / priors.f0)
    return priors.s0 + tables, priors.t0 + logs_DK[:, drawn].sum()


def draw_concentration(m, alloc, observed, state, priors, rng) -> NaiveState:
    """Draw e_m, if it is learned; the factors of mode m must be drawn next."""
    if state.concentrations is None:
        return state
    new = state.copy()
    shape, rate = concentration_conditional(m, alloc, observed, state, priors, rng)
    new.concentrations[m] = rng.gamma(shape, 1 / rate)
    return new


def factor_conditional(m, alloc, observed, state, priors) -> tuple[np.ndarray, np.ndarray]:
    """Shape and rate of each Gamma conditional of phi[m], unused factors (their prior) included."""
    shape_DK = factor_shapes(m, state, priors)
    rate_DK = np.full(state.factors[m].shape, float(priors.f0))
    for q in range(len(state.core)):
        shape_DK[:, state.locations[q, m]] += class_counts(q, m, alloc, observed)
        rate_DK[:, state.locations[q, m]] += class_exposure(q, m, observed, state)
    return shape_DK, rate_DK


def draw_factors(alloc, observed, state, priors, rng) -> NaiveState:
    """Draw every factor, mode by mode, each mode given the modes drawn before it, and the concentrations with them."""
    new = state.copy()
    for m in range(len(new.factors)):
        if len(roles(m, priors)) > 1:
            new = draw_tied(alloc, observed, new, priors, rng) if m == roles(m, priors)[0] else new
            continue
        new = draw_concentration(m, alloc, observed, new, priors, rng)
        shape_DK, rate_DK = factor_conditional(m, alloc, observed, new, priors)
        new.factors[m] = with_frozen(m, rng.gamma(shape_DK, 1 / rate_DK), priors)
    return new


def tied_conditional(v, alloc, observed, state, priors) -> tuple[np.ndarray, np.ndarray]:
    """Shape and rate of each Gamma conditional of row v of tied factors, given the other rows: sums over both roles."""
    first, second = priors.tied
    shape_K = factor_shapes(first, state, priors)[v]
    rate_K = np.full(len(shape_K), float(priors.f0))
    for m in (first, second):
        for q in range(len(state.core)):
            shape_K[state.locations[q, m]] += class_counts(q, m, alloc, observed)[v]
            rate_K[state.locations[q, m]] += class_exposure(q, m, observed, state)[v]
    return shape_K, rate_K


def tied_concentration_log_density(state, priors) -> np.ndarray:
    """The log density of ln e of the tied modes on the grid `LOG_CORES`, given their factors in use. Not normalised."""
    first = priors.tied[0]
    used = [k for k in np.unique(state.locations[:, priors.tied]) if k >= frozen_number(first, priors)]
    phi_DU, e = state.factors[first][:, used], np.exp(LOG_CORES)
    u_DU = factor_shapes(first, state, priors)[:, used] / concentration(first, state.concentrations, priors)
    factors = [stats.gamma.logpdf(phi_DU, each * u_DU, scale=1 / priors.f0).sum() for each in e]
    return stats.gamma.logpdf(e, priors.s0, scale=1 / priors.t0) + LOG_CORES + np.array(factors)


def draw_tied(alloc, observed, state, priors, rng) -> NaiveState:
    """Draw the concentration of the tied modes, if it is learned, then their factors, one row after another."""
    new, tied = state.copy(), list(priors.tied)
    if new.concentrations is not None:
        place = rng.choice(len(LOG_CORES), p=normalised(tied_concentration_log_density(new, priors)))
        new.concentrations[tied] = np.exp(LOG_CORES[place] + 0.04 * (rng.random() - 0.5))
    for v in range(len(new.factors[tied[0]])):
        shape_K, rate_K = tied_conditional(v, alloc, observed, new, priors)
        row_K = rng.gamma(shape_K, 1 / rate_K)
        for m in tied:
            new.factors[m][v, frozen_number(m, priors) :] = row_K[frozen_number(m, priors) :]
    return new


# The log joint


def log_prob_locations(locations, shape, core_shape, priors) -> float:
    """log p(locations) with pi integrated out: of this sequence, hence no multinomial coefficient."""
    total = 0.0
    for m, (rows, width) in enumerate(zip(shape, core_shape, strict=True)):
        if m != roles(m, priors)[0]:
            continue
        n_K = np.bincount(locations[:, roles(m, priors)].ravel(), minlength=width)
        orders = gammaln(n_K.sum() + 1) - gammaln(n_K + 1).sum()
        alpha_K = np.full(width, priors.alpha0 / rows)
        total += stats.dirichlet_multinomial.logpmf(n_K, alpha_K, n_K.sum()) - orders
    return float(total)


def log_joint(alloc, observed, state, priors) -> float:
    """log p(alloc | core, factors, locations) + log p(core) + log p(all factors) + log p(locations).

    Given p and the concentrations; `alloc` are the latent counts.
    """
    shape = [phi_DK.shape[0] for phi_DK in state.factors]
    core_shape = [phi_DK.shape[1] for phi_DK in state.factors]
    total = log_prob_locations(state.locations, shape, core_shape, priors)
    total += stats.poisson.logpmf(alloc[:, observed], (latent_scale(state) * class_rates(state))[:, observed]).sum()
    total += stats.gamma.logpdf(state.core, priors.a0, scale=1 / core_rate(state.p, priors)).sum()
    for m, phi_DK in enumerate(state.factors):
        if m != roles(m, priors)[0]:
            continue
        e_DK, drawn = factor_shapes(m, state, priors), slice(frozen_number(m, priors), None)
        total += stats.gamma.logpdf(phi_DK[:, drawn], e_DK[:, drawn], scale=1 / priors.f0).sum()
    return float(total)


def log_likelihood(Y, observed, state, priors) -> float:
    """log p(observed counts | state), cell by cell, latent counts integrated out."""
    rate = rates(state)
    if priors.likelihood == "negative-binomial":
        return float(stats.nbinom.logpmf(Y, rate, 1 - state.p)[observed].sum())
    if priors.likelihood == "bernoulli":
        return float(stats.bernoulli.logpmf(Y, 1 - np.exp(-rate))[observed].sum())
    return float(stats.poisson.logpmf(Y, rate)[observed].sum())


def log_latent(latent, Y, observed, state, priors) -> float:
    """log p(latent counts | counts, state), cell by cell."""
    rate, total = rates(state), 0.0
    for cell in np.argwhere(observed & (Y > 0)):
        y, r, count = Y[tuple(cell)], rate[tuple(cell)], latent[tuple(cell)]
        if priors.likelihood == "negative-binomial":
            total += np.log(tables_pmf(y, r)[count])
        elif priors.likelihood == "bernoulli":
            total += stats.poisson.logpmf(count, r) - np.log(1 - np.exp(-r))
    return float(total)


def tables_pmf(customers, r) -> np.ndarray:
    """P(CRT(customers, r) = 0, 1, ..), adding one customer after another."""
    pmf = np.array([1.0])
    for i in range(customers):
        opens = r / (r + i)
        pmf = np.append(pmf * (1 - opens), 0.0) + np.append(0.0, pmf * opens)
    return pmf


# Chains


def initial_state(shape, core_shape, budget, priors, rng, fixed_locations=None) -> NaiveState:
    """Core and factors from the prior, locations on the super-diagonal unless they are given."""
    state = sample_prior(shape, core_shape, budget, priors, rng)
    diagonal = np.stack([np.arange(budget) % width for width in core_shape], axis=1)
    state.locations = diagonal if fixed_locations is None else np.array(fixed_locations)
    return state


def sweep(Y, observed, state, priors, rng, relocation=relocate) -> NaiveState:
    """One sweep of the Gibbs sampler; `relocation=None` keeps the locations."""
    state = draw_dispersion(Y, observed, state, priors, rng)
    latent = draw_latent(Y, observed, state, priors, rng)
    alloc = thin(latent, observed, state, rng)
    state = shift_dispersion(latent, Y, observed, state, priors, rng)
    state = draw_core(alloc, observed, state, priors, rng)
    if relocation is not None:
        state = relocation(alloc, observed, state, priors, rng)
    return draw_factors(alloc, observed, state, priors, rng)


def chain_of_states(
    Y, observed, core_shape, budget, priors, sweeps, rng, fixed_locations=None, relocation=relocate
) -> Iterator[NaiveState]:
    """Yield the state after each sweep, from `initial_state`; no two states share an array."""
    state = initial_state(Y.shape, core_shape, budget, priors, rng, fixed_locations)
    for _ in range(sweeps):
        state = sweep(Y, observed, state, priors, rng, relocation if fixed_locations is None else None)
        yield state
