"""A motif: a pattern of classes that recurs between different parties, with the classes of each pair as stems."""

from typing import Unpack, overload

from matplotlib.axes import Axes

from allocore.classes.motifs import Motif, find_motifs
from allocore.classes.networks import Modes
from allocore.classes.summary import ClassSummary, ShownDraw
from allocore.errors import InputError, whole_number
from allocore.report.figures import style
from allocore.report.figures.classes import THRESHOLD, class_page
from allocore.report.figures.style import Figure
from allocore.report.fit import Fit, shown_summary

_PAIRS, _TOP = 2, 5


class _Pattern(style.Shown, total=False):
    modes: Modes
    most: int
    top: int
    threshold: float


@overload
def motif(post: Fit, number: int = 0, ax: None = None, **how: Unpack[_Pattern]) -> Figure: ...
@overload
def motif(post: Fit, number: int, ax: Axes, **how: Unpack[_Pattern]) -> Axes: ...
@overload
def motif(post: Fit, number: int = 0, *, ax: Axes, **how: Unpack[_Pattern]) -> Axes: ...
def motif(
    post: Fit,
    number: int = 0,
    ax: Axes | None = None,
    *,
    modes: Modes = None,
    most: int = _PAIRS,
    top: int = _TOP,
    threshold: float = THRESHOLD,
    draw: ShownDraw = None,
    chain: int | None = None,
) -> Figure | Axes:
    """Draw a motif: for each pair of parties that has it, the classes of the pattern, each as `one_class` does.

    A motif is a pattern such as "a fights b, b protests" that recurs between different parties, as in
    `Consensus.motifs`. Headings name the parties; below them are the classes in the order of the pattern. The panels
    are one per mode for the first class, then for the second, and so on.

    Parameters
    ----------
    number : int, default: 0
        The number of the motif, as in `post.consensus().motifs()`; 0 is the least probable by chance.
    modes : sequence of two str or int, optional
        The two modes of the actors, by name or number; by default those with the same labels.
    most : int, default: 2
        The largest number of pairs of parties to show: those whose classes are largest.
    top, threshold : optional
        As in `one_class`.

    Examples
    --------
    >>> import allocore as ac
    >>> post = ac.AlloCore(budget=5, burn_in=5, draws=2, thin=1, chains=1, seed=0).fit(ac.load_flights()).posterior_
    >>> ac.figures.motif(post, 99, modes=["origin", "destination"])
    Traceback (most recent call last):
    allocore.errors.InputError: number is 99, but it must be the number of a motif: there ...
    """
    summary, most = shown_summary(post, draw, chain), whole_number("most", most)
    found = find_motifs(summary, modes)
    number = whole_number("number", number, least=0)
    if number >= len(found):
        raise InputError("number", number, f"must be the number of a motif: there are {len(found)}, numbered from 0")
    chosen, places = found[number], list[int]()
    sections = {}
    for each in chosen.occurrences[:most]:
        arrows = ", ".join(arrow for arrow, _ in chosen.roles)
        sections[len(places)] = f"a: {each.a}  ·  " + f"b: {each.b}  ·  " * (each.b != "") + arrows
        places += each.places
    return class_page(summary, places, sections, ax, top, threshold, _caption(summary, chosen, len(sections)))


def _caption(summary: ClassSummary, motif: Motif, shown: int) -> str:
    number = len(motif.occurrences)
    which = f"{shown} of its {number} pairs of parties" if shown < number else f"its {number} pairs of parties"
    return (
        f"A pattern that recurs in the {summary.source}: {motif.words}. {motif.expected:.1f} pairs would have it by "
        f"chance (p = {motif.p:.3f}, adjusted for all patterns). The classes of {which}, each mode as stems of the "
        "share of each label."
    )
