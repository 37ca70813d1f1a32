"""A count tensor whose cells stay on disk, in shards, until something needs all of them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from allocore._files import new_folder
from allocore.data.available_memory import require_memory
from allocore.data.coordinates import Int64s, Integers, check_shape
from allocore.data.event_report import EventReport
from allocore.data.fibre_order import fibre_order
from allocore.data.labels import check_labels, check_mode_names, fit_labels
from allocore.data.missing import Missing
from allocore.data.shard_files import ShardFiles, is_sharded, sizes_of, telling
from allocore.data.shard_writer import ShardWriter
from allocore.data.tensor import CountTensor
from allocore.data.tensor_parts import CanonicalParts
from allocore.errors import InputError, whole_number

if TYPE_CHECKING:
    from allocore.data.tensor_parts import TensorParts

SHARDS = 16
_AT_ONCE = 2**22  # cells
_LOOK = 2**25  # cells that are read to look at a fit; they take a gigabyte or two
_NO_CELLS = np.empty((0, 0), dtype=np.int32), np.empty(0, dtype=np.int64)


class ShardedTensor(CountTensor):
    """A count tensor on disk, in shards: as large as the disk allows, and fitted shard by shard.

    `Y.save("y.zarr", shards=16)` writes one, and so do `read_events(..., out="y.zarr")` and `allocore tensor`; the
    latter two never hold all cells in memory. `load_tensor` opens it. A fit with `executor=` lets every worker load
    its shards once and keep them. Shape, names, labels and missing cells are at hand. `coords` and `counts`, and all
    that needs them, read the whole tensor into memory, if it can hold them.

    Parameters
    ----------
    path : str or path-like
        The folder.

    Raises
    ------
    InputError
        If the folder is not a sharded tensor, or is damaged.

    Examples
    --------
    >>> import allocore as ac, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> ac.load_flights().save(folder / "flights.zarr", shards=4)
    >>> Y = ac.load_tensor(folder / "flights.zarr")
    >>> Y
    ShardedTensor: 3 x 105 x 16 x 12 x 20 (origin, destination, carrier, month, hour), 16,914 non-zeros, ... in 4 shards
    >>> Y == ac.load_flights()
    True
    """

    __slots__ = ("_about", "_loaded", "files")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        files = ShardFiles.open(Path(path).expanduser().resolve())
        with telling(files.path):
            labels = fit_labels(check_labels(files.labels(), files.mode_names), files.shape, files.mode_names)
            missing = Missing(files.missing_patterns(), files.shape)
            report = EventReport.from_json(files.report) if files.report else None
        about = CanonicalParts(*_NO_CELLS, files.shape, files.mode_names, labels, missing, report)
        self._describe(files, about, files.sizes.nnz, files.sizes.total)

    @classmethod
    def _elsewhere(cls, files: ShardFiles, about: CanonicalParts) -> ShardedTensor:
        """Return the tensor of a run whose folder is not where it was: all but its cells is known."""
        tensor = cls.__new__(cls)
        tensor._describe(files, about, files.sizes.nnz, files.sizes.total)
        return tensor

    def _describe(self, files: ShardFiles, about: CanonicalParts, nnz: int, total: int) -> None:
        self.files, self._about = files, about
        self._loaded: CanonicalParts | None = None
        self._nnz, self._total = nnz, total
        self._observed_cells = math.prod(about.shape) - about.missing.cells

    @property
    def _described(self) -> CanonicalParts:
        return self._about

    @property
    def _parts(self) -> CanonicalParts:  # type: ignore[override]
        """All parts; the cells are read at the first call, and kept."""
        if self._loaded is None:
            self.check_there()
            coords, counts = self.files.cells(0, self.shards)
            whole = CountTensor(coords, counts, self.shape, missing=self.missing)
            self._loaded = self._about._replace(coords=whole.coords, counts=whole.counts)
        return self._loaded

    def check_there(self) -> None:
        """Raise an InputError if the folder of the tensor, which a run may refer to, is not there or another one.

        Examples
        --------
        >>> sharded.check_there()
        """
        if not is_sharded(self.files.path):
            where = f"the cells of this tensor are in {self.files.path}, which is not there"
            raise InputError(f"{where}: bring it back, or beside the run")
        if not self._is_there():
            self._reopened(self.files.path, self.files.fingerprint)  # says what is wrong
            raise InputError(f"{self.files.path} has come back: open the run again")

    def _is_there(self) -> bool:
        """Return whether the cells can be read: not if the folder was moved, replaced or damaged when it was opened."""
        with suppress(InputError):
            return bool(self.files.hashes) and ShardFiles.open(self.files.path).fingerprint == self.files.fingerprint
        return False

    @property
    def path(self) -> Path:
        """The folder of the tensor.

        Returns
        -------
        pathlib.Path

        Examples
        --------
        >>> sharded.path.name
        'flights.zarr'
        """
        return self.files.path

    @property
    def shards(self) -> int:
        """The number of shards.

        Returns
        -------
        int

        Examples
        --------
        >>> sharded.shards
        4
        """
        return self.files.sizes.shards

    @property
    def largest(self) -> int:
        """The largest count.

        Returns
        -------
        int

        Examples
        --------
        >>> sharded.largest
        62
        """
        return self.files.sizes.largest

    def load(self) -> CountTensor:
        """Read all cells.

        Returns
        -------
        CountTensor
            The tensor in memory.

        Raises
        ------
        InputError
            If memory cannot hold the cells, or if they are damaged.

        Examples
        --------
        >>> sharded.load()
        CountTensor: 3 x 105 x 16 x 12 x 20 (origin, destination, carrier, month, hour), 16,914 non-zeros, ...
        """
        return CountTensor._trusted(self._parts)

    def mode_totals(self, mode: int | str) -> Int64s:
        """Return the sum of the counts at each position of a mode, without reading the cells.

        Parameters
        ----------
        mode : int or str
            The mode, by name or by index.

        Returns
        -------
        ndarray of int64, shape (length of the mode,)
            The totals, in the order of the positions.

        Examples
        --------
        >>> sharded.mode_totals("origin")
        array([120835, 111279, 104662])
        """
        m = self.mode(mode)
        ends = np.cumsum(self.shape)
        return self.files.row_totals()[ends[m] - self.shape[m] : ends[m]]

    def _totals_in_use(self, m: int) -> tuple[Int64s, Int64s]:
        totals = self.mode_totals(m)  # kept on disk, however long the mode is
        places = np.flatnonzero(totals)
        return places, totals[places]

    def __reduce__(self) -> tuple[Any, ...]:
        return ShardedTensor._reopened, (self.path, self.files.fingerprint)

    @classmethod
    def _reopened(cls, path: Path, fingerprint: str) -> ShardedTensor:
        """Return the tensor in a folder, if it is the one with this fingerprint."""
        tensor = cls(path)
        if tensor.files.fingerprint != fingerprint:
            raise InputError(f"{path} is another tensor now, or the same one cut into other shards")
        return tensor


def stays_on_disk(tensor: TensorParts) -> TypeGuard[ShardedTensor]:
    """Return whether the cells of a tensor are too many to be read only to describe a fit, or are not there."""
    return isinstance(tensor, ShardedTensor) and (tensor.nnz > _LOOK or not tensor._is_there())


def sharded_reference(tensor: ShardedTensor) -> dict[str, Any]:
    """Return where a sharded tensor is, and what a run must know of its cells."""
    sizes = tensor.files.sizes
    numbers = {**sizes._asdict(), "log_factorials": sizes.log_factorials.hex()}
    hashes = {"fingerprint": tensor.files.fingerprint, "row_totals_hash": tensor.files.row_totals_hash}
    return {**numbers, "path": str(tensor.path), **hashes}


def referred(
    reference: dict[str, Any],
    run: Path,
    names: Sequence[str],
    shape: Sequence[int],
    labels: Any,
    patterns: Int64s,
    report: Any,
) -> ShardedTensor:
    """Return the sharded tensor of a run: where it was, or beside the run. Elsewhere, all but its cells is known."""
    path = Path(str(reference["path"]))
    for folder in (path, run.resolve().parent / path.name):
        with suppress(InputError):  # a damaged folder is told when its cells are needed
            if is_sharded(folder):
                return ShardedTensor._reopened(folder, str(reference["fingerprint"]))
    lengths, mode_names = check_shape(shape), check_mode_names(names, len(shape))
    sizes = sizes_of(reference, len(lengths))
    hashes = str(reference["fingerprint"]), str(reference["row_totals_hash"])
    files = ShardFiles(path, lengths, mode_names, sizes, (), *hashes, "")
    fitted = fit_labels(check_labels(labels, mode_names), lengths, mode_names)
    missing = Missing(patterns, lengths)
    return ShardedTensor._elsewhere(files, CanonicalParts(*_NO_CELLS, lengths, mode_names, fitted, missing, report))


def save_sharded(tensor: TensorParts, path: str | os.PathLike[str], shards: int) -> None:
    """Write a tensor to a new folder, in shards; one that is in shards already is not read into memory."""
    if isinstance(tensor, ShardedTensor):
        tensor.check_there()
        write_shards(path, tensor, tensor.files.sizes.order, tensor.files.parts(), shards)
        return
    order = fibre_order([tensor.coords], tensor.shape, tensor.nnz)
    place = np.lexsort([tensor.coords[m] for m in reversed(order)]) if order != tuple(range(tensor.ndim)) else None

    def parts() -> Iterable[tuple[Integers, Int64s]]:
        for start in range(0, tensor.nnz, _AT_ONCE):
            which: Any = slice(start, start + _AT_ONCE) if place is None else place[start : start + _AT_ONCE]
            yield tensor.coords[:, which], tensor.counts[which]

    write_shards(path, tensor, order, parts(), shards)


def write_shards(
    path: str | os.PathLike[str],
    about: TensorParts,
    order: tuple[int, ...],
    parts: Iterable[tuple[NDArray[Any], Int64s]],
    shards: int,
) -> None:
    """Write cells that come in the order of the shards to a new folder; all else is taken from `about`."""
    target = new_path(path)
    number = whole_number("shards", shards)
    require_memory(8 * sum(about.shape), f"the totals of {sum(about.shape):,} rows")
    report = about.report.to_json() if about.report is not None else ""
    with new_folder(target) as folder:
        writer = ShardWriter(folder, about.shape, order, about.nnz, number)
        for coords, counts in parts:
            writer.add(coords, counts)
        writer.finish(about.mode_names, about.labels, about.missing.patterns, report)


def new_path(path: str | os.PathLike[str], argument: str = "path") -> Path:
    """Return the path of a sharded tensor that is not there yet."""
    target = Path(path).expanduser()
    if target.suffix != ".zarr":
        raise InputError(f"{argument} is {str(target)!r}, but the folder of a sharded tensor must end in .zarr")
    if target.exists():
        raise InputError(f"{argument} is {str(target)!r}, but that exists already: name a path that does not")
    if not target.resolve().parent.is_dir():
        raise InputError(
            f"{argument} is {str(target)!r}, but the folder {str(target.resolve().parent)!r} does not exist"
        )
    return target
