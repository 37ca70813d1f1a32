"""The format of a run: its variables, in the ArviZ schema, and their files in Zarr's format 2; and what damage does.

Variables: `sweep_stats` has the statistics of all sweeps, burn-in included; `held_out` the test cells, if any. The
dimensions chain and draw (or sweep) come first, then those with the tensor's labels as coordinates, and `q`, the Q
classes; the number of a class has no meaning from one draw to the next.

Chunks: about a megabyte of the values of a chain, one per draw or sweep; a value of more than 64 megabytes is cut along
its first dimension. Zstandard's checksum finds damage, and every file is replaced as a whole. Numbers are stored by
column, so that unused factors, which are zero, take almost no space.

Labels: NumPy's text has the width of the longest label, four bytes a character: one label of 3,000 characters among
100,000 would take 1.2 GB. Where that is large, the labels of mode 0 are UTF-8 in constant_data/labels_0_utf8, and the
offsets in labels_0_offsets say where each begins; in a DataTree in memory they are Python strings.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from allocore._io import replacing, settle
from allocore._zarr import as_utf8, encode, parsed_object, read_chunk, read_json
from allocore.errors import InputError, StoreError, reason_of
from allocore.findings import Finding, warn
from allocore.model.spec import Spec
from allocore.model.state import State
from allocore.tensor.count_tensor import CountTensor
from allocore.tensor.labels import ModeLabels
from allocore.tensor.shards import is_sharded

OnError = Literal["raise", "drop"]
OnDamage: TypeAlias = Callable[[Path, range, Exception], None]  # file, places of its values, reason; may raise
RUN_FORMAT = "1"
METADATA = ".zmetadata"
FLOAT, WHOLE = "<f8", "<i8"
STATS = {  # of a sweep: the type of each, and whether it has a value for each mode
    "log_likelihood": (FLOAT, False),
    "classes": (WHOLE, False),
    "factors": (WHOLE, True),
    "moved": (FLOAT, False),
    "seconds": (FLOAT, False),
    "relocation_accepted": (FLOAT, False),
    "split_merge_accepted": (FLOAT, False),
}
ADDED_STATS = ("relocation_accepted", "split_merge_accepted")  # older runs do not have these; NaN without a proposal
_ATTRIBUTES = ("inference_library_version", "packages", "settings", "seed", "tensor")
_MAX_NAME_BYTES = 240  # file systems allow 255
_CHUNK_BYTES, _MAX_CHUNK_BYTES, _MAX_CHUNK_VALUES = 2**20, 2**26, 512
_SMALL_LABELS_BYTES = 2**26
_MAX_WASTE = 8  # bytes of NumPy's text per byte of UTF-8, above which larger labels are stored as UTF-8


class Growing(NamedTuple):
    """A variable with one value, of `shape`, for each chain and each draw or sweep.

    Integers are never negative; if `below` is given, they are below it, along the last dimension. Floats are never NaN,
    unless they `may_be_nan`; then they are never negative.
    """

    group: str
    name: str
    along: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    below: tuple[int, ...] | None = None
    may_be_nan: bool = False

    @property
    def path(self) -> str:
        """The path of the variable in the tree."""
        return f"{self.group}/{self.name}"


class Names(NamedTuple):
    """The names for one mode: the dimension of its labels, that of its factors, and the variable over both."""

    row: str
    column: str
    factors: str


def dimension_names(mode_names: Sequence[str]) -> list[Names]:
    """Names for every mode, unlike each other, those of the schema and, by tensor/labels.py, Zarr's own files."""
    taken = {"core_values", "core_locations", "concentrations", "dispersion_log_odds", "mode", "chain", "draw", "q"}

    def free_name(wanted: str) -> str:
        name = wanted.replace("/", "_").encode()[:_MAX_NAME_BYTES].decode(errors="ignore")
        while name in taken:
            name += "_"
        taken.add(name)
        return name

    names = []
    for name in mode_names:
        row = free_name(name)
        names.append(Names(row, free_name(f"{row}_factor"), free_name(f"factors_{name}")))
    return names


def draw_variables(tensor: CountTensor, spec: Spec) -> list[Growing]:
    """The variables of the posterior: core, factors and, if they are learned, concentrations and dispersions."""
    modes, budget, names_M = len(tensor.shape), spec.budget, dimension_names(tensor.mode_names)
    variables = [
        Growing("posterior", "core_values", "draw", ("q",), (budget,), FLOAT),
        Growing("posterior", "core_locations", "draw", ("q", "mode"), (budget, modes), WHOLE, spec.core_shape),
    ]
    for names, length, width in zip(names_M, tensor.shape, spec.core_shape, strict=True):
        dims = names.row, names.column
        variables.append(Growing("posterior", names.factors, "draw", dims, (length, width), FLOAT))
    if spec.infer_concentrations:
        variables.append(Growing("posterior", "concentrations", "draw", ("mode",), (modes,), FLOAT))
    if spec.observation.has_dispersion:
        by = [] if spec.dispersion_by is None else [spec.dispersion_by]
        rows, lengths = tuple(names_M[mode].row for mode in by), tuple(tensor.shape[mode] for mode in by)
        variables.append(Growing("posterior", "dispersion_log_odds", "draw", rows, lengths, FLOAT))
    return variables


def draw_values(state: State) -> list[NDArray[Any]]:
    """The values of `draw_variables` in a state."""
    values = [state.core_values(), state.subs_QM, *(state.factors(mode) for mode in range(len(state.log_phi)))]
    if state.concentrations_M.size:
        values.append(state.concentrations_M)
    if state.dispersion is not None:
        log_odds_D = state.dispersion.log_odds_D
        values.append(log_odds_D[0] if state.dispersion.mode is None else log_odds_D)
    return values


def stat_variables(tensor: CountTensor, group: str, run: Path | None = None) -> dict[str, Growing]:
    """The statistics of the sweeps of a group, by name; given a run, only those that it has: it may be older."""
    along, modes = ("draw" if group == "sample_stats" else "sweep"), len(tensor.shape)
    return {
        stat: Growing(
            group,
            _name_in(group, stat, run),
            along,
            ("mode",) * by_mode,
            (modes,) * by_mode,
            dtype,
            None,
            stat in ADDED_STATS,
        )
        for stat, (dtype, by_mode) in STATS.items()
        if run is None or stat not in ADDED_STATS or (run / group / stat).is_dir()
    }


def _name_in(group: str, stat: str, run: Path | None) -> str:
    """The name of a statistic in a group: ArviZ takes `sample_stats.log_likelihood` for values of single cells."""
    if (group, stat) != ("sample_stats", "log_likelihood") or (run is not None and (run / group / stat).is_dir()):
        return stat  # also in older runs
    return "log_likelihood_total"


def growing_variables(tensor: CountTensor, spec: Spec, run: Path | None = None) -> list[Growing]:
    """All variables that grow during a run; given the folder of a run, only those that it has."""
    stats = [each for group in ("sample_stats", "sweep_stats") for each in stat_variables(tensor, group, run).values()]
    return [*draw_variables(tensor, spec), *stats]


def chunk_shape(variable: Growing) -> tuple[int, ...]:
    """(chain, draw or sweep, ...): one chain, some values; a very large value is cut along its first dimension."""
    value_bytes = 8 * math.prod(variable.shape)
    values = min(max(1, _CHUNK_BYTES // value_bytes), _MAX_CHUNK_VALUES)
    if value_bytes <= _MAX_CHUNK_BYTES:
        return (1, values, *variable.shape)
    row_bytes = value_bytes // variable.shape[0]
    return (1, 1, max(1, _MAX_CHUNK_BYTES // row_bytes), *variable.shape[1:])


def _blocks(variable: Growing, chain: int, index: int) -> Iterator[tuple[str, tuple[slice, ...]]]:
    """The files with the values (draw or sweep, ...) of a chunk: the name of each, and the part that is in it."""
    shape = chunk_shape(variable)
    step, rows = (shape[2], variable.shape[0]) if variable.shape else (1, 1)
    for block in range(-(-rows // step)):
        places = (chain, index, block, *(0 for _ in shape[3:]))[: len(shape)]
        yield ".".join(map(str, places)), (slice(None), slice(block * step, (block + 1) * step))[: len(shape) - 1]


def _never(variable: Growing) -> float:
    """Marks places that were never written: no value of the variable equals it."""
    return np.nan if variable.dtype == FLOAT and not variable.may_be_nan else -1


class GrowingChunks:
    """One variable of one chain: the chunk that is being filled. It is written when it is full, or by `flush`."""

    def __init__(self, run: Path, chain: int, variable: Growing) -> None:
        self._run, self._folder, self._chain, self._variable = run, run / variable.path, chain, variable
        self._shape = chunk_shape(variable)[1:]
        self._values = np.full((self._shape[0], *variable.shape), _never(variable), dtype=variable.dtype)
        self._index, self._stored, self._changed, self._damaged = 0, 0, False, False

    def resume(self, size: int, on_damage: OnDamage) -> None:
        """Continue after the `size` values on disk. All of them are read, to find damage now and not later."""
        self._stored, self._index = size, size // self._shape[0]

        def note(path: Path, places: range, error: Exception) -> None:
            on_damage(path, places, error)
            self._damaged = places[0] // self._shape[0] == self._index

        for first in range(0, size, self._shape[0]):
            last = min(first + self._shape[0], size)
            values = read_values(self._run, self._variable, self._chain, first, last, note)
            if last < first + self._shape[0]:
                self._values[: len(values)] = values

    def put(self, place: int, value: Any) -> None:
        """Set value 0, 1, ..; the values come in order."""
        if place < self._stored:  # it would be the same
            return
        index, offset = divmod(place, self._shape[0])
        if index != self._index:
            self.flush()
            self._index, self._damaged = index, False
            self._values[...] = _never(self._variable)
        self._values[offset] = value
        self._changed = True

    def flush(self) -> None:
        """Write the chunk that is being filled, if it has changed. A damaged chunk is not overwritten."""
        if not self._changed or self._damaged:
            return
        for name, where in _blocks(self._variable, self._chain, self._index):
            block = self._values[where]
            if block.shape != self._shape:  # in a file, the last block has the full size too
                block = np.pad(block, [(0, full - size) for full, size in zip(self._shape, block.shape, strict=True)])
            with replacing(self._folder / name) as file:
                file.write(encode(block, order="F"))
        settle(self._folder)
        self._changed = False


def read_values(run: Path, variable: Growing, chain: int, first: int, last: int, on_damage: OnDamage) -> NDArray[Any]:
    """Values `first` to `last` of a chain; `first` begins a chunk. If `on_damage` does not raise, gaps stay unset."""
    _, step, *_ = shape = chunk_shape(variable)
    never = _never(variable)
    values = np.full((last - first, *variable.shape), never, dtype=variable.dtype)
    for start in range(first, last, step):
        for name, where in _blocks(variable, chain, start // step):
            part = values[start - first : start - first + step][where]
            try:
                stored = read_chunk(run, f"{variable.path}/{name}", 8 * math.prod(shape)).view(variable.dtype)
                part[...] = stored.reshape(shape, order="F")[0][tuple(slice(0, size) for size in part.shape)]
                if (np.isnan(part) if np.isnan(never) else part < 0).any():
                    raise ValueError("some values were never written")
                if variable.below is not None and (part >= variable.below).any():
                    raise ValueError(f"some values are not below {variable.below}")
            except (OSError, RuntimeError, ValueError) as error:
                on_damage(run / variable.path / name, range(start, start + len(part)), error)
    return values


def _is_wide(labels: ModeLabels) -> bool:
    """Whether labels are stored as UTF-8, because text of one width would be large and mostly empty."""
    if isinstance(labels, range):
        return False
    width = 4 * len(labels) * max(map(len, labels))
    utf8 = sum(len(label.encode(errors="surrogatepass")) for label in labels)
    return width > _SMALL_LABELS_BYTES and width > _MAX_WASTE * utf8


def coordinate(labels: ModeLabels, on_disk: bool) -> NDArray[Any]:
    """Labels as a coordinate. On disk, wide labels are in `wide_labels`, and the coordinate has their positions."""
    if not _is_wide(labels):
        return np.array(labels)
    return np.arange(len(labels)) if on_disk else np.array(labels, dtype=object)


def wide_labels(labels: Sequence[ModeLabels]) -> dict[str, tuple[str, NDArray[Any]]]:
    """The variables of `constant_data` that have the wide labels, with their dimensions."""
    variables: dict[str, tuple[str, NDArray[Any]]] = {}
    for mode, each in enumerate(labels):
        if _is_wide(each):
            text, offsets = as_utf8(tuple(map(str, each)))
            variables[f"labels_{mode}_utf8"] = f"labels_{mode}_byte", text
            variables[f"labels_{mode}_offsets"] = f"labels_{mode}_offset", offsets
    return variables


def is_run(path: Path) -> bool:
    """Whether a folder is a run, finished or not."""
    return (path / "posterior").is_dir() and (path / ".zgroup").is_file()


def read_attributes(path: Path) -> dict[str, Any]:
    """The attributes of a run, after a check that this version can read it and that they have not changed."""
    if not is_run(path):
        kind = "is a folder without a run" if path.is_dir() else "is a file" if path.exists() else "does not exist"
        kind = "is a tensor in shards, which must be fitted first" if is_sharded(path) else kind
        raise InputError("path", str(path), f"must be the folder of a run; this {kind}")
    with reporting_damage(path, "its attributes (.zattrs) cannot be read"):
        attributes = read_json(path, ".zattrs")
        form = attributes["run_format"]
        wrong = [name for name in _ATTRIBUTES if form == RUN_FORMAT and not isinstance(attributes.get(name), str)]
        if wrong:
            raise ValueError(f"{wrong[0]} is {'missing' if wrong[0] not in attributes else 'not text'}")
    if form != RUN_FORMAT:
        raise StoreError(path, f"is a run of format {form}, but this version of allocore reads format {RUN_FORMAT}")
    if "checksum" not in attributes:  # an older run
        return attributes
    if attributes["checksum"] != with_checksum(attributes)["checksum"]:
        raise StoreError(path, "is damaged: its settings, its seed or the hash of its tensor have changed (.zattrs)")
    return _newest_attributes(path, attributes)


def _newest_attributes(path: Path, attributes: dict[str, Any]) -> dict[str, Any]:
    """With the settings in the consolidated metadata: a plan changes there first, together with the sizes."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        settings = read_json(path, METADATA)["metadata"][".zattrs"]
        newest = {**attributes, "settings": settings["settings"]}
        if settings["checksum"] == with_checksum(newest)["checksum"]:
            return with_checksum(newest)
    return attributes


def identity_of_draws(attributes: Mapping[str, Any]) -> tuple[Any, ...]:
    """What must be the same for draw 0, 1, .. of a chain to stay the same while a run goes on, or is extended."""
    schedule = parsed_object(attributes["settings"], "settings")["schedule"]
    return attributes["seed"], attributes["tensor"], schedule["burn_in"], schedule["thin"]


def with_checksum(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes with the checksum of those that determine the draws."""
    decisive = json.dumps([attributes[name] for name in ("settings", "seed", "tensor")])
    return {**attributes, "checksum": hashlib.sha256(decisive.encode()).hexdigest()}


def stored_model(path: Path) -> str:
    """The name of the model of a run."""
    attributes = read_attributes(path)
    with reporting_damage(path, "its settings cannot be read"):
        return str(parsed_object(attributes["settings"], "settings")["model"])


@contextmanager
def reporting_damage(path: Path, what: str) -> Iterator[None]:
    """Turn any error into a StoreError: damaged files raise many kinds, and no code from a run is executed."""
    try:
        yield
    except Exception as error:
        raise StoreError(path, f"is damaged: {what}: {reason_of(error)}") from error


class Damage:
    """Draws and statistics that cannot be read: raises at once, or notes what to leave out."""

    def __init__(self, path: Path, on_error: OnError) -> None:
        if on_error not in ("raise", "drop"):
            raise InputError("on_error", on_error, "must be 'raise' or 'drop'")
        self._path, self._on_error = path, on_error
        self._draws: set[int] = set()
        self.lost_stats: set[str] = set()

    def of_draws(self, file: Path, draws: range, error: Exception) -> None:
        """Report draws that cannot be read."""
        self._raise(f"draw {draws[0]}" if len(draws) == 1 else f"draws {draws[0]} to {draws[-1]}", file, error)
        self._draws.update(draws)

    def of_sweeps(self, file: Path, sweeps: range, error: Exception) -> None:
        """Report sweeps whose statistics cannot be read."""
        self._raise(f"the statistics of sweeps {sweeps[0] + 1} to {sweeps[-1] + 1}", file, error)
        self.lost_stats.add(file.parent.name)

    def undamaged(self, draws: int) -> NDArray[np.int64] | None:
        """The undamaged draws, or None if all are; warns about the others."""
        if not self._draws:
            return None
        lost = {"path": str(self._path), "left_out": len(self._draws), "draws": draws}
        warn(Finding("draws-left-out", "caution", lost), stacklevel=4)
        return np.setdiff1d(np.arange(draws), sorted(self._draws))

    def _raise(self, which: str, file: Path, error: Exception) -> None:
        if self._on_error == "raise":
            problem = f"is damaged: {which} cannot be read from {file.relative_to(self._path)} ({reason_of(error)}); "
            raise StoreError(self._path, f"{problem}`on_error='drop'` leaves them out and reads the others") from error
