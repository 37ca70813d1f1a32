"""Checkpoints: the state of a chain after a sweep, from which it continues to the same draws.

The state is enough: every random number is a function of the seed, the chain, the sweep and a place in the data, so the
allocation of the counts can be drawn again (`gibbs.sweep.begin`). A checkpoint is an `.npz` file, whose zip format has
a checksum for every array. It holds only the factors in use. A chain keeps its two newest checkpoints.
"""

import zipfile
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import numpy as np

from allocore._files import replacing, settle
from allocore.model.simulate import dispersions
from allocore.model.spec import Spec
from allocore.model.state import Dispersion, State

_KEPT = 2


def write_checkpoint(folder: Path, sweep: int, state: State) -> None:
    """Write a chain's state after `sweep`, then remove all but the newest checkpoints."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {"sweep": np.array(sweep), "log_core_Q": state.log_core_Q, "subs_QM": state.subs_QM}
    if state.concentrations_M.size:
        arrays["concentrations_M"] = state.concentrations_M
    if state.dispersion is not None:
        arrays["log_odds_D"] = state.dispersion.log_odds_D
    for mode, log_phi_DK in enumerate(state.log_phi):
        used_U = np.flatnonzero(state.used(mode))
        arrays |= {f"used_{mode}": used_U, f"log_phi_{mode}": log_phi_DK[:, used_U]}
    with replacing(folder / f"{sweep:09d}.npz") as file:
        np.savez(file, allow_pickle=False, **arrays)
    settle(folder)
    for old in [path for path in _checkpoints(folder) if int(path.stem) <= sweep][_KEPT:]:
        with suppress(OSError):
            old.unlink()


def read_checkpoint(folder: Path, shape: tuple[int, ...], spec: Spec) -> tuple[int, State, list[Path]]:
    """The newest undamaged checkpoint: its sweep, its state, and the newer, damaged files.

    Damaged files are renamed, so that they are never taken for newer ones than those to come. Raises FileNotFoundError
    if no checkpoint is left.
    """
    damaged: list[Path] = []
    for path in _checkpoints(folder):
        content = path.read_bytes()
        try:
            return *_parsed(content, int(path.stem), shape, spec), damaged
        except Exception:  # NumPy and zipfile raise many kinds for a file that is truncated, zeroed or changed
            damaged.append(path)
            path.replace(path.with_suffix(".damaged"))
    raise FileNotFoundError(str(folder))


def _checkpoints(folder: Path) -> list[Path]:
    """All checkpoints, newest first."""
    return sorted((path for path in folder.glob("*.npz") if path.stem.isdigit()), reverse=True)


def _parsed(content: bytes, sweep: int, shape: tuple[int, ...], spec: Spec) -> tuple[int, State]:
    """The state in a checkpoint. Arrays are read whole; otherwise their checksums would not be checked."""
    with zipfile.ZipFile(BytesIO(content)) as archive:
        arrays = {
            name.removesuffix(".npy"): np.lib.format.read_array(BytesIO(archive.read(name)), allow_pickle=False)
            for name in archive.namelist()
        }
    log_phi = []
    for mode, size in enumerate(zip(shape, spec.core_shape, strict=True)):
        log_phi_DK = np.full(size, -np.inf)
        log_phi_DK[:, arrays[f"used_{mode}"]] = arrays[f"log_phi_{mode}"]
        log_phi.append(log_phi_DK)
    if int(arrays["sweep"]) != sweep or arrays["subs_QM"].shape != (arrays["log_core_Q"].size, len(shape)):
        raise ValueError("the parts of the checkpoint do not fit together")
    concentrations_M = arrays["concentrations_M"] if spec.infer_concentrations else np.empty(0)
    has_dispersion = spec.observation.has_dispersion
    dispersion = Dispersion(arrays["log_odds_D"], spec.dispersion_by) if has_dispersion else None
    if concentrations_M.size != len(shape) * spec.infer_concentrations:
        raise ValueError("the parts of the checkpoint do not fit together")
    if dispersion is not None and dispersion.log_odds_D.shape != (dispersions(spec, shape),):
        raise ValueError("the parts of the checkpoint do not fit together")
    return sweep, State(arrays["log_core_Q"], arrays["subs_QM"], tuple(log_phi), concentrations_M, dispersion)
