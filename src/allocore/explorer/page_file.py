"""Write the page: HTML, style, scripts, libraries, map and data in one file."""

from __future__ import annotations

import json
import os
import re
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allocore._files import replacing
from allocore.errors import InputError, whole_number
from allocore.explorer.bundle import bundle
from allocore.explorer.payload import payload
from allocore.posterior.fitted import Fitted, as_posterior

if TYPE_CHECKING:
    from allocore.posterior.posterior import ShownDraw

_LIBRARIES = ("d3.js", "plot.js", "topojson.js")
_START = "app.js"
_DEFAULT = "report.html"
_SLOT = re.compile(r"\{\{(\w+)\}\}")


def write_report(
    posterior: Fitted,
    path: str | os.PathLike[str] | None = None,
    *,
    title: str | None = None,
    draw: ShownDraw = None,
    chain: int | None = None,
    surprises: int = 50,
) -> Path:
    """Write a run as one HTML page that opens in any browser and needs no network.

    The page shows what all draws have in common, the consensus, with intervals and with the support of every class: the
    classes with search, maps, charts and top cells, the factors that classes share, classes side by side, the health of
    the chains, and the cells that the model expected least. On request it shows a single draw, and names it.

    Parameters
    ----------
    posterior : Posterior, fitted model or path
        The posterior of a fitted model or of `allocore.open_run`, the model itself, or the folder of a run.
    path : str or path, default: report.html
        The file to write. Missing folders are made; an existing file is replaced. If no path is given, the file is
        report.html in the current folder, and a line on the screen says so.
    title : str, optional
        The title of the page; by default the names of the modes.
    draw, chain : int or "best", optional
        The draw and the chain to show; negative numbers count from the end, "best" is the draw with the highest log
        joint density. By default the consensus, if there are several draws.
    surprises : int, default: 50
        How many of the least expected cells to list; 0 leaves the list out.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    InputError
        If `path` is a folder, the run has no draws, or an argument is out of range. Nothing is written then.

    Examples
    --------
    >>> import allocore as ac, tempfile, pathlib
    >>> model = ac.AlloCore(budget=5, burn_in=5, draws=4, thin=1, seed=0).fit(ac.load_flights())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = ac.write_report(model, pathlib.Path(folder) / "report.html", title="Flights")
    ...     "<title>Flights</title>" in page.read_text(encoding="utf-8")
    True
    """
    posterior, target = as_posterior(posterior, "posterior"), Path(_DEFAULT if path is None else path)
    if target.is_dir():
        raise InputError(f"path is {str(target)!r}, but it must be a file such as report.html, and this is a folder")
    surprises = whole_number("surprises", surprises, least=0)
    title = " x ".join(posterior.tensor.mode_names) if title is None else str(title)
    posterior.class_summary(draw, chain=chain)  # refuses a draw that does not exist before the longer work
    found = posterior.surprises(top=surprises) if surprises else None
    page = render(payload(posterior, title, draw=draw, chain=chain, surprises=found))
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as file:
        file.write(page.encode("utf-8"))
    if path is None:
        print(f"Report written to {target.resolve()}: open it in a browser")
    return target


def render(values: dict[str, Any]) -> str:
    """The page as text."""
    parts = {
        "title": escape(values["title"]),
        "style": _read("page", "style.css"),
        "libraries": "\n".join(_script(_read("assets", name)) for name in _LIBRARIES),
        "licences": escape(_read("assets", "LICENSES.txt")),
        "data": _json(values),
        "world": _read("assets", "world.json") if any(mode["iso"] for mode in values["modes"]) else "null",
        "scripts": _script(bundle(modules(), _START)),
    }
    return _SLOT.sub(lambda slot: parts[slot[1]], _read("page", "page.html"))


def modules() -> dict[str, str]:
    """The page's own JavaScript: the text of each module by its file name."""
    folder = files("allocore.explorer") / "page"
    found = sorted(each.name for each in folder.iterdir() if each.name.endswith(".js"))
    return {name: _read("page", name) for name in found}


def _read(folder: str, name: str) -> str:
    return (files("allocore.explorer") / folder / name).read_text(encoding="utf-8")


def _script(text: str) -> str:
    return f"<script>{text}</script>"


def _json(values: dict[str, Any]) -> str:
    """JSON that cannot end the element around it, whatever the labels are."""
    text = json.dumps(values, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return (
        text.replace("&", "\\u0026").replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    )
