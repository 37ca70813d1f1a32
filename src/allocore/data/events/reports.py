"""The report on the rows of a table of events, made from the tally of its rows and from its tensor."""

import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from shlex import quote

from allocore.data.display import as_text
from allocore.data.event_report import EventReport
from allocore.data.events.event_tables import FileTable, FrameTable
from allocore.data.events.formats import Mode
from allocore.data.events.loading import Loaded
from allocore.data.events.table_tensor import TableTensor
from allocore.data.events.tensors import RowTally
from allocore.data.tensor import CountTensor

_HEAVIEST = 5
# With fewer labels in common, two modes may have them by chance.
_SOME_LABELS = 5
# Fewer dates may be meant as they are, such as the days of a month.
_MANY_DATES = 32
_DATE = re.compile(r"(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3\d{4})([ T].*)?", re.DOTALL)


def report_of(
    table: FileTable | FrameTable,
    modes: Sequence[Mode],
    tensor: TableTensor,
    tally: RowTally,
    loaded: Loaded,
    shared: tuple[str, ...],
) -> EventReport:
    """Return what became of the rows, and what the tensor holds; `shared` are the modes that share their labels."""
    notes = [*loaded.notes, *tally.notes, *(() if shared else _on_shared_labels(tensor)), *_on_dates(modes, tensor)]
    if tally.pairs > tally.rows:
        notes.append(f"lists of actors turned {tally.rows:,} rows into {tally.pairs:,} pairs")
    notes += [
        f"{rows:,} codes in {mode} had lost their leading zeros and were repaired"
        for mode, rows in tally.repaired.items()
    ]
    return EventReport(
        format=table.format.name if table.format else "custom",
        files=table.number,
        rows=tally.rows,
        kept=tally.kept,
        dropped=tally.dropped,
        duplicates=tally.duplicates,
        diagonal=tally.diagonal,
        unknown=tally.unknown,
        notes=tuple(notes),
        dates=tally.dates,
        tensor=as_text(tensor, CountTensor.__name__),  # wherever its cells will be
        new_labels=tally.new_labels,
        empty_periods=tally.empty_periods,
        unobserved=tally.unobserved,
        inner_lines=loaded.inner_lines,
        heaviest={name: tensor.heaviest(mode)[:_HEAVIEST] for mode, name in enumerate(tensor.mode_names)},
    )


def _on_shared_labels(tensor: TableTensor) -> Iterator[str]:
    """Yield a note on the first two modes that seem to have the same actors, if none were declared as shared."""
    texts = [(name, set(of_mode)) for name, of_mode in zip(tensor.mode_names, tensor.labels, strict=True)]
    for (one, ours), (other, theirs) in combinations(texts, 2):
        common = len(ours & theirs)
        if common >= _SOME_LABELS and 2 * common >= min(len(ours), len(theirs)):
            yield (
                f"{one} and {other} have {common} labels in common: shared_modes=[{one!r}, {other!r}] (--shared-modes "
                f"{one},{other}) gives both the same labels and makes cells of a label with itself missing"
            )
            return


def _on_dates(modes: Sequence[Mode], tensor: TableTensor) -> Iterator[str]:
    """Yield a note on a mode with a label for each of many dates, if none was declared as the mode of time."""
    if any(mode.kind == "time" for mode in modes):
        return
    for mode, labels in zip(modes, tensor.labels, strict=True):
        if len(labels) >= _MANY_DATES and all(_DATE.fullmatch(str(label)) for label in labels):
            yield (
                f"{mode.name} has {len(labels):,} dates as labels: time={mode.column!r} (--time {quote(mode.column)}) "
                "makes months of them, in order and without gaps, or with freq='week' (--freq week) weeks"
            )
            return
