"""What to do about draws and statistics that cannot be read: raise an error, or leave them out."""

import warnings
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from allocore.errors import InputError, StoreError
from allocore.run.attributes import reason_of

OnError = Literal["raise", "drop"]


class Damage:
    """Collects what cannot be read: raises at once, or notes the draws to leave out."""

    def __init__(self, path: Path, on_error: OnError) -> None:
        if on_error not in ("raise", "drop"):
            raise InputError(f"on_error is {on_error!r}, but it must be 'raise' or 'drop'")
        self._path, self._on_error = path, on_error
        self._draws: set[int] = set()
        self.lost_stats: set[str] = set()

    def of_draws(self, file: Path, draws: range, error: Exception) -> None:
        """Some draws cannot be read."""
        if self._on_error == "raise":
            which = f"draw {draws[0]}" if len(draws) == 1 else f"draws {draws[0]} to {draws[-1]}"
            raise StoreError(
                f"{self._path} is damaged: {which} cannot be read from {file.relative_to(self._path)} "
                f"({reason_of(error)}); on_error='drop' leaves them out and reads the others"
            ) from error
        self._draws.update(draws)

    def of_sweeps(self, file: Path, sweeps: range, error: Exception) -> None:
        """The statistics of some sweeps cannot be read."""
        if self._on_error == "raise":
            raise StoreError(
                f"{self._path} is damaged: the statistics of sweeps {sweeps[0] + 1} to {sweeps[-1] + 1} cannot be read "
                f"from {file.relative_to(self._path)} ({reason_of(error)}); on_error='drop' reads the others"
            ) from error
        self.lost_stats.add(file.parent.name)

    def kept(self, draws: int) -> NDArray[np.int64] | None:
        """The undamaged draws, or None if all are; warns about the others."""
        if not self._draws:
            return None
        warnings.warn(f"{self._path} is damaged: {len(self._draws)} of {draws} draws are left out", stacklevel=4)
        return np.setdiff1d(np.arange(draws), sorted(self._draws))
