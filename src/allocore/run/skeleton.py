"""The skeleton of a run on disk: all of its arrays before the first sweep, and the sizes to which they grow.

The sizes of all growing arrays are in one file, Zarr's consolidated metadata. So a reader sees the same number of draws
of all variables, and never the chunks beyond it. The metadata of the single arrays is updated when writing ends.
"""

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr

from allocore._files import replacing, settle
from allocore.data.zarr_metadata import ArrayInfo, read_json, write_json
from allocore.data.zstd_codec import compressor, encode
from allocore.errors import StoreError
from allocore.run.attributes import telling
from allocore.run.chunks import chunk_shape, fill_value
from allocore.run.datatree import frame
from allocore.run.plan import Plan
from allocore.run.run_reader import METADATA, check_arrays, stored_sizes
from allocore.run.schema import DRAWS, SWEEPS, WHOLE, growing_variables

_INDICES = 4096  # in a chunk of the coordinates draw and sweep
# The coordinates draw and sweep of the groups, and their first values.
_COUNTED = {"posterior/draw": 0, f"{DRAWS}/draw": 0, f"{SWEEPS}/sweep": 1}


def write_skeleton(folder: Path, plan: Plan) -> None:
    """Write the tensor, the coordinates, the settings, and empty arrays for the draws."""
    groups = frame(plan, on_disk=True)
    for group in ("posterior", DRAWS, SWEEPS):
        groups[group].coords["chain"] = np.arange(plan.chains)
    tree = xr.DataTree.from_dict(groups)
    tree.attrs.update(plan.attributes())
    encoding = {
        f"/{name}": {variable: {"compressors": (compressor(),)} for variable in group.variables}
        for name, group in groups.items()
    }
    # Zarr format 2: format 3 has no stable specification of text or of consolidated metadata, and warns about both.
    tree.to_zarr(folder, mode="w", zarr_format=2, consolidated=False, encoding=encoding)
    run = zarr.open_group(folder, mode="r+", zarr_format=2, use_consolidated=False)
    options: dict[str, Any] = {"compressors": (compressor(),), "filters": None}
    for variable in growing_variables(plan.tensor, plan.spec):
        run.create_array(
            variable.path,
            shape=(plan.chains, 0, *variable.shape),
            chunks=chunk_shape(variable),
            dtype=variable.dtype,
            order="F",
            fill_value=fill_value(variable),
            attributes={"_ARRAY_DIMENSIONS": ["chain", variable.along, *variable.dims]},
            **options,
        )
    for name in _COUNTED:
        along: dict[str, Any] = {"_ARRAY_DIMENSIONS": [name.rpartition("/")[2]]}
        run.create_array(
            name, shape=(0,), chunks=(_INDICES,), dtype=WHOLE, fill_value=None, attributes=along, **options
        )
    write_json(folder / METADATA, _gathered(folder))


def _gathered(folder: Path) -> dict[str, Any]:
    """The metadata of all arrays and groups in one. Zarr's own function would warn about the checkpoints."""
    files = [*folder.rglob(".zgroup"), *folder.rglob(".zarray"), *folder.rglob(".zattrs")]
    try:
        metadata = {str(path.relative_to(folder).as_posix()): read_json(path) for path in sorted(files)}
    except ValueError as error:
        raise StoreError(f"{folder} is damaged: the metadata of its arrays cannot be read: {error}") from error
    return {"metadata": metadata, "zarr_consolidated_format": 1}


def _readable(folder: Path, plan: Plan) -> tuple[dict[str, Any], dict[str, int]]:
    """The consolidated metadata and its sizes; if damaged, they are made again, with no draws until the next save."""
    try:
        sizes = stored_sizes(folder, plan)
        return read_json(folder / METADATA), sizes
    except StoreError:
        document = _gathered(folder)
    with telling(folder, "the metadata of its arrays cannot be read"):
        check_arrays(document["metadata"], plan)
        for name in _COUNTED:
            ArrayInfo.of(name, document["metadata"][f"{name}/.zarray"])
    return document, {"draw": 0, "sweep": 0}


class Sizes:
    """The number of draws and sweeps that a reader sees. It never decreases."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self._folder = folder
        self._document, self.now = _readable(folder, plan)
        self._along = {each.path: (each.along, 1) for each in growing_variables(plan.tensor, plan.spec)}
        self._along |= {name: (name.rpartition("/")[2], 0) for name in _COUNTED}

    def grow(self, sizes: dict[str, int]) -> None:
        """Let readers see this many draws and sweeps."""
        for name, first in _COUNTED.items():
            along = name.rpartition("/")[2]
            self._count(name, first, self.now[along], sizes[along])
        for name, (along, axis) in self._along.items():
            self._document["metadata"][f"{name}/.zarray"]["shape"][axis] = sizes[along]
        write_json(self._folder / METADATA, self._document)
        settle(self._folder)
        self.now = dict(sizes)

    def set_attributes(self, attributes: dict[str, Any]) -> None:
        """Write the attributes of the run."""
        write_json(self._folder / ".zattrs", attributes)
        self._document["metadata"][".zattrs"] = attributes
        write_json(self._folder / METADATA, self._document)

    def settle(self) -> None:
        """Update the metadata of every array, for readers that do not use the consolidated metadata."""
        for name in self._along:
            write_json(self._folder / name / ".zarray", self._document["metadata"][f"{name}/.zarray"])

    def _count(self, name: str, first: int, old: int, new: int) -> None:
        """Write the new chunks of a coordinate 0, 1, ..; readers do not see the part beyond its size."""
        for chunk in range(-(-old // _INDICES), -(-new // _INDICES)):
            numbers = np.arange(chunk * _INDICES, (chunk + 1) * _INDICES, dtype=WHOLE) + first
            with replacing(self._folder / name / str(chunk)) as file:
                file.write(encode(numbers))
