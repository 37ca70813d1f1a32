"""NNTuck as an estimator in scikit-learn's manner: Poisson Tucker by maximum likelihood, with the surface of Tucker."""

from dataclasses import KW_ONLY, dataclass
from math import isfinite
from typing import TYPE_CHECKING, ClassVar, Self

from allocore.data.convert import as_tensor
from allocore.errors import InputError, whole_number
from allocore.estimators import Estimator, seed_number, thread_number, whole_core
from allocore.model.spec import Spec

if TYPE_CHECKING:
    import pandas as pd

    from allocore.posterior.posterior import Posterior


@dataclass(eq=False, repr=False)
class NNTuck(Estimator):
    """Poisson Tucker by maximum likelihood: EM, that is multiplicative updates, from several random starts.

    There are no priors and there is no posterior: `posterior_` holds one draw, the estimate with the highest
    log-likelihood, so that rates, tables, figures and the explorer work as for the other models. A label without any
    observed count has the rate 0: a held-out count there has no probability at all, and makes `ppd` 0.

    Parameters
    ----------
    core_shape
        K_m, the factors of each mode. There is a class on every location of the core.
    restarts
        Random starts; the best is kept. The likelihood has many local maxima.
    max_iter
        The most iterations of one restart.
    tol
        A restart has converged when an iteration changes the log-likelihood by less than this, relative to it. EM
        can all but stand still for many iterations and then go on, so that a large value is apt to stop too early.
    seed
        A whole number makes the estimate reproducible, to the byte and on any number of threads.
    threads
        Threads to use; by default all processors.
    progress
        Show a progress bar (only ever on a terminal).

    Attributes
    ----------
    posterior_
        The estimate, as one chain with one draw; `stats` has every iteration of the best restart.
    log_likelihood_, n_iter_
        Of the best restart.
    restarts_
        A table: restart, log_likelihood, iterations, converged, seconds.

    Examples
    --------
    >>> import allocore as ac
    >>> model = ac.NNTuck((2, 3, 2, 1, 1), restarts=2, max_iter=20, seed=1).fit(ac.load_flights())
    >>> model.posterior_
    Posterior: 1 chain of 1 draw, 12 classes, core 2 x 3 x 2 x 1 x 1
    >>> bool(model.log_likelihood_ == model.restarts_["log_likelihood"].max())
    True
    """

    _fitted: ClassVar[tuple[str, ...]] = ("posterior_", "log_likelihood_", "restarts_", "n_iter_")

    core_shape: tuple[int, ...]
    _: KW_ONLY
    restarts: int = 20
    max_iter: int = 1000
    tol: float = 1e-7
    seed: int | None = None
    threads: int | None = None
    progress: bool = True

    if TYPE_CHECKING:
        posterior_: Posterior
        log_likelihood_: float
        restarts_: pd.DataFrame
        n_iter_: int

    def fit(self, Y: object) -> Self:
        """Find the estimate of a tensor (anything `as_tensor` takes).

        Ctrl-C and SIGTERM stop after the iteration under way; the best estimate so far is then kept.
        """
        for name in self._fitted:
            self.__dict__.pop(name, None)
        tensor = as_tensor(Y)
        spec = Spec.without_priors(whole_core(tensor.shape, self.core_shape, "NNTuck"))
        restarts, most = whole_number("restarts", self.restarts), whole_number("max_iter", self.max_iter)
        tol, threads, seed = self._tolerance(), thread_number(self.threads), seed_number(self.seed)

        import pandas as pd

        from allocore.em.restart_bar import restart_bar
        from allocore.em.restarts import Iterations, record_of, run_restarts
        from allocore.posterior.posterior import Posterior

        found = run_restarts(
            tensor,
            spec.core_shape,
            seed,
            restarts=restarts,
            iterations=Iterations(most, tol),
            threads=threads,
            observer=restart_bar(self.progress, restarts, most),
        )
        self.posterior_ = Posterior(record_of(tensor, spec, seed, found.best), threads)
        self.log_likelihood_, self.n_iter_ = found.best.log_likelihood, len(found.best.infos)
        self.restarts_ = pd.DataFrame(found.outcomes).drop(columns="ended")
        return self

    def _tolerance(self) -> float:
        tol = self.tol
        if isinstance(tol, bool) or not isinstance(tol, (int, float)) or not (tol > 0 and isfinite(tol)):
            raise InputError(f"tol is {tol!r}, but it must be a positive number")
        return float(tol)
