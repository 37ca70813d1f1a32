"""The data that tasks on an executor need: sent to workers that ask for them, and kept there.

A task names its data. A worker that does not have them says so, together with its versions, and is sent the task again
with the data. It keeps those of the last name only, because a worker serves one run or one comparison at a time.
"""

from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from allocore.errors import InputError
from allocore.gibbs.version import SAMPLER_VERSION
from allocore.kernels.rounding import rounding
from allocore.run.plan import Plan, packages

Sent = TypeVar("Sent")
Kept = TypeVar("Kept")


class Versions(NamedTuple):
    """What must agree between the workers and the process that wants their results."""

    sampler: int
    packages: dict[str, str]
    rounding: str = ""  # workers from before there was a fingerprint have none

    @classmethod
    @cache
    def here(cls) -> "Versions":
        """The versions of this process."""
        return cls(SAMPLER_VERSION, {"allocore": Plan.library_version(), **packages()}, rounding())


class DataWanted(NamedTuple):
    """The answer of a worker that does not have the data of a task, with its versions."""

    versions: Versions


_one_at_a_time = Lock()
_known: dict[str, Any] = {}


def remembered(name: str, sent: Sent | None, prepare: Callable[[Sent], Kept]) -> Kept | None:
    """The prepared data of a name; they are prepared once, when they are sent. None if they never were."""
    with _one_at_a_time:
        if name not in _known and sent is not None:
            _known.clear()
            _known[name] = prepare(sent)
        found: Kept | None = _known.get(name)
        return found


def check_versions(theirs: Versions) -> None:
    """Refuse workers whose results might differ from those of this process."""
    ours = Versions.here()
    if theirs.sampler != ours.sampler:
        raise InputError(
            f"executor has workers with sampler version {theirs.sampler}, but this is sampler version "
            f"{ours.sampler}: install the same allocore on all machines"
        )
    other = [f"{name} {theirs.packages.get(name)} (here {own})" for name, own in ours.packages.items()
             if theirs.packages.get(name) != own]  # fmt: skip
    if other:
        raise InputError(
            f"executor has workers with other versions of packages: {', '.join(other)}; draws may differ in their "
            "last bits, so install the same versions on all machines"
        )
    if theirs.rounding != ours.rounding:
        raise InputError(
            f"executor has workers with arithmetic that rounds as {theirs.rounding!r}, but here it rounds as "
            f"{ours.rounding!r}: draws would differ in their last bits, so use the same C library on all machines "
            "and, if not all of them have fused multiply-add or Intel's SVML, set "
            "GLIBC_TUNABLES=glibc.cpu.hwcaps=-FMA and NUMBA_DISABLE_INTEL_SVML=1 on all"
        )
