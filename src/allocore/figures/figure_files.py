"""All figures of a run as files in a folder, each whole or not there."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from matplotlib.axes import Axes

from allocore._files import replacing
from allocore.errors import InputError, whole_number
from allocore.figures import style
from allocore.figures.class_pages import classes
from allocore.figures.core_map import core
from allocore.figures.heat_map import factors
from allocore.figures.run_lines import traces
from allocore.figures.sizes import effective_shape, mass
from allocore.posterior.posterior import Posterior

# What a format is told; without dates the same figure gives the same file.
_FORMATS: dict[str, dict[str, None]] = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
_DPI = 200
_LONGEST_NAME = 60
_Figure = tuple[str, Callable[[], Axes]]


def write_all(
    post: Posterior,
    folder: str | os.PathLike[str],
    *,
    formats: Sequence[str] = ("png", "pdf", "svg"),
    rows: int = 24,
    on_page: int = 6,
    draw: int = -1,
    chain: int = 0,
    progress: Callable[[Path], None] | None = None,
) -> list[Path]:
    """Write all figures of a run into a folder, which is made if need be; files of the same names are replaced.

    `classes-1`, `classes-2`, .. are pages of the largest classes, `core` is where they lie, `factors-<mode>` are the
    factors in use of a mode, `mass` is how few classes hold most, `effective-shape` and `traces` are about the run. A
    run that has no draws yet has its traces only.

    Parameters
    ----------
    post
        The posterior.
    folder
        Where the files go.
    formats
        Any of png, pdf, svg.
    rows, on_page
        How many of the largest classes are drawn as stems, and how many on a page.
    draw, chain
        The draw to show, where a figure shows one.
    progress
        Called with every file that is written.

    Returns
    -------
    The files, in the order of the figures.

    Examples
    --------
    >>> import allocore as ac, tempfile
    >>> from allocore import figures
    >>> post = ac.AlloCore(budget=5, burn_in=20, draws=2, thin=1, seed=0).fit(ac.load_flights()).posterior_
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = figures.write_all(post, folder, formats=["svg"])
    >>> [file.name for file in files][:3]
    ['classes-1.svg', 'core.svg', 'factors-origin.svg']
    """
    chosen = _check_formats(formats)
    rows, on_page = whole_number("rows", rows), whole_number("on_page", on_page)
    if post.core_values.shape[1]:
        # Names the draw that does not exist before anything is written.
        post.draw_summary(draw, chain=chain)
    elif not post.stats["moved"].shape[1]:
        raise InputError("the run has no sweeps yet: there is nothing to draw")
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
    unknown = [each for each in given if each not in _FORMATS]
    if unknown or not given:
        shown = repr(unknown[0]) if unknown else "nothing"
        raise InputError(f"formats has {shown}, but it must hold some of {', '.join(_FORMATS)}")
    return list(dict.fromkeys(given))


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"folder is {str(folder)!r}, but there is a file where the folder should be") from None
    return folder


def _figures(post: Posterior, rows: int, on_page: int, draw: int, chain: int) -> Iterator[_Figure]:
    """The names of the figures, and how each is made."""
    if post.core_values.shape[1]:
        number = min(rows, len(post.draw_summary(draw, chain=chain).value_C))
        for page, first in enumerate(range(0, number, on_page), start=1):
            shown = range(first, min(first + on_page, number))
            yield f"classes-{page}", partial(classes, post, shown, draw=draw, chain=chain)
        yield "core", partial(core, post, draw=draw, chain=chain)
        for mode, name in enumerate(file_names(post.tensor.mode_names)):
            yield f"factors-{name}", partial(factors, post, mode, draw=draw, chain=chain)
        yield "mass", partial(mass, post, draw=draw, chain=chain)
        yield "effective-shape", partial(effective_shape, post)
    yield "traces", partial(traces, post)


def file_names(names: Sequence[str]) -> list[str]:
    """Names of modes as parts of file names: letters, digits and dashes, and no two alike even where case is ignored.

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


def write_figure(ax: Axes, target: Path, formats: Sequence[str]) -> Iterator[Path]:
    """Write the figure of some axes to a file for each format, `target` with a suffix; yields each when it is there."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    for kind in formats:
        file = target.with_name(f"{target.name}.{kind}")
        with style.look(), replacing(file) as stream:
            figure.savefig(stream, format=kind, dpi=_DPI, metadata=_FORMATS[kind] or None)
        yield file
