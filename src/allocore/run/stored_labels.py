"""Labels in a run: text of one width where that is small; otherwise UTF-8, one label after another, and offsets.

    constant_data/labels_0_utf8       (byte,)        the labels of mode 0
    constant_data/labels_0_offsets    (rows + 1,)    where each of them begins, and where the last one ends

NumPy's text has the width of the longest label, four bytes a character: one label of 3,000 characters among 100,000
would take 1.2 GB. In a DataTree in memory such labels are Python's strings.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocore.data.labels import ModeLabels
from allocore.data.zarr_arrays import array_info, read_static

_SMALL = 2**26
_WASTE = 8  # the most bytes of NumPy's text per byte of UTF-8, beyond _SMALL


def is_wide(labels: ModeLabels) -> bool:
    """Whether labels are kept as UTF-8, because text of one width would be large and mostly empty."""
    if isinstance(labels, range):
        return False
    width = 4 * len(labels) * max(map(len, labels))
    return width > _SMALL and width > _WASTE * sum(len(label.encode(errors="surrogatepass")) for label in labels)


def coordinate(labels: ModeLabels) -> NDArray[Any]:
    """Labels as a coordinate of a DataTree in memory."""
    return np.array(labels, dtype=object) if is_wide(labels) else np.array(labels)


def stored_coordinate(labels: ModeLabels) -> NDArray[Any]:
    """Labels as a coordinate on disk: wide ones are in `wide_labels`, and the coordinate has the positions."""
    return np.arange(len(labels)) if is_wide(labels) else np.array(labels)


def wide_labels(labels: Sequence[ModeLabels]) -> dict[str, tuple[str, NDArray[Any]]]:
    """The variables of `constant_data` that hold the wide labels, with their dimensions."""
    variables: dict[str, tuple[str, NDArray[Any]]] = {}
    for mode, each in enumerate(labels):
        if is_wide(each):
            encoded = [str(label).encode() for label in each]
            offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
            text = np.frombuffer(b"".join(encoded), dtype=np.uint8)
            variables[f"labels_{mode}_utf8"] = f"labels_{mode}_byte", text
            variables[f"labels_{mode}_offsets"] = f"labels_{mode}_offset", offsets
    return variables


def read_labels(run: Path, mode: int, row: str, length: int) -> list[str] | None:
    """The labels of a mode, whose coordinate is `row`; None if it has none."""
    if array_info(run, f"posterior/{row}").dtype.kind == "U":
        labels: list[str] = read_static(run, f"posterior/{row}").tolist()
        return labels
    name = f"constant_data/labels_{mode}"
    if not (run / f"{name}_utf8").is_dir():
        return None
    text, offsets = read_static(run, f"{name}_utf8").tobytes(), read_static(run, f"{name}_offsets", (length + 1,))
    return [text[start:stop].decode() for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
