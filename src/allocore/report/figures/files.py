"""All figures of a run as files in a folder. A file is complete or does not exist."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from allocore._io import replacing
from allocore.classes.summary import ShownDraw
from allocore.errors import NO_VALUE, InputError, whole_number
from allocore.report.figures import style
from allocore.report.figures.classes import classes, classes_on_page
from allocore.report.figures.core_map import core
from allocore.report.figures.heat_map import factors
from allocore.report.figures.held_out import calibration
from allocore.report.figures.run import effective_shape, mass, traces
from allocore.report.figures.style import Figure
from allocore.report.fit import Fit, shown_summary

# The metadata of each format. Without dates the same figure gives the same file.
_FORMATS: dict[str, dict[str, None]] = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
_DPI = 200
_LONGEST_NAME = 60
_Figure = tuple[str, Callable[[], Figure]]


def write_all(
    post: Fit,
    folder: str | os.PathLike[str],
    *,
    formats: Sequence[str] = ("png", "pdf", "svg"),
    rows: int = 24,
    on_page: int | None = None,
    draw: ShownDraw = None,
    chain: int | None = None,
    progress: Callable[[Path], None] | None = None,
) -> list[Path]:
    """Write all figures of a run into a folder. The folder is created if it does not exist; old files are replaced.

    `classes-1`, `classes-2` and so on are pages of the largest classes, with small or weakly supported ones last.
    `core` shows where they lie, `factors-<mode>` the factors of a mode, `mass` how much the largest classes have;
    `effective-shape` and `traces` describe the run. If the run has held-out cells, `calibration` shows whether its
    intervals are right. A run without draws has only `traces`.

    Parameters
    ----------
    post : Posterior, fitted model or path
        A posterior, a fitted model, or the folder of a run.
    folder : str or path
        The folder for the files.
    formats : sequence of str, default: png, pdf and svg
        The formats to write.
    rows : int, default: 24
        How many of the largest classes to draw as stems.
    on_page : int, optional
        How many of these classes to put on a page; by default six, or fewer if their modes need several lines.
    draw, chain : int or "best", optional
        The draw and the chain to show, as in `Posterior.classes`. By default the consensus, if there are several draws.
    progress : callable, optional
        Called with the path of each file after it was written.

    Returns
    -------
    list of pathlib.Path
        The files in the order of the figures.

    Examples
    --------
    >>> import allocore as ac, numpy as np, tempfile
    >>> post = ac.AlloCore(budget=2, burn_in=5, draws=2, thin=1, seed=0).fit(np.diag([3, 2])).posterior_
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = ac.figures.write_all(post, folder, formats=["svg"])
    >>> [file.name for file in files][:3]
    ['classes-1.svg', 'core.svg', 'factors-mode-0.svg']
    """
    chosen = _check_formats(formats)
    rows, on_page = whole_number("rows", rows), None if on_page is None else whole_number("on_page", on_page)
    if post.core_values.shape[1]:
        # Raises an error if the draw does not exist, before anything is written.
        shown_summary(post, draw, chain)
    elif not post.stats["moved"].shape[1]:
        raise InputError("post", NO_VALUE, "has no sweeps yet: there is nothing to draw")
    place = _make_folder(Path(folder))
    written = []
    for name, make in _figures(post, rows, on_page, draw, chain):
        for file in write_figure(make(), place / name, chosen):
            written.append(file)
            if progress:
                progress(file)
    return written


def _check_formats(formats: Sequence[str]) -> list[str]:
    given = [formats] if isinstance(formats, str) else list(formats)
    if not given or not set(given) <= set(_FORMATS):
        raise InputError("formats", formats, f"must have one or more of {', '.join(_FORMATS)}")
    return list(dict.fromkeys(given))


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InputError("folder", str(folder), "must be a folder, and there is a file in its place") from None
    return folder


def _figures(post: Fit, rows: int, on_page: int | None, draw: ShownDraw, chain: int | None) -> Iterator[_Figure]:
    """The names of the figures, and how each is made."""
    if post.core_values.shape[1]:
        summary = shown_summary(post, draw, chain)
        places = summary.apart_last[:rows]
        numbers, on_page = summary.number_C[places].tolist(), on_page or classes_on_page(summary, places.tolist())
        for page, first in enumerate(range(0, len(numbers), on_page), start=1):
            shown = numbers[first : first + on_page]
            yield f"classes-{page}", partial(classes, post, shown, draw=draw, chain=chain)
        yield "core", partial(core, post, draw=draw, chain=chain)
        for mode, name in enumerate(file_names(post.tensor.mode_names)):
            yield f"factors-{name}", partial(factors, post, mode, draw=draw, chain=chain)
        yield "mass", partial(mass, post, draw=draw, chain=chain)
        yield "effective-shape", partial(effective_shape, post)
        if post.held_out is not None:
            yield "calibration", partial(calibration, post)
    yield "traces", partial(traces, post)


def file_names(names: Sequence[str]) -> list[str]:
    """The names of modes as parts of file names: letters, digits and dashes, all different even if case is ignored.

    Examples
    --------
    >>> file_names(["sender", "a/b", "A b", "../x", "\u2205"])
    ['sender', 'a-b', 'A-b-2', 'x', 'mode-4']
    """
    found: list[str] = []
    taken: set[str] = set()
    for place, name in enumerate(names):
        plain = re.sub(r"[\W_]+", "-", name)[:_LONGEST_NAME].strip("-") or f"mode-{place}"
        if plain.casefold() in taken:
            plain = f"{plain}-{place}"
        taken.add(plain.casefold())
        found.append(plain)
    return found


def write_figure(figure: Figure, target: Path, formats: Sequence[str]) -> Iterator[Path]:
    """Write a figure in each format, to `target` with a suffix, and yield each file once it exists."""
    for kind in formats:
        file = target.with_name(f"{target.name}.{kind}")
        with style.look(), replacing(file) as stream:
            figure.savefig(stream, format=kind, dpi=_DPI, metadata=_FORMATS[kind] or None)
        yield file
