"""The posterior: draws of all variables, what they predict, and what they mean."""

import operator
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from allocore.data.coordinates import as_integers, check_coordinates
from allocore.data.tensor import CountTensor
from allocore.errors import InputError, whole_number
from allocore.kernels.workers import available_threads
from allocore.run.record import Record

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from allocore.posterior.diagnostics import Diagnosis
    from allocore.posterior.draw_summary import DrawSummary


class CellCounts(Protocol):
    """Anything with coordinates (M, n) and counts (n): a held-out set, a tensor."""

    @property
    def coords(self) -> NDArray[Any]:
        """Coordinates (M, n)."""

    @property
    def counts(self) -> NDArray[Any]:
        """Counts (n,)."""


class Posterior:
    """Draws of a fitted model. Nothing in it changes after the fit, whatever happens to the model.

    Examples
    --------
    >>> import allocore as ac
    >>> Y = ac.load_flights()
    >>> post = ac.AlloCore(budget=5, burn_in=20, draws=10, thin=1, seed=0).fit(Y).posterior_
    >>> post
    Posterior: 1 chain of 10 draws, 5 classes, core 5 x 5 x 5 x 5 x 5
    >>> post.core_values.shape, post.core_locations.shape, post.factors[0].shape
    ((1, 10, 5), (1, 10, 5, 5), (1, 10, 3, 5))
    >>> bool(post.rate(Y.coords[:, :2]).min() > 0)
    True
    """

    def __init__(self, record: Record, threads: int | None = None) -> None:
        self._record = record
        self._threads = threads
        self._draw_summaries: dict[tuple[int, int], DrawSummary] = {}

    @property
    def core_values(self) -> NDArray[np.float64]:
        """The values lambda_q, (chain, draw, Q)."""
        return self._record.core_values

    @property
    def budget(self) -> NDArray[np.int64]:
        """How many classes are on, (chain, draw): where the budget is inferred, draws from its posterior.

        Examples
        --------
        >>> import allocore as ac
        >>> model = ac.AlloCore("infer", max_budget=20, burn_in=20, draws=4, thin=1, seed=0)
        >>> model.fit(ac.load_flights()).posterior_.budget.shape
        (1, 4)
        """
        return np.asarray((self.core_values > 0.0).sum(axis=2), dtype=np.int64)

    @property
    def core_locations(self) -> NDArray[np.int64]:
        """Where each class lies in the core, (chain, draw, Q, M)."""
        return self._record.core_locations

    @property
    def factors(self) -> list[NDArray[np.float64]]:
        """The factor matrices, one array (chain, draw, D_m, K_m) per mode; factors no class uses are zero."""
        return list(self._record.factors)

    @property
    def stats(self) -> Mapping[str, NDArray[Any]]:
        """The trace of all sweeps, burn-in included: log_likelihood, classes, factors (per mode), moved, seconds.

        Arrays (chain, sweep), `factors` (chain, sweep, M). `moved` is the share of classes that changed location.
        """
        return self._record.stats

    @property
    def draw_sweeps(self) -> NDArray[np.int64]:
        """The sweep (1, 2, ..) that gave each draw; `stats` of sweep s stand at position s - 1."""
        return self._record.draw_sweeps

    @property
    def tensor(self) -> CountTensor:
        """The tensor that the model was fitted to."""
        return self._record.tensor

    @property
    def learns_locations(self) -> bool:
        """Whether the classes may move in the core (ALL0CORE) or are fixed in it (CP, Tucker)."""
        return self._record.spec.learn_locations

    @property
    def seed(self) -> int:
        """The seed of the run: with it and the settings the same draws come again."""
        return self._record.seed

    @property
    def record(self) -> Record:
        """The run behind the posterior: its data, settings, draws and trace."""
        return self._record

    @property
    def finished(self) -> bool:
        """Whether the run has all the sweeps it was planned to have."""
        return bool(self.stats["moved"].shape[1] >= self._record.schedule.sweeps)

    def rate(self, coords: object) -> NDArray[np.float64]:
        """The expected count of each cell in `coords` (M, n): its rate averaged over all draws."""
        from allocore.posterior.prediction import mean_rates

        return mean_rates(self._drawn(), self._check_cells(coords), self._threads or available_threads())

    def log_predictive(self, coords: object, counts: object) -> NDArray[np.float64]:
        """The log predictive probability of each count: log of its Poisson probability averaged over all draws."""
        from allocore.posterior.prediction import log_predictive

        return log_predictive(self._drawn(), *self._check_counted(coords, counts), self._threads or available_threads())

    def ppd(self, test: CellCounts, positive_only: bool = False) -> float:
        """Pointwise predictive density of held-out cells: the geometric mean of their predictive probabilities.

        `test` is `split.test` of `hold_out`, or anything with `coords` and `counts`. With `positive_only` the zeros are
        left out, as in the paper's second criterion.
        """
        return float(np.exp(self.log_ppd(test, positive_only)))

    def log_ppd(self, test: CellCounts, positive_only: bool = False) -> float:
        """The logarithm of `ppd`: the mean log predictive probability of the held-out cells."""
        if not (hasattr(test, "coords") and hasattr(test, "counts")):
            hint = ": pass split.test" if hasattr(test, "test") else ""
            raise InputError(f"test is a {type(test).__name__}, but it must have coords and counts{hint}")
        cells, counts = self._check_counted(test.coords, test.counts)
        chosen = counts > 0 if positive_only else np.ones(len(counts), dtype=bool)
        if not chosen.any():
            raise InputError(f"test has {len(counts)} cells, none of them to judge: it must hold at least one")
        return float(self.log_predictive(cells[:, chosen], counts[chosen]).mean())

    def classes(self, draw: int = -1, top: int = 5, *, chain: int = 0) -> "pd.DataFrame":
        """The classes of one draw, largest first, as a table.

        `value` is the expected count of the class in the observed cells, `share` its part of all and `cumulative` that
        of the class and all larger ones. Then, for each mode, the number of the factor that the class uses
        (`<mode>_factor`), that factor's heaviest labels (`<mode>_top`), where the labels are periods of time its
        highest stretches (`<mode>_peak`), and the other classes that use the same factor (`<mode>_shared`).

        `stability` is the share of other draws, of all chains, that hold a class like it, and `stable_chains` the share
        of chains, its own included, of which at least half of the draws do. Classes are alike if in every mode the
        cosine of their factors is at least 0.9, and each is matched with one of the other draw at most. About 100
        draws, spread evenly, are compared. NaN stands where there is no other draw, or no other chain.

        Examples
        --------
        >>> import allocore as ac
        >>> model = ac.AlloCore(budget=5, burn_in=50, draws=10, thin=5, chains=2, seed=0, progress=False)
        >>> table = model.fit(ac.load_flights()).posterior_.classes(top=1)
        >>> list(table.columns[:5])
        ['value', 'share', 'cumulative', 'stability', 'stable_chains']
        >>> bool(table["stability"].between(0, 1).all())
        True
        """
        from allocore.posterior.class_tables import class_table

        return class_table(self.draw_summary(draw, chain=chain), whole_number("top", top))

    def factor(self, mode: str | int, k: int, draw: int = -1, *, chain: int = 0) -> "pd.DataFrame":
        """One factor of a draw as a table from labels to shares; the heaviest first, periods of time in their order.

        `k` is its number, as in the columns `<mode>_factor` of `classes`. The classes that use it stand in the `attrs`
        of the table.

        Examples
        --------
        >>> import allocore as ac
        >>> post = ac.AlloCore(budget=5, burn_in=50, draws=2, thin=1, seed=0).fit(ac.load_flights()).posterior_
        >>> factor = post.factor("carrier", int(post.classes()["carrier_factor"][0]))
        >>> float(factor["share"].sum().round(6)), factor.attrs["classes"][0]
        (1.0, 0)
        """
        from allocore.posterior.class_tables import factor_table

        return factor_table(self.draw_summary(draw, chain=chain), self.tensor.mode(mode), k)

    def sharing(self, mode: str | int, draw: int = -1, top: int = 5, *, chain: int = 0) -> "pd.DataFrame":
        """The factors of a mode in use, heaviest first: which classes share each, and how much they hold together.

        Examples
        --------
        >>> import allocore as ac
        >>> post = ac.AlloCore(budget=5, burn_in=50, draws=2, thin=1, seed=0).fit(ac.load_flights()).posterior_
        >>> list(post.sharing("carrier").columns)
        ['share', 'number', 'classes', 'top']
        """
        from allocore.posterior.class_tables import sharing_table

        return sharing_table(self.draw_summary(draw, chain=chain), self.tensor.mode(mode), whole_number("top", top))

    def surprises(self, Y: CellCounts | None = None, top: int = 50) -> "pd.DataFrame":
        """The observed cells whose counts are least expected, as a table, the most surprising first.

        `Y` is a tensor of the shape of the fitted one, by default that tensor, or a held-out set (`split.test`, or
        anything with `coords` and `counts`). Missing cells are left out. Each cell stands with its labels, the
        `observed` count, the `expected` one (its rate averaged over all draws), the `direction` in which it is off,
        "more" or "fewer", the two-sided tail probability `p` of the count averaged over all draws, and its `surprise`,
        -log10 p, which is finite where `p` underflows to 0; a rate that underflows to 0 is judged as 2e-308.

        A zero that was expected to be many is a surprise too. In a tensor all observed zeros are searched, and those
        with a p of 1 left out. The search goes from the largest expected counts down and stops after half a minute or
        so, which rates that are all but equal may take: then `attrs["zeros_searched"]` of the table says "largest only"
        instead of "all", and a warning tells how far it came. Of a held-out set the cells given are judged ("given").

        Examples
        --------
        >>> import allocore as ac
        >>> post = ac.AlloCore(budget=5, burn_in=50, draws=10, thin=1, seed=0).fit(ac.load_flights()).posterior_
        >>> table = post.surprises(top=3)
        >>> list(table.columns)
        ['origin', 'destination', 'carrier', 'month', 'hour', 'observed', 'expected', 'direction', 'p', 'surprise']
        >>> bool(table["surprise"].is_monotonic_decreasing), table.attrs["zeros_searched"]
        (True, 'all')
        """
        from allocore.posterior.surprises import comparable, surprises

        cells = comparable(self.tensor if Y is None else Y, self.tensor)
        missing = cells.missing if isinstance(cells, CountTensor) else None
        coords_counts = self._check_counted(cells.coords, cells.counts)
        threads = self._threads or available_threads()
        return surprises(self._drawn(), *coords_counts, top=whole_number("top", top), threads=threads, missing=missing)

    def draw_summary(self, draw: int = -1, *, chain: int = 0) -> "DrawSummary":
        """The classes and factors of one draw as arrays: what tables, figures and the explorer are made of."""
        from allocore.posterior.draw_summary import summarize_draw

        chains, draws = self._drawn().core_values.shape[:2]
        place = _position("chain", chain, chains), _position("draw", draw, draws)
        if place not in self._draw_summaries:
            self._draw_summaries[place] = summarize_draw(self._record, *place)
        return self._draw_summaries[place]

    def diagnose(self) -> "Diagnosis":
        """Have the chains settled, and in the same place? A table of diagnostics, and what it says in words.

        R-hat and effective sample sizes of quantities that do not depend on the numbers of classes and factors, which
        mean nothing from draw to draw: the log-likelihood, the summed rate of all observed cells, the numbers of
        classes and of factors in use, and the rates of a dozen cells, half of them without counts.

        Examples
        --------
        >>> import allocore as ac
        >>> model = ac.AlloCore(budget=5, burn_in=50, draws=10, thin=1, chains=2, seed=0, progress=False)
        >>> found = model.fit(ac.load_flights()).posterior_.diagnose()
        >>> list(found.table.index[:4])
        ['log-likelihood', 'total rate', 'classes', 'origin factors']
        >>> list(found.table.columns)
        ['mean', 'sd', 'r_hat', 'ess_bulk', 'ess_tail', 'seconds_per_effective_sample']
        >>> found.well
        False
        >>> print(found.words[0])
        Chains disagree on the log-likelihood: R-hat ...; run longer.
        """
        from allocore.posterior.diagnostics import diagnose

        return diagnose(self._drawn())

    def show(self, rows: int = 15, top: int = 3) -> None:
        """Print the largest classes of the last draw of the first chain, and the factors they share."""
        from rich.console import Console

        from allocore.posterior.terminal_tables import class_report

        Console().print(class_report(self, rows, top))

    def to_datatree(self) -> "xr.DataTree":
        """The run as an xarray DataTree in the ArviZ schema, with labels, settings and seed."""
        from allocore.run.datatree import to_datatree

        return to_datatree(self._record)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run to a new Zarr folder, which `ac.open_run` opens, and xarray as a DataTree."""
        from allocore.run.zarr_store import write_record

        write_record(self._record, Path(path))

    def __repr__(self) -> str:
        chains, draws, budget = self.core_values.shape
        core = " x ".join(str(size) for size in self._record.spec.core_shape)
        return (
            f"Posterior: {chains} chain{'s' * (chains > 1)} of {draws} draw{'s' * (draws != 1)}, "
            f"{'at most ' * self._record.spec.infer_budget}{budget} class{'es' * (budget > 1)}, core {core}"
        )

    def _repr_html_(self) -> str:
        from allocore.posterior.notebook import posterior_html

        return posterior_html(self)

    def _drawn(self) -> Record:
        """The run, once it has draws."""
        if not self.core_values.shape[1]:
            sweeps, burn_in = self.stats["moved"].shape[1], self._record.schedule.burn_in
            raise InputError(f"the run has no draws yet: it is at sweep {sweeps}, and the burn-in takes {burn_in}")
        return self._record

    def _check_cells(self, coords: object) -> NDArray[np.int64]:
        cells = as_integers(coords, "coords")
        check_coordinates(cells, self.tensor.shape, self.tensor.mode_names)
        return cells.astype(np.int64)

    def _check_counted(self, coords: object, counts: object) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        cells, numbers = self._check_cells(coords), as_integers(counts, "counts")
        if numbers.shape != cells.shape[1:] or (numbers < 0).any():
            raise InputError(
                f"counts has shape {numbers.shape} and least value {numbers.min(initial=0)}, but it must hold one "
                f"non-negative count for each of the {cells.shape[1]} cells in coords"
            )
        return cells, numbers.astype(np.int64)


def _position(name: str, value: int, length: int) -> int:
    try:
        place = operator.index(value)
    except TypeError:
        raise InputError(f"{name} is {value!r}, but it must be a whole number") from None
    if not -length <= place < length:
        raise InputError(f"{name} is {value}, but there are {length}: it must be from {-length} to {length - 1}")
    return place % length
