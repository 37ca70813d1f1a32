"""Checkpoints: the state of a chain after a sweep, from which it continues to the same draws.

The state is enough: every random number is a function of the seed, the chain, the sweep and a place in the data, so the
allocation of the counts can be drawn again (`gibbs.sweep.begin`). A checkpoint is an `.npz` file, whose zip format has
a checksum for every array. It holds only the factors in use. A chain keeps its two newest checkpoints, and that of
sweep 0, which only a chain has that began at the state of another run: without it, it could not start again.
"""

import zipfile
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocore._files import replacing, settle
from allocore.model.simulate import dispersions
from allocore.model.spec import Spec
from allocore.model.state import Dispersion, State

_KEPT = 2


def write_checkpoint(folder: Path, sweep: int, state: State) -> None:
    """Write a chain's state after `sweep`, then remove all but the newest checkpoints."""
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / f"{sweep:09d}.npz") as file:
        np.savez(file, **arrays_of(sweep, state))
    settle(folder)
    for old in [path for path in _checkpoints(folder) if 0 < int(path.stem) <= sweep][_KEPT:]:
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
            sweep = int(path.stem)
            return sweep, state_of(read_arrays(content), sweep, shape, spec), damaged
        except Exception:  # NumPy and zipfile raise many kinds for a file that is truncated, zeroed or changed
            damaged.append(path)
            path.replace(path.with_suffix(".damaged"))
    raise FileNotFoundError(str(folder))


def arrays_of(sweep: int, state: State) -> dict[str, Any]:
    """The arrays that hold a state: of the factors, only those in use."""
    arrays: dict[str, Any] = {"sweep": np.array(sweep), "log_core_Q": state.log_core_Q, "subs_QM": state.subs_QM}
    if state.concentrations_M.size:
        arrays["concentrations_M"] = state.concentrations_M
    if state.dispersion is not None:
        arrays["log_odds_D"] = state.dispersion.log_odds_D
    for mode, log_phi_DK in enumerate(state.log_phi):
        used_U = np.flatnonzero(state.used(mode))
        arrays |= {f"used_{mode}": used_U, f"log_phi_{mode}": log_phi_DK[:, used_U]}
    return arrays


def _array(content: bytes) -> NDArray[Any]:
    """A whole array of numbers. Its shape is checked before it is believed, and nothing is unpickled."""
    file = BytesIO(content)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, by_column, dtype = read_header[np.lib.format.read_magic(file)](file)
    if dtype.str not in ("<f8", "<i8"):
        raise ValueError(f"the checkpoint has an array of type {dtype.str}")
    return np.frombuffer(file.read(), dtype=dtype).reshape(shape, order="F" if by_column else "C").copy()


def _checkpoints(folder: Path) -> list[Path]:
    """All checkpoints, newest first."""
    return sorted((path for path in folder.glob("*.npz") if path.stem.isdigit() and path.is_file()), reverse=True)


def read_arrays(content: bytes) -> dict[str, NDArray[Any]]:
    """The arrays in a file. They are read whole; otherwise their checksums would not be checked."""
    with zipfile.ZipFile(BytesIO(content)) as archive:
        # Nothing is compressed, so no array can be larger than the file.
        if any(each.compress_type != zipfile.ZIP_STORED for each in archive.infolist()):
            raise ValueError("the checkpoint is compressed")
        # NumPy before 2.1 took an option that earlier versions passed for one more array.
        names = [name for name in archive.namelist() if name != "allow_pickle.npy"]
        return {name.removesuffix(".npy"): _array(archive.read(name)) for name in names}


def state_of(arrays: dict[str, NDArray[Any]], sweep: int, shape: tuple[int, ...], spec: Spec) -> State:
    """The state that arrays hold, if they fit together and the plan."""
    _check_parts(arrays, sweep, shape, spec)
    log_phi = []
    for mode, size in enumerate(zip(shape, spec.core_shape, strict=True)):
        log_phi_DK = np.full(size, -np.inf)
        log_phi_DK[:, arrays[f"used_{mode}"]] = arrays[f"log_phi_{mode}"]
        log_phi.append(log_phi_DK)
    concentrations_M = arrays["concentrations_M"] if spec.infer_concentrations else np.empty(0)
    has_dispersion = spec.observation.has_dispersion
    dispersion = Dispersion(arrays["log_odds_D"], spec.dispersion_by) if has_dispersion else None
    return State(arrays["log_core_Q"], arrays["subs_QM"], tuple(log_phi), concentrations_M, dispersion)


def _check_parts(arrays: dict[str, NDArray[Any]], sweep: int, shape: tuple[int, ...], spec: Spec) -> None:
    """Check that the parts fit together and the plan. Kernels do not check locations: a wrong one would harm."""
    modes = range(len(shape))
    used = [arrays[f"used_{mode}"] for mode in modes]
    expected = {"sweep": (), "log_core_Q": (spec.budget,), "subs_QM": (spec.budget, len(shape))}
    expected |= {f"log_phi_{mode}": (shape[mode], used[mode].size) for mode in modes}
    expected |= {"concentrations_M": (len(shape),)} if spec.infer_concentrations else {}
    expected |= {"log_odds_D": (dispersions(spec, shape),)} if spec.observation.has_dispersion else {}
    fits = all(arrays[name].shape == each for name, each in expected.items()) and int(arrays["sweep"]) == sweep
    for mode, used_U in enumerate(used):
        fits &= used_U.ndim == 1 and bool(np.isin(arrays["subs_QM"][:, mode], used_U).all())
        fits &= bool(((used_U >= 0) & (used_U < spec.core_shape[mode])).all())
    if not fits or any(each.dtype.kind != "i" for each in (arrays["subs_QM"], *used)):
        raise ValueError("the parts of the checkpoint do not fit together")
