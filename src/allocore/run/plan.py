"""What a run is to do: the data, the model, the schedule, the chains and the seed."""

import hashlib
import json
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from allocore.data.tensor import CountTensor
from allocore.gibbs.version import SAMPLER_VERSION
from allocore.model.spec import Spec
from allocore.run.schedule import Schedule

RUN_FORMAT = "1"
# Another version of one of these may round differently, and then a run does not continue to the same bytes.
_PACKAGES = ("numpy", "scipy", "numba", "llvmlite")
_HASHED_AT_ONCE = 2**20


@dataclass(frozen=True)
class Plan:
    """All that determines the draws of a run, and how many of them there will be."""

    tensor: CountTensor
    spec: Spec
    schedule: Schedule
    chains: int
    seed: int

    @staticmethod
    def library_version() -> str:
        """The version of allocore that makes runs now."""
        return version("allocore")

    def settings(self) -> str:
        """The settings of the run as JSON."""
        spec, schedule = asdict(self.spec), asdict(self.schedule)
        return json.dumps({"model": self.spec.model, "spec": spec, "schedule": schedule, "chains": self.chains})

    def attributes(self) -> dict[str, str]:
        """What a run says about itself: library, versions, settings, seed, and which tensor it is about."""
        return {
            "inference_library": "allocore",
            "inference_library_version": self.library_version(),
            "run_format": RUN_FORMAT,
            "sampler_version": str(SAMPLER_VERSION),
            "packages": json.dumps({name: version(name) for name in _PACKAGES}),
            "settings": self.settings(),
            "seed": str(self.seed),
            "tensor": fingerprint(self.tensor),
        }


def planned(tensor: CountTensor, attributes: dict[str, Any]) -> Plan:
    """The plan that wrote these attributes."""
    settings = json.loads(attributes["settings"])
    # Runs from before sampler version 1 say how the locations start and whether they are learned; the model says both.
    fields = {name: value for name, value in settings["spec"].items() if name not in ("learn_locations", "start")}
    spec = Spec(**{**fields, "core_shape": tuple(fields["core_shape"]), "model": settings["model"]})
    return Plan(tensor, spec, Schedule(**settings["schedule"]), int(settings["chains"]), int(attributes["seed"]))


def fingerprint(tensor: CountTensor) -> str:
    """A hash of all that a tensor holds: shape, names, labels, cells, counts and missing patterns."""
    labels = [list(each) if isinstance(each, tuple) else None for each in tensor.labels]
    digest = hashlib.sha256(json.dumps([tensor.shape, tensor.mode_names, labels]).encode())
    for array in (tensor.missing.patterns.ravel(), *tensor.coords, tensor.counts):
        digest.update(str(array.size).encode())
        for start in range(0, array.size, _HASHED_AT_ONCE):
            digest.update(array[start : start + _HASHED_AT_ONCE].astype("<i8").tobytes())
    return digest.hexdigest()


def other_packages(attributes: dict[str, Any]) -> list[str]:
    """Which packages have another version now than in a run's attributes, e.g. "numba 0.61 (now 0.62)"."""
    recorded = json.loads(attributes["packages"])
    return [f"{name} {old} (now {version(name)})" for name, old in recorded.items() if old != version(name)]
