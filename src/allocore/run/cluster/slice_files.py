"""Slices of chains as files: how draws come home if a worker reaches the folder of the run.

    run.zarr/slices/  token                   says to workers that this folder is that of the run, under way now
                      0-21-40.npz             the draws of sweeps 21 to 40 of chain 0, and the state after sweep 40

Only the process that drives the run writes its arrays. A worker writes one file for a slice, as a whole or not at all,
and the driver reads and removes it. The name and the content of a file follow from the plan of the run, so a worker
that was given up and still works can do no harm: it can only write what another has written. Files are archives of
numbers as checkpoints are (checkpoint.py); nothing in them is unpickled. What is left of a driver that was killed is
removed when the run is opened to be continued.
"""

import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from allocore._files import read_regular, replacing
from allocore.model.spec import Spec
from allocore.model.state import State
from allocore.run.checkpoint import arrays_of, read_arrays, state_of

_FOLDER, _TOKEN = "slices", "token"
_OURS = re.compile(r"token|\d+-\d+-\d+\.npz|\..*\.tmp")


class Place(NamedTuple):
    """Where a worker may write slices: a folder, and what its token says if it is the same folder there."""

    folder: str
    token: str

    def write(self, chain: int, first: int, last: int, states: Mapping[int, State]) -> bool:
        """Write the states of a slice by their sweeps; whether that was possible."""
        folder = Path(self.folder)
        try:
            if (folder / _TOKEN).read_text(encoding="ascii") != self.token:
                return False
            arrays = {
                f"{sweep}/{name}": each
                for sweep, state in states.items()
                for name, each in arrays_of(sweep, state).items()
            }
            with replacing(folder / _name(chain, first, last)) as file:
                np.savez(file, **arrays)
        except (OSError, ValueError):  # no such folder, no permission, no space, a file of something else
            return False
        return True


class SliceFolder:
    """The driver's side of the folder."""

    def __init__(self, run: Path) -> None:
        self._run, self._folder = run, run.resolve() / _FOLDER

    def open(self) -> Place | None:
        """Make the folder; None if that is not possible, and draws must be sent home."""
        remove_slices(self._run)
        token = secrets.token_hex(16)
        try:
            self._folder.mkdir(exist_ok=True)
            with replacing(self._folder / _TOKEN) as file:
                file.write(token.encode("ascii"))
        except OSError:
            return None
        return Place(str(self._folder), token)

    def take(self, chain: int, first: int, last: int, shape: tuple[int, ...], spec: Spec) -> dict[int, State] | None:
        """The states of a slice by their sweeps; None if its file cannot be read. The file is removed."""
        path = self._folder / _name(chain, first, last)
        by_sweep: dict[int, dict[str, np.ndarray]] = {}
        try:
            for name, array in read_arrays(read_regular(path)).items():
                sweep, _, part = name.partition("/")
                by_sweep.setdefault(int(sweep), {})[part] = array
            return {sweep: state_of(arrays, sweep, shape, spec) for sweep, arrays in by_sweep.items()}
        except Exception:  # NumPy and zipfile raise many kinds for a file that is truncated, zeroed or changed
            return None
        finally:
            with suppress(OSError):
                path.unlink()

    def close(self) -> None:
        """Remove the folder."""
        remove_slices(self._run)


def remove_slices(run: Path) -> None:
    """Remove what an earlier driver has left. Nothing outside the run is touched: a link is removed, not followed."""
    folder = run / _FOLDER
    with suppress(OSError):
        if folder.is_symlink():
            folder.unlink()
            return
        for path in folder.iterdir():
            if _OURS.fullmatch(path.name):
                path.unlink()
        folder.rmdir()


def _name(chain: int, first: int, last: int) -> str:
    return f"{chain}-{first}-{last}.npz"
