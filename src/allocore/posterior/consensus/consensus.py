"""The consensus: what many draws of all chains agree on, as classes with support, intervals and stable numbers."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from allocore.errors import whole_number
from allocore.posterior.class_profiles import ClassReader
from allocore.posterior.class_summary import ClassSummary, TidyTable
from allocore.posterior.consensus.consensus_estimates import Estimates, estimate
from allocore.posterior.consensus.consensus_file import (
    Numbered,
    number_and_keep,
    number_classes,
    read_consensus,
    write_consensus,
)
from allocore.posterior.consensus.consensus_summary import names_of, summarize_consensus
from allocore.posterior.draw_bar import draw_bar
from allocore.run.record import Record

if TYPE_CHECKING:
    import pandas as pd


class Consensus:
    """What the chains agree on: classes that at least half of them hold, whatever their numbers there.

    `Posterior.consensus` returns it. The classes of many draws of all chains are joined into clusters by the cosines of
    their profiles. A draw *holds* a consensus class if it has a class with a cosine of at least 0.6 in every mode; the
    classes of a draw and the consensus classes are matched one to one. A chain holds it if at least half of its draws
    do. Classes stand largest first. Their numbers stay the same when the run is resumed, and so do the names
    of classes that hardly change.

    Parameters
    ----------
    record : Record
        The run: its data, settings, draws and trace.
    numbered : Numbered
        The consensus classes, with their numbers and names.

    Examples
    --------
    >>> found = post.consensus()
    >>> found
    Consensus of 2 chains, 20 draws: ... classes that hold ...% of the expected counts
    >>> bool((found.support >= 0.5).all()), len(found.profiles), found.profiles[0].shape[0]
    (True, 5, 3)
    """

    def __init__(self, record: Record, numbered: Numbered) -> None:
        self._record, self.numbered = record, numbered
        self.summary: ClassSummary = summarize_consensus(record, numbered.estimates, numbered.number_C, numbered.names)

    @property
    def share(self) -> NDArray[np.float64]:
        """The share of the counts in each class: the average over all draws, zero where a draw does not hold it.

        Returns
        -------
        ndarray of float, shape (C,)
            Their sum is the part of the counts that the consensus covers.

        Examples
        --------
        >>> 0.0 < float(post.consensus().share.sum()) <= 1.0
        True
        """
        return self._found.share

    @property
    def share_interval(self) -> NDArray[np.float64]:
        """The 90% interval of each share, over all draws of all chains.

        Returns
        -------
        ndarray of float, shape (C, 2)

        Examples
        --------
        >>> low, high = post.consensus().share_interval.T
        >>> bool((low <= high).all())
        True
        """
        return np.stack(self._found.share_interval, axis=1)

    @property
    def support(self) -> NDArray[np.float64]:
        """The share of chains that hold each class. With one chain, the share of draws.

        Returns
        -------
        ndarray of float, shape (C,)

        Examples
        --------
        >>> bool((post.consensus().support <= 1.0).all())
        True
        """
        return self._found.support_chains if len(self._record.core_values) > 1 else self._found.support_draws

    @property
    def support_draws(self) -> NDArray[np.float64]:
        """The share of draws, of all chains, that hold each class.

        Returns
        -------
        ndarray of float, shape (C,)

        Examples
        --------
        >>> bool((post.consensus().support_draws > 0.0).all())
        True
        """
        return self._found.support_draws

    @property
    def profiles(self) -> list[NDArray[np.float64]]:
        """The profile of each class in every mode: the shares of its expected counts, in the observed cells.

        Returns
        -------
        list of ndarray of float
            One array (D_m, C) per mode, whose columns sum to one: averages, by mass, over the draws that hold a class.

        Examples
        --------
        >>> bool(np.allclose(post.consensus().profiles[0].sum(axis=0), 1.0))
        True
        """
        return [band.mean for band in self._found.profiles]

    @property
    def factors(self) -> list[NDArray[np.float64]]:
        """The factor of each class in every mode, scaled to sum to one. It differs from the profile if cells miss.

        Returns
        -------
        list of ndarray of float
            One array (D_m, C) per mode. With `dispersion_by`, factors of that mode are weighted by the odds of the
            dispersion p / (1 - p) of each row, so that they are shares of expected counts.

        Examples
        --------
        >>> len(post.consensus().factors)
        5
        """
        return [band.mean for band in self._found.factors]

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The number of each class; it stays the same when the run is resumed or extended.

        Returns
        -------
        ndarray of int, shape (C,)

        Examples
        --------
        >>> post.consensus().numbers[:2]
        array([0, 1])
        """
        return self.numbered.number_C

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each class in words; when the run is extended, a class that changed much is named anew.

        Returns
        -------
        tuple of str

        Examples
        --------
        >>> len(post.consensus().names) == len(post.consensus().share)
        True
        """
        return self.numbered.names

    @property
    def shares_by_draw(self) -> NDArray[np.float64]:
        """The share of the counts in each class, in every draw that was compared: at most about 1,000 of all chains.

        Returns
        -------
        ndarray of float, shape (chain, draw, C)
            Zero where a draw does not hold the class.

        Examples
        --------
        >>> post.consensus().shares_by_draw.shape[:2]
        (2, 10)
        """
        return self._found.shares

    def classes(self, top: int = 5) -> "pd.DataFrame":
        """Return the classes as a table, largest first.

        Parameters
        ----------
        top : int
            How many labels of each profile to name.

        Returns
        -------
        pandas.DataFrame
            One row per class, by its number. `name` is its name in words. `value` is its expected count in the observed
            cells, `share` its part of the total, averaged over all draws, with the 90% interval `share_low` to
            `share_high`. `support` is the share of chains that hold it (NaN with one chain), `support_draws` the share
            of draws. `apart` is True for classes that are small (below 0.2%) or that fewer than three quarters of the
            chains hold.

            For each mode, `<mode>_factor` is the number of its factor: the lowest number of the classes that share it.
            `<mode>_top` names the heaviest labels of its profile, `<mode>_peak` the highest stretches of time (if
            labels are periods of time), and `<mode>_shared` the other classes that have the same factor in at least
            half of the draws.

        Examples
        --------
        >>> list(post.consensus().classes(top=1).columns[:4])
        ['name', 'value', 'share', 'share_low']
        """
        from allocore.posterior.class_tables import class_table

        return class_table(self.summary, whole_number("top", top))

    def factor(self, mode: str | int, number: int, *, observed: bool = True) -> "pd.DataFrame":
        """Return the profile of a class in one mode as a table of labels and shares, with intervals.

        Parameters
        ----------
        mode : str or int
            The mode, by name or number.
        number : int
            The number of the class.
        observed : bool
            Show the shares of expected counts in the observed cells, which is what the class is in the data; with
            False, the factor itself. They differ only where cells are missing.

        Returns
        -------
        pandas.DataFrame
            One row per label: the mean `share`, the `median`, and the 90% interval `low` to `high`, over the draws that
            hold the class. Heaviest first; ordered labels, such as months, keep their order.

        Examples
        --------
        >>> table = post.consensus().factor("carrier", 0)
        >>> list(table.columns), float(table["share"].sum().round(6))
        (['share', 'median', 'low', 'high'], 1.0)
        """
        from allocore.posterior.class_tables import band_table

        place, m = self.summary.place(number), self._record.tensor.mode(mode)
        band = (self._found.profiles if observed else self._found.factors)[m]
        return band_table(self.summary.modes[m], band, place)

    def sharing(self, mode: str | int | None = None, least: float = 0.05) -> "pd.DataFrame":
        """Return the pairs of classes that share a factor, and how surely.

        Parameters
        ----------
        mode : str or int, optional
            The mode, by name or number; by default all modes.
        least : float
            The least probability to list.

        Returns
        -------
        pandas.DataFrame
            One row per pair and mode, surest first: the `mode`, the numbers of the two classes, `class` and `other`,
            the `probability` that they use the same factor, given that a draw holds both, and the number of `draws`
            that do. It does not depend on how classes and factors are numbered in the draws.

        Examples
        --------
        >>> list(post.consensus().sharing().columns)
        ['mode', 'class', 'other', 'probability', 'draws']
        """
        from allocore.posterior.class_tables import sharing_pairs

        modes = range(len(self.profiles)) if mode is None else [self._record.tensor.mode(mode)]
        return sharing_pairs(self.summary, self._found.holding_both.astype(np.int64), modes, least)

    def to_frame(self, what: TidyTable = "profiles", top: int = 5) -> "pd.DataFrame":
        """Return the consensus as a tidy table, for R, a database or a plot: plain numbers and texts, no index.

        Parameters
        ----------
        what : {"profiles", "factors", "classes"}
            One row per class, mode and label; per mode, factor and label; or per class.
        top : int
            How many labels of each profile to name in the table of classes.

        Returns
        -------
        pandas.DataFrame
            Profiles have the columns `class`, `name`, `mode`, `label`, `share`, `median`, `low` and `high`. Factors
            have `mode`, `factor`, `label` and the same numbers; `<mode>_factor` of a class refers to them, and a shared
            factor is shown as its largest class has it. Classes have the columns of `classes`, with `<mode>_shared` as
            text such as "1 4 7". Labels are texts, in the order of the tensor.

        Examples
        --------
        >>> long = post.consensus().to_frame()
        >>> list(long.columns)
        ['class', 'name', 'mode', 'label', 'share', 'median', 'low', 'high']
        >>> bool(np.allclose(long.groupby(["class", "mode"])["share"].sum(), 1.0))
        True
        """
        return self.summary.to_frame(what, top)

    @property
    def words(self) -> str:
        """How many classes the chains agree on, and how much they hold, in sentences.

        Returns
        -------
        str

        Examples
        --------
        >>> post.consensus().words
        '... classes are held by both chains. Together they hold ...'
        """
        return self.summary.sentences

    def keep(self, folder: Path) -> None:
        """Write the consensus into the folder of its run, so that its classes keep their numbers and names.

        Parameters
        ----------
        folder : path
            The folder of the run. If it cannot be written, it stays as it is.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     post.consensus().keep(pathlib.Path(folder))
        ...     [file.name for file in pathlib.Path(folder).iterdir()]
        ['consensus.npz']
        """
        write_consensus(folder, self._record, self.numbered)

    @property
    def _found(self) -> Estimates:
        return self.numbered.estimates

    def __repr__(self) -> str:
        held, number = float(self.share.sum()), len(self.share)
        classes = f"{number} class{'es' * (number != 1)} that hold{'s' * (number == 1)}"
        return f"{self.summary.source.capitalize()}: {classes} {held:.0%} of the {self.summary.counted}"

    def _repr_html_(self) -> str:
        from allocore.posterior.notebook import consensus_html

        return consensus_html(self)


def find_consensus(record: Record, folder: Path | None, numbering: Numbered | None, progress: bool) -> Consensus:
    """Find the consensus of a run, or read it if it is kept in the run's folder and no draw has been added since.

    Without a folder, classes that an earlier consensus had keep the numbers they have in `numbering`.
    """
    kept = read_consensus(folder, record) if folder is not None else None
    if kept is not None and kept.is_of(record):
        return Consensus(record, kept.numbered)
    with draw_bar("consensus", progress) as tick:
        found = estimate(ClassReader(record), tick)
    names = names_of(record, tuple(band.mean for band in found.profiles))
    if folder is not None and record.chosen is None:
        return Consensus(record, number_and_keep(folder, record, found, names))
    earlier = kept.numbered if kept is not None else numbering
    return Consensus(record, number_classes(found, names, earlier.known if earlier is not None else None))
