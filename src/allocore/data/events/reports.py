"""The report on the rows of a table of events, made from the tally of its rows and from its tensor."""

from collections.abc import Iterator
from itertools import combinations

from allocore.data.display import as_text
from allocore.data.event_report import EventReport
from allocore.data.events.event_tables import FileTable, FrameTable
from allocore.data.events.loading import Loaded
from allocore.data.events.table_tensor import TableTensor
from allocore.data.events.tensors import RowTally
from allocore.data.tensor import CountTensor

_HEAVIEST = 5
# With fewer labels in common, two modes may have them by chance.
_SOME_LABELS = 5


def report_of(
    table: FileTable | FrameTable, tensor: TableTensor, tally: RowTally, loaded: Loaded, shared: tuple[str, ...]
) -> EventReport:
    """Return what became of the rows, and what the tensor holds; `shared` are the modes that share their labels."""
    notes = [*loaded.notes, *tally.notes, *(() if shared else _on_shared_labels(tensor))]
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
