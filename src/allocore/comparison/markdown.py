"""The files of a comparison that people read: a table, figures, and a report in Markdown."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from allocore import figures
from allocore._io import replacing
from allocore._text import plural
from allocore.comparison.findings import best_at_each_budget, series_name
from allocore.comparison.models import Settings
from allocore.comparison.short_names import printed
from allocore.comparison.tables import summary_table
from allocore.errors import InputError
from allocore.report.figures.run import write_figure

if TYPE_CHECKING:
    from allocore.comparison.compare import Comparison

_FORMATS = ("png", "pdf", "svg")
_FIGURES = {
    "ppd": {"against": "budget", "positive": False},
    "ppd-positive": {"against": "budget", "positive": True},
    "seconds": {"against": "seconds", "positive": False},
    "seconds-positive": {"against": "seconds", "positive": True},
}


def write_table(table: pd.DataFrame, folder: Path) -> None:
    """Write the results as CSV."""
    with replacing(folder / "results.csv") as file:
        file.write(table.to_csv(index=False).encode())


def write_figures(table: pd.DataFrame, folder: Path) -> list[str]:
    """Write the figures for which there are numbers; return their names."""
    shown, written = figure_table(table), []
    for name, options in _FIGURES.items():
        try:
            figure = figures.ppd(shown, **options)  # type: ignore[call-overload]
        except InputError:  # no fit has the numbers for this figure
            continue
        list(write_figure(figure, folder / name, _FORMATS))
        written.append(name)
    return written


def figure_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return the results with printed names. A kind of model has one colour; variants differ in their lines."""
    names = [printed(model, core) for model, core in zip(table["model"], table["core"], strict=True)]
    return table.assign(model=[name for name, _ in names], core=[details for _, details in names])


def report(found: "Comparison", drawn: Sequence[str] = ()) -> str:
    """Return the report in Markdown, with figures by their names."""
    table, missing = found.table, found.missing
    parts = ["# Comparison of models", found.data, settings_words(found.settings, table)]
    if missing:
        are, them = ("is", "it") if missing == 1 else ("are", "them")
        parts.append(f"**{plural(missing, 'job')} {are} missing. Run the same comparison again for {them}.**")
    if found.models:
        parts += ["## Models", "\n".join(f"- {series_name(name, '')}: `{text}`" for name, text in found.models.items())]
    parts += ["## Results", "\n".join(f"- {sentence}" for sentence in found.sentences) or "- No job has a result yet."]
    pooled = bool((table["chains"] > 1).any())
    parts += ["## Medians and quartiles over the splits", markdown(_readable(summary_table(table), pooled))]
    for criterion, heading in (("all", "all held-out cells"), ("positive", "held-out cells with counts")):
        ranking = best_at_each_budget(table, criterion)
        if len(ranking):
            parts += [
                f"## The best at each budget: {heading}",
                "Means over the splits that all compared models have. Differences are paired within splits and given "
                "with their standard errors; they are clear if 0 is outside their 95% interval.",
                markdown(ranking),
            ]
    parts += [f"![{name}]({name}.png)" for name in drawn]
    return "\n\n".join(parts) + "\n"


def settings_words(settings: Settings, table: pd.DataFrame) -> str:
    """Return in words how the numbers were made."""
    text = (
        f"{plural(table['split'].nunique(), 'split')}, each with {settings.hold_out:.3g} of the fibres along "
        f"{settings.mode} held out; seeds from {settings.seed} on, the same splits for all models."
    )
    threads = sorted({int(number) for number in table["threads"].dropna()})
    if threads:
        text += (
            f" Seconds are those of one fit on {' or '.join(map(str, threads))} thread{'s' * (threads != [1])}; fits "
            "that ran at the same time slowed each other down."
        )
    return text


def _readable(summary: pd.DataFrame, pooled: bool) -> pd.DataFrame:
    """Return the summary with few digits, and quartiles beside their median."""
    rows = {"model": [series_name(row["model"], row["core"]) for _, row in summary.iterrows()]}
    rows |= {"Q": [f"{number:,}" for number in summary["budget"]], "splits": summary["splits"].tolist()}
    for name, heading in (("log_ppd", "log PPD"), ("log_ppd_positive", "log PPD of counts")):
        rows[heading] = [
            f"{middle:.4f} ({low:.4f} to {high:.4f})"
            for low, middle, high in summary[[f"{name}_25", name, f"{name}_75"]].itertuples(index=False)
        ]
    if pooled:
        rows["log PPD of counts, one chain"] = [f"{number:.4f}" for number in summary["log_ppd_positive_chain"]]
    rows |= {"classes": [f"{number:.0f}" for number in summary["classes"]]}
    rows |= {"seconds": [f"{number:,.3g}" for number in summary["seconds"]]}
    return pd.DataFrame(rows | {"peak MB": [f"{number:,.0f}" for number in summary["peak_mb"]]})


def markdown(table: pd.DataFrame) -> str:
    """Return a table in Markdown.

    These lines replace a dependency: `DataFrame.to_markdown` needs the package tabulate. Model names and numbers need
    no escaping.
    """
    rows = [[str(name) for name in table.columns], ["---"] * len(table.columns)]
    rows += [[str(cell) for cell in row] for row in table.itertuples(index=False)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
