"""The names of a run's variables in the ArviZ schema, and which of them grow while it runs.

Groups: `posterior`, `sample_stats`, `observed_data`, `constant_data`, and `sweep_stats`, the trace of all sweeps with
the burn-in. Dimensions chain and draw (or sweep) come first, then named ones whose coordinates are the tensor's labels.
The Q classes are the dimension `q`: their numbers mean nothing from one draw to the next.
"""

from collections.abc import Sequence
from typing import NamedTuple

from allocore.data.tensor import CountTensor
from allocore.model.spec import Spec

FLOAT, WHOLE = "<f8", "<i8"
# Statistics of a sweep: their type, and whether there is one for each mode.
STATS = {
    "log_likelihood": (FLOAT, False),
    "classes": (WHOLE, False),
    "factors": (WHOLE, True),
    "moved": (FLOAT, False),
    "seconds": (FLOAT, False),
}
DRAWS, SWEEPS = "sample_stats", "sweep_stats"
EVENT_REPORT = "event_report"  # in constant_data, only if the tensor was made from events


class Names(NamedTuple):
    """What one mode is called: the dimension of its labels, that of its factors, and the variable over both."""

    row: str
    column: str
    factors: str


class Growing(NamedTuple):
    """A variable of which every chain gets one value, of `shape`, for each draw or each sweep."""

    group: str
    name: str
    along: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str

    @property
    def path(self) -> str:
        """Where the variable lies in the tree."""
        return f"{self.group}/{self.name}"


def dimension_names(mode_names: Sequence[str]) -> list[Names]:
    """Names for every mode, made unlike each other and unlike those of the schema."""
    taken = {"core_values", "core_locations", "mode", "chain", "draw", "q"}
    names = []
    for name in mode_names:
        row = _free_name(name, taken)
        column = _free_name(f"{row}_factor", taken)
        names.append(Names(row, column, _free_name(f"factors_{name}", taken)))
    return names


def _free_name(wanted: str, taken: set[str]) -> str:
    """`wanted`, or the nearest name that xarray allows and nothing else in the data set has; it is taken now."""
    name = wanted.replace("/", "_")
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def draw_variables(tensor: CountTensor, spec: Spec) -> list[Growing]:
    """The variables of the posterior: core values, core locations, then the factors of each mode."""
    modes, budget = len(tensor.shape), spec.budget
    variables = [
        Growing("posterior", "core_values", "draw", ("q",), (budget,), FLOAT),
        Growing("posterior", "core_locations", "draw", ("q", "mode"), (budget, modes), WHOLE),
    ]
    for names, length, width in zip(dimension_names(tensor.mode_names), tensor.shape, spec.core_shape, strict=True):
        dims = names.row, names.column
        variables.append(Growing("posterior", names.factors, "draw", dims, (length, width), FLOAT))
    return variables


def stat_variables(tensor: CountTensor, group: str) -> list[Growing]:
    """The statistics of sweeps: of those that gave a draw, or of all."""
    along, modes = ("draw" if group == DRAWS else "sweep"), (len(tensor.shape),)
    return [
        Growing(group, name, along, ("mode",) if by_mode else (), modes if by_mode else (), dtype)
        for name, (dtype, by_mode) in STATS.items()
    ]
