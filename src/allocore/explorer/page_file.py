"""Putting the page together: our own HTML, style and scripts, the libraries, the map and the data in one file."""

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

if TYPE_CHECKING:
    from allocore.posterior.posterior import Posterior

_LIBRARIES = ("d3.js", "plot.js", "topojson.js")
_START = "app.js"
_SLOT = re.compile(r"\{\{(\w+)\}\}")


def write_report(
    posterior: Posterior,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    draw: int = -1,
    chain: int = 0,
    surprises: int = 50,
) -> Path:
    """Write a run as one page of HTML that opens in any browser, without a network.

    Parameters
    ----------
    posterior
        The posterior of a fitted model, or of `ac.open_run`.
    path
        The file to write; one that exists is replaced.
    title
        The heading of the page; by default the modes of the tensor.
    draw, chain
        The draw whose classes are shown; by default the last one of the first chain.
    surprises
        How many of the least expected cells to list; 0 leaves them out.

    Examples
    --------
    >>> import allocore as ac, tempfile, pathlib
    >>> from allocore.explorer.page_file import write_report
    >>> post = ac.AlloCore(budget=5, burn_in=20, draws=4, thin=1, seed=0).fit(ac.load_flights()).posterior_
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_report(post, pathlib.Path(folder) / "report.html", title="Flights")
    ...     "<title>Flights</title>" in page.read_text(encoding="utf-8")
    True
    """
    target = Path(path)
    if target.is_dir():
        raise InputError(f"path is {str(target)!r}, but that is a folder: name a file, such as report.html")
    surprises = whole_number("surprises", surprises, least=0)
    title = " x ".join(posterior.tensor.mode_names) if title is None else str(title)
    posterior.portrait(draw, chain=chain)  # which refuses a draw that there is not, before the longer work
    found = posterior.surprises(top=surprises) if surprises else None
    page = render(payload(posterior, title, draw=draw, chain=chain, surprises=found))
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as file:
        file.write(page.encode("utf-8"))
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
    """JSON that cannot end the element it stands in, whatever the labels are."""
    text = json.dumps(values, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return (
        text.replace("&", "\\u0026").replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    )
