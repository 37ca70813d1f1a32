"""The plan of a run: the data, the model, the schedule, the number of chains and the seed."""

import hashlib
import json
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any, get_args

from numpy.typing import NDArray

from allocore.data.holdout import HeldOut
from allocore.data.sharded_tensor import ShardedTensor
from allocore.data.tensor import CountTensor
from allocore.data.zarr_metadata import parsed_object
from allocore.errors import whole_number
from allocore.gibbs.version import SAMPLER_VERSION
from allocore.model.spec import Model, Spec
from allocore.run.schedule import Schedule
from allocore.run.schema import HELD_OUT

RUN_FORMAT = "1"
# Another version of one of these may round differently, so that a resumed run has other bytes.
_PACKAGES = ("numpy", "scipy", "numba", "llvmlite")
_HASHED_AT_ONCE = 2**20


@dataclass(frozen=True)
class Plan:
    """Everything that determines the draws of a run, and their number; and the cells held out, which do not.

    If the chains begin at the states of another run, `started` is a number made from these states, which are kept with
    this run: it makes the random numbers others than those of that run, which may have the same seed. `folded_mode` is
    that of a record with new rows.
    """

    tensor: CountTensor
    spec: Spec
    schedule: Schedule
    chains: int
    seed: int
    held_out: HeldOut | None = None
    started: int | None = None
    folded_mode: int | None = None

    @staticmethod
    def library_version() -> str:
        """The installed version of allocore."""
        return version("allocore")

    def settings(self) -> str:
        """The settings of the run as JSON."""
        settings = {"model": self.spec.model, "spec": asdict(self.spec), "schedule": asdict(self.schedule)}
        special = {"started": self.started, "folded_mode": self.folded_mode}
        told = {name: value for name, value in special.items() if value is not None}
        return json.dumps({**settings, "chains": self.chains, **told})

    def attributes(self) -> dict[str, str]:
        """The attributes of the run: library, versions, rounding, settings, seed, and the fingerprints of its data."""
        from allocore.kernels.rounding import rounding  # on use: it loads the compiler

        held_out = {} if self.held_out is None else {HELD_OUT: fingerprint_of_cells(self.held_out)}
        return {
            "inference_library": "allocore",
            "inference_library_version": self.library_version(),
            "run_format": RUN_FORMAT,
            "sampler_version": str(SAMPLER_VERSION),
            "packages": json.dumps(packages()),
            "rounding": rounding(),
            **with_checksum({"settings": self.settings(), "seed": str(self.seed), "tensor": fingerprint(self.tensor)}),
            **held_out,
        }


def packages() -> dict[str, str]:
    """The installed versions of the packages that decide how numbers are rounded."""
    return {name: version(name) for name in _PACKAGES}


def with_checksum(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes with the checksum of those that determine the draws."""
    decisive = json.dumps([attributes[name] for name in ("settings", "seed", "tensor")])
    return {**attributes, "checksum": hashlib.sha256(decisive.encode()).hexdigest()}


def planned(tensor: CountTensor, attributes: dict[str, Any], held_out: HeldOut | None = None) -> Plan:
    """The plan that wrote these attributes; a ValueError, KeyError or TypeError if they are damaged."""
    settings = parsed_object(attributes["settings"], "settings")
    # Runs from before sampler version 1 also store `start` and `learn_locations`; the model now implies both.
    fields = {name: value for name, value in settings["spec"].items() if name not in ("learn_locations", "start")}
    spec = Spec(**{**fields, "core_shape": tuple(fields["core_shape"]), "model": settings["model"]})
    if spec.model not in get_args(Model):
        raise ValueError(f"model is {spec.model!r}, but it must be one of {get_args(Model)}")
    if len(spec.core_shape) != tensor.ndim:
        raise ValueError(f"core_shape is {spec.core_shape}, but the tensor has {tensor.ndim} modes")
    chains, seed = whole_number("chains", settings["chains"]), whole_number("seed", int(attributes["seed"]), least=0)
    schedule, folded_mode = Schedule(**settings["schedule"]), settings.get("folded_mode")
    if not (folded_mode is None or (type(folded_mode) is int and 0 <= folded_mode < tensor.ndim)):
        raise ValueError(f"folded_mode is {folded_mode!r}, but the tensor has {tensor.ndim} modes")
    started = settings.get("started")
    if not (started is None or (type(started) is int and 0 < started < 2**32)):
        raise ValueError(f"started is {started!r}, but it must be a number of 32 bits")
    return Plan(tensor, spec, schedule, chains, seed, held_out, started, folded_mode)


def fingerprint(tensor: CountTensor) -> str:
    """A hash of everything in a tensor: shape, names, labels, cells, counts and missing patterns."""
    if isinstance(tensor, ShardedTensor):
        return tensor.files.fingerprint
    labels = [list(each) if isinstance(each, tuple) else None for each in tensor.labels]
    about = json.dumps([tensor.shape, tensor.mode_names, labels])
    return _hash(about, tensor.missing.patterns.ravel(), *tensor.coords, tensor.counts)


def fingerprint_of_cells(held_out: HeldOut) -> str:
    """A hash of held-out cells: the mode that their fibres run along, their coordinates and their counts."""
    return _hash(json.dumps(held_out.along), *held_out.coords, held_out.counts)


def _hash(about: str, *arrays: NDArray[Any]) -> str:
    digest = hashlib.sha256(about.encode())
    for array in arrays:
        digest.update(str(array.size).encode())
        for start in range(0, array.size, _HASHED_AT_ONCE):
            digest.update(array[start : start + _HASHED_AT_ONCE].astype("<i8").tobytes())
    return digest.hexdigest()


def other_packages(attributes: dict[str, Any]) -> list[str]:
    """The packages whose versions differ from those in a run's attributes, e.g. "numba 0.61 (now 0.62)"."""
    recorded = parsed_object(attributes["packages"], "packages")
    changed = {name: recorded[name] for name in _PACKAGES if name in recorded and recorded[name] != version(name)}
    return [f"{name} {old} (now {version(name)})" for name, old in changed.items()]


def other_rounding(attributes: dict[str, Any]) -> list[str]:
    """The fingerprint in a run's attributes, in words, if this process rounds otherwise; older runs have none."""
    from allocore.kernels.rounding import rounding

    recorded = attributes.get("rounding")
    return [] if recorded in (None, rounding()) else [f"arithmetic that rounds as {recorded} (now {rounding()})"]
