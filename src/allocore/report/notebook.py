"""A posterior in a notebook: a heading and a small table of classes. Labels and names are escaped."""

from html import escape

from allocore.classes.words import classes_html
from allocore.findings import sentences
from allocore.posterior.diagnose import chains_behind
from allocore.posterior.likelihood_check import learned_findings
from allocore.report.fit import Fit


def posterior_html(posterior: Fit) -> str:
    """Return the summary and the largest classes as HTML: the consensus, if there are several draws."""
    heading = f"<p><b>{escape(repr(posterior))}</b><br>{escape(repr(posterior.tensor))}"
    if not posterior.finished:
        heading += "<br>The run is not finished."
    if not posterior.core_values.shape[1]:
        return f"{heading}<br>It has no draws yet.</p>"
    summary = posterior.class_summary()
    behind = chains_behind(posterior.record)
    findings = (*learned_findings(posterior.record), *([] if behind is None else [behind]))
    text = " ".join([*summary.sentences, *sentences(findings)])
    return f"{heading}<br>{escape(text)}</p>{classes_html(summary, '.show()')}"
