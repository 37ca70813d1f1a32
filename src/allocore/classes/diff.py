"""What changed between two runs: classes gained, lost, grown, shrunk, moved in time, and with other labels.

Classes with one origin are one class (numbering.py): a refit has those of the run where it started. The others are
matched by their profiles, on the rows that both runs have. Only clear changes are findings:

- A class is *gained* or *lost* if the run that has it supports it well: it is neither small nor in few chains.
- It has *grown* or *shrunk* if one of the runs supports it well, the 95% interval of the difference between its shares
  excludes 0, and the difference is at least a tenth of the larger share. The interval is Student's t over chains, which
  are paired if there are as many in both runs: a chain of a refit starts at one of the earlier run. With one chain, it
  is over pairs of draws, one of each run.
- A label has *changed* in a class that both runs support well if the 90% intervals of its two shares do not overlap,
  and the shares differ by at least five points. They are shares of the class in the rows that both runs have.
- A class has more or less *in new rows*, such as new months, if the interval of its share there excludes the share of
  all classes together, and the one is at least a quarter larger than the other.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from allocore.classes.consensus import Consensus
from allocore.classes.matching import HOLDS, match_similar
from allocore.classes.numbering import in_other_rows, similarities_to_known
from allocore.errors import Described, InputError
from allocore.findings import Finding, sentences
from allocore.kernels.elementary import Floats, Ints
from allocore.tensor.labels import free_name, matching_rows

_INTERVAL = (0.025, 0.975)
_QUANTILES = 100  # of the draws of a share, to compare two runs of which one has a single chain
_GROWN = 0.1
_LABEL = 0.05
_IN_NEW_ROWS = 1.25


@dataclass(frozen=True)
class Diff:
    """What changed between two runs: `ac.diff` returns it.

    Attributes
    ----------
    table : pandas.DataFrame
        One row per class, largest first: its number in the `old` and in the `new` run (missing if it is not there), its
        `name`, the clear `change` ("gained", "lost", "grown", "shrunk" or ""), `share_old`, `share_new`, their
        `difference` with its 95% interval `low` to `high`, `support_old` and `support_new`, and the `similarity` of its
        profiles (if it is in one run only, with the most similar class of the other). For each mode, `<mode>_moved` is
        the share of its counts that moved to other labels, among those of both runs, and `<mode>_new` the share in
        labels of the new run only.
    labels : pandas.DataFrame
        The clear changes of labels: the `class`, by its number in the new run, its `name`, the `mode`, the `label`, and
        its `share_old` and `share_new` of the class.
    findings : tuple of Finding
        The clear changes.

    Examples
    --------
    >>> import allocore as ac
    >>> found = ac.diff(post, post.select_chains([0]))
    >>> list(found.table.columns[:4])
    ['old', 'new', 'name', 'change']
    """

    table: pd.DataFrame
    labels: pd.DataFrame
    findings: tuple[Finding, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """The findings in words."""
        return sentences(self.findings)

    def __repr__(self) -> str:
        return "\n".join(self.sentences)

    def _repr_html_(self) -> str:
        first, *others = self.sentences
        items = "".join(f"<li>{escape(each)}</li>" for each in others)
        shown = self.table[_SHOWN].to_html(index=False, float_format=lambda share: f"{share:.1%}", na_rep="")
        return f"<p><strong>{escape(first)}</strong></p>{shown}<ul>{items}</ul>"


_KINDS = {"gained": "class-gained", "lost": "class-lost", "grown": "class-grown", "shrunk": "class-shrunk"}
_OF_CLASSES = (
    *("old", "new", "name", "change", "share_old", "share_new", "difference", "low", "high"),
    *("support_old", "support_new", "similarity"),
)
_SHOWN = ["old", "new", "change", "share_old", "share_new", "low", "high", "name"]


class _Run(NamedTuple):
    """The classes of a run, with its modes in the order of the old run."""

    consensus: Consensus
    modes: tuple[int, ...]

    def mean(self, mode: int) -> Floats:
        return self.consensus.estimates.profiles[self.modes[mode]].mean

    @property
    def labels(self) -> list[Any]:
        """The labels of the modes."""
        labels = self.consensus.summary.tensor.labels
        return [labels[mode] for mode in self.modes]

    @property
    def origins(self) -> dict[int, int]:
        """The place of the class with each origin."""
        numbering = self.consensus.numbering
        of_number = dict(zip(numbering.known.number_K.tolist(), numbering.known.origin_K.tolist(), strict=True))
        return {of_number[number]: place for place, number in enumerate(numbering.number_C.tolist())}

    def words(self, place: int) -> dict[str, Any]:
        """The number and the name of a class."""
        return {"number": int(self.consensus.numbers[place]), "name": self.consensus.names[place]}


class _Rows(NamedTuple):
    """The rows of a mode that two runs have in common, in both, and those of the new run only."""

    old: Ints
    new: Ints
    only_new: Ints


class _Pair(NamedTuple):
    """The place of a class in the old and in the new run, None if it is not there, and the similarity."""

    old: int | None
    new: int | None
    similarity: float


def diff_of(before: Consensus, after: Consensus) -> Diff:
    """Return what changed between the consensuses of two runs: see `allocore.diff`."""
    old, new = _Run(before, tuple(range(len(before.profiles)))), _Run(after, _same_modes(before, after))
    rows = matching_rows(new.labels, old.labels)
    common = [_Rows(row_D[row_D >= 0], np.flatnonzero(row_D >= 0), np.flatnonzero(row_D < 0)) for row_D in rows]
    pairs = _paired(old, new, rows)
    names = before.summary.mode_names
    table = pd.DataFrame([_row(old, new, pair, names, common) for pair in pairs], columns=_columns(names, common))
    table = table.astype({"old": "Int64", "new": "Int64"})
    moved = [each for pair in pairs for each in _moved_labels(old, new, pair, common)]
    labels = pd.DataFrame(
        [(int(after.numbers[n]), after.names[n], names[mode], *label) for n, mode, found in moved for label in found],
        columns=["class", "name", "mode", "label", "share_old", "share_new"],
    )
    return Diff(table, labels, tuple(_findings(new, table, moved, common)))


def _same_modes(old: Consensus, new: Consensus) -> tuple[int, ...]:
    """The mode of the new run for each mode of the old one."""
    known, given = old.summary.mode_names, new.summary.mode_names
    if sorted(known) != sorted(given):
        what = Described(f"a run with the modes {', '.join(given)}")
        raise InputError("new", what, f"must have the modes of `old`: {', '.join(known)}")
    return tuple(given.index(name) for name in known)


def _paired(old: _Run, new: _Run, rows: list[Ints]) -> list[_Pair]:
    """The classes of both runs, largest first: of one origin, similar, or in one run only."""
    known = in_other_rows(old.consensus.estimates.mean_profiles, rows)
    similarity_NO = similarities_to_known(tuple(new.mean(mode) for mode in range(len(rows))), known, 0.0)
    of_old = old.origins
    pairs = {place: of_old[origin] for origin, place in new.origins.items() if origin in of_old}
    left_N = np.setdiff1d(np.arange(len(new.consensus.share)), list(pairs))
    left_O = np.setdiff1d(np.arange(len(old.consensus.share)), list(pairs.values()))
    one, other = match_similar(similarity_NO[np.ix_(left_N, left_O)], HOLDS)
    pairs |= dict(zip(left_N[one].tolist(), left_O[other].tolist(), strict=True))
    gained = [place for place in left_N.tolist() if place not in pairs]
    lost = [place for place in left_O.tolist() if place not in pairs.values()]
    found = [_Pair(o, n, float(similarity_NO[n, o])) for n, o in pairs.items()]
    found += [_Pair(None, n, float(similarity_NO[n].max(initial=0.0))) for n in gained]
    found += [_Pair(o, None, float(similarity_NO[:, o].max(initial=0.0))) for o in lost]

    def size(pair: _Pair) -> float:
        parts = ((old, pair.old), (new, pair.new))
        return max(float(run.consensus.share[place]) for run, place in parts if place is not None)

    return sorted(found, key=size, reverse=True)


def _columns(names: tuple[str, ...], common: list[_Rows]) -> list[str]:
    moved = [_moved_in(name) for name in names]
    fresh = [_new_in(name) for name, rows in zip(names, common, strict=True) if len(rows.only_new)]
    return [*_OF_CLASSES, *moved, *fresh]


def _moved_in(mode_name: str) -> str:
    return free_name(f"{mode_name}_moved", _OF_CLASSES)


def _new_in(mode_name: str) -> str:
    return free_name(f"{mode_name}_new", _OF_CLASSES)


def _row(old: _Run, new: _Run, pair: _Pair, names: tuple[str, ...], common: list[_Rows]) -> dict[str, Any]:
    values: dict[str, Any] = {"similarity": pair.similarity}
    draws = []
    for when, run, place in (("old", old, pair.old), ("new", new, pair.new)):
        found = run.consensus
        values[when] = pd.NA if place is None else int(found.numbers[place])
        values[f"share_{when}"] = 0.0 if place is None else float(found.share[place])
        values[f"support_{when}"] = 0.0 if place is None else float(found.support[place])
        draws.append(np.zeros(found.shares_by_draw.shape[:2]) if place is None else found.shares_by_draw[..., place])
        if place is not None:
            values["name"] = found.names[place]
    values["difference"] = values["share_new"] - values["share_old"]
    values["low"], values["high"] = _interval(*draws)
    values["change"] = _change(old, new, pair, values)
    if pair.new is not None:
        for mode, name in enumerate(names):
            of_class_D = new.mean(mode)[:, pair.new]
            values[_new_in(name)] = float(of_class_D[common[mode].only_new].sum())
            if pair.old is not None:
                before = _InCommon.of(old, pair.old, mode, common[mode].old)
                after = _InCommon.of(new, pair.new, mode, common[mode].new)
                values[_moved_in(name)] = float(np.abs(after.share_R - before.share_R).sum() / 2.0)
    return values


def _interval(old: Floats, new: Floats) -> tuple[float, float]:
    """The interval of the difference between two shares, each (chain, draw)."""
    least = min(len(old), len(new))
    if least == 1:
        levels = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
        differences = np.quantile(new, levels)[:, None] - np.quantile(old, levels)
        low, high = np.quantile(differences, _INTERVAL).tolist()
        return low, high
    old_C, new_C = old.mean(axis=1), new.mean(axis=1)
    if len(old) == len(new):
        variance = (new_C - old_C).var(ddof=1) / least
    else:
        variance = old_C.var(ddof=1) / len(old_C) + new_C.var(ddof=1) / len(new_C)
    middle, half = new_C.mean() - old_C.mean(), float(stdtrit(least - 1, _INTERVAL[1])) * math.sqrt(variance)
    return float(middle - half), float(middle + half)


def _change(old: _Run, new: _Run, pair: _Pair, values: dict[str, Any]) -> str:
    if _weak(old, pair.old) and _weak(new, pair.new):
        return ""
    if pair.old is None:
        return "gained"
    if pair.new is None:
        return "lost"
    if values["low"] <= 0.0 <= values["high"]:
        return ""
    if abs(values["difference"]) < _GROWN * max(values["share_old"], values["share_new"]):
        return ""
    return "grown" if values["difference"] > 0.0 else "shrunk"


def _weak(run: _Run, place: int | None) -> bool:
    """Whether a class is small or weakly supported, or not in the run at all."""
    return place is None or bool(run.consensus.summary.apart_C[place])


class _InCommon(NamedTuple):
    """The shares of labels in a class of one run, among the rows that both runs have, with their intervals."""

    share_R: Floats
    low_R: Floats
    high_R: Floats

    @classmethod
    def of(cls, run: _Run, place: int, mode: int, rows: Ints) -> "_InCommon":
        band = run.consensus.estimates.profiles[run.modes[mode]]
        total = max(float(band.mean[rows, place].sum()), np.finfo(float).tiny)
        return cls(*(part[rows, place].astype(np.float64) / total for part in (band.mean, band.low, band.high)))


class _Moved(NamedTuple):
    """The clear changes of labels in a class of the new run: the label, and its shares in both runs."""

    place: int
    mode: int
    labels: tuple[tuple[str, float, float], ...]


def _moved_labels(old: _Run, new: _Run, pair: _Pair, common: list[_Rows]) -> Iterator[_Moved]:
    if pair.old is None or pair.new is None or _weak(old, pair.old) or _weak(new, pair.new):
        return
    for mode, rows in enumerate(common):
        before, after = _InCommon.of(old, pair.old, mode, rows.old), _InCommon.of(new, pair.new, mode, rows.new)
        apart_R = (after.high_R < before.low_R) | (after.low_R > before.high_R)
        size_R = np.abs(after.share_R - before.share_R)
        changed = np.flatnonzero(apart_R & (size_R >= _LABEL))
        changed = changed[np.argsort(-size_R[changed], kind="stable")]
        if len(changed):
            labels = (str(new.labels[mode][row]) for row in rows.new[changed].tolist())
            shares = before.share_R[changed].tolist(), after.share_R[changed].tolist()
            yield _Moved(pair.new, mode, tuple(zip(labels, *shares, strict=True)))


def _findings(new: _Run, table: pd.DataFrame, moved: list[_Moved], common: list[_Rows]) -> Iterator[Finding]:
    change, in_both = table["change"], table["old"].notna() & table["new"].notna()
    counts = {kind: int((change == kind).sum()) for kind in _KINDS}
    weak = {f"weak_{when}": int((table[other].isna() & (change == "")).sum()) for when, other in _ONLY.items()}
    covered = {when: float(table.loc[in_both, f"share_{when}"].sum()) for when in ("old", "new")}
    yield Finding("diff", values={"both": int(in_both.sum()), **covered, **counts, **weak})
    for row in table[change != ""].to_dict("records"):
        number = row["old"] if row["change"] == "lost" else row["new"]
        numbers = {"low": row["low"], "high": row["high"]} if row["change"] in ("grown", "shrunk") else {}
        share = {"old": row["share_old"], "new": row["share_new"]}
        yield Finding(_KINDS[row["change"]], values={"number": int(number), "name": row["name"], **share, **numbers})
    modes = [new.consensus.summary.modes[mode] for mode in new.modes]
    for place, mode, labels in moved:
        kind = "class-moved-in-time" if modes[mode].kind == "time" else "class-labels"
        yield Finding(kind, values={**new.words(place), "mode": modes[mode].name, "labels": labels})
    for mode, rows in enumerate(common):
        if len(rows.only_new):
            yield from _in_new_rows(new, mode, modes[mode].name, rows.only_new)


_ONLY = {"new": "old", "old": "new"}


def _in_new_rows(new: _Run, mode: int, name: str, rows: Ints) -> Iterator[Finding]:
    """The classes with clearly more, or clearly less, in new rows than all classes together."""
    summary, band = new.consensus.summary, new.consensus.estimates.profiles[new.modes[mode]]
    share_C = band.mean[rows].sum(axis=0)
    low_C, high_C = (each[rows].sum(axis=0, dtype=np.float64) for each in (band.low, band.high))
    high_C = np.minimum(high_C, 1.0)
    every = float(share_C @ summary.share_C / max(float(summary.share_C.sum()), np.finfo(float).tiny))
    more_C = (low_C > every) & (share_C >= _IN_NEW_ROWS * every)
    less_C = (high_C < every) & (share_C * _IN_NEW_ROWS <= every)
    labels = tuple(str(new.labels[mode][row]) for row in rows.tolist())
    for place in np.flatnonzero((more_C | less_C) & ~summary.apart_C).tolist():
        shares = {"share": float(share_C[place]), "low": float(low_C[place]), "high": float(high_C[place])}
        values = {**new.words(place), "mode": name, "labels": labels, **shares, "every": every}
        yield Finding("class-in-new-labels", values=values)
