"""The largest classes as a table for a paper: in LaTeX, in Markdown, or in HTML that can be pasted into Word."""

import re
from collections.abc import Callable, Sequence
from html import escape
from typing import Literal, NamedTuple, get_args

from allocore._text import visible
from allocore.classes.names import APART, profile_words, share_words, support_brief, support_heading
from allocore.classes.summary import ClassSummary, ShownDraw
from allocore.errors import InputError, check_choice, whole_number
from allocore.report.fit import Fit, shown_summary

TableFormat = Literal["latex", "markdown", "html"]
_LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}  # fmt: skip
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~$&^])")
_MODES_WIDE = 0.7  # the share of the width of a LaTeX table that the columns of the modes have
_HTML_CELL = "padding:2pt 6pt;text-align:left;vertical-align:top"
_RULE = ";border-{0}:{1}pt solid black"


class _Contents(NamedTuple):
    """What every format shows: headings, the rows of the classes, how many of them are strong, and the caption."""

    headings: list[str]
    rows: list[list[str]]
    strong: int
    modes: int
    caption: str


def paper_table(
    post: Fit,
    format: TableFormat = "markdown",
    *,
    rows: int = 10,
    top: int = 3,
    caption: str | None = None,
    draw: ShownDraw = None,
    chain: int | None = None,
) -> str:
    """Return the largest classes as a table: see `allocore.paper_table`."""
    writers: dict[str, Callable[[_Contents], str]] = {"latex": _latex, "markdown": _markdown, "html": _html}
    check_choice("format", format, get_args(TableFormat))
    if caption is not None and not isinstance(caption, str):
        raise InputError("caption", caption, "must be a text or None")
    summary = shown_summary(post, draw, chain)
    contents = _contents(summary, whole_number("rows", rows), whole_number("top", top))
    return writers[format](contents if caption is None else contents._replace(caption=caption))


def _contents(summary: ClassSummary, rows: int, top: int) -> _Contents:
    places = summary.apart_last[:rows].tolist()
    support = support_heading(summary)
    cells = []
    for place in places:
        share = re.sub(r"(?<=\d)-(?=\d)", "\N{EN DASH}", share_words(summary, place))
        row = [str(summary.number_C[place]), share, *([support_brief(summary, place)] if support else [])]
        cells.append(row + [profile_words(summary.profile(place, m), top) for m in range(len(summary.modes))])
    headings = ["class", "share", *([support] if support else []), *summary.mode_names]
    strong = sum(not summary.apart_C[place] for place in places)
    return _Contents(headings, cells, strong, len(summary.modes), _caption(summary, places, support))


def _caption(summary: ClassSummary, places: Sequence[int], support: str) -> str:
    number, known = len(places), len(summary.number_C)
    which = f"The {number} classes" if number == known else f"The {number} largest of {known} classes"
    together = float(summary.share_C[list(places)].sum())
    intervals = ", with 90% intervals over the draws" if summary.is_consensus else ""
    means = {
        "chains": " Chains: how many chains have the class.",
        "draws": " Draws: the share of the draws that have the class.",
        "stable": " Stable: the share of the other draws that have a similar class.",
    }
    return (
        f"{which} of the {summary.source}, which have {together:.0%} of all {summary.counted}. Share: of all "
        f"{summary.counted}{intervals}.{means.get(support, '')} For each mode: the labels with the largest shares "
        "in the class, or its peaks over time."
    )


def _latex(found: _Contents) -> str:
    fixed = len(found.headings) - found.modes
    # The columns of the modes wrap their words.
    wide = f">{{\\raggedright\\arraybackslash}}p{{{_MODES_WIDE / found.modes:.2f}\\textwidth}}"
    rows = [" & ".join(map(_in_latex, row)) + r" \\" for row in found.rows]
    if found.strong < len(rows):
        apart = rf"\multicolumn{{{len(found.headings)}}}{{l}}{{\emph{{{APART}}}}} \\"
        rows[found.strong : found.strong] = ([r"\midrule"] if found.strong else []) + [apart]
    return "\n".join(
        [
            r"% \usepackage{array, booktabs}",
            r"\begin{table}",
            r"\centering\small",
            rf"\caption{{{_in_latex(found.caption)}}}",
            r"\label{tab:classes}",
            rf"\begin{{tabular}}{{r{'l' * (fixed - 1)}{wide * found.modes}}}",
            r"\toprule",
            " & ".join(map(_in_latex, found.headings)) + r" \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _line(text: str) -> str:
    """A text on one line, without control characters."""
    return visible(" ".join(text.split()))


def _in_latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in _line(text))


def _markdown(found: _Contents) -> str:
    rows = [list(map(_in_markdown, row)) for row in found.rows]
    if found.strong < len(rows):
        rows.insert(found.strong, ["", f"*{APART}*", *[""] * (len(found.headings) - 2)])
    lines = [list(map(_in_markdown, found.headings)), ["---:", *["---"] * (len(found.headings) - 1)], *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{table}\n\nTable: {_in_markdown(found.caption)}\n"


def _in_markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", _line(text))


def _html(found: _Contents) -> str:
    """A page with three rules, all styles in the cells: Word and LibreOffice keep them when the table is pasted."""

    def line(cells: Sequence[str], tag: str, rules: str = "") -> str:
        # Lines break only in the columns of the modes.
        whole = [";white-space:nowrap" * (place < len(cells) - found.modes) for place in range(len(cells))]
        styles = [f"{_HTML_CELL}{rules}{each}" for each in whole]
        both = zip(styles, cells, strict=True)
        return "<tr>" + "".join(f'<{tag} style="{each}">{escape(_line(cell))}</{tag}>' for each, cell in both) + "</tr>"

    bottom = _RULE.format("bottom", 1)
    rows = [line(row, "td", bottom * (row is found.rows[-1])) for row in found.rows]
    if found.strong < len(rows):
        apart = f'<td colspan="{len(found.headings)}" style="{_HTML_CELL}"><i>{APART}</i></td>'
        rows.insert(found.strong, f"<tr>{apart}</tr>")
    head = line(found.headings, "th", _RULE.format("top", 1) + _RULE.format("bottom", 0.5))
    return "\n".join(
        [
            '<!DOCTYPE html><html><head><meta charset="utf-8"><title>Classes</title></head><body>',
            f"<p><b>Table.</b> {escape(_line(found.caption))}</p>",
            '<table style="border-collapse:collapse">',
            f"<thead>{head}</thead>",
            "<tbody>",
            *rows,
            "</tbody>",
            "</table></body></html>",
            "",
        ]
    )
