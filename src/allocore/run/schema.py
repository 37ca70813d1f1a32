"""The names of a run's variables in the ArviZ schema, and which of them grow while it runs.

Groups: `posterior`, `sample_stats`, `observed_data`, `constant_data`, and `sweep_stats`, the statistics of all sweeps,
burn-in included; and `held_out`, the cells kept for testing, if there are any. The dimensions chain and draw (or sweep)
come first, then dimensions with the tensor's labels as coordinates. The Q classes are the dimension `q`. The number of
a class has no meaning from one draw to the next.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from allocore.data.tensor import CountTensor
from allocore.model.spec import Spec
from allocore.model.state import State

FLOAT, WHOLE = "<f8", "<i8"
# The statistics of a sweep: the type of each, and whether it has a value for each mode.
STATS = {
    "log_likelihood": (FLOAT, False),
    "classes": (WHOLE, False),
    "factors": (WHOLE, True),
    "moved": (FLOAT, False),
    "seconds": (FLOAT, False),
}
DRAWS, SWEEPS = "sample_stats", "sweep_stats"
CONCENTRATIONS, LOG_ODDS = "concentrations", "dispersion_log_odds"
HELD_OUT = "held_out"  # a group, only if cells were held out
_MOST_BYTES = 240  # of the name of an array: file systems allow 255
SHARDED = "sharded_tensor"  # in observed_data in place of the cells, only if the tensor is sharded: where it is
EVENT_REPORT = "event_report"  # in constant_data, only if the tensor was made from events


class Names(NamedTuple):
    """The names for one mode: the dimension of its labels, that of its factors, and the variable over both."""

    row: str
    column: str
    factors: str


class Growing(NamedTuple):
    """A variable with one value, of `shape`, for each chain and each draw or sweep.

    Whole numbers are never negative; if `below` is given, they are below it, along the last dimension.
    """

    group: str
    name: str
    along: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    below: tuple[int, ...] | None = None

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
    """`wanted`, or a similar name that is no path and not taken; it is added to `taken`.

    A name of a mode begins with no dot and has no backslash (data/labels.py), so it is none of Zarr's own files.
    """
    name = wanted.replace("/", "_").encode()[:_MOST_BYTES].decode(errors="ignore")
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def draw_variables(tensor: CountTensor, spec: Spec) -> list[Growing]:
    """The variables of the posterior: core values, core locations, the factors of each mode, and what else is learned.

    That is the concentration of each mode, and the log odds of the dispersion, one or one for each row of a mode.
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


def stat_variables(tensor: CountTensor, group: str) -> list[Growing]:
    """The statistics of sweeps: of those that gave a draw (`sample_stats`), or of all (`sweep_stats`)."""
    along, modes = ("draw" if group == DRAWS else "sweep"), (len(tensor.shape),)
    return [
        Growing(group, name, along, ("mode",) if by_mode else (), modes if by_mode else (), dtype)
        for name, (dtype, by_mode) in STATS.items()
    ]


def growing_variables(tensor: CountTensor, spec: Spec) -> list[Growing]:
    """All variables that grow while a run goes on."""
    stats = [each for group in (DRAWS, SWEEPS) for each in stat_variables(tensor, group)]
    return [*draw_variables(tensor, spec), *stats]
