"""The variables of a run, in the ArviZ schema, and which of them grow while it runs.

Groups: `posterior`, `sample_stats`, `observed_data`, `constant_data`; `sweep_stats`, the statistics of all sweeps,
burn-in included; and `held_out`, the test cells, if there are any. The dimensions chain and draw (or sweep) come first,
then dimensions with the tensor's labels as coordinates. The dimension `q` is the Q classes. The number of a class has
no meaning from one draw to the next.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from allocore.model.spec import Spec
from allocore.model.state import State
from allocore.tensor.count_tensor import CountTensor

FLOAT, WHOLE = "<f8", "<i8"
# The statistics of a sweep: the type of each, and whether it has a value for each mode.
STATS = {
    "log_likelihood": (FLOAT, False),
    "classes": (WHOLE, False),
    "factors": (WHOLE, True),
    "moved": (FLOAT, False),
    "seconds": (FLOAT, False),
    "relocation_accepted": (FLOAT, False),
    "split_merge_accepted": (FLOAT, False),
}
ADDED_STATS = ("relocation_accepted", "split_merge_accepted")  # older runs do not have these; NaN without a proposal
DRAWS, SWEEPS = "sample_stats", "sweep_stats"
CONCENTRATIONS, LOG_ODDS = "concentrations", "dispersion_log_odds"
HELD_OUT = "held_out"  # a group, only if cells were held out
SHARDED = "sharded_tensor"  # in observed_data in place of the cells, only if the tensor is sharded: where it is
EVENT_REPORT = "event_report"  # in constant_data, only if the tensor was made from events
_MAX_NAME_BYTES = 240  # file systems allow 255


class Names(NamedTuple):
    """The names for one mode: the dimension of its labels, that of its factors, and the variable over both."""

    row: str
    column: str
    factors: str


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


def dimension_names(mode_names: Sequence[str]) -> list[Names]:
    """Names for every mode, different from each other and from those of the schema."""
    taken = {"core_values", "core_locations", CONCENTRATIONS, LOG_ODDS, "mode", "chain", "draw", "q"}
    names = []
    for name in mode_names:
        row = _free_name(name, taken)
        column = _free_name(f"{row}_factor", taken)
        names.append(Names(row, column, _free_name(f"factors_{name}", taken)))
    return names


def _free_name(wanted: str, taken: set[str]) -> str:
    """`wanted`, or a similar name that is not taken and has no slash. It is added to `taken`.

    The name of a mode has no leading dot and no backslash (tensor/labels.py), so it is never one of Zarr's own files.
    """
    name = wanted.replace("/", "_").encode()[:_MAX_NAME_BYTES].decode(errors="ignore")
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def draw_variables(tensor: CountTensor, spec: Spec) -> list[Growing]:
    """The variables of the posterior: core values, core locations, the factors of each mode, and what else is learned.

    The latter are the concentration of each mode, and the log odds of the dispersion: one, or one per row of a mode.
    """
    modes, budget, names_M = len(tensor.shape), spec.budget, dimension_names(tensor.mode_names)
    variables = [
        Growing("posterior", "core_values", "draw", ("q",), (budget,), FLOAT),
        Growing("posterior", "core_locations", "draw", ("q", "mode"), (budget, modes), WHOLE, spec.core_shape),
    ]
    for names, length, width in zip(names_M, tensor.shape, spec.core_shape, strict=True):
        dims = names.row, names.column
        variables.append(Growing("posterior", names.factors, "draw", dims, (length, width), FLOAT))
    if spec.infer_concentrations:
        variables.append(Growing("posterior", CONCENTRATIONS, "draw", ("mode",), (modes,), FLOAT))
    if spec.observation.has_dispersion:
        by = [] if spec.dispersion_by is None else [spec.dispersion_by]
        rows, lengths = tuple(names_M[mode].row for mode in by), tuple(tensor.shape[mode] for mode in by)
        variables.append(Growing("posterior", LOG_ODDS, "draw", rows, lengths, FLOAT))
    return variables


def draw_values(state: State) -> list[NDArray[Any]]:
    """The values of these variables in a state."""
    values = [state.core_values(), state.subs_QM, *(state.factors(mode) for mode in range(len(state.log_phi)))]
    if state.concentrations_M.size:
        values.append(state.concentrations_M)
    if state.dispersion is not None:
        log_odds_D = state.dispersion.log_odds_D
        values.append(log_odds_D[0] if state.dispersion.mode is None else log_odds_D)
    return values


def stat_variables(tensor: CountTensor, group: str, run: Path | None = None) -> list[Growing]:
    """The statistics of the sweeps that gave a draw (`sample_stats`), or of all sweeps (`sweep_stats`).

    Given the folder of a run, only those that the run has: an older run may lack some.
    """
    along, modes = ("draw" if group == DRAWS else "sweep"), (len(tensor.shape),)
    return [
        Growing(
            group, name, along, ("mode",) if by_mode else (), modes if by_mode else (), dtype, None, name in ADDED_STATS
        )
        for name, (dtype, by_mode) in STATS.items()
        if run is None or name not in ADDED_STATS or (run / group / name).is_dir()
    ]


def growing_variables(tensor: CountTensor, spec: Spec, run: Path | None = None) -> list[Growing]:
    """All variables that grow while a run goes on; with the folder of a run, only those that it has."""
    stats = [each for group in (DRAWS, SWEEPS) for each in stat_variables(tensor, group, run)]
    return [*draw_variables(tensor, spec), *stats]
