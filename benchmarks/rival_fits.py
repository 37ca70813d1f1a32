"""One decomposition method on one tensor, in a separate process: its speed, its memory, and how well it predicts.

Usage: python benchmarks/rival_fits.py METHOD TENSOR.npz RANK SECONDS MEMORY_GB

`rivals.py` starts this script once for each method. The last line it prints is the result as JSON. Libraries are
imported and kernels compiled before the clock starts. A method may use MEMORY_GB of address space and four times
SECONDS; then it is stopped. Python cannot interrupt a long call into C, so the alarm ends the process and the parent
reports it.
"""

import json
import resource
import signal
import sys
from _thread import interrupt_main
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import version
from threading import Timer
from time import perf_counter
from typing import Any, Literal

import numpy as np
from scipy.special import gammaln, xlogy

import allocore as ac
from allocore.tensor.holdout import HeldOut
from memory import memory_mb
from nneinfact import Einsum

PATIENCE = 4
LEAST_RATE = 1e-10  # with a rate of zero at a positive count, every comparison would be minus infinity
BLOCK = 20_000  # cells per batch when rates are computed, so that scoring never sets the memory peak
SEED = 0
ONE_CHAIN = {"likelihood": "poisson", "chains": 1, "seed": SEED, "progress": False}
TINY = np.arange(1, 28).reshape(3, 3, 3)


@dataclass(frozen=True)
class Fit:
    """The cost of a fit, and the log probability it gives to each held-out count."""

    iterations: int
    seconds_per_iteration: float | None
    seconds: float
    log_predictive: Callable[[HeldOut], np.ndarray]


@dataclass(frozen=True)
class Method:
    """A row of the table. `prepare` runs before the clock starts and the memory limit is set, `fit` after that."""

    label: str
    iteration: str
    held_out: str
    library: str
    prepare: Callable[[], object]
    fit: Callable[[ac.CountTensor, int, float], Fit]


def poisson_log_probability(rates: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The log probability of each count, given a point estimate of its rate."""
    if not np.isfinite(rates).all():
        raise FloatingPointError("it diverged: some rates are not finite")
    rates = np.maximum(rates, LEAST_RATE)
    return xlogy(counts, rates) - rates - gammaln(counts + 1.0)


def cp_rates(weights: np.ndarray, factors: list[np.ndarray], test: HeldOut) -> np.ndarray:
    """The rates of the held-out cells under a CP decomposition."""
    rates = np.empty(len(test))
    for first in range(0, len(test), BLOCK):
        block = slice(first, first + BLOCK)
        products = np.asarray(weights)[None, :]
        for factor, places in zip(factors, test.coords[:, block], strict=True):
            products = products * factor[places]
        rates[block] = products.sum(axis=1)
    return rates


def cp_score(weights: np.ndarray, factors: list[np.ndarray]) -> Callable[[HeldOut], np.ndarray]:
    return lambda test: poisson_log_probability(cp_rates(weights, factors, test), test.counts)


# --- no model ---------------------------------------------------------------------------------------------------------


def fit_constant(train: ac.CountTensor, rank: int, seconds: float) -> Fit:
    """The baseline that every method must beat: the mean count of the observed cells as the rate of all cells."""
    rate = train.total / (train.volume - train.missing.cells)
    return Fit(0, None, 0.0, lambda test: poisson_log_probability(np.full(len(test), rate), test.counts))


# --- allocore ---------------------------------------------------------------------------------------------------------


@contextmanager
def stopped_after(seconds: float) -> Iterator[None]:
    """Meanwhile, a Ctrl-C comes when the time is over. allocore's fits then end and keep what they have."""
    end = Timer(seconds, interrupt_main)
    end.start()
    try:
        yield
    except KeyboardInterrupt:
        raise TimeoutError("not one draw in time") from None
    finally:
        end.cancel()


def warm_up(model: str, **settings: Any) -> None:
    """Compile or load the kernels with a tensor of a few cells, prediction included."""
    tiny = ac.hold_out(TINY, 0.2, seed=SEED)
    settings = {**ONE_CHAIN, "burn_in": 2, "draws": 2, "thin": 1, **settings}
    getattr(ac, model)(2, **settings).fit(tiny.train).posterior_.ppd(tiny.test)


def fit_gibbs(model: str, train: ac.CountTensor, rank: int, seconds: float, **settings: Any) -> Fit:
    """Burn in for half of the time, as estimated by a pilot run, then make about 50 draws until the time is over.

    A Ctrl-C ends the run, and the sampler keeps its draws. So a wrong estimate cannot make the run longer.
    """
    sampler = partial(getattr(ac, model), rank, **{**ONE_CHAIN, **settings})
    sweeps, took = 1, 0.0
    while took < seconds / 10:
        sweeps, start = 2 * sweeps, perf_counter()
        pilot = sampler(burn_in=0, draws=1, thin=sweeps).fit(train).posterior_
        took = perf_counter() - start
    half = max(1, int(seconds / 2 / np.median(pilot.stats["seconds"])))
    thin = -(-half // 50)
    start = perf_counter()
    with stopped_after(seconds):
        post = sampler(burn_in=half, draws=3 * (half // thin), thin=thin).fit(train).posterior_
    took = perf_counter() - start
    sweeps = post.stats["seconds"].size
    return Fit(sweeps, took / sweeps, took, lambda test: post.log_predictive(test.coords, test.counts))


def use_kernel_of_the_paper() -> None:
    """Let chains of this process thin by the paper-style kernel: the same sampler, except for its main loop."""
    from allocore.run import chains
    from baselines import thin_as_in_the_paper

    chains.thin_here = thin_as_in_the_paper
    warm_up("AlloCore")


def warm_up_nntuck() -> None:
    ac.NNTuck((2, 2, 2), restarts=1, max_iter=2, progress=False).fit(TINY).posterior_.expected(
        np.zeros((3, 1), dtype=int)
    )


def nntuck_core(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Half of `rank` factors in the two longest modes, a fifth in the others.

    With `rank` factors in every mode, one iteration on a tensor of four modes would take longer than the whole fit.
    """
    longest = sorted(range(len(shape)), key=shape.__getitem__)[-2:]
    return tuple(min(length, max(2, rank // (2 if m in longest else 5))) for m, length in enumerate(shape))


def fit_nntuck(train: ac.CountTensor, rank: int, seconds: float) -> Fit:
    """Maximum likelihood by EM, from as many random starts as there is time for; the best counts."""
    model = ac.NNTuck(nntuck_core(train.shape, rank), restarts=10_000, max_iter=100_000, seed=SEED, progress=False)
    start = perf_counter()
    with stopped_after(seconds):
        model.fit(train)
    took, iterations = perf_counter() - start, int(model.restarts_["iterations"].sum())
    return Fit(
        iterations, took / iterations, took,
        lambda test: poisson_log_probability(model.posterior_.expected(test.coords), test.counts),
    )  # fmt: skip


# --- pyttb ------------------------------------------------------------------------------------------------------------


def pyttb_tensor(train: ac.CountTensor) -> Any:
    import pyttb

    return pyttb.sptensor(train.coords.T.astype(np.int64), train.counts[:, None].astype(float), train.shape)


def fit_apr(algorithm: Literal["mu", "pdnr", "pqnr"], train: ac.CountTensor, rank: int, seconds: float) -> Fit:
    """Alternating Poisson regression. It checks the clock between outer iterations, so it may run over."""
    import pyttb

    data = pyttb_tensor(train)
    np.random.seed(SEED)  # noqa: NPY002 (pyttb draws its first guess from the global generator)
    start = perf_counter()
    model, _, info = pyttb.cp_apr(data, rank, algorithm=algorithm, stoptime=seconds, maxiters=100_000, printitn=0)
    took = perf_counter() - start
    iterations = len(info["times"])
    return Fit(iterations, info["times"][-1] / iterations, took, cp_score(model.weights, model.factor_matrices))


def fit_gcp(kind: str, rate: float, train: ac.CountTensor, rank: int, seconds: float) -> Fit:
    """Generalised CP with the Poisson loss by Adam, in ten epochs whose length comes from a pilot run.

    pyttb's default of 1,000 steps per epoch may not fit into the time at all. The number of failed epochs after which
    it gives up is set so high that it never does.
    """
    import pyttb
    from pyttb.gcp.optimizers import Adam
    from pyttb.gcp.samplers import GCPSampler, Samplers

    data = pyttb_tensor(train)
    sampler = GCPSampler(data, gradient_sampler=Samplers[kind])

    def run(epochs: int, steps: int) -> tuple[float, Any]:
        np.random.seed(SEED)  # noqa: NPY002
        start = perf_counter()
        adam = Adam(rate=rate, max_iters=epochs, epoch_iters=steps, max_fails=epochs)
        model, _, _ = pyttb.gcp_opt(data, rank, pyttb.gcp.handles.Objectives.POISSON, adam, sampler=sampler, printitn=0)
        return perf_counter() - start, model

    run(1, 1)
    setup, _ = run(1, 1)
    steps, took = 1, 0.0
    while took < seconds / 10:
        steps *= 2
        took = run(1, steps)[0] - setup
    steps = max(1, int((seconds - setup) / 10 / (took / (steps - 1))))
    took, model = run(10, steps)
    return Fit(10 * steps, took / (10 * steps), took, cp_score(model.weights, model.factor_matrices))


# --- tensorly ---------------------------------------------------------------------------------------------------------


def dense(train: ac.CountTensor) -> np.ndarray:
    """The counts as a dense array of floats, which tensorly needs. Missing cells are zeros."""
    data = np.zeros(train.shape)
    data[tuple(train.coords)] = train.counts
    return data


def observed(train: ac.CountTensor) -> np.ndarray:
    """1 where a cell is observed, 0 where it is missing."""
    mask = np.ones(train.shape)
    for pattern in train.missing.patterns:
        mask[tuple(slice(None) if place < 0 else place for place in pattern)] = 0
    return mask


def repeat(step: Callable[[Any], Any], first: object, seconds: float) -> tuple[Any, tuple[int, float, float]]:
    """Iterate until the time is over; returns the model, and the iterations, the seconds per iteration and in total.

    tensorly's updates depend on the current factors alone. So calls of one iteration, each started from the last
    result, are equivalent to one long call.
    """
    start = perf_counter()
    model, iterations, opening = step(first), 1, perf_counter() - start
    while perf_counter() - start < seconds:
        model, iterations = step(model), iterations + 1
    took = perf_counter() - start
    # The first iteration may include the setup.
    return model, (iterations, opening if iterations == 1 else (took - opening) / (iterations - 1), took)


def fit_parafac(name: str, masked: bool, train: ac.CountTensor, rank: int, seconds: float) -> Fit:
    """Least squares by multiplicative updates or HALS, from a random start: an SVD may take longer than the fit."""
    import tensorly.decomposition

    data = dense(train)
    settings: dict[str, Any] = {"mask": observed(train)} if masked else {}
    function = partial(getattr(tensorly.decomposition, name), data, rank, n_iter_max=1, tol=0, random_state=SEED)
    model, numbers = repeat(lambda init: function(init=init, **settings), "random", seconds)
    return Fit(*numbers, cp_score(*model))


def fit_sparse_parafac(train: ac.CountTensor, rank: int, seconds: float) -> Fit:
    """tensorly on a pydata sparse array.

    Its own random start makes the factors sparse arrays too, which is slower and needs far more memory. So it gets
    dense factors to start from.
    """
    import sparse
    from tensorly.contrib.sparse.decomposition import non_negative_parafac

    data = sparse.COO(train.coords.astype(np.int64), train.counts.astype(float), shape=train.shape)
    rng = np.random.default_rng(SEED)
    first = np.ones(rank), [rng.random((length, rank)) for length in train.shape]

    def step(model: tuple[np.ndarray, list[np.ndarray]]) -> tuple[np.ndarray, list[np.ndarray]]:
        _, factors = non_negative_parafac(data, rank, n_iter_max=1, tol=0, init=model)
        return first[0], factors  # it returns the weights, all ones, as a sparse array, which it does not accept

    model, numbers = repeat(step, first, seconds)
    return Fit(*numbers, cp_score(*model))


def fit_tucker(train: ac.CountTensor, rank: int, seconds: float) -> Fit:
    """Least squares by multiplicative updates, with `rank` factors in every mode that is long enough."""
    import tensorly
    from tensorly.decomposition import non_negative_tucker

    data, core = dense(train), [min(rank, length) for length in train.shape]
    function = partial(non_negative_tucker, data, core, n_iter_max=1, random_state=SEED)
    model, numbers = repeat(lambda init: function(init=init), "random", seconds)

    def score(test: HeldOut) -> np.ndarray:
        rates = tensorly.tucker_to_tensor(model)[tuple(test.coords)]
        return poisson_log_probability(rates, test.counts)

    return Fit(*numbers, score)


# --- NNEinFact --------------------------------------------------------------------------------------------------------


def fit_einsum(custom: bool, train: ac.CountTensor, rank: int, seconds: float) -> Fit:
    """Multiplicative updates on the non-zeros. The custom model has about as many numbers as CP of this rank."""
    communities = max(2, rank // 2)
    model = Einsum.custom(train.shape, rank, communities) if custom else Einsum.cp(train.ndim, rank)
    counts_N = train.counts.astype(float)
    first = model.start(train.shape, counts_N.sum(), np.random.default_rng(SEED))
    values, numbers = repeat(lambda found: model.update(found, train.coords, counts_N), first, seconds)
    return Fit(*numbers, lambda test: poisson_log_probability(model.rates(values, test.coords), test.counts))


# --- all of them ------------------------------------------------------------------------------------------------------


def importing(*modules: str) -> Callable[[], object]:
    return lambda: [import_module(module) for module in modules]


_pyttb = "pyttb", importing("pyttb", "pyttb.gcp.optimizers")
_tensorly = "tensorly", importing("tensorly.decomposition")
# pydata sparse compiles its kernels on first use, as allocore does.
_sparse = "tensorly", lambda: fit_sparse_parafac(ac.as_tensor(TINY), 2, 0)
_NB = {"likelihood": "negative-binomial"}
_OUTER, _STEP, _UPDATE = "an outer iteration over all modes", "a step of Adam", "an update of all modes"

METHODS = {
    "constant": Method("one rate for all cells", "-", "left out", "numpy", importing(), fit_constant),
    "allocore": Method("allocore AlloCore", "a Gibbs sweep", "missing", "allocore",
                       partial(warm_up, "AlloCore"), partial(fit_gibbs, "AlloCore")),
    "allocore-cp": Method("allocore CP", "a Gibbs sweep", "missing", "allocore",
                          partial(warm_up, "CP"), partial(fit_gibbs, "CP")),
    "allocore-nb": Method("allocore AlloCore, negative binomial", "a Gibbs sweep", "missing", "allocore",
                          partial(warm_up, "AlloCore", **_NB), partial(fit_gibbs, "AlloCore", **_NB)),
    "paper-kernel": Method("AlloCore with the paper's kernel", "a Gibbs sweep", "missing", "allocore",
                           use_kernel_of_the_paper, partial(fit_gibbs, "AlloCore")),
    "nntuck": Method("NNTuck by EM (allocore)", "an iteration of EM", "missing", "allocore",
                     warm_up_nntuck, fit_nntuck),
    "apr-mu": Method("pyttb cp_apr, mu", _OUTER, "zeros", *_pyttb, partial(fit_apr, "mu")),
    "apr-pdnr": Method("pyttb cp_apr, pdnr", _OUTER, "zeros", *_pyttb, partial(fit_apr, "pdnr")),
    "apr-pqnr": Method("pyttb cp_apr, pqnr", _OUTER, "zeros", *_pyttb, partial(fit_apr, "pqnr")),
    "gcp": Method("pyttb gcp_opt, Adam 0.01, stratified", _STEP, "zeros", *_pyttb,
                  partial(fit_gcp, "STRATIFIED", 1e-2)),
    "gcp-semi": Method("pyttb gcp_opt, Adam 0.001, semi-stratified", _STEP, "zeros", *_pyttb,
                       partial(fit_gcp, "SEMISTRATIFIED", 1e-3)),
    "parafac": Method("tensorly non_negative_parafac", _UPDATE, "zeros", *_tensorly,
                      partial(fit_parafac, "non_negative_parafac", False)),
    "parafac-mask": Method("tensorly non_negative_parafac, mask", _UPDATE, "missing", *_tensorly,
                           partial(fit_parafac, "non_negative_parafac", True)),
    "parafac-hals": Method("tensorly non_negative_parafac_hals", _UPDATE, "zeros", *_tensorly,
                           partial(fit_parafac, "non_negative_parafac_hals", False)),
    "parafac-sparse": Method("tensorly sparse non_negative_parafac", _UPDATE, "zeros", *_sparse, fit_sparse_parafac),
    "einsum-cp": Method("NNEinFact, CP", _UPDATE, "zeros", "numpy", importing(), partial(fit_einsum, False)),
    "einsum-custom": Method("NNEinFact, communities", _UPDATE, "zeros", "numpy",
                            importing(), partial(fit_einsum, True)),
    "tucker": Method("tensorly non_negative_tucker", _UPDATE, "zeros", *_tensorly, fit_tucker),
}  # fmt: skip


def measure(method: Method, tensor: ac.CountTensor, rank: int, seconds: float, memory_gb: float) -> dict[str, Any]:
    """Fit and score; an error becomes the result's `problem`."""
    result: dict[str, Any] = {"problem": None}
    try:
        split = ac.hold_out(tensor, 0.01, seed=0)
        method.prepare()
        result |= {"version": version(method.library), "baseline_mb": memory_mb("VmRSS")}
        resource.setrlimit(resource.RLIMIT_AS, (int(memory_gb * 2**30),) * 2)
        signal.setitimer(signal.ITIMER_REAL, PATIENCE * seconds)
        fit = method.fit(split.train, rank, seconds)
        signal.setitimer(signal.ITIMER_REAL, 0)
        result |= {"iterations": fit.iterations, "seconds": fit.seconds}
        result |= {"seconds_per_iteration": fit.seconds_per_iteration, "peak_mb": memory_mb("VmHWM")}
        log_predictive = fit.log_predictive(split.test)
        result["ppd"] = float(np.exp(log_predictive.mean()))
        result["ppd_positive"] = float(np.exp(log_predictive[split.test.counts > 0].mean()))
    except MemoryError as error:
        result["problem"] = f"out of memory: {error}" if str(error) else "out of memory"
    except ModuleNotFoundError as error:
        result["problem"] = f"not installed: {error.name}"
    except Exception as error:
        result["problem"] = f"{type(error).__name__}: {error}"
    return result | {"peak_mb": result.get("peak_mb") or memory_mb("VmHWM")}


if __name__ == "__main__":
    chosen, path, *sizes = sys.argv[1:]
    result = measure(METHODS[chosen], ac.load_tensor(path), int(sizes[0]), float(sizes[1]), float(sizes[2]))
    print("\n" + json.dumps(result))
