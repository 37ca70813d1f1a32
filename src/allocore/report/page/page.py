"""Write the page: HTML, style, scripts, libraries, map and data in one file."""

import json
import os
import re
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from allocore._io import replacing
from allocore.classes.summary import ShownDraw
from allocore.errors import InputError, whole_number
from allocore.report.fit import Fit
from allocore.report.page.bundle import bundle
from allocore.report.page.payload import payload

_LIBRARIES = ("d3.js", "plot.js", "topojson.js")
_START = "app.js"
_DEFAULT = "report.html"
_SLOT = re.compile(r"\{\{(\w+)\}\}")


def write_page(
    post: Fit,
    path: str | os.PathLike[str] | None = None,
    *,
    title: str | None = None,
    draw: ShownDraw = None,
    chain: int | None = None,
    surprises: int = 50,
) -> Path:
    """Write the page of a posterior: see `allocore.write_report`."""
    target = Path(_DEFAULT if path is None else path)
    if target.is_dir():
        raise InputError("path", str(target), "must be a file such as report.html, not a folder")
    surprises = whole_number("surprises", surprises, least=0)
    title = " x ".join(post.tensor.mode_names) if title is None else str(title)
    post.class_summary(draw, chain=chain)  # raises an error if the draw does not exist, before the longer work
    found = post.surprises(top=surprises) if surprises else None
    page = render(payload(post, title, draw=draw, chain=chain, surprises=found))
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
        "style": _read("client", "style.css"),
        "libraries": "\n".join(_script(_read("assets", name)) for name in _LIBRARIES),
        "licences": escape(_read("assets", "LICENSES.txt")),
        "data": _json(values),
        "world": _read("assets", "world.json") if any(mode["iso"] for mode in values["modes"]) else "null",
        "scripts": _script(bundle(modules(), _START)),
    }
    return _SLOT.sub(lambda slot: parts[slot[1]], _read("client", "page.html"))


def modules() -> dict[str, str]:
    """The page's own JavaScript: the text of each module by its file name."""
    folder = files("allocore.report.page") / "client"
    found = sorted(each.name for each in folder.iterdir() if each.name.endswith(".js"))
    return {name: _read("client", name) for name in found}


def _read(folder: str, name: str) -> str:
    return (files("allocore.report.page") / folder / name).read_text(encoding="utf-8")


def _script(text: str) -> str:
    return f"<script>{text}</script>"


def _json(values: dict[str, Any]) -> str:
    """JSON that cannot end the element around it, whatever the labels are."""
    text = json.dumps(values, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return (
        text.replace("&", "\\u0026").replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    )
