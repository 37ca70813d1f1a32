"""A posterior or a consensus in a notebook: a heading and a small table of classes. Labels and names are escaped."""

from html import escape

from allocore.posterior.class_summary import ClassSummary
from allocore.posterior.class_words import APART, profile_words, share_words, sharers, support_brief, support_heading
from allocore.posterior.consensus.consensus import Consensus
from allocore.posterior.lagging_chains import behind_sentence, chains_behind
from allocore.posterior.likelihood_words import learned_sentences
from allocore.posterior.posterior import Posterior

_ROWS = 8
_TOP = 2
_SHARERS = 3  # a factor of all months may be shared by dozens of classes, which would fill the page
_CELL = "text-align:left;vertical-align:top"


def posterior_html(posterior: Posterior) -> str:
    """Return the summary and the largest classes as HTML: the consensus, if there are several draws."""
    heading = f"<p><b>{escape(repr(posterior))}</b><br>{escape(repr(posterior.tensor))}"
    if not posterior.finished:
        heading += "<br>The run is not finished."
    if not posterior.core_values.shape[1]:
        return f"{heading}<br>It has no draws yet.</p>"
    summary = posterior.class_summary()
    behind = chains_behind(posterior.record)
    lagging = [] if behind is None else [behind_sentence(behind)]
    told = " ".join([summary.sentences, *learned_sentences(posterior.record), *lagging])
    return f"{heading}<br>{escape(told)}</p>{_table(summary, '.show()')}"


def consensus_html(consensus: Consensus) -> str:
    """Return the largest consensus classes as HTML."""
    heading = f"<p><b>{escape(repr(consensus))}</b><br>{escape(consensus.words)}</p>"
    return f"{heading}{_table(consensus.summary, '.classes()')}"


def _table(summary: ClassSummary, more: str) -> str:
    """The largest classes in rows, those that are small or weakly supported last, below a line of their own."""
    places = summary.apart_last[:_ROWS].tolist()
    if not places:
        return ""
    support = support_heading(summary)
    names = ["class", "share", *([support] if support else []), "name", *summary.mode_names]
    rows = [_row(summary, place) for place in places]
    strong = sum(not summary.apart_C[place] for place in places)
    if strong < len(places):
        rows.insert(strong, f"<tr><td style='{_CELL}' colspan='{len(names)}'><i>{APART}</i></td></tr>")
    heads = "".join(f"<th style='{_CELL}'>{escape(name)}</th>" for name in names)
    caption = f"<caption>{escape(summary.source[0].upper() + summary.source[1:])}</caption>"
    left = len(summary.number_C) - len(places)
    rest = f"<p>and {left} more classes: <code>{more}</code></p>" if left > 0 else ""
    return f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>{rest}"


def _row(summary: ClassSummary, place: int) -> str:
    cells = [str(summary.number_C[place]), share_words(summary, place)]
    if support_heading(summary):
        cells.append(support_brief(summary, place))
    cells.append(summary.names[place])
    for mode in range(len(summary.modes)):
        shared = sharers(summary, place, mode)
        words = profile_words(summary.profile(place, mode), _TOP)
        cells.append(f"{words}, shared with {_named(shared)}" if shared else words)
    return "<tr>" + "".join(f"<td style='{_CELL}'><bdi>{escape(cell)}</bdi></td>" for cell in cells) + "</tr>"


def _named(shared: list[str]) -> str:
    """The classes that share a factor: the first of them, and how many more there are."""
    more = len(shared) - _SHARERS
    return ", ".join(shared[:_SHARERS]) + (f" and {more} more" if more > 0 else "")
