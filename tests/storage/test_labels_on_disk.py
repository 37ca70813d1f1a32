"""Labels of any width: on disk and in a DataTree they take the space of their text, not that of the longest."""

import os
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
import xarray as xr

import allocore as ac
from allocore.storage import zarr_format
from support.errors import refused_file
from support.tiers import parametrize_few

SETTINGS = {"burn_in": 0, "draws": 2, "thin": 1, "seed": 1, "progress": False, "chains": 1}


def tensor_of(labels):
    rows = len(labels)
    coords = np.stack([np.arange(rows), np.arange(rows) % 2])
    return ac.CountTensor(
        coords, np.ones(rows, dtype=int), (rows, 2), mode_names=["who", "what"], labels=[labels, None]
    )


@pytest.fixture
def all_wide(monkeypatch):
    """However few they are, labels of different widths are kept as UTF-8."""
    monkeypatch.setattr(zarr_format, "_SMALL_LABELS_BYTES", 0)
    monkeypatch.setattr(zarr_format, "_MAX_WASTE", 0)


@parametrize_few("labels", [["a", "b" * 50, "日本", "🦜"], ["", "x"], ["only one"], ["a b", " a", "a\n"]])
def test_wide_labels_come_back_and_xarray_opens_the_run(tmp_path, all_wide, labels):
    post = ac.CP(2, store=tmp_path / "run.zarr", **SETTINGS).fit(tensor_of(labels)).posterior_
    again = ac.open_run(tmp_path / "run.zarr")
    assert again.tensor.labels == (tuple(labels), range(2))
    with xr.open_datatree(tmp_path / "run.zarr", engine="zarr") as tree:
        tree.load()
    assert tree["posterior"]["who"].values.tolist() == list(range(len(labels)))
    text, offsets = (tree["constant_data"][f"labels_0_{part}"].values for part in ("utf8", "offsets"))
    parts = [bytes(text[a:b]).decode() for a, b in pairwise(offsets)]
    assert parts == labels
    assert post.to_datatree()["posterior"]["who"].values.tolist() == labels
    assert ac.CP.resume(tmp_path / "run.zarr", draws=3, progress=False).posterior_.tensor == post.tensor


@pytest.mark.slow
def test_one_long_label_among_many_costs_its_own_length(tmp_path):
    labels = [f"label {number}" for number in range(20_000)]
    labels[7] = "x" * 3000  # as text of one width: 240 MB
    tensor = tensor_of(labels)
    tracemalloc.start()
    post = ac.CP(1, store=tmp_path / "run.zarr", **SETTINGS).fit(tensor).posterior_
    tree = post.to_datatree()
    again = ac.open_run(tmp_path / "run.zarr")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80e6
    assert again.tensor.labels[0] == tuple(labels)
    assert tree["posterior"]["who"].values.tolist() == labels
    sizes = [os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(tmp_path) for name in names]
    assert sum(sizes) < 5e6


def test_labels_of_ordinary_width_are_coordinates_as_they_were(tmp_path):
    ac.CP(2, store=tmp_path / "run.zarr", **SETTINGS).fit(tensor_of(["a", "bb" * 40]))
    assert not list((tmp_path / "run.zarr" / "constant_data").glob("labels_*"))
    with xr.open_datatree(tmp_path / "run.zarr", engine="zarr") as tree:
        assert tree["posterior"]["who"].values.tolist() == ["a", "bb" * 40]


@pytest.mark.parametrize("name", ["labels_0_utf8", "labels_0_offsets"])
def test_damaged_wide_labels_are_told(tmp_path, all_wide, name):
    ac.CP(2, store=tmp_path / "run.zarr", **SETTINGS).fit(tensor_of(["a", "b" * 50, "c"]))
    file = tmp_path / "run.zarr" / "constant_data" / name / "0"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(bytes(content))
    with refused_file(tmp_path / "run.zarr", "is damaged: its tensor "):
        ac.open_run(tmp_path / "run.zarr")
