"""Options that several commands share, and what commands make of them: data, a likelihood, a model.

Single options are annotated types. A decorator adds a group of options; the command gets their values as one argument.
"""

import inspect
import json
import logging
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from functools import wraps
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer
from rich.table import Table
from rich.text import Text

import allocore as ac
from allocore.cli.app import Output, in_options
from allocore.errors import NO_VALUE, Described, InputError, check_choice, whole_number
from allocore.estimators import PUBLISHED
from allocore.model.spec import Spec, check_likelihood, concentrations_for, positive, whole_name
from allocore.progress import set_log, waiting
from allocore.report.objects import data_object
from allocore.tensor.files import read_frame
from allocore.tensor.labels import did_you_mean
from allocore.tensor.shards import is_sharded

if TYPE_CHECKING:
    import pandas as pd

DataPaths = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA",
        help="Tables of events (CSV, TSV, Parquet, JSON lines, also .gz and .zst): any number of files, folders or "
        "patterns. Or one tensor: .npz (allocore, SciPy or pydata sparse), .npy, .parquet, .tns, .tns.gz, or .zarr "
        "(shards).",
    ),
]
RunPath = Annotated[
    Path, typer.Argument(metavar="RUN", help="The folder that allocore fit --out wrote, finished or not.")
]
Seed = Annotated[int | None, typer.Option(help="The random seed. The same seed gives byte-for-byte the same draws.")]
Threads = Annotated[int | None, typer.Option(help="Number of threads; one per processor by default.")]
Rows = Annotated[int, typer.Option(help="Number of classes to print.")]
Top = Annotated[int, typer.Option(help="Number of labels to print per mode.")]
OnError = Annotated[str, typer.Option(help="What to do with damaged draws: 'raise' an error, or 'drop' them.")]
SafeCsv = Annotated[
    bool,
    typer.Option("--safe-csv", help="Write text in CSV files so that spreadsheets do not read it as a formula."),
]
Draw = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER|best",
        help="Show a single draw instead of the consensus: its number (-1 is the last), or 'best' for the draw with "
        "the highest log joint density.",
    ),
]
Chain = Annotated[
    int | None,
    typer.Option(help="The chain of --draw, 0 by default. Without --draw, the best draw of this chain is shown."),
]
OpenIt = Annotated[bool, typer.Option("--open", help="Open the page in the browser.")]
Binary = Annotated[bool, typer.Option("--binary", help="Replace every count above 0 by 1.")]
_Exposures = Annotated[
    list[str] | None,
    typer.Option(
        metavar="days|MODE=FILE",
        help="Known weights: 'days' weights each period by the days observed in it; MODE=FILE gives weights for the "
        "labels of a mode, such as populations: a table (.csv, .tsv, .parquet) with a column of labels and one of "
        "weights. Rates are per unit of the weights. Can be repeated.",
    ),
]
Seeds = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Factors seeded with labels that you expect to go together: a table (.csv, .tsv, .parquet) with the "
        "columns mode, factor (its name) and label. The factors keep these names and can still learn other labels.",
    ),
]
Freeze = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODE=RUN",
        help="Keep the factors of this mode fixed at those in the consensus of an earlier run. Can be repeated.",
    ),
]
Free = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODE=NUMBER",
        help="How many factors of this mode to learn in addition to its frozen and seeded ones. Can be repeated.",
    ),
]
ExposureOfRows = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The known weights of the new rows, needed if the fit had --exposure for this mode: a table as for fit.",
    ),
]
ExposureOfPeriods = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The known weights of the coming periods, needed if the fit had --exposure for periods: a table as for "
        "fit.",
    ),
]


Command = Callable[..., None]
_Group = Mapping[str, tuple[Any, Any]]  # for each option, its annotation for Typer and its default


def option(
    kind: Any, help: str, default: object = None, *, panel: str | None = None, metavar: str | None = None
) -> tuple[Any, Any]:
    """Return an option of a group: its annotation for Typer, and its default."""
    return Annotated[kind, typer.Option(help=help, rich_help_panel=panel, metavar=metavar)], default


def _in_panel(panel: str, options: _Group) -> _Group:
    for annotation, _ in options.values():
        annotation.__metadata__[0].rich_help_panel = panel
    return options


def takes(argument: str, options: _Group, gather: Callable[[dict[str, Any]], Any]) -> Callable[[Command], Command]:
    """Replace an argument of a command by a group of options; it receives `gather` of their values."""
    kind = inspect.Parameter.KEYWORD_ONLY
    group = [
        inspect.Parameter(name, kind, default=default, annotation=annotation)
        for name, (annotation, default) in options.items()
    ]

    def decorate(command: Command) -> Command:
        own = inspect.signature(command)
        # In the help, the options take the place of the argument.
        parts = [group if each.name == argument else [each] for each in own.parameters.values()]
        parameters = [each for part in parts for each in part]

        @wraps(command)
        def run(**given: Any) -> None:
            values = {name: given.pop(name) for name in options}
            command(**given, **{argument: gather(values)})

        run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate


_OUTPUT_OPTIONS: _Group = {
    "json": (
        Annotated[
            bool,
            typer.Option(
                "--json", help="Print one JSON object on standard output, and nothing else, even after an error."
            ),
        ],
        False,
    ),
    "quiet": (
        Annotated[bool, typer.Option("--quiet", help="Print warnings and errors on standard error, but no progress.")],
        False,
    ),
    "log_format": option(
        str | None,
        "Write log lines with UTC times to standard error, as 'plain' text or 'json', even on a terminal.",
    ),
}


def _gather_output(given: dict[str, Any]) -> Output:
    if given["log_format"] is not None:
        check_choice("log_format", given["log_format"], ("plain", "json"))
    set_log(quiet=given["quiet"], format=given["log_format"])
    return Output(json=given["json"])


def takes_output(command: Command) -> Command:
    """Give a command `console`, where it prints and keeps what it found, and the options of output that all share."""

    @wraps(command)
    def run(*, console: Output, **given: Any) -> None:
        with console.as_json():
            command(console=console, **given)

    return takes("console", _OUTPUT_OPTIONS, _gather_output)(run)


_EVENT_OPTIONS = _in_panel(
    "Reading a table of events",
    {
        "format": option(
            str,
            "The format: 'icews', 'gdelt', 'terrier', 'phoenix', 'polecat', 'acled' or 'ucdp'; by default it is "
            "recognised from the columns.",
            "auto",
        ),
        "modes": option(str | None, "The columns that become modes: store,product or who=source,what=action."),
        "time": option(str | None, "The column with the dates, such as day. It becomes a mode."),
        "freq": option(
            str | None,
            "The length of a period: 'hour', 'day', 'week', 'month', 'quarter' or 'year'; 'month' by default.",
        ),
        "count": option(
            str | None, "The column with the count of each row, such as quantity; every row counts once by default."
        ),
        "header": (
            Annotated[
                bool,
                typer.Option(
                    "--no-header",
                    help="Treat the first line of a CSV or TSV file as data, and name the columns column_1, column_2, "
                    "...",
                ),
            ],
            False,
        ),
        "where": option(
            str | None, 'Keep only the rows that meet an SQL condition, such as "IsRootEvent = 1" or "kind = \'sale\'".'
        ),
        "dedup": option(
            str,
            "Which repeats of an event to drop: 'none', those in the same 'story', or those on the same 'day'.",
            "none",
        ),
        "diagonal": option(
            str,
            "Events between an actor and itself, in modes that share labels: make the cells 'missing', 'drop' the "
            "rows, or 'keep' them.",
            "missing",
        ),
        "shared_modes": option(
            str | None, "Modes that share one list of labels, such as source,target.", metavar="MODE,MODE,..."
        ),
        "undirected": option(
            str | None,
            "Two modes whose order does not matter, such as the ends of a contact: one,other. Counts in both "
            "directions are added; if a tensor has the same counts in both, they count once. Works for tensors too.",
            metavar="MODE,MODE",
        ),
        "min_count": option(int | None, "Drop labels whose total count is below this."),
        "unobserved": option(
            str | None, "Periods that were not observed, such as 2018-05,2018-06. They become missing, not zero."
        ),
        "incomplete": option(
            str,
            "What to do with periods that seem to have been observed only in part, such as a last month that ends "
            "early: 'keep' or 'drop' them, or weight them by the share that was observed ('exposure').",
            "keep",
        ),
        "exposure": (_Exposures, None),
        "like": option(
            str | None,
            "A tensor file: read the table with its modes, its labels and its length of periods.",
            metavar="FILE",
        ),
        "new_labels": option(str, "What to do with labels that --like lacks: 'error', 'drop' or 'append'.", "error"),
        "on_error": option(str, "What to do with unreadable rows: 'raise' an error, or 'drop' them.", "raise"),
    },
)


def _gather_events(given: dict[str, Any]) -> dict[str, Any]:
    """Return the options that differ from their defaults, as `read_events` takes them."""
    chosen = {name: value for name, value in given.items() if value != _EVENT_OPTIONS[name][1]}
    if "header" in chosen:
        chosen["header"] = False  # --no-header was given
    if "modes" in chosen:
        parts = [part.strip().partition("=") for part in chosen["modes"].split(",")]
        named = any(equals for _, equals, _ in parts)
        chosen["modes"] = (
            {name: column or name for name, _, column in parts} if named else [name for name, _, _ in parts]
        )
    for name in ("shared_modes", "undirected", "unobserved"):
        if name in chosen:
            chosen[name] = [part.strip() for part in chosen[name].split(",")]
    if exposures := chosen.pop("exposure", None):
        if "days" in exposures:
            chosen["exposure"] = "days"
        if weights := [each for each in exposures if each != "days"]:
            chosen["weights"] = weights  # a setting of the model
    return chosen


takes_events = takes("events", _EVENT_OPTIONS, _gather_events)
_OF_A_RUN = {name: each for name, each in _EVENT_OPTIONS.items() if name not in ("like", "new_labels", "exposure")}
takes_events_of_a_run = takes("events", _OF_A_RUN, _gather_events)


def read_data(data: Sequence[str], events: dict[str, Any], **more: Any) -> ac.CountTensor:
    """Read a tensor from a tensor file, or from tables of events with `more` arguments of `read_events`."""
    if "weights" in events:
        rule = "must be 'days' here: weights from a file are a setting of a model, as of allocore fit"
        raise InputError("exposure", events["weights"][0], rule)
    tensor = only_tensor(data)
    if tensor is not None:
        options = dict(events)
        pair = options.pop("undirected", None)
        refuse_options(options, f"{tensor} is a tensor")
        Y = read_tensor(tensor, "source")
        return Y if pair is None else _undirected(Y, pair)
    for path in data:
        if is_run(path):
            raise InputError("data", path, "must be data, and this is a run (see allocore info and allocore resume)")
    with waiting("reading events", in_logs_only=True):  # on a terminal duckdb shows its own bar
        return ac.read_events(data[0] if len(data) == 1 else list(data), **events, **more)


def _undirected(Y: ac.CountTensor, pair: Sequence[str]) -> ac.CountTensor:
    try:
        return Y.undirected(pair, asymmetric="sum")
    except InputError as error:
        if error.argument != "modes":
            raise
        raise InputError("undirected", error.value, error.rule) from None


def read_as_in(fitted: ac.CountTensor, data: Sequence[str], events: dict[str, Any]) -> ac.CountTensor:
    """Read new data with the settings that the data of a fit were read with, unless `events` has others.

    Labels that the fit does not have are in the tensor: who uses it decides what to do with them.
    """
    known = {} if fitted.report is None else dict(fitted.report.reading)
    if only_tensor(data) is not None:
        return read_data(data, events)
    if "modes" in events:  # they may have other columns of time
        known.pop("time", None)
    try:
        return read_data(data, {**known, **events}, like=fitted, new_labels="append")
    except InputError as error:
        has_format = fitted.report is not None and fitted.report.format != "custom"
        if has_format or "modes" in known | events or error.argument not in ("modes", "time"):
            raise
        columns = ",".join(f"{name}=COLUMN" for name in fitted.mode_names)
        rule = f"does not say which columns its modes come from; name them with --modes {columns} ({error})"
        raise InputError("run", rule=rule) from None


def read_tensor(path: str, argument: str) -> ac.CountTensor:
    """Read a tensor from a file. Errors about the file name the argument of the command."""
    try:
        return ac.as_tensor(path)
    except InputError as error:
        if error.argument != "path":
            raise
        raise InputError(argument, error.value, error.rule) from None


def only_tensor(data: Sequence[str]) -> str | None:
    """Return the path of a tensor, or None for tables of events. A tensor among several paths is refused."""
    tensors = [path for path in data if is_tensor_file(path)]
    if tensors and len(data) > 1:
        rule = f"must be one tensor or any number of tables of events, and {tensors[0]} is a tensor"
        raise InputError("data", list(data), rule)
    return tensors[0] if tensors else None


def is_run(data: str) -> bool:
    """Return whether a path is the folder of a run, and not that of a tensor in shards."""
    return (Path(data) / ".zgroup").is_file() and not _is_in_shards(data)


def _is_in_shards(data: str) -> bool:
    """Return whether a folder is a tensor in shards, even a damaged one; a run has no folder coords."""
    return is_sharded(Path(data)) or ((Path(data) / ".zgroup").is_file() and (Path(data) / "coords").is_dir())


def refuse_options(events: dict[str, Any], because: str) -> None:
    """Raise an error if options for tables of events were given: none is silently ignored."""
    for name, value in events.items():
        raise InputError(name, value, f"applies only to tables of events, and {because}")


def is_tensor_file(data: str) -> bool:
    """Return whether a file is a tensor: by its name, or a Parquet file or a folder of shards that allocore wrote."""
    from allocore.tensor.files import is_saved_parquet

    if Path(data).name.endswith((".npz", ".npy", ".tns", ".tns.gz")) or _is_in_shards(data):
        return True
    return data.endswith(".parquet") and Path(data).is_file() and is_saved_parquet(Path(data))


def print_data(console: Output, Y: ac.CountTensor, *, binary: bool = False, heaviest: bool = True) -> None:
    """Print the report on the events of a tensor; without one, or if the tensor is now binary, itself in one line."""
    console.keep(data=data_object(Y))
    if Y.report is None:
        console.print(Text(repr(Y)))
        return
    grid = Table.grid(padding=(0, 2))
    report = Y.report if heaviest else replace(Y.report, heaviest={})
    for name, text in report.lines():
        shown = Text(text)  # the user's own labels and columns, except in the notes
        if name in ("note", "periods without events"):
            shown = in_options(shown)
        grid.add_row(Text(name, style="bold"), shown)
    console.print(grid)
    if binary:  # the report is about the events
        console.print(Text(repr(Y)))


def exposures_given(given: Sequence[str] | None) -> "list[tuple[str, pd.Series[Any]]]":
    """Return modes and the weights of their labels, from texts such as month=days.csv."""
    found = []
    for text in given or ():
        mode, equals, path = text.partition("=")
        if not (mode and equals and path):
            raise InputError("exposure", text, "must be a mode and a file, such as month=days.csv")
        found.append((mode, exposure_in(Path(path))))
    return found


def exposure_in(path: Path) -> "pd.Series[Any]":
    """Return the weights of labels, from a table with a column of labels and one of weights."""
    import pandas as pd

    frame = read_frame(path, "exposure")
    if frame.shape[1] != 2:
        rule = f"must have two columns, labels and weights, and it has {frame.shape[1]}"
        raise InputError("exposure", str(path), rule)
    _check_whole(frame, path, "exposure")
    labels, weights = frame.iloc[:, 0], pd.to_numeric(frame.iloc[:, 1], errors="coerce")
    if weights.isna().any():
        label, text = frame.iloc[int(weights.isna().argmax())]
        raise InputError("exposure", Described(f"{text!r} for {str(label)!r}"), "must be a number")
    return pd.Series(weights.to_numpy(float), index=labels.astype(str))


def _check_whole(frame: "pd.DataFrame", path: Path, argument: str) -> None:
    """Check that a table has rows, and no empty cells."""
    if frame.empty:
        raise InputError(argument, str(path), "must have at least one row")
    empty = frame.columns[frame.isna().any()]
    if len(empty):
        row = int(frame[empty[0]].isna().argmax()) + 1
        raise InputError(argument, str(path), f"must have no empty cells: row {row} has no {empty[0]}")


def modes_with(exposures: "Sequence[tuple[str, pd.Series[Any]]]", Y: ac.CountTensor) -> dict[str, ac.Mode]:
    """Return the setting `modes` of a model of a tensor."""
    return {name: ac.Mode(exposure=weights) for name, weights in _by_mode("exposure", exposures, Y).items()}


def _by_mode(argument: str, pairs: Iterable[tuple[str, Any]], Y: ac.CountTensor) -> dict[str, Any]:
    """Return what an option gives for modes, by the names of the modes of a tensor."""
    found: dict[str, Any] = {}
    for mode, value in pairs:
        known = mode_given(mode, Y.mode_names)
        if known not in (*Y.mode_names, *range(Y.ndim)):
            near = did_you_mean(mode, Y.mode_names)
            raise InputError(argument, mode, f"must be for a mode of DATA, one of {', '.join(Y.mode_names)}{near}")
        name = Y.mode_names[Y.mode(known)]
        if name in found:
            raise InputError(argument, mode, "must name each mode once")
        found[name] = value
    return found


class KnownFactorsGiven(NamedTuple):
    """What --seeds, --freeze and --free give for modes, in their own words."""

    seeds: dict[str, dict[str, list[str]]]
    frozen: "list[tuple[str, ac.Posterior]]"
    free: list[tuple[str, int]]

    @classmethod
    def of(
        cls, seeds: Path | None, freeze: Sequence[str] | None, free: Sequence[str] | None, *, has_chains: bool
    ) -> "KnownFactorsGiven":
        """Return what the options say, with the seeds that are in a file, and the runs."""
        for name, value in {"seeds": seeds, "freeze": freeze, "free": free}.items():
            if value and not has_chains:
                raise InputError(name, NO_VALUE, "needs a model with priors, and nntuck has none")
        numbers = [(mode, _whole("free", number)) for mode, number in _pairs("free", free, "action=5")]
        runs = [(mode, _run_given("freeze", run)) for mode, run in _pairs("freeze", freeze, "action=old_run.zarr")]
        return cls({} if seeds is None else seeds_in(seeds), runs, numbers)

    def add_to(self, modes: dict[str, ac.Mode], Y: ac.CountTensor) -> dict[str, ac.Mode]:
        """Return the setting `modes` of a model of a tensor with what the options say."""
        options = {"seeds": self.seeds.items(), "frozen": self.frozen, "free": self.free}
        found = dict(modes)
        for field, pairs in options.items():
            for name, value in _by_mode("freeze" if field == "frozen" else field, pairs, Y).items():
                found[name] = replace(found.get(name, ac.Mode()), **{field: value})
        return found


def seeds_in(path: Path) -> dict[str, dict[str, list[str]]]:
    """Return the labels of each seed of each mode, from a table with the columns mode, factor and label."""
    frame = read_frame(path, "seeds")
    if set(frame.columns) != {"mode", "factor", "label"}:
        rule = f"must have the columns mode, factor and label, and it has {', '.join(map(str, frame.columns))}"
        raise InputError("seeds", str(path), rule)
    _check_whole(frame, path, "seeds")
    found: dict[str, dict[str, list[str]]] = {}
    for mode, factor, label in frame[["mode", "factor", "label"]].astype(str).itertuples(index=False):
        found.setdefault(mode, {}).setdefault(factor, []).append(label)
    return found


def _run_given(argument: str, path: str) -> "ac.Posterior":
    """Open the run that an option names; an error is about the option."""
    try:
        return ac.open_run(path)
    except InputError as error:
        raise InputError(argument, error.value, error.rule) from None


def _pairs(argument: str, given: Sequence[str] | None, example: str) -> list[tuple[str, str]]:
    """Return modes and values from texts such as month=days.csv."""
    found = []
    for text in given or ():
        mode, equals, value = text.partition("=")
        if not (mode and equals and value):
            raise InputError(argument, text, f"must be a mode and a value, such as {example}")
        found.append((mode, value))
    return found


def _whole(argument: str, text: str) -> int:
    if not text.isdecimal():
        raise InputError(argument, text, "must be a whole number of at least 0")
    return int(text)


def mode_given(mode: str, mode_names: tuple[str, ...]) -> str | int:
    """Return a mode's name, or its number if no mode has that name."""
    try:
        return mode if mode in mode_names else int(mode)
    except ValueError:
        return mode


_LIKELIHOOD_OPTIONS = _in_panel(
    "Likelihood and concentrations",
    {
        "likelihood": option(
            str,
            "'poisson'; 'negative-binomial' or 'nb', for counts that come in bursts; 'bernoulli', for zeros and ones; "
            "or 'auto', which is 'bernoulli' if all counts are 0 or 1, and 'negative-binomial' otherwise.",
            "auto",
        ),
        "dispersion_by": option(
            str | None,
            "A mode, by name or number, whose rows each have their own dispersion (negative binomial only); by default "
            "all cells share one.",
        ),
        # The default is not 1, so that a model without concentrations can refuse any.
        "e0": option(
            str | None,
            "The concentration of the factors: a number, one per mode (0.1,0.1,1,1), or 'infer' to learn one per mode. "
            "With smaller values, fewer labels dominate each factor. The default is 1.",
        ),
        "binary": (Annotated[bool, typer.Option("--binary", help="Replace every count above 0 by 1.")], False),
    },
)


def _gather_likelihood(given: dict[str, Any]) -> dict[str, Any]:
    given = {**given, "likelihood": whole_name(given["likelihood"])}
    check_likelihood(given["likelihood"])
    text = given["e0"]
    if text is None or text.strip() == "infer":
        return {**given, "e0": text and "infer"}
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError("e0", text, "must be a number, one number per mode like 0.1,0.1,1,1, or infer") from None
    concentrations_for(len(numbers), numbers)
    return {**given, "e0": numbers[0] if len(numbers) == 1 else numbers}


takes_likelihood = takes("likelihood", _LIKELIHOOD_OPTIONS, _gather_likelihood)
# In a comparison, a name without a suffix is the model of the paper.
_OF_NAMES = {**_LIKELIHOOD_OPTIONS, "likelihood": (_LIKELIHOOD_OPTIONS["likelihood"][0], "poisson")}
takes_likelihood_of_names = takes("likelihood", _OF_NAMES, _gather_likelihood)


def settings_of(likelihood: dict[str, Any], Y: ac.CountTensor) -> tuple[ac.CountTensor, dict[str, Any]]:
    """Return the tensor, binary if that was asked for, and the settings as models and comparisons take them."""
    by, e0 = likelihood["dispersion_by"], likelihood["e0"]
    settings = {"likelihood": likelihood["likelihood"], "e0": 1.0 if e0 is None else e0}
    settings["dispersion_by"] = None if by is None else mode_given(by, Y.mode_names)
    return Y.binarize() if likelihood["binary"] else Y, settings


# An option that the model does not have, or that has no effect, is refused before the data are read.
MODELS = {"allocore": "AlloCore", "cp": "CP", "tucker": "Tucker", "nntuck": "NNTuck"}
_NNTUCK = "Only for --model nntuck"
_DEFAULTS = {"allocore": {"budget": "100"}}  # as in Python
_SIZES = {"budget": "the number of classes, such as 50", "core_shape": "the factors of each mode, such as 5x5x3x2"}


def _setting(
    kind: Any, help: str, default: object = None, panel: str | None = None, metavar: str | None = None
) -> tuple[Any, Any]:
    """An option whose value is None unless it is given; the help states the default of the model."""
    told = help if default is None else f"{help} The default is {default}."
    return option(kind | None, told, panel=panel, metavar=metavar)


def _prior(name: str, help: str) -> tuple[Any, Any]:
    return _setting(float, help, f"{Spec.__dataclass_fields__[name].default:g}", "Priors")


_MODEL_OPTIONS: _Group = {
    "model": option(
        str,
        "'allocore'; 'cp' (classes share no factors); 'tucker' (a class at every location of the core); or 'nntuck' "
        "(tucker fitted by maximum likelihood).",
        "allocore",
    ),
    "budget": _setting(
        str,
        "For allocore, Q: the maximum number of classes, or 'infer' to learn it. The default is 100. For cp, the "
        "number of classes, which must be given.",
    ),
    "max_budget": _setting(int, "Maximum number of classes with --budget infer.", 400),
    "core_shape": _setting(
        str,
        "Factors per mode, such as 50x50x20x300. Required for tucker and nntuck; Q per mode by default for allocore.",
        metavar="NxNx...",
    ),
    "tied": _setting(
        str,
        "Two modes that are two roles of the same labels, such as sender,receiver: they share their factors. The "
        "diagonal must be missing.",
        metavar="MODE,MODE",
    ),
    "published": (
        Annotated[
            bool,
            typer.Option(
                "--published",
                help="The settings of the paper: Poisson, one chain, 1,000 sweeps of burn-in and 4,000 more, of which "
                "every 20th is kept (allocore only). Other options override them.",
            ),
        ],
        False,
    ),
    "sweeps": _setting(
        str,
        "Sweeps of each chain, of which the first half is discarded, or 'auto': start with 250 and double until the "
        "chains no longer drift.",
        "'auto'",
    ),
    "burn_in": _setting(int, "Sweeps to discard. Use with --draws and --thin instead of --sweeps."),
    "draws": _setting(int, "Draws to keep."),
    "thin": _setting(int, "Sweeps per draw."),
    "chains": _setting(
        str,
        "Independent chains, run in parallel, or 'auto': start with 8 and double until another run would find the same "
        "classes.",
        "'auto'",
    ),
    "max_sweeps": _setting(int, "Maximum number of sweeps with --sweeps auto.", 4000),
    "max_chains": _setting(int, "Maximum number of chains with --chains auto.", 32),
    "max_time": _setting(float, "Stop the run after this many seconds. It keeps its draws and can be resumed."),
    "quick": (
        Annotated[
            bool | None,
            typer.Option(
                "--quick",
                help="Take a quick look: the first 50 sweeps of the first 4 chains. allocore resume turns them into "
                "the full fit.",
            ),
        ],
        None,
    ),
    "a0": _prior("a0", "Shape of the gamma prior of the core values. Below 1, it favours values near zero."),
    "b0": _prior("b0", "Rate of the gamma prior of the core values. The mean of the prior is a0 / b0."),
    "f0": _prior("f0", "Rate of the gamma prior of the factors. Its shape is --e0, and its mean e0 / f0."),
    "alpha0": _prior(
        "alpha0",
        "Concentration of the Dirichlet prior of the locations in each mode (allocore only). With smaller "
        "values, more classes share factors.",
    ),
    "c0": _prior("c0", "First parameter of the beta prior of the share of classes in use, with --budget infer."),
    "d0": _prior(
        "d0",
        "Second parameter of the beta prior of the share of classes in use, with --budget infer. The mean of the prior "
        "is c0 / (c0 + d0).",
    ),
    "s0": _prior("s0", "Shape of the gamma prior of the concentrations, with --e0 infer."),
    "t0": _prior(
        "t0", "Rate of the gamma prior of the concentrations, with --e0 infer. The mean of the prior is s0 / t0."
    ),
    "g0": _prior("g0", "First parameter of the beta prior of the dispersion p, with --likelihood negative-binomial."),
    "h0": _prior(
        "h0",
        "Second parameter of the beta prior of the dispersion p, with --likelihood negative-binomial. The mean of the "
        "prior is g0 / (g0 + h0). With --dispersion-by, rows with few cells need more than 1 for a finite expected "
        "count, and more than 2 for a finite variance.",
    ),
    "restarts": _setting(int, "Number of random starts. The best one is saved.", 20, _NNTUCK),
    "max_iter": _setting(int, "Maximum number of iterations per start.", 1000, _NNTUCK),
    "tol": _setting(
        float,
        "A start has converged when the relative change of the log-likelihood is smaller than this.",
        "1e-07",
        _NNTUCK,
    ),
}


@dataclass(frozen=True)
class ChosenModel:
    """A model by its name on the command line, and the settings that were given for it, by their names in Python."""

    name: str
    settings: dict[str, Any]
    published: bool = False

    @property
    def has_chains(self) -> bool:
        """Whether it is drawn by Gibbs sampling: then it has priors and chains, and its runs can be resumed."""
        return self.name != "nntuck"

    def check_memory(self) -> None:
        """Refuse, before the data are read, a budget that is too large for the memory whatever the data are."""
        from allocore.run.memory import check_budget

        if self.name == "allocore":
            name = "max_budget" if self.settings["budget"] == "infer" else "budget"
            if name in self.settings:
                check_budget(name, self.settings[name], self.settings.get("core_shape"))

    def check_likelihood(self, likelihood: dict[str, Any]) -> None:
        """Check that the model has the likelihood and the concentrations asked for, and that they use its priors."""
        name, e0 = likelihood["likelihood"], likelihood["e0"]
        if not self.has_chains and name not in ("auto", "poisson"):
            raise InputError("likelihood", name, "must be poisson for nntuck")
        if not self.has_chains and e0 is not None:
            raise _not_in_model("e0", e0, self.name)
        for prior in self.settings:
            if prior in ("s0", "t0") and e0 != "infer":
                raise InputError(prior, self.settings[prior], "needs --e0 infer")
            if prior in ("g0", "h0") and name not in ("auto", "negative-binomial"):
                raise InputError(prior, self.settings[prior], "needs --likelihood negative-binomial")

    def estimator(self, likelihood: dict[str, Any], **more: Any) -> Any:
        """Return the estimator, with the likelihood and the concentrations if the model has a choice of them."""
        drawn = dict(likelihood) if self.has_chains else {}
        if self.published and drawn["likelihood"] == "auto":
            drawn["likelihood"] = PUBLISHED["likelihood"]
        return getattr(ac, MODELS[self.name])(**{**drawn, **self.settings, **more})


def _gather_model(given: dict[str, Any]) -> ChosenModel:
    model = given["model"]
    if model not in MODELS:
        raise InputError("model", model, f"must be one of {', '.join(MODELS)}")
    own = {name: value for name, value in given.items() if name not in ("model", "published") and value is not None}
    if given["published"] and model != "allocore":
        raise _not_in_model("published", True, model)
    asked = {**_DEFAULTS.get(model, {}), **(_published(own) if given["published"] else {}), **own}
    known = {field.name for field in fields(getattr(ac, MODELS[model]))} | ({"budget"} if model == "cp" else set())
    for name, value in asked.items():
        if name not in known:
            raise _not_in_model(name, value, model)
        if isinstance(value, float) and name != "tol":
            positive(name, value)
    size = "budget" if "budget" in known else "core_shape"
    if size not in asked:
        raise InputError(size, rule=f"must be given: {_SIZES[size]}")
    settings = asked | _sizes(asked, model) | _pair(asked)
    for name in ("sweeps", "chains"):
        if name in settings:
            settings[name] = number_or_auto(name, settings[name])
    if model == "cp":
        settings["rank"] = settings.pop("budget")
    return ChosenModel(model, settings, given["published"])


def _published(own: dict[str, Any]) -> dict[str, Any]:
    """Return the paper's chains and schedule; `sweeps`, if given, replaces the schedule."""
    names = ("chains",) if "sweeps" in own else ("chains", "burn_in", "draws", "thin")
    return {name: PUBLISHED[name] for name in names}


def number_or_auto(name: str, text: object) -> object:
    """Return a whole number of at least 1, or "auto"."""
    if text == "auto" or isinstance(text, int):
        return text
    try:
        number = int(str(text))
    except ValueError:
        raise InputError(name, text, "must be a whole number or auto") from None
    return whole_number(name, number)


def _sizes(asked: dict[str, Any], model: str) -> dict[str, Any]:
    sizes: dict[str, Any] = {}
    if "budget" in asked:
        sizes["budget"] = budget = _budget(asked["budget"], model)
        for name in ("max_budget", "c0", "d0"):
            if name in asked and budget != "infer":
                raise InputError(name, asked[name], "needs --budget infer")
    if "core_shape" in asked:
        sizes["core_shape"] = sizes_given(asked["core_shape"])
    return sizes


def _pair(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the two modes of --tied, by name or number."""
    text = asked.get("tied")
    return {} if text is None else {"tied": tuple(int(each) if each.isdecimal() else each for each in text.split(","))}


def _budget(budget: str, model: str) -> int | Literal["infer"]:
    if budget == "infer" and model == "allocore":
        return "infer"
    try:
        number = int(budget)
    except ValueError:
        rule = "must be a whole number or infer" if model == "allocore" else f"must be a whole number for {model}"
        raise InputError("budget", budget, rule) from None
    return whole_number("budget", number)


def sizes_given(core_shape: str | None) -> tuple[int, ...] | None:
    """Return the sizes of a core from text such as 50x50x20x300."""
    if core_shape is None:
        return None
    try:
        return tuple(int(size) for size in core_shape.replace("x", ",").split(","))
    except ValueError:
        rule = "must be whole numbers joined by x, like 50x50x20x300"
        raise InputError("core_shape", core_shape, rule) from None


def _not_in_model(name: str, value: object, model: str) -> InputError:
    why = "only nntuck is fitted from random starts"
    if name == "budget":
        why = "use --core-shape to set its size, such as 20x20x6x3"
    elif model == "nntuck":
        why = "it is fitted by maximum likelihood, without priors and chains"
    elif name == "core_shape":
        why = "use --budget to set its size, the number of classes"
    elif name == "alpha0":
        why = "its locations are fixed"
    elif name == "published":
        why = "these are settings of allocore"
    elif name in ("max_budget", "c0", "d0"):
        why = "only allocore can learn its budget"
    return InputError(name, value, f"does not apply to {model}: {why}")


takes_model = takes("chosen", _MODEL_OPTIONS, _gather_model)


def _cluster_option(what: str, same: str) -> Any:
    text = (
        f"Run the {what} on a Dask cluster: the address of its scheduler (tcp://host:8786), its scheduler file, or "
        f"local:4 for four processes on this machine. The {same} are the same. Needs allocore\\[cluster]."
    )
    return typer.Option(metavar="ADDRESS", help=text)


Cluster = Annotated[str | None, _cluster_option("chains", "draws")]
ClusterOfFits = Annotated[str | None, _cluster_option("fits", "scores")]
_ANSWERS_WITHIN = 15  # seconds
_LOCAL: dict[str, Any] = {
    "threads_per_worker": 1,
    "preload": ["allocore.cli.local_worker"],
    "silence_logs": "CRITICAL",
    # No dashboard, and any port: without an address, Dask wants its usual port, and warns if it is taken.
    "dashboard_address": ":0",
    "scheduler_kwargs": {"dashboard": False},
}


def check_cluster(address: str | None) -> None:
    """Refuse, before reading data, a wrong number of processes, or a file without an address: Dask would wait."""
    if address is None:
        return
    if address.startswith("local:"):
        number = address.removeprefix("local:")
        if not number.isdecimal() or int(number) < 1:
            raise InputError("cluster", address, "must have a whole number of at least 1 after local:")
    elif _is_scheduler_file(address):
        path = Path(address)
        if not path.is_file():
            what = "this is a folder" if path.is_dir() else "this file does not exist"
            rule = f"must be a scheduler file, and {what}; dask scheduler --scheduler-file {path} writes one"
            raise InputError("cluster", address, rule)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            rule = f"must be a scheduler file, and this file is not JSON ({error})"
            raise InputError("cluster", address, rule) from None
        if not isinstance(content, dict) or not isinstance(content.get("address"), str):
            rule = "must be a scheduler file, and this file has no address of a scheduler"
            raise InputError("cluster", address, rule)


def _is_scheduler_file(address: str) -> bool:
    if "://" in address:
        return False
    return Path(address).exists() or address.endswith(".json") or "/" in address or "\\" in address


@contextmanager
def cluster_of(address: str | None) -> Iterator[Any]:
    """Connect to a cluster, or start a local one, for as long as it is needed; None if no address is given."""
    if address is None:
        yield None
        return
    try:
        import distributed
    except ImportError:
        raise InputError("cluster", address, "needs Dask: pip install '.[cluster]' in a clone of allocore") from None
    check_cluster(address)
    # Lost workers and schedulers get one sentence from us, so Dask and its event loop need not log them.
    for name in ("distributed", "distributed.client", "tornado.application", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    client_of: Any = distributed.Client
    cluster_on: Any = distributed.LocalCluster
    with ExitStack() as stack:
        with _interrupted_later():
            if address.startswith("local:"):
                workers = int(address.removeprefix("local:"))
                own = stack.enter_context(cluster_on(n_workers=workers, **_LOCAL))
                client = stack.enter_context(client_of(own))
            else:
                client = stack.enter_context(_connected(client_of, address))
        yield client


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """Block Ctrl-C, also in what Dask starts, until it has started: Dask would print, or lose, an exception."""
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    resource_tracker.ensure_running()  # when multiprocessing starts it, it lets the signal through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _connected(client: Any, address: str) -> Any:
    where = {"scheduler_file" if _is_scheduler_file(address) else "address": address}
    try:
        return client(**where, timeout=_ANSWERS_WITHIN)
    except (OSError, ValueError, KeyError, TypeError, AssertionError) as error:  # all that Dask raises for an address
        rule = f"must be the address of a scheduler, a scheduler file, or local:4; no scheduler answers there ({error})"
        raise InputError("cluster", address, rule) from None
