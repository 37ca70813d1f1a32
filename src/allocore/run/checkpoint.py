"""Checkpoints: the state of a chain after a sweep, from which it goes on to the same draws.

Every random number is a function of the seed, the chain, the sweep and a place in the data, so the state is enough: the
counts allocated to classes are drawn again as they were (`gibbs.sweep.begin`). A checkpoint is an `.npz` file, whose
zip format has a checksum for every array; it holds only the factors in use. A chain keeps its two newest.
"""

import struct
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np

from allocore._files import replacing, settle
from allocore.model.state import State

_KEPT = 2
# What NumPy and zipfile raise on a file that is cut off, zeroed or changed.
_DAMAGE = (OSError, ValueError, KeyError, EOFError, NotImplementedError, struct.error, zipfile.BadZipFile, zlib.error)


def write_checkpoint(folder: Path, sweep: int, state: State) -> None:
    """Write a chain's state after `sweep`, then remove all but the newest checkpoints."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {"sweep": np.array(sweep), "log_core_Q": state.log_core_Q, "subs_QM": state.subs_QM}
    for mode, log_phi_DK in enumerate(state.log_phi):
        used_U = np.flatnonzero(state.used(mode))
        arrays |= {f"used_{mode}": used_U, f"log_phi_{mode}": log_phi_DK[:, used_U]}
    with replacing(folder / f"{sweep:09d}.npz") as file:
        np.savez(file, allow_pickle=False, **arrays)
    settle(folder)
    for old in _checkpoints(folder)[_KEPT:]:
        with suppress(OSError):
            old.unlink()


def read_checkpoint(folder: Path, shape: tuple[int, ...], core_shape: tuple[int, ...]) -> tuple[int, State, list[Path]]:
    """The newest checkpoint that is whole: its sweep, its state, and the damaged files that were passed over.

    Raises FileNotFoundError where there is none.
    """
    damaged: list[Path] = []
    for path in _checkpoints(folder):
        try:
            return *_read(path, shape, core_shape), damaged
        except _DAMAGE:
            damaged.append(path)
    raise FileNotFoundError(str(folder))


def checkpoint_sweep(folder: Path) -> int:
    """The sweep of the newest checkpoint by its name, 0 if there is none."""
    return max((int(path.stem) for path in _checkpoints(folder)), default=0)


def _checkpoints(folder: Path) -> list[Path]:
    """All checkpoints, the newest first."""
    return sorted((path for path in folder.glob("*.npz") if path.stem.isdigit()), reverse=True)


def _read(path: Path, shape: tuple[int, ...], core_shape: tuple[int, ...]) -> tuple[int, State]:
    with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
        log_phi = []
        for mode, size in enumerate(zip(shape, core_shape, strict=True)):
            log_phi_DK = np.full(size, -np.inf)
            log_phi_DK[:, archive[f"used_{mode}"]] = archive[f"log_phi_{mode}"]
            log_phi.append(log_phi_DK)
        return int(archive["sweep"]), State(archive["log_core_Q"], archive["subs_QM"], tuple(log_phi))
