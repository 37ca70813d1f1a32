"""as_tensor: what other libraries hold becomes the same CountTensor."""

import re
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import pyttb
import scipy.sparse
import sparse
import xarray as xr

from allocore.errors import NO_VALUE
from allocore.tensor.count_tensor import CountTensor
from allocore.tensor.files import as_tensor
from support.errors import refused

DENSE = np.array([[[0, 2], [0, 0], [7, 0]], [[1, 0], [0, 0], [0, 3]]])
FLAT = DENSE.reshape(2, 6)


@pytest.mark.parametrize(
    "x",
    [
        DENSE,
        DENSE.astype(np.uint8),
        DENSE.astype(float),
        np.asfortranarray(DENSE),
        sparse.COO.from_numpy(DENSE),
        sparse.GCXS.from_numpy(DENSE),
        sparse.DOK.from_numpy(DENSE),
        scipy.sparse.coo_array(DENSE),
        pyttb.tensor(DENSE.astype(float)),
        pyttb.tensor(DENSE.astype(float)).to_sptensor(),
    ],
    ids=lambda x: f"{type(x).__module__}.{type(x).__name__}",
)
def test_three_mode_tensors_of_every_library_become_the_same(x):
    tensor = as_tensor(x)
    assert tensor.shape == DENSE.shape
    assert np.array_equal(tensor.to_dense(), DENSE)


@pytest.mark.parametrize("format", ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"])
@pytest.mark.parametrize("kind", ["matrix", "array"])
def test_scipy_matrices_and_arrays_of_every_format_are_accepted(format, kind):
    x = getattr(scipy.sparse, f"csr_{kind}")(FLAT).asformat(format)
    assert np.array_equal(as_tensor(x).to_dense(), FLAT)


def test_duplicates_of_a_coo_array_are_summed():
    x = scipy.sparse.coo_array(([1, 2, 4], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    assert as_tensor(x).to_dense().tolist() == [[0, 3], [4, 0]]


def test_a_tensor_is_returned_as_it_is_or_relabelled():
    tensor = as_tensor(FLAT)
    assert as_tensor(tensor) is tensor
    named = as_tensor(tensor, mode_names=["row", "column"], labels={"row": ["a", "b"]})
    assert named.mode_names == ("row", "column")
    assert named.labels == (("a", "b"), range(6))


def test_names_and_labels_are_given_on_the_way():
    tensor = as_tensor(DENSE, mode_names=["a", "b", "c"], labels={"c": ["x", "y"]})
    assert tensor.mode_names == ("a", "b", "c")
    assert tensor.labels[2] == ("x", "y")


def test_masked_cells_of_an_array_are_missing():
    tensor = as_tensor(np.ma.masked_equal(FLAT, 7))
    assert list(tensor.missing) == [(0, 4)]
    assert tensor.total == 6


def test_a_path_is_read(tmp_path):
    as_tensor(DENSE).save(tmp_path / "y.npz")
    for path in (tmp_path / "y.npz", str(tmp_path / "y.npz")):
        tensor = as_tensor(path, mode_names=["a", "b", "c"])
        assert isinstance(tensor, CountTensor)
        assert tensor.mode_names == ("a", "b", "c")
        assert np.array_equal(tensor.to_dense(), DENSE)


@pytest.mark.parametrize(
    ("x", "argument", "value", "rule"),
    [
        (np.array([1, 2, 3]), "x", "an array of shape (3,)", "at least 2 modes"),
        (np.array(5), "x", "an array of shape ()", "at least 2 modes"),
        (scipy.sparse.coo_array(np.array([1, 2])), "x", "an array of shape (2,)", "at least 2 modes"),
        (np.array([[1, np.nan]]), "x", "an array with NaN in 1 cell", "np.ma.masked_invalid(x)"),
        (np.array([[1, -1]]), "counts", "-1 at position 1", "negative"),
        (np.array([[1, 0.5]]), "counts", "0.5 at position 1", "whole numbers"),
        (np.array([["a", "b"]]), "x", "an array of type <U1", "whole numbers"),
        (np.zeros((2, 2)), "counts", NO_VALUE, "positive"),
        (scipy.sparse.csr_array((2, 2)), "counts", NO_VALUE, "positive"),
        (pyttb.sptensor(shape=(2, 2)), "counts", NO_VALUE, "positive"),
        (sparse.COO.from_numpy(FLAT + 1, fill_value=1), "x", "an array with the fill value 1", "fill value 0"),
        (scipy.sparse.csr_array([[0.5, 1.0]]), "counts", "0.5 at position 0", "whole numbers"),
        ([[1, 2], [3, 4]], "x", "of type builtins.list", "CountTensor, a NumPy array"),
        (None, "x", "of type builtins.NoneType", "CountTensor"),
    ],
)
def test_what_cannot_be_a_tensor_is_refused(x, argument, value, rule):
    with refused(argument, value, rule):
        as_tensor(x)


HOURS = ("2024-01-01 22:00", "2024-01-01 23:00", "2024-01-02 00:00")


def _counts(**changes):
    parts = {
        "dims": ["who", "when", "place"],
        "coords": {"who": ["Ada", "Max"], "when": pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"])},
    } | changes
    return xr.DataArray(np.arange(12).reshape(2, 3, 2), **parts)


def test_an_array_of_xarray_keeps_its_dimensions_and_coordinates():
    tensor = as_tensor(_counts())
    assert tensor.mode_names == ("who", "when", "place")
    assert tensor.labels == (("Ada", "Max"), ("2024-01-01", "2024-01-02", "2024-01-03"), range(2))
    assert np.array_equal(tensor.to_dense(), _counts().to_numpy())


def test_names_and_labels_that_are_given_come_before_those_of_xarray():
    tensor = as_tensor(_counts(), mode_names=["a", "b", "c"], labels={"c": ["x", "y"]})
    assert tensor.mode_names == ("a", "b", "c")
    assert tensor.labels[2] == ("x", "y")


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([3, 1, 2], ("3", "1", "2")),
        (pd.date_range("2024-01-01 22:00", periods=3, freq="h"), HOURS),
        (pd.period_range("2024-01", periods=3, freq="M"), ("2024-01", "2024-02", "2024-03")),
        (pd.interval_range(0, 3), ("(0, 1]", "(1, 2]", "(2, 3]")),
    ],
)  # fmt: skip
def test_coordinates_of_every_type_are_labels_that_can_be_read(values, labels):
    assert as_tensor(_counts(coords={"when": values})).labels[1] == labels


def test_a_sparse_array_of_xarray_stays_sparse():
    huge = sparse.COO([[0, 99_999], [0, 99_999], [0, 99_999]], [1, 2], shape=(100_000,) * 3)
    tensor = as_tensor(xr.DataArray(huge, dims=["a", "b", "c"]))
    assert (tensor.shape, tensor.total, tensor.mode_names) == (huge.shape, 3, ("a", "b", "c"))


def test_nan_is_refused_with_what_to_give_instead_and_that_works():
    x = _counts().astype(float)
    x[0, 1, 1] = np.nan
    with refused("x", "an array with NaN in 1 cell") as error:
        as_tensor(x)
    zeros, missing = re.search(r"give (.*) if these are zeros, or (.*) if they were not", error.value.rule).groups()
    assert as_tensor(eval(zeros)).total == 63
    assert list(eval(missing).missing) == [(0, 1, 1)]
    with refused("x", "an array with NaN in 1 cell") as error:
        as_tensor(x.to_numpy())
    zeros, missing = re.search(r"give (.*) if these are zeros, or (.*) if they were not", error.value.rule).groups()
    x = x.to_numpy()
    assert as_tensor(eval(zeros)).total == 63
    assert list(as_tensor(eval(missing)).missing) == [(0, 1, 1)]


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table])
def test_a_table_is_refused_with_a_hint_to_read_events(kind):
    with refused("x", rule="read_events(x, modes=[...])"):
        as_tensor(kind({"a": [1, 2], "b": [3, 4]}))


def test_a_dataset_is_refused_with_a_hint_to_its_variables():
    with refused("x", rule="choose one variable of a Dataset, as in x['counts']"):
        as_tensor(xr.Dataset({"counts": _counts()}))


def test_importing_and_converting_loads_no_heavy_library_and_not_the_reader_of_events():
    code = (
        "import sys, numpy as np\n"
        "from allocore.tensor.files import as_tensor, load_flights\nfrom allocore.tensor.holdout import hold_out\n"
        "as_tensor(np.eye(3))\n"
        "hold_out(load_flights())\n"
        "heavy = {'scipy', 'pandas', 'sparse', 'pyttb', 'numba', 'xarray', 'matplotlib', 'duckdb', 'narwhals'}\n"
        "loaded = {name for name in sys.modules if name in heavy or name.startswith('allocore.events')}\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
