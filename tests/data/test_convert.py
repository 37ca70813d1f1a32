"""as_tensor: what other libraries hold becomes the same CountTensor."""

import subprocess
import sys

import numpy as np
import pytest
import pyttb
import scipy.sparse
import sparse

from allocore.data.convert import as_tensor
from allocore.data.tensor import CountTensor
from allocore.errors import InputError

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
    ("x", "message"),
    [
        (np.array([1, 2, 3]), r"x must have at least 2 modes; got shape \(3,\)"),
        (np.array(5), r"x must have at least 2 modes; got shape \(\)"),
        (scipy.sparse.coo_array(np.array([1, 2])), r"at least 2 modes; got shape \(2,\)"),
        (np.array([[1, np.nan]]), "counts must be whole numbers.*got nan"),
        (np.array([[1, -1]]), "counts must not be negative; got -1"),
        (np.array([[1, 0.5]]), "counts must be whole numbers.*got 0.5"),
        (np.array([["a", "b"]]), "x must be an array of whole numbers; got an array of type <U1"),
        (np.zeros((2, 2)), "no positive counts"),
        (scipy.sparse.csr_array((2, 2)), "no positive counts"),
        (pyttb.sptensor(shape=(2, 2)), "no positive counts"),
        (sparse.COO.from_numpy(FLAT + 1, fill_value=1), "x must have the fill value 0; got 1"),
        (scipy.sparse.csr_array([[0.5, 1.0]]), "counts must be whole numbers.*got 0.5"),
        ([[1, 2], [3, 4]], "x has the type builtins.list; it must be a CountTensor, a NumPy array"),
        (None, "x has the type builtins.NoneType"),
    ],
)
def test_what_cannot_be_a_tensor_is_refused(x, message):
    with pytest.raises(InputError, match=message):
        as_tensor(x)


def test_importing_and_converting_loads_no_heavy_library_and_not_the_reader_of_events():
    code = (
        "import sys, numpy as np\n"
        "import allocore.data\n"
        "allocore.data.as_tensor(np.eye(3))\n"
        "allocore.data.hold_out(allocore.data.load_flights())\n"
        "heavy = {'scipy', 'pandas', 'sparse', 'pyttb', 'numba', 'xarray', 'matplotlib', 'duckdb', 'narwhals'}\n"
        "loaded = {name for name in sys.modules if name in heavy or name.startswith('allocore.data.events')}\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
