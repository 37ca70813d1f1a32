"""The results of a comparison as tables, and the files that people read: results.csv, figures, report.md."""

import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from allocore import figures
from allocore._io import result_file
from allocore._text import plural
from allocore.comparison.findings import CRITERIA, SERIES, best_at_each_budget
from allocore.comparison.models import Job, Settings, printed, series_name, shape_text
from allocore.errors import InputError
from allocore.posterior.scores import quartiles
from allocore.report.figures.run import write_figure

if TYPE_CHECKING:
    from allocore.comparison.compare import Comparison

_SCORES = ("log_ppd", "log_ppd_positive")
_POINT_SCORES = ("kl", "auc", "average_precision")  # of all chains together, as in `Posterior.evaluate`
_OF_A_CHAIN = ("log_ppd_chain", "log_ppd_positive_chain")
_MEASURED = ("seconds", "sweeps", "seconds_per_sweep", "classes")
_SUMMED = (*_OF_A_CHAIN, *_POINT_SCORES, "seconds", "seconds_per_sweep", "classes", "peak_mb")
_FORMATS = ("png", "pdf", "svg")


def results_table(
    outcomes: Sequence[dict[str, Any]], mode_names: Sequence[str], models: Sequence[str] = ()
) -> pd.DataFrame:
    """Return one row per job, sorted by model (those of `models` first), core, budget and split.

    `core` is empty unless the user chose it. `log_ppd` is that of all chains together, `log_ppd_chain` the mean over
    single chains. `classes` and `factors_<mode>` are means over draws. A failed job has an `error` and no numbers.
    """
    rows = [_row(outcome, mode_names) for outcome in outcomes]
    names = ["model", "estimator", "core", "budget", "core_shape", "split", *_SCORES, "ppd", "ppd_positive"]
    names += [*_POINT_SCORES, "chains", *_OF_A_CHAIN, *_MEASURED]
    names += [*(f"factors_{name}" for name in mode_names), "peak_mb", "threads", "error"]
    table = pd.DataFrame(rows, columns=pd.Index(names))
    order = dict.fromkeys([*models, *sorted(set(table["model"]))])
    place = {model: number for number, model in enumerate(order)}
    return table.sort_values(
        [*SERIES, "split"], key=lambda column: column.map(place) if column.name == "model" else column, kind="stable"
    ).reset_index(drop=True)


def _row(outcome: dict[str, Any], mode_names: Sequence[str]) -> dict[str, Any]:
    job = Job.from_json(outcome["job"])
    shape = shape_text(job.core_shape)
    row: dict[str, Any] = {"model": job.model, "estimator": job.estimator, "core": shape if job.core else ""}
    row |= {"budget": job.budget, "core_shape": shape, "split": job.split, "error": outcome.get("error", "")}
    row |= {
        name: float(outcome.get(name, math.nan))
        for name in (*_SCORES, *_POINT_SCORES, *_MEASURED, "peak_mb", "threads")
    }
    row |= {"chains": dict(job.settings).get("chains", 1)}
    row |= {f"{name}_chain": float(outcome.get(f"{name}_chain", row[name])) for name in _SCORES}
    row |= {"ppd": math.exp(row["log_ppd"]), "ppd_positive": math.exp(row["log_ppd_positive"])}
    factors = outcome.get("factors", [math.nan] * len(mode_names))
    return row | {f"factors_{name}": number for name, number in zip(mode_names, factors, strict=True)}


def summary_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row for every model, core and budget: medians over the splits, and quartiles of the log PPDs."""
    rows = []
    for (model, core, budget), group in table[table["error"] == ""].groupby(SERIES, sort=False):
        row: dict[str, Any] = {"model": model, "core": core, "budget": budget, "splits": len(group)}
        for name in CRITERIA.values():
            row |= dict(zip((f"{name}_25", name, f"{name}_75"), quartiles(group[name]), strict=True))
        row |= {name: group[name].median() for name in _SUMMED}
        rows.append(row)
    quantiles = [f"{name}{part}" for name in CRITERIA.values() for part in ("_25", "", "_75")]
    names = [*SERIES, "splits", *quantiles, *_SUMMED]
    return pd.DataFrame(rows, columns=pd.Index(names))


def write_table(table: pd.DataFrame, folder: Path) -> None:
    """Write the results as CSV."""
    with result_file(folder / "results.csv") as file:
        file.write(table.to_csv(index=False).encode())


def write_figures(table: pd.DataFrame, folder: Path) -> list[str]:
    """Write the figures for which there are numbers; return their names."""
    shown, written = figure_table(table), []
    for against, positive in product(("budget", "seconds"), (False, True)):
        name = ("ppd" if against == "budget" else against) + "-positive" * positive
        try:
            figure = figures.ppd(shown, against=against, positive=positive)  # type: ignore[call-overload]
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
        f"{settings.mode} held out (seeds from {settings.hold_out_seed} on), the same splits for all models; seeds of "
        f"the fits from {settings.seed} on."
    )
    threads = sorted({int(number) for number in table["threads"].dropna()})
    if threads:
        text += (
            f" Seconds are those of one fit on {' or '.join(map(str, threads))} thread{'s' * (threads != [1])}; fits "
            "that ran at the same time slowed each other down."
        )
    return text


def _readable(summary: pd.DataFrame, pooled: bool) -> pd.DataFrame:
    rows = {"model": [series_name(row["model"], row["core"]) for _, row in summary.iterrows()]}
    rows |= {"Q": [f"{number:,}" for number in summary["budget"]], "splits": summary["splits"].tolist()}
    for name, heading in (("log_ppd", "log PPD"), ("log_ppd_positive", "log PPD of counts")):
        rows[heading] = [
            f"{middle:.4f} ({low:.4f} to {high:.4f})"
            for low, middle, high in summary[[f"{name}_25", name, f"{name}_75"]].itertuples(index=False)
        ]
    if pooled:
        rows["log PPD of counts, one chain"] = [f"{number:.4f}" for number in summary["log_ppd_positive_chain"]]
    for name, heading in (("kl", "KL"), ("auc", "AUC")):
        if summary[name].notna().any():  # folders of earlier versions have none
            rows[heading] = [f"{number:.4g}" for number in summary[name]]
    rows |= {"classes": [f"{number:.0f}" for number in summary["classes"]]}
    rows |= {"seconds": [f"{number:,.3g}" for number in summary["seconds"]]}
    return pd.DataFrame(rows | {"peak MB": [f"{number:,.0f}" for number in summary["peak_mb"]]})


def markdown(table: pd.DataFrame) -> str:
    """Return a table in Markdown: `DataFrame.to_markdown` needs tabulate. Names and numbers need no escaping."""
    rows = [[str(name) for name in table.columns], ["---"] * len(table.columns)]
    rows += [[str(cell) for cell in row] for row in table.itertuples(index=False)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
