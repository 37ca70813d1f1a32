"""A posterior in a notebook: a heading and a small table of its largest classes. All labels are escaped."""

from html import escape

from allocore.posterior.class_summary import ClassSummary
from allocore.posterior.likelihood_words import learned_sentences
from allocore.posterior.posterior import Posterior

_ROWS = 8
_TOP = 2
_CELL = "text-align:left;vertical-align:top"


def posterior_html(posterior: Posterior) -> str:
    """Return the summary and the largest classes of the last draw of the first chain as HTML."""
    heading = f"<p><b>{escape(repr(posterior))}</b><br>{escape(repr(posterior.tensor))}"
    if not posterior.finished:
        heading += "<br>The run is not finished."
    if not posterior.core_values.shape[1]:
        return f"{heading}<br>It has no draws yet.</p>"
    summary = posterior.class_summary()
    rows = "".join(_row(summary, number) for number in range(min(_ROWS, len(summary.value_C))))
    names = "".join(
        f"<th style='{_CELL}'>{escape(name)}</th>" for name in ("class", "share", "stable", *summary.mode_names)
    )
    more = len(summary.value_C) - _ROWS
    rest = f"<p>and {more} smaller classes: <code>.classes()</code>, <code>.show()</code></p>" if more > 0 else ""
    return (
        f"{heading}<br>{escape(' '.join([summary.sentences, *learned_sentences(posterior.record)]))}</p>"
        f"<table><thead><tr>{names}</tr></thead><tbody>{rows}</tbody></table>{rest}"
    )


def _row(summary: ClassSummary, number: int) -> str:
    stable = summary.support.draws_C[number]
    cells = [str(number), f"{summary.share_C[number]:.1%}", f"{stable:.0%}" if stable >= 0 else ""]
    for mode in range(len(summary.modes)):
        factor = summary.factor(number, mode)
        shared = f", shared by {len(factor.classes)}" if len(factor.classes) > 1 else ""
        words = factor.peak_words(_TOP) if factor.mode.kind == "time" else factor.words(_TOP)
        cells.append(f"{words} (#{factor.number}{shared})")
    return "<tr>" + "".join(f"<td style='{_CELL}'><bdi>{escape(cell)}</bdi></td>" for cell in cells) + "</tr>"
