"""`read_events`: from event files or a data frame to a labelled tensor, with a report on the rows."""

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import duckdb
import numpy as np

from allocore._text import first_few
from allocore.errors import NO_VALUE, InputError, StoreError, as_list, check_choice, check_flags, whole_number
from allocore.events.cells import CellOptions, LabelTemplate, RowTally, count_rows
from allocore.events.formats import FORMATS, Format, Mode, likely_columns
from allocore.events.loading import NEEDS_DATES, LoadedRows, RowSelection, keys_for
from allocore.events.sources import COLUMNS_SHOWN, find_files
from allocore.events.tables import EventTable, FileTable, FrameTable, raise_first_bad_row
from allocore.events.where import condition
from allocore.findings import Finding, sentence, warn
from allocore.tensor.calendar import FREQUENCIES, check_frequency
from allocore.tensor.cameo import is_code_column
from allocore.tensor.count_tensor import CountTensor, heaviest_labels, summary_line, undirected_finding, with_parts
from allocore.tensor.event_report import EventReport
from allocore.tensor.files import as_tensor
from allocore.tensor.sharded import ShardedTensor, TableTensor
from allocore.tensor.shards import SHARDS, new_path
from allocore.tensor.sql import connect, first_sentence, literal

Modes = Sequence[str] | Mapping[str, str]
Incomplete = Literal["keep", "drop", "exposure"]
_MEMORY = "2GB"
_MODES = "must be a list of columns or a dict from modes to columns"
_WARNED = {"data-as-names", "repaired-codes"}
_MIN_COMMON_LABELS = 5  # with fewer, two modes may have the same labels by chance
_MIN_DATES = 32  # fewer dates may be meant as they are, such as the days of a month
_DATE = re.compile(r"(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3\d{4})([ T].*)?", re.DOTALL)


def read_events(
    source: Any,
    *,
    format: str = "auto",  # hides a builtin, but it is the name that users expect
    modes: Modes | None = None,
    time: str | None = None,
    freq: str | None = None,
    count: str | None = None,
    header: bool = True,
    where: str | Mapping[str, Any] | None = None,
    dedup: Literal["none", "story", "day"] = "none",
    diagonal: Literal["missing", "drop", "keep"] = "missing",
    shared_modes: Sequence[str] | None = None,
    undirected: Sequence[str] | None = None,
    min_count: int | None = None,
    on_error: Literal["raise", "drop"] = "raise",
    unobserved: str | Sequence[str] | slice | None = None,
    incomplete: Incomplete = "keep",
    exposure: Literal["days"] | None = None,
    like: object = None,
    new_labels: Literal["error", "drop", "append"] = "error",
    out: str | os.PathLike[str] | None = None,
    shards: int | None = None,
) -> CountTensor:
    """Read a table of events, one row per event, and count them in the cells of a tensor.

    Parameters
    ----------
    source : path-like, str, list of these, or data frame
        A path, a pattern (`"icews/*.tab"`), a folder, or a list of these: CSV, TSV, Parquet or JSON lines, also .gz and
        .zst. Files that are read together are of one format and have the columns that are used, in any order. Or a data
        frame: pandas, polars (also lazy), pyarrow, or a relation of duckdb.
    format : str, default "auto"
        "icews", "gdelt", "terrier", "phoenix", "polecat", "acled" or "ucdp". By default the format is recognised by the
        columns, if it is one of these.
    modes : sequence of str or dict from str to str, optional
        The columns that become the modes, or a dict from names of modes to columns. Known formats have the modes
        sender x receiver x action x time by default; all other tables need `modes`.
    time : str, optional
        The column with the dates.
    freq : {"hour", "day", "week", "month", "quarter", "year"}, default "month"
        The length of a period, or its alias in pandas ("D", "W", "MS", "QE", "YS", ...). The default for a column of
        pandas periods is their own length. Periods without events between the first and the last are in the tensor too.
        Times with a time zone or an offset are counted in UTC, all others as they are.
    count : str, optional
        A column with the number of times that an event happened. By default every row counts once.
    header : bool, default True
        Whether the first line of a CSV or TSV file has the names of the columns. If False, they are column_1, column_2
        and so on. Known formats without a header do not need it.
    where : str or dict, optional
        The rows to keep: a condition in SQL ("IsRootEvent = 1 AND weight > 7"), or a dict from columns to the value or
        the values to keep. A column is read as numbers or as texts (code = '04'), depending on what it is compared to.
    dedup : {"none", "story", "day"}, default "none"
        Count repeated events once: those with the same actors and action in the same story, or on the same day.
    diagonal : {"missing", "drop", "keep"}, default "missing"
        What to do with events of an actor with itself: make their cells missing, make them zeros, or keep the rows.
    shared_modes : sequence of str, optional
        Modes that share one list of labels, such as senders and receivers. Known formats have a default.
    undirected : pair of str, optional
        Two modes whose order means nothing, such as the two ends of a contact: they share one list of labels, the
        counts of both directions are added up, and the pair is one cell (`CountTensor.undirected`).
    min_count : int, optional
        Leave out labels with fewer counts than this. Periods, and actions from a fixed list, stay.
    on_error : {"raise", "drop"}, default "raise"
        What to do with rows that cannot be read: a wrong number of columns, lines that are not JSON, unreadable dates,
        counts that are not whole numbers, texts that `where` compares to numbers. "raise" names the file and the line;
        "drop" counts them in the report, and reads compressed files that are cut off up to the cut.
    unobserved : str, list of str or slice, optional
        Periods that were not observed, by their labels ("2018-05", or "2018" for all periods of that year). Their cells
        are missing, not zeros, and rows in them are not counted. The report lists the periods without any event.
    incomplete : {"keep", "drop", "exposure"}, default "keep"
        What to do with periods that seem to have been observed only in part: the first and the last if the events begin
        late or end early in them, and periods with events on few days if there are many events a day. "keep" counts
        their rows, with a warning; "drop" leaves them out at both ends, and makes others missing; "exposure" gives them
        the share of their days that was observed as their weight, which fits use (`Y.exposures`).
    exposure : {"days"}, optional
        The weights of the periods, which fits use: "days" gives each its observed days, so that fits allow for months
        of different lengths too. They are relative to the average period, such as 30.44 days.
    like : CountTensor, optional
        Read more events for this tensor (or a path to it): the same modes, the same labels in the same order, the same
        length of periods, and the same modes with a missing diagonal. The mode of time has the periods of the new
        events. By default the columns have the names of its modes. `concat` joins the two tensors.
    new_labels : {"error", "drop", "append"}, default "error"
        With `like`, what to do with labels that it does not have: raise an error that lists them, drop their rows
        (totals become wrong), or append them (tensors no longer fit each other). The report lists them.
    out : path-like or str, optional
        A new folder that ends in .zarr, to write the tensor to in shards. The cells are never all in memory: duckdb
        sums and sorts them, on disk if necessary. If it cannot be written, nothing is left there.
    shards : int, default 16
        With `out`, the number of shards. A worker of a cluster loads one at a time.

    Returns
    -------
    CountTensor
        The tensor. Its `report`, an `EventReport`, says what was read, dropped, repaired and not understood. With
        `out`, a `ShardedTensor`: the same tensor with its cells on disk, as `save` would write it.

    Examples
    --------
    >>> import pandas as pd
    >>> import allocore as ac
    >>> sales = pd.DataFrame({"store": ["A", "B"], "item": ["tea", "rice"], "day": ["2024-01-30", "2024-03-01"]})
    >>> Y = ac.read_events(sales, modes=["store", "item"], time="day")
    >>> Y
    CountTensor: 2 x 2 x 3 (store, item, day), 2 non-zeros, 2 counts, 17% dense
    >>> Y.labels[2]
    ('2024-01', '2024-02', '2024-03')
    >>> Y.report.empty_periods
    ('2024-02',)
    >>> ac.read_events(sales, modes=["store", "item"], time="day", unobserved="2024-02").missing
    Missing: 1 pattern, 4 of 12 cells
    >>> later = pd.DataFrame({"store": ["B"], "item": ["tea"], "day": ["2024-04-02"]})
    >>> ac.concat([Y, ac.read_events(later, like=Y)], mode="day").labels[2]
    ('2024-01', '2024-02', '2024-03', '2024-04')

    Write a tensor that does not fit into memory to disk:

    >>> import pathlib
    >>> import tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> sharded = ac.read_events(sales, modes=["store", "item"], time="day", out=folder / "sales.zarr", shards=2)
    >>> sharded
    ShardedTensor: 2 x 2 x 3 (store, item, day), 2 non-zeros, 2 counts, 17% dense, in 1 shard
    """
    if out is None and shards is not None:
        raise InputError("shards", shards, "needs `out`, the folder to write the tensor to")
    target = None if out is None else new_path(out, "out")
    number = SHARDS if shards is None else whole_number("shards", shards)
    _check_words(format, dedup, diagonal, on_error, incomplete)
    _check_columns(time, count, header)
    modes = _names("modes", modes, _MODES)
    shared_modes = _names("shared_modes", shared_modes, "must be a list of modes")
    undirected = _names("undirected", undirected, "must be two modes")
    least = 0 if min_count is None else whole_number("min_count", min_count)
    template = _template(like, new_labels, min_count)
    source = list(source) if isinstance(source, Iterator) else source  # such as Path.glob
    files, skipped = find_files(source)
    with (
        tempfile.TemporaryDirectory() as name,
        connect(files, folder := Path(name), _settings()) as connection,
        _as_input_errors(),
    ):
        table = (
            FileTable(connection, folder, files, skipped, format, header=header, lenient=on_error == "drop")
            if files
            else FrameTable(connection, folder, source, format, header=header)
        )
        with _hinting_at_header(table):
            chosen = _modes(table, modes, time, template)
        length = _frequency(freq, table, chosen, template)
        if unobserved is not None and not any(mode.kind == "time" for mode in chosen):
            raise InputError("unobserved", unobserved, NEEDS_DATES)
        exposure, incomplete = _weighing(exposure, incomplete, length, chosen, template)
        selection = RowSelection(
            modes=chosen,
            count=count,
            where=condition(where, table.columns, connection),
            keys=keys_for(dedup, table.format, chosen, table.columns),
            lists=table.format is not None and table.format.lists,
            hours=length == "hour",
            strict_nothing=table.format is None,
        )
        with _hinting_at_header(table):
            table.check(selection)
        undirected = template.undirected if template and undirected is None else undirected
        pair = _pair(undirected, shared_modes, chosen, diagonal)
        shared = _shared(undirected or shared_modes, table.format, chosen)
        shared = template.shared(shared, diagonal, pair) if template else shared
        loaded = table.load(selection)
        if str(getattr(freq, "freqstr", freq)).casefold() == "w-mon":
            loaded.findings.append(Finding("weeks-to-monday", "note", {"argument": "freq"}))
        if on_error == "raise":
            raise_first_bad_row(connection, table, selection, loaded.rejects)
        orders = table.orders(chosen) if isinstance(table, FrameTable) else {}
        options = CellOptions(
            length, shared, diagonal, least, unobserved, incomplete, exposure is not None, template, orders, pair
        )
        counted, tally = count_rows(connection, selection, options, loaded)
        how = {"format": format, "modes": modes, "time": time, "count": count, "header": header, "where": where}
        reading = _reading(**how, dedup=dedup, diagonal=diagonal, **_weights_of(exposure, incomplete))
        report = replace(_report(table, chosen, counted, tally, loaded, shared), reading=reading)
        counted.set_report(report)
        if target is None:
            tensor = _asking_whether_undirected(with_parts(counted))  # in memory
        else:
            counted.save(target, shards=number)
            tensor = ShardedTensor(target)
    for finding in report.findings:
        if finding.kind in _WARNED or (finding.kind == "incomplete-periods" and incomplete == "keep"):
            warn(finding, stacklevel=2)
    return tensor


def _check_words(format: str, dedup: str, diagonal: str, on_error: str, incomplete: str) -> None:
    check_choice("format", format, ("auto", *FORMATS))
    check_choice("dedup", dedup, ("none", "story", "day"))
    check_choice("diagonal", diagonal, ("missing", "drop", "keep"))
    check_choice("on_error", on_error, ("raise", "drop"))
    check_choice("incomplete", incomplete, ("keep", "drop", "exposure"))


def _check_columns(time: object, count: object, header: object) -> None:
    check_flags(header=header)
    for argument, column in {"time": time, "count": count}.items():
        if not isinstance(column, str | None):
            raise InputError(argument, column, "must be the name of a column")


def _names(argument: str, given: Any, rule: str) -> Any:
    """Return the names that are given as a list, or as a dict from names to names; None and a text as they are."""
    if given is None or isinstance(given, str):
        return given
    found = dict(given) if isinstance(given, Mapping) else as_list(argument, given, rule)
    names = [*found, *found.values()] if isinstance(found, dict) else found
    if not all(isinstance(name, str | int) for name in names):
        raise InputError(argument, given, rule)
    return found


def _asking_whether_undirected(tensor: CountTensor) -> CountTensor:
    """Return the tensor with a finding in its report, and a warning, if its ties may be undirected."""
    finding = undirected_finding(tensor)
    if finding is None or tensor.report is None:
        return tensor
    warn(finding, stacklevel=3)
    return with_parts(tensor, report=replace(tensor.report, findings=(*tensor.report.findings, finding)))


@contextmanager
def _hinting_at_header(table: EventTable) -> Iterator[None]:
    """Add to an error about columns that the first line looks like data, if it does."""
    try:
        yield
    except InputError as error:
        if table.data_as_names is None or error.argument not in ("modes", "time", "count", "where"):
            raise
        raise InputError(error.argument, error.value, f"{error.rule}; {sentence(table.data_as_names)}") from None


def _reading(**given: Any) -> dict[str, Any]:
    """Return the arguments that differ from their defaults, in a form that JSON can hold."""
    defaults = {"format": "auto", "header": True, "dedup": "none", "diagonal": "missing"}
    changed = {name: value for name, value in given.items() if value is not None and value != defaults.get(name)}
    if "modes" in changed:
        changed["modes"] = dict(changed["modes"]) if isinstance(changed["modes"], Mapping) else list(changed["modes"])
    if isinstance(changed.get("where"), Mapping):
        changed["where"] = {str(name): _plain(value) for name, value in changed["where"].items()}
    return changed


def _plain(value: object) -> Any:
    if isinstance(value, list | tuple | set | frozenset):
        return sorted(map(_plain, value), key=repr)
    if isinstance(value, np.generic):
        return value.item()
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def _template(like: object, new_labels: str, min_count: int | None) -> LabelTemplate | None:
    check_choice("new_labels", new_labels, ("error", "drop", "append"))
    if like is None:
        if new_labels != "error":
            raise InputError("new_labels", new_labels, "needs `like`, the tensor that has the other labels")
        return None
    if min_count is not None:
        raise InputError("min_count", min_count, "cannot be used with `like`, which decides the labels")
    try:
        return LabelTemplate(as_tensor(like), new_labels)
    except InputError as error:
        raise InputError("like", error.value, error.rule) from error


@contextmanager
def _as_input_errors() -> Iterator[None]:
    """Turn other errors, such as too little memory, too large sums or a full disk, into InputErrors."""
    try:
        yield
    except StoreError:  # about `out`
        raise
    except RuntimeError as error:
        if str(error) == "Query interrupted":  # what duckdb makes of Ctrl-C
            raise KeyboardInterrupt from None
        raise
    except (duckdb.Error, OSError, EOFError) as error:
        raise InputError("source", NO_VALUE, f"cannot be made into a tensor: {first_sentence(error)}") from error


def _settings() -> dict[str, str]:
    return {"memory_limit": literal(_MEMORY), "preserve_insertion_order": "false", "TimeZone": "'UTC'"}


def _modes(
    table: EventTable, modes: Modes | None, time: str | None, template: LabelTemplate | None
) -> tuple[Mode, ...]:
    form = table.format
    if modes is None and form is None and template is not None:
        modes = template.tensor.mode_names
    if modes is not None:
        chosen = _modes_of_columns(modes, form, table.columns, time)
    elif form is not None:
        own = [mode.column if time is None or mode.kind != "time" else time for mode in form.modes]
        chosen = tuple(replace(mode, column=column) for mode, column in zip(form.modes, own, strict=True))
    else:
        rule = "must be given, because the format of these events is not known; the columns are "
        rule += first_few(table.columns, COLUMNS_SHOWN)
        if table.data_as_names is None and (example := _likely(table.columns)):
            rule += f"; for example {example}"
        raise InputError("modes", NO_VALUE, rule)
    return template.modes(chosen) if template else chosen


def _likely(columns: tuple[str, ...]) -> str:
    """Return the arguments that probably name the modes and the dates, as one writes them in Python; or nothing."""
    modes, time = likely_columns(columns)
    given = {"modes": modes, "time": time} if time else {"modes": modes}
    return " ".join(f"`{name}={value!r}`" for name, value in given.items()) if len(modes) + bool(time) > 1 else ""


def _modes_of_columns(
    modes: Modes, form: Format | None, columns: tuple[str, ...], time: str | None
) -> tuple[Mode, ...]:
    if isinstance(modes, str):
        raise InputError("modes", modes, _MODES)
    pairs = list(modes.items()) if isinstance(modes, Mapping) else [(name, name) for name in modes]
    known = {each.name: each for each in form.modes} if form else {}
    by_column = {each.column: each for each in form.modes} if form else {}
    chosen = []
    for name, column in pairs:
        like = known.get(column) if column not in columns else by_column.get(column)
        codes = is_code_column(str(column)) or (form is not None and column in form.codes)
        mode = replace(like, name=str(name)) if like else Mode(str(name), str(column), codes=codes)
        chosen.append(replace(mode, kind="time") if mode.column == time else mode)
    if time is not None and time not in [mode.column for mode in chosen]:
        chosen.append(Mode(time, time, "time"))
    if len(chosen) < 2 or len({mode.name for mode in chosen}) < len(chosen):
        raise InputError("modes", modes, "must name at least two different modes")
    return tuple(chosen)


def _frequency(freq: object, table: EventTable, modes: tuple[Mode, ...], template: LabelTemplate | None) -> str:
    """Return the length of a period: as given, or as in `like`, or that of a column of periods, or a month."""
    times = [mode for mode in modes if mode.kind == "time"]
    if len(times) > 1:
        raise InputError("modes", [mode.name for mode in modes], f"must have one mode of time, not {len(times)}")
    if freq is not None and not times:
        raise InputError("freq", freq, NEEDS_DATES)
    chosen = None if freq is None else check_frequency(freq)
    chosen = template.frequency(chosen, modes) if template else chosen
    own = table.frequency(times[0].column, chosen) if times and isinstance(table, FrameTable) else None
    if own and chosen and FREQUENCIES.index(chosen) < FREQUENCIES.index(own):
        rule = f"must not be shorter than the periods in {times[0].column}, which are of one {own}"
        raise InputError("freq", chosen, rule)
    return chosen or own or "month"


def _weighing(
    exposure: object, incomplete: Incomplete, length: str, modes: tuple[Mode, ...], template: LabelTemplate | None
) -> tuple[Literal["days"] | None, Incomplete]:
    """Return the weights of periods and what to do with incomplete ones: as given, or as in `like`."""
    if template and template.tensor.report is not None and exposure is None and incomplete == "keep":
        known = template.tensor.report.reading
        exposure, incomplete = known.get("exposure"), known.get("incomplete", incomplete)
    if exposure is None:
        return None, incomplete
    check_choice("exposure", exposure, ("days",))
    if not any(mode.kind == "time" for mode in modes):
        raise InputError("exposure", exposure, NEEDS_DATES)
    if length in ("hour", "day"):
        raise InputError("exposure", exposure, f"needs periods longer than a day, not each {length}")
    return "days", "exposure" if incomplete == "keep" else incomplete


def _weights_of(exposure: str | None, incomplete: str) -> dict[str, str]:
    """How periods were weighed, which more events of the same kind need again."""
    by_days = {} if exposure is None else {"exposure": exposure}
    return {**by_days, **({"incomplete": incomplete} if incomplete == "exposure" else {})}


def _shared(given: Sequence[str] | None, form: Format | None, modes: tuple[Mode, ...]) -> tuple[str, ...]:
    if given is None:
        actors = [mode.column for mode in form.modes if mode.name in ("sender", "receiver")] if form else []
        shared = tuple(mode.name for mode in modes if mode.column in actors)
        return shared if len(shared) == len(actors) else ()
    names = [mode.name for mode in modes if mode.kind in ("plain", "country")]
    if isinstance(given, str) or len(set(given)) < 2 or not set(given) <= set(names):
        raise InputError("shared_modes", given, f"must name at least two of the modes {', '.join(names)}")
    return tuple(given)


def _pair(
    undirected: Sequence[str] | None, shared_modes: Sequence[str] | None, modes: tuple[Mode, ...], diagonal: str
) -> tuple[int, int] | None:
    """Return the modes of undirected ties, by index."""
    if undirected is None:
        return None
    names = [mode.name for mode in modes]
    actors = [mode.name for mode in modes if mode.kind in ("plain", "country")]
    if isinstance(undirected, str) or len(set(undirected)) != 2 or not set(undirected) <= set(actors):
        raise InputError("undirected", undirected, f"must name two of the modes {', '.join(actors)}")
    if shared_modes is not None and set(shared_modes) != set(undirected):
        raise InputError("shared_modes", shared_modes, "must be left out with `undirected`, whose modes share labels")
    if diagonal != "missing":
        raise InputError("diagonal", diagonal, "must be 'missing' with `undirected`: a tie has two ends")
    first, second = sorted(names.index(name) for name in undirected)
    return first, second


def _report(
    table: EventTable,
    modes: Sequence[Mode],
    tensor: TableTensor,
    tally: RowTally,
    loaded: LoadedRows,
    shared: tuple[str, ...],
) -> EventReport:
    """Return what became of the rows, and what the tensor holds; `shared` are the modes that share their labels."""
    findings = [*loaded.findings, *tally.findings]
    if not shared:
        findings += _labels_in_common(tensor)
    findings += _dates_as_labels(modes, tensor)
    if tally.pairs > tally.rows:
        findings.append(Finding("lists-of-actors", "note", {"rows": tally.rows, "pairs": tally.pairs}))
    findings += [
        Finding("repaired-codes", "note", {"mode": mode, "rows": rows}) for mode, rows in tally.repaired.items()
    ]
    others = ("pairs", "repaired", "findings")
    return EventReport(
        format=table.format.name if table.format else "custom",
        files=table.number,
        findings=tuple(findings),
        tensor=summary_line(tensor),
        inner_lines=loaded.inner_lines,
        heaviest=heaviest_labels(tensor),
        **{name: value for name, value in vars(tally).items() if name not in others},
    )


def _labels_in_common(tensor: TableTensor) -> Iterator[Finding]:
    labels = [(name, set(of_mode)) for name, of_mode in zip(tensor.mode_names, tensor.labels, strict=True)]
    for (one, ours), (other, theirs) in combinations(labels, 2):
        common = len(ours & theirs)
        if common >= _MIN_COMMON_LABELS and 2 * common >= min(len(ours), len(theirs)):
            values = {"modes": [one, other], "labels": common, "argument": "shared_modes"}
            yield Finding("labels-in-common", "caution", values)
            return


def _dates_as_labels(modes: Sequence[Mode], tensor: TableTensor) -> Iterator[Finding]:
    """Yield a finding on the first mode with a label for each of many dates, if there is no mode of time."""
    if any(mode.kind == "time" for mode in modes):
        return
    for mode, labels in zip(modes, tensor.labels, strict=True):
        if len(labels) >= _MIN_DATES and all(_DATE.fullmatch(str(label)) for label in labels):
            values = {"mode": mode.name, "labels": len(labels), "column": mode.column}
            yield Finding("dates-as-labels", "caution", values | {"argument": "time", "length": "freq"})
            return
