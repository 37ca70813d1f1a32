"""The JSON files of a run, read with suspicion: a stranger may have written them, or a disk may have damaged them."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from allocore._files import read_regular, replacing

CODEC = "zstd"
_MOST_BYTES = 2**26  # of a JSON file; the consolidated metadata of six modes take 50 kB
# Numbers, and text of a fixed width. Not "O": decoding objects can run code.
_DTYPES = re.compile(r"<[iu][248]|[<|][iu]1|<f8|<U[1-9]\d{0,7}")


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; an OSError or ValueError if there is none."""
    if path.stat().st_size > _MOST_BYTES:
        raise ValueError(f"{path.name} has more than {_MOST_BYTES:,} bytes")
    return parsed_object(read_regular(path), path.name)


def parsed_object(text: str | bytes, name: str) -> dict[str, Any]:
    """The object in a JSON text."""
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError(f"{name} is nested too deeply") from None
    if not isinstance(document, dict):
        raise ValueError(f"{name} holds no JSON object")
    return document


def write_json(path: Path, document: Any) -> None:
    """Replace a JSON file as a whole."""
    with replacing(path) as file:
        file.write(json.dumps(document, indent=1).encode())


@dataclass(frozen=True)
class ArrayInfo:
    """What Zarr's metadata say of an array, of what a run can contain: no filters, and no codec but ours."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    order: Literal["C", "F"]

    @classmethod
    def of(cls, name: str, document: object) -> "ArrayInfo":
        """Check the metadata of the array `name`; a ValueError says what is wrong."""
        if not isinstance(document, dict) or document.get("zarr_format") != 2:
            raise ValueError(f"{name} has no metadata of Zarr's format 2")
        codec = document.get("compressor")
        if not isinstance(codec, dict) or codec.get("id") != CODEC:
            raise ValueError(f"{name} names the codec {_named(codec)}, but a run has {CODEC!r} alone")
        if document.get("filters"):
            raise ValueError(f"{name} names the filters {document['filters']!r}, but a run has none")
        dtype, order = document.get("dtype"), document.get("order")
        if not isinstance(dtype, str) or not _DTYPES.fullmatch(dtype):
            raise ValueError(f"{name} has the type {dtype!r}, but a run has numbers and text alone")
        if order not in ("C", "F") or document.get("dimension_separator", ".") != ".":
            raise ValueError(f"{name} has metadata that a run cannot have")
        shape, chunks = _sizes(name, document.get("shape"), 0), _sizes(name, document.get("chunks"), 1)
        if len(shape) != len(chunks):
            raise ValueError(f"{name} has the shape {shape}, but chunks of the shape {chunks}")
        return cls(shape, chunks, np.dtype(dtype), order)


def _named(codec: object) -> str:
    return repr(codec.get("id") if isinstance(codec, dict) else codec)


def _sizes(name: str, given: object, least: int) -> tuple[int, ...]:
    """A shape: a list of few whole numbers whose product is below 2^62."""
    if not isinstance(given, list) or len(given) > 32:
        raise ValueError(f"{name} has the shape {str(given)[:80]}")
    product = 1
    for size in given:
        product *= max(size, 1) if type(size) is int else 0
        if type(size) is not int or size < least or product >= 2**62:
            raise ValueError(f"{name} has the shape {str(given)[:80]}")
    return tuple(given)
