"""The states of chains as files: checkpoints, from which a chain continues, and slices, which workers write.

A state is enough to continue to the same draws: every random number is a function of the seed, the chain, the sweep and
a place in the data, so the allocation of the counts can be drawn again (`gibbs.sweep.begin`). A file is an `.npz`
archive with a checksum for every array and only the factors in use. Nothing in it is unpickled.

A chain keeps its two newest checkpoints, and that of sweep 0 if it began at the state of another run. A worker writes
each slice as one file, which the driver reads and removes. Its name and content follow from the plan, so a worker that
was given up can only write what another has written. Resuming removes the files of a driver that was killed.
"""

import re
import secrets
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocore._io import read_inside, replacing, settle
from allocore.model.simulate import dispersions
from allocore.model.spec import Spec
from allocore.model.state import Dispersion, State

_CHECKPOINTS_KEPT = 2
_SLICES, _TOKEN = "slices", "token"
_SLICE_FILES = re.compile(r"token|\d+-\d+-\d+\.npz|\..*\.tmp")


def write_checkpoint(folder: Path, sweep: int, state: State) -> None:
    """Write a chain's state after `sweep`, then remove all but the newest checkpoints."""
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / f"{sweep:09d}.npz") as file:
        np.savez(file, **_to_arrays(sweep, state))
    settle(folder)
    for old in [path for path in _checkpoints(folder) if 0 < int(path.stem) <= sweep][_CHECKPOINTS_KEPT:]:
        with suppress(OSError):
            old.unlink()


def read_checkpoint(folder: Path, shape: tuple[int, ...], spec: Spec) -> tuple[int, State, list[Path]]:
    """The sweep and state of the newest undamaged checkpoint; newer, damaged files are renamed, and returned too."""
    damaged: list[Path] = []
    for path in _checkpoints(folder):
        try:
            sweep, content = int(path.stem), read_inside(folder, path.name, _most_bytes(shape, spec))
            return sweep, _to_state(_read_arrays(content), sweep, shape, spec), damaged
        except Exception:  # NumPy and zipfile raise many kinds for a file that is truncated, zeroed or changed
            damaged.append(path)
            path.replace(path.with_suffix(".damaged"))
    raise FileNotFoundError(str(folder))


def _checkpoints(folder: Path) -> list[Path]:
    return sorted((path for path in folder.glob("*.npz") if path.stem.isdigit()), reverse=True)


def _most_bytes(shape: tuple[int, ...], spec: Spec) -> int:
    """More than the file of a state can take."""
    factors = sum(length * min(width, spec.budget) for length, width in zip(shape, spec.core_shape, strict=True))
    return 8 * (factors + 2 * spec.budget * (1 + len(shape)) + dispersions(spec, shape)) + 100_000


class SharedFolder(NamedTuple):
    """The folder for slices. A worker knows by its token that it sees the driver's folder."""

    folder: str
    token: str

    def write(self, chain: int, first: int, last: int, states: Mapping[int, State]) -> bool:
        """Write the states of a slice by their sweeps; return whether that was possible."""
        folder = Path(self.folder)
        try:
            if read_inside(folder, _TOKEN, 1000) != self.token.encode():
                return False
            arrays = {
                f"{sweep}/{name}": each
                for sweep, state in states.items()
                for name, each in _to_arrays(sweep, state).items()
            }
            with replacing(folder / f"{chain}-{first}-{last}.npz") as file:
                np.savez(file, **arrays)
        except (OSError, ValueError):  # no such folder, no permission, no space, a file of something else
            return False
        return True


def open_slices(run: Path) -> SharedFolder | None:
    """Make the folder for slices; None if that is not possible, so that draws must come through the executor."""
    remove_slices(run)
    folder, token = run.resolve() / _SLICES, secrets.token_hex(16)
    try:
        folder.mkdir(exist_ok=True)
        with replacing(folder / _TOKEN) as file:
            file.write(token.encode("ascii"))
    except OSError:
        return None
    return SharedFolder(str(folder), token)


def take_slice(
    run: Path, chain: int, first: int, last: int, shape: tuple[int, ...], spec: Spec
) -> dict[int, State] | None:
    """Read the states of a slice by their sweeps and remove its file; None if it cannot be read."""
    file = f"{_SLICES}/{chain}-{first}-{last}.npz"
    most_bytes = (last - first + 1) * _most_bytes(shape, spec)
    by_sweep: dict[int, dict[str, NDArray[Any]]] = {}
    try:
        for name, array in _read_arrays(read_inside(run, file, most_bytes)).items():
            sweep, _, part = name.partition("/")
            by_sweep.setdefault(int(sweep), {})[part] = array
        return {sweep: _to_state(arrays, sweep, shape, spec) for sweep, arrays in by_sweep.items()}
    except Exception:  # NumPy and zipfile raise many kinds for a file that is truncated, zeroed or changed
        return None
    finally:
        with suppress(OSError):
            (run / file).unlink()


def remove_slices(run: Path) -> None:
    """Remove the folder for slices. Nothing outside the run is touched: a link is removed, not followed."""
    folder = run / _SLICES
    with suppress(OSError):
        if folder.is_symlink():
            folder.unlink()
            return
        for path in folder.iterdir():
            if _SLICE_FILES.fullmatch(path.name):
                path.unlink()
        folder.rmdir()


def _to_arrays(sweep: int, state: State) -> dict[str, Any]:
    arrays: dict[str, Any] = {"sweep": np.array(sweep), "log_core_Q": state.log_core_Q, "subs_QM": state.subs_QM}
    if state.concentrations_M.size:
        arrays["concentrations_M"] = state.concentrations_M
    if state.dispersion is not None:
        arrays["log_odds_D"] = state.dispersion.log_odds_D
    for mode, log_phi_DK in enumerate(state.log_phi):
        used_U = np.flatnonzero(state.used(mode) | (log_phi_DK > -np.inf).any(axis=0))  # by this mode or a tied one
        arrays |= {f"used_{mode}": used_U, f"log_phi_{mode}": log_phi_DK[:, used_U]}
    return arrays


def _read_arrays(content: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of numbers in a file. They are read whole; otherwise their checksums would not be checked."""
    with zipfile.ZipFile(BytesIO(content)) as archive:
        # Nothing is compressed, so no array can be larger than the file.
        if any(each.compress_type != zipfile.ZIP_STORED for each in archive.infolist()):
            raise ValueError("the checkpoint is compressed")
        # NumPy before 2.1 took an option that earlier versions passed for one more array.
        files = {name: BytesIO(archive.read(name)) for name in archive.namelist() if name != "allow_pickle.npy"}
    arrays = {}
    for name, file in files.items():
        read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, by_column, dtype = read_header[np.lib.format.read_magic(file)](file)
        if dtype.str not in ("<f8", "<i8"):
            raise ValueError(f"the checkpoint has an array of type {dtype.str}")
        array = np.frombuffer(file.read(), dtype=dtype).reshape(shape, order="F" if by_column else "C")
        arrays[name.removesuffix(".npy")] = array.copy()
    return arrays


def _to_state(arrays: dict[str, NDArray[Any]], sweep: int, shape: tuple[int, ...], spec: Spec) -> State:
    """The state, if sizes and locations agree with the plan: kernels do not check them, and would corrupt memory."""
    used, subs_QM = [arrays[f"used_{mode}"] for mode in range(len(shape))], arrays["subs_QM"]
    learned, has_dispersion = spec.infer_concentrations, spec.observation.has_dispersion
    expected = {"sweep": (), "log_core_Q": (spec.budget,), "subs_QM": (spec.budget, len(shape))}
    expected |= {f"log_phi_{mode}": (shape[mode], used_U.size) for mode, used_U in enumerate(used)}
    expected |= {"concentrations_M": (len(shape),)} if learned else {}
    expected |= {"log_odds_D": (dispersions(spec, shape),)} if has_dispersion else {}
    fits = all(arrays[name].shape == each for name, each in expected.items()) and int(arrays["sweep"]) == sweep
    for mode, used_U in enumerate(used):
        fits &= used_U.ndim == 1 and bool(np.isin(subs_QM[:, mode], used_U).all())
        fits &= bool(((used_U >= 0) & (used_U < spec.core_shape[mode])).all())
    if not fits or any(each.dtype.kind != "i" for each in (subs_QM, *used)):
        raise ValueError("the arrays of the checkpoint do not fit together")
    log_phi = [np.full(size, -np.inf) for size in zip(shape, spec.core_shape, strict=True)]
    for mode, log_phi_DK in enumerate(log_phi):
        log_phi_DK[:, used[mode]] = arrays[f"log_phi_{mode}"]
    concentrations_M = arrays["concentrations_M"] if learned else np.empty(0)
    dispersion = Dispersion(arrays["log_odds_D"], spec.dispersion_by) if has_dispersion else None
    return State(arrays["log_core_Q"], subs_QM, tuple(log_phi), concentrations_M, dispersion)
