"""Write the page: HTML, style, scripts, libraries, map and data in one file, without a build tool.

Browsers do not load modules from `file://`, and the security policy of the page forbids scripts from anywhere else. So
the page's own modules are joined into one script. Each becomes a function that is called once, after those it imports:

    import { make } from "./elements.js";       ->   const { make } = modules["elements.js"];
    export function panel(title) { .. }         ->   function panel(title) { .. }  ..  return { panel };

All other forms (default exports, renaming, `export let`, imports without names, cycles) are errors.
"""

import json
import os
import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from allocore._io import no_file, path_of, result_file
from allocore.classes.summary import ShownDraw
from allocore.errors import Described, InputError, whole_number
from allocore.forecast.forecast import Forecast
from allocore.report.fit import Fit
from allocore.report.page.payload import payload
from allocore.tensor.count_tensor import CountTensor
from allocore.tensor.labels import label_kind

_LIBRARIES = ("d3.js", "plot.js", "topojson.js")
_START = "app.js"
_DEFAULT = "report.html"
_HORIZON = 3
_SLOT = re.compile(r"\{\{(\w+)\}\}")
_IMPORT = re.compile(r'^import \{((?:\s*[\w$]+,)*\s*[\w$]+,?\s*)\} from "\./([\w.-]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function|function|const|class) ([\w$]+))", re.MULTILINE)
_COMMENT = re.compile(r"^\s*//.*\n", re.MULTILINE)  # lines of comments: a page need not carry them
_OTHER = re.compile(r"^(?:import|export)\b.*$|\bimport\(", re.MULTILINE)


def write_page(
    post: Fit,
    path: str | os.PathLike[str] | None = None,
    *,
    title: str | None = None,
    draw: ShownDraw = None,
    chain: int | None = None,
    surprises: int = 50,
    horizon: int | None = None,
    exposure: object = None,
) -> Path:
    """Write the page of a posterior: see `allocore.write_report`."""
    target = path_of(_DEFAULT if path is None else path)
    if kind := no_file(target):
        raise InputError("path", str(target), f"must be a file such as report.html, not {kind}")
    surprises = whole_number("surprises", surprises, least=0)
    if title is not None and not isinstance(title, str):
        raise InputError("title", title, "must be a text or None")
    title = default_title(post.record.tensor) if title is None else title
    post.class_summary(draw, chain=chain)  # raises an error if the draw does not exist, before the longer work
    found = post.surprises(top=surprises) if surprises else None
    future = _forecast(post, horizon, exposure)
    page = render(payload(post, title, draw=draw, chain=chain, surprises=found, forecast=future))
    target.parent.mkdir(parents=True, exist_ok=True)
    with result_file(target) as file:
        file.write(page.encode("utf-8"))
    if path is None:
        print(f"Report written to {target.resolve()}: open it in a browser")
    return target


def _forecast(post: Fit, horizon: int | None, exposure: object) -> Forecast | None:
    """A forecast of this many periods; without a number, of a few if the run has a time that can be continued."""
    if horizon == 0 and exposure is not None:
        raise InputError("exposure", Described("given"), "must be left out if `horizon` is 0")
    if horizon is not None or exposure is not None:
        periods = _HORIZON if horizon is None else whole_number("horizon", horizon, least=0)
        return post.forecast(periods, exposure=exposure) if periods else None
    try:
        return post.forecast(_HORIZON) if post.record.core_values.shape[1] else None
    except InputError:
        return None


def default_title(tensor: CountTensor) -> str:
    """Return what was counted, by which modes, and when: "ICEWS events by source and month, 2018-01 to 2019-12"."""
    names, report = tensor.mode_names, tensor.report
    counted = "Counts" if report is None else "Events"
    if report is not None and report.format != "custom":
        counted = f"{report.format.upper()} events"
    times = [labels for labels in tensor.labels if label_kind(labels) == "time"]
    span = f", {times[0][0]} to {times[0][-1]}" if len(times) == 1 and len(times[0]) > 1 else ""
    return f"{counted} by {', '.join(names[:-1])} and {names[-1]}{span}"


def render(values: dict[str, Any]) -> str:
    """Return the page as text."""
    # No label can end the element that the data are in.
    data = json.dumps(values, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character in "&<\u2028\u2029":
        data = data.replace(character, f"\\u{ord(character):04x}")
    parts = {
        "title": escape(values["title"]),
        "style": _read("client", "style.css"),
        "libraries": "\n".join(f"<script>{_read('assets', name)}</script>" for name in _LIBRARIES),
        "licences": escape(_read("assets", "LICENSES.txt")),
        "data": data,
        "world": _read("assets", "world.json") if any(mode["iso"] for mode in values["modes"]) else "null",
        "scripts": f"<script>{bundle(modules(), _START)}</script>",
    }
    return _SLOT.sub(lambda slot: parts[slot[1]], _read("client", "page.html"))


def modules() -> dict[str, str]:
    """Return the page's own JavaScript: the text of each module by its file name."""
    folder = files("allocore.report.page") / "client"
    found = sorted(each.name for each in folder.iterdir() if each.name.endswith(".js"))
    return {name: _read("client", name) for name in found}


def _read(folder: str, name: str) -> str:
    return (files("allocore.report.page") / folder / name).read_text(encoding="utf-8")


def bundle(sources: Mapping[str, str], entry: str) -> str:
    """Join the modules that `entry` needs into one classic script. Raises `ValueError` if that is not possible."""
    order: list[str] = []
    _visit(sources, entry, (), order)
    parts = [_as_function(sources, name) for name in order]
    return "\n".join(["(() => {", '"use strict";', "const modules = {};", *parts, "})();"])


def _visit(sources: Mapping[str, str], name: str, path: tuple[str, ...], order: list[str]) -> None:
    """Append a module to `order`, after all modules that it imports."""
    if name in path:
        raise ValueError(f"modules import one another in a cycle: {' -> '.join((*path, name))}")
    if name in order:
        return
    if name not in sources:
        raise ValueError(f"{path[-1] if path else 'the page'} needs {name}, but there is no such module")
    for match in _IMPORT.finditer(sources[name]):
        _visit(sources, match[2], (*path, name), order)
    order.append(name)


def _as_function(sources: Mapping[str, str], name: str) -> str:
    def import_names(match: re.Match[str]) -> str:
        names = [each.strip() for each in match[1].split(",") if each.strip()]
        unknown = sorted(set(names) - set(_EXPORT.findall(sources[match[2]])))
        if unknown:
            raise ValueError(f"{name} imports {unknown[0]} from {match[2]}, which does not export it")
        return f'const {{ {", ".join(names)} }} = modules["{match[2]}"];'

    exported = _EXPORT.findall(sources[name])
    text = _COMMENT.sub("", _EXPORT.sub("", _IMPORT.sub(import_names, sources[name]))).strip()
    other = _OTHER.search(text)
    if other:
        raise ValueError(f"{name} has {other[0]!r}, a form of import or export that is not supported")
    return f'modules["{name}"] = (() => {{\n{text}\nreturn {{ {", ".join(exported)} }};\n}})();'
