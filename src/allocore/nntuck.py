"""NNTuck, Poisson Tucker by maximum likelihood, as an estimator with the same methods as Tucker."""

from dataclasses import KW_ONLY, dataclass, field, replace
from math import isfinite
from typing import TYPE_CHECKING, ClassVar, Self

from allocore.data.available_memory import require_memory
from allocore.data.holdout import training_data
from allocore.errors import InputError, whole_number
from allocore.estimator_base import Estimator, seed_number, thread_number
from allocore.estimators import whole_core
from allocore.model.spec import Spec

if TYPE_CHECKING:
    import pandas as pd

    from allocore.posterior.posterior import Posterior


@dataclass(eq=False, repr=False)
class NNTuck(Estimator):
    """Poisson Tucker by maximum likelihood, found by EM (multiplicative updates) from several random starts.

    There are no priors and no posterior. `posterior_` holds one draw, the estimate with the highest log-likelihood, so
    that rates, tables, figures and the explorer work as for the other models. A label without any observed count has
    the rate 0: a count held out there has probability 0, and so `ppd` is 0.

    Parameters
    ----------
    core_shape : sequence of int
        K_m, the number of factors of each mode. There is a class on every location of the core.
    restarts : int, default=20
        Random starts, of which the best is kept. The likelihood has many local maxima.
    max_iter : int, default=1000
        The largest number of iterations of one restart.
    tol : float, default=1e-07
        A restart has converged when one iteration changes the log-likelihood by less than this, relative to its value.
        EM can almost stop for many iterations and then improve again, so a large value often stops too early.
    seed : int, default=None
        A whole number makes the result reproducible, to the byte and on any number of threads. None takes a new seed
        at each fit.
    threads : int, default=None
        Threads to use; None is all processors.
    progress : bool, default=True
        Whether to show progress: bars on a terminal and in a notebook, lines in a log.

    Attributes
    ----------
    posterior_ : Posterior
        The estimate, as one chain with one draw; `posterior_.stats` has every iteration of the best restart.
    log_likelihood_ : float
        The log-likelihood of the best restart.
    restarts_ : pandas.DataFrame
        One row for each restart: restart, log_likelihood, iterations, converged, seconds.
    n_iter_ : int
        The number of iterations of the best restart.

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
        posterior_: Posterior = field(init=False)
        log_likelihood_: float = field(init=False)
        restarts_: pd.DataFrame = field(init=False)
        n_iter_: int = field(init=False)

    def fit(self, Y: object, y: object = None) -> Self:
        """Find the estimate for a tensor of counts.

        Ctrl-C and SIGTERM stop after the current iteration; the best estimate so far is then kept.

        Parameters
        ----------
        Y : CountTensor, array, sparse array, path or Split
            The counts: anything that `as_tensor` takes. Of a split of `hold_out`, the training tensor is fitted, and
            the run keeps the held-out cells for `evaluate`.
        y : object, default=None
            Not used: there is no target. scikit-learn passes one to every estimator.

        Returns
        -------
        Self
            The same estimator, now with `posterior_`, `log_likelihood_`, `restarts_` and `n_iter_`.

        Examples
        --------
        >>> import allocore as ac
        >>> ac.NNTuck((2, 2, 1, 1, 1), restarts=1, max_iter=5, seed=1).fit(ac.load_flights()).n_iter_
        5
        """
        self._forget_fit()
        tensor, held_out = training_data(Y)
        spec = Spec.without_priors(whole_core(tensor.shape, self.core_shape, "NNTuck"))
        restarts, most = whole_number("restarts", self.restarts), whole_number("max_iter", self.max_iter)
        numbers = spec.budget + sum(length * width for length, width in zip(tensor.shape, spec.core_shape, strict=True))
        require_memory(8 * numbers, f"core_shape is {spec.core_shape}, which on a tensor of shape {tensor.shape}")
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
        self.posterior_ = Posterior(replace(record_of(tensor, spec, seed, found.best), held_out=held_out), threads)
        self.log_likelihood_, self.n_iter_ = found.best.log_likelihood, len(found.best.infos)
        self.restarts_ = pd.DataFrame(found.outcomes).drop(columns="ended")
        return self

    def _tolerance(self) -> float:
        tol = self.tol
        if isinstance(tol, bool) or not isinstance(tol, (int, float)) or not (tol > 0 and isfinite(tol)):
            raise InputError(f"tol is {tol!r}, but it must be a positive number")
        return float(tol)
