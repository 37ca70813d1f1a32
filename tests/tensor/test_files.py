"""Files: exact round trips, nothing half-written, and errors that name the file."""

import gzip
import json
import os
from contextlib import suppress
from importlib.resources import files

import numpy as np
import pytest
import scipy.sparse
import sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allocore.errors import InputError
from allocore.tensor.count_tensor import CountTensor
from allocore.tensor.files import as_tensor, load_flights, load_tensor, read
from support.errors import refused
from support.tiers import given_by_tier

TENSOR = CountTensor(
    [[0, 1, 1], [2, 0, 1], [0, 1, 3]],
    [5, 10**12, 2],
    (2, 3, 5),
    mode_names=["who", "what", "when"],
    labels=[["Ada", "Zoë"], None, ["", "b", "trailing\x1b", "\uffff", "日"]],
    missing=[(None, 1, 0), (0, 0, None)],
)
PLAIN = CountTensor(TENSOR.coords, TENSOR.counts)


@st.composite
def tensors(draw):
    shape = tuple(draw(st.lists(st.integers(1, 4) | st.just(2**40), min_size=2, max_size=6)))
    cells = draw(st.lists(st.tuples(*[st.integers(0, d - 1) for d in shape]), min_size=1, max_size=10))
    counts = draw(st.lists(st.integers(1, 2**40), min_size=len(cells), max_size=len(cells)))
    texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
    labels = [draw(st.none() | st.lists(texts, min_size=d, max_size=d, unique=True)) if d < 9 else None for d in shape]
    plain = texts.filter(lambda name: name and not name.startswith(".") and "\\" not in name)
    names = draw(st.none() | st.lists(plain, min_size=len(shape), max_size=len(shape), unique=True))
    pattern = st.tuples(*[st.none() | st.integers(0, d - 1) for d in shape])
    tensor = CountTensor(np.array(cells).T, counts, shape, labels=labels, mode_names=names)
    try:
        return tensor.with_missing(draw(st.lists(pattern, max_size=4)))
    except InputError:
        return tensor


# The folder is shared by the examples on purpose: each overwrites the file of the one before.
SHARED_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)


@SHARED_FOLDER
@given(tensors())
def test_a_saved_tensor_is_read_back_exactly(tmp_path, tensor):
    tensor.save(tmp_path / "y.npz")
    again = load_tensor(tmp_path / "y.npz")
    assert again == tensor
    assert again.coords.dtype == tensor.coords.dtype
    assert os.listdir(tmp_path) == ["y.npz"]


@SHARED_FOLDER
@given(tensors(), st.sampled_from(["y.tns", "y.tns.gz"]))
def test_tns_files_keep_every_non_zero(tmp_path, tensor, name):
    plain = CountTensor(tensor.coords, tensor.counts)
    plain.save(tmp_path / name)
    assert read(tmp_path / name) == plain


def test_odd_labels_survive_and_paths_may_be_strings(tmp_path):
    TENSOR.save(str(tmp_path / "y.npz"))
    assert load_tensor(str(tmp_path / "y.npz")) == TENSOR
    assert read(tmp_path / "y.npz") == TENSOR


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".tns", ".tns.gz"])
def test_load_tensor_opens_every_file_that_save_writes(tmp_path, suffix):
    PLAIN.save(tmp_path / f"y{suffix}")
    assert load_tensor(tmp_path / f"y{suffix}") == PLAIN


def test_load_tensor_refuses_files_that_save_never_writes(tmp_path):
    np.save(tmp_path / "y.npy", PLAIN.to_dense())
    with refused("path", str(tmp_path / "y.npy"), "must end in .npz, .parquet, .tns, .tns.gz or .zarr"):
        load_tensor(tmp_path / "y.npy")
    PLAIN.to_frame().to_parquet(tmp_path / "other.parquet")
    with refused("path", str(tmp_path / "other.parquet"), "was not written by allocore"):
        load_tensor(tmp_path / "other.parquet")


def test_equal_tensors_make_equal_files(tmp_path):
    for name in ("a", "b"):
        TENSOR.save(tmp_path / f"{name}.npz")
        PLAIN.save(tmp_path / f"{name}.tns.gz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert (tmp_path / "a.tns.gz").read_bytes() == (tmp_path / "b.tns.gz").read_bytes()


def test_files_of_other_programs_are_read(tmp_path):
    dense = PLAIN.to_dense()
    np.save(tmp_path / "dense.npy", dense)
    sparse.save_npz(tmp_path / "pydata.npz", sparse.COO.from_numpy(dense))
    np.savez(tmp_path / "plain.npz", coords=PLAIN.coords, counts=PLAIN.counts, shape=PLAIN.shape)
    np.savez(tmp_path / "shapeless.npz", coords=PLAIN.coords, data=PLAIN.counts.astype(float))
    scipy.sparse.save_npz(tmp_path / "nd.npz", scipy.sparse.coo_array(dense))
    for path in tmp_path.iterdir():
        assert read(path) == PLAIN, path
    for format in ("csr", "csc", "coo", "bsr", "dia"):
        matrix = scipy.sparse.csr_array(dense.reshape(2, -1)).asformat(format)
        scipy.sparse.save_npz(tmp_path / "scipy.npz", matrix)
        assert read(tmp_path / "scipy.npz") == as_tensor(dense.reshape(2, -1))


@pytest.mark.parametrize(
    "text",
    [
        "1 3 1 5\n2 1 2 1000000000000\n2 2 4 2\n",
        "# a comment\n\n  1\t3 1 5.0\r\n2 1 2 1e12 # why\n2 2 4 2\n\n#",
        "1 3 1 5\n2 1 2 1000000000000\n2 2 4 1\n2 2 4 1",
        "1 3 1 5.0\n2 1 2 1000000000000\n2 2 4 2\n1 1 1 0",
    ],
)
def test_tns_text_may_have_comments_blank_lines_and_decimals(tmp_path, text):
    (tmp_path / "y.tns").write_text(text, newline="")
    with gzip.open(tmp_path / "y.tns.gz", "wt") as file:
        file.write(text)
    assert read(tmp_path / "y.tns") == PLAIN
    assert read(tmp_path / "y.tns.gz") == PLAIN


def test_large_counts_beside_decimals_stay_exact(tmp_path):
    (tmp_path / "y.tns").write_text(f"1 1 {2**49 + 1}\n1 2 1.0\n")
    assert read(tmp_path / "y.tns").counts.tolist() == [2**49 + 1, 1]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1 1 2\n1 1\n", "line 2: 2 columns, but the lines before have 3"),
        ("1 1 2\n# x\n1 1 1 1\n", "line 3: 4 columns, but the lines before have 3"),
        ("1 2\n", "line 1: 2 columns; at least two indices and a value are needed"),
        ("1 1 2\n1 x 2\n", "line 2: 'x' is not a number"),
        ("1,1,2\n", "line 1: 1 columns"),
        ("1 1 2\n1 1 1_0\n", "line 2: '1_0' is not a number"),
        ("1 1 2\n\n1 1 0.5\n", "line 3: value 0.5; counts must be whole numbers"),
        ("1 1 2\n1 1 -3\n", "line 2: value -3; counts must be whole numbers of at least 0"),
        ("1 1 2\n1 1 nan\n", "line 2: value nan"),
        ("1 1 2\n1 1 inf\n", "line 2: value inf"),
        ("1 1 2\n1 1 99999999999999999999\n", "line 2: value 99999999999999999999"),
        ("1 1 2\n0 1 2\n", "line 2: index 0; indices must be whole numbers of at least 1"),
        ("1 1 2\n1.0 1 2\n", "line 2: index 1.0; indices must be whole numbers"),
        ("1 1 2\n1 \xff 2\n", "is not a number"),
        ("# nothing\n", "has no entries"),
        ("", "has no entries"),
        ("1 1 0\n", "positive count"),
    ],
)
def test_a_bad_line_is_named_with_file_and_number(tmp_path, text, problem):
    path = tmp_path / "bad.tns"
    path.write_bytes(text.encode("latin-1"))
    with refused("path", str(path), problem):
        read(path)


def truncated(path, keep):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])


@pytest.mark.parametrize("reader", [read, load_tensor])
@pytest.mark.parametrize("keep", [0.0, 0.001, 0.3, 0.9, 0.99])
def test_a_truncated_npz_is_an_error_that_names_it(tmp_path, reader, keep):
    path = tmp_path / "y.npz"
    TENSOR.save(path)
    truncated(path, keep)
    with refused("path", str(path), "is damaged or not an .npz file"):
        reader(path)


@pytest.mark.parametrize("position", range(40, 1400, 37))
def test_a_flipped_byte_never_gives_another_error_or_other_data(tmp_path, position):
    path = tmp_path / "y.npz"
    TENSOR.save(path)
    content = bytearray(path.read_bytes())
    content[position % len(content)] ^= 0x55
    path.write_bytes(content)
    with suppress(InputError):
        assert read(path) == TENSOR


def test_damaged_gz_and_npy_files_are_errors(tmp_path):
    PLAIN.save(tmp_path / "y.tns.gz")
    truncated(tmp_path / "y.tns.gz", 0.7)
    with refused("path", str(tmp_path / "y.tns.gz"), "cannot be read"):
        read(tmp_path / "y.tns.gz")
    (tmp_path / "text.tns.gz").write_text("1 1 1\n")
    with refused("path", str(tmp_path / "text.tns.gz"), "cannot be read"):
        read(tmp_path / "text.tns.gz")
    np.save(tmp_path / "y.npy", PLAIN.to_dense())
    truncated(tmp_path / "y.npy", 0.9)
    with refused("path", str(tmp_path / "y.npy"), "is damaged or not an .npy file"):
        read(tmp_path / "y.npy")


def test_pickled_arrays_are_refused(tmp_path):
    np.save(tmp_path / "y.npy", np.array([[{}, 1]], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "y.npz", coords=np.array([[{}, 1]], dtype=object), counts=[1])
    for name in ("y.npy", "y.npz"):
        with refused("path", str(tmp_path / name), "is damaged or not an .np"):
            read(tmp_path / name)


def npz(path, **arrays):
    np.savez(path, **arrays)
    return path


def own(path, **changes):
    TENSOR.save(path)
    with np.load(path) as archive:
        arrays = {**archive, **changes}
    return npz(path, **{name: array for name, array in arrays.items() if array is not None})


def header(**changes):
    parts = {"mode_names": TENSOR.mode_names, "labels": [None] * 3}
    return np.frombuffer(json.dumps(parts | changes).encode(), np.uint8)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda p: own(p, format="allocore.CountTensor/2"), "format version 2; this allocore reads version 1"),
        (lambda p: own(p, header=None), "is damaged: a part is missing"),
        (lambda p: own(p, header=np.zeros(3, np.uint8)), "is damaged"),
        (lambda p: own(p, header=np.frombuffer(b"[]", np.uint8)), "is damaged"),
        (lambda p: own(p, header=header(report="[]")), "is damaged: report"),
        (lambda p: own(p, counts=np.array([1, 2, -3])), "counts is -3 at position 2"),
        (lambda p: npz(p, x=[1]), "the arrays x, but it must have the arrays coords and counts (or data)"),
        (lambda p: npz(p, coords=[[0], [0]], data=[1], fill_value=1), "fill_value is 1"),
        (lambda p: npz(p, coords=[[0], [0]], counts=[0.5]), "counts is 0.5"),
        (lambda p: npz(p, format=b"csr", data=[1]), "is damaged or not a file of scipy.sparse.save_npz"),
        (lambda p: npz(p), "the arrays none, but it must have the arrays coords and counts"),
    ],
)
def test_an_npz_with_wrong_content_is_an_error_that_names_it(tmp_path, make, problem):
    path = make(tmp_path / "y.npz")
    with refused("path", str(path), problem):
        read(path)


def test_paths_that_cannot_be_read_are_errors(tmp_path):
    for reader in (read, load_tensor, as_tensor):
        with refused("path", str(tmp_path / "nothing.npz"), "must be an existing file"):
            reader(tmp_path / "nothing.npz")
        with refused("path", str(tmp_path), "must be an existing file, not a folder"):
            reader(tmp_path)
    (tmp_path / "y.xlsx").write_text("")
    with refused("path", str(tmp_path / "y.xlsx"), "must end in .npz, .npy, .parquet, .tns"):
        read(tmp_path / "y.xlsx")
    with refused("path", str(tmp_path / "other.npz"), "as_tensor reads files of other programs"):
        load_tensor(npz(tmp_path / "other.npz", coords=[[0], [0]], counts=[1]))


def test_paths_that_cannot_be_written_are_errors(tmp_path):
    with refused("path", str(tmp_path / "y.txt"), "must end in .npz, .parquet, .tns, .tns.gz or .zarr"):
        TENSOR.save(tmp_path / "y.txt")
    with refused("path", str(tmp_path / "nowhere" / "y.npz"), "cannot be written: No such file or directory"):
        TENSOR.save(tmp_path / "nowhere" / "y.npz")
    (tmp_path / "file").write_text("")
    with refused("path", str(tmp_path / "file" / "y.npz"), "cannot be written: Not a directory"):
        TENSOR.save(tmp_path / "file" / "y.npz")
    with refused("tensor", "a tensor with 2 missing patterns", "save it as .npz"):
        TENSOR.save(tmp_path / "y.tns")
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), MemoryError()])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, error):
    TENSOR.save(tmp_path / "y.npz")
    before = (tmp_path / "y.npz").read_bytes()

    def fail(file, **arrays):
        file.write(b"half")
        raise error

    monkeypatch.setattr(np, "savez_compressed", fail)
    expected = InputError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected):
        PLAIN.save(tmp_path / "y.npz")
    assert os.listdir(tmp_path) == ["y.npz"]
    assert (tmp_path / "y.npz").read_bytes() == before


@pytest.mark.parametrize(
    ("indptr", "indices"),
    [
        ([0, 2, 10**9, 4], [0, 1, 2, 3]),
        ([0, 4, 2, 4], [0, 1, 2, 3]),
        ([0, -5, 2, 4], [0, 1, 2, 3]),
        ([0, 2, 3, 4], [0, 10**9, -7, 3]),
        ([0, 2, 3, 4], [0, 1]),
    ],
)
def test_indices_of_a_scipy_file_that_reach_beyond_its_arrays_are_refused(tmp_path, indptr, indices):
    """SciPy alone writes to memory that is not its own, and the process dies."""
    parts = {"indptr": np.array(indptr), "indices": np.array(indices), "data": np.array([1, 2, 3, 4])}
    np.savez(tmp_path / "m.npz", format=np.array(b"csr"), shape=np.array([3, 4]), **parts)
    with refused("path", str(tmp_path / "m.npz"), "is damaged or not a file of scipy.sparse.save_npz"):
        as_tensor(tmp_path / "m.npz")


LABELLED = CountTensor(
    [[0, 1, 1, 3], [2, 0, 0, 1], [0, 4, 1, 1]],
    [5, 1, 2, 10**12],
    (4, 3, 6),
    mode_names=["who", "count", 'it\'s "when"'],
    labels={"who": ["Ada", "it's", '"quoted", comma', "日本"], "count": ["1", "02", "x"]},
)
MASKED = LABELLED.with_missing([(0, None, 1), (2, 2, None)])
SMALL = CountTensor([[0, 1], [1, 0]], [3, 4], (5, 2))


@pytest.mark.parametrize("tensor", [LABELLED, MASKED, SMALL], ids=["labelled", "masked", "plain"])
@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_files_with_labels_and_missing_cells_come_back_the_same(tmp_path, tensor, suffix):
    tensor.save(tmp_path / f"it's {suffix}")
    assert as_tensor(tmp_path / f"it's {suffix}") == tensor


@pytest.mark.parametrize("suffix", [".tns", ".tns.gz"])
def test_a_tns_file_keeps_cells_and_counts(tmp_path, suffix):
    full = as_tensor(np.arange(1, 13).reshape(3, 4))
    full.save(tmp_path / f"y{suffix}")
    assert as_tensor(tmp_path / f"y{suffix}") == full


@pytest.mark.parametrize("tensor", [LABELLED, MASKED, SMALL], ids=["labelled", "masked", "plain"])
def test_a_pandas_table_has_a_row_a_cell_and_comes_back_the_same(tensor):
    frame = tensor.to_frame()
    assert len(frame) == tensor.nnz
    assert list(frame.columns[:-1]) == list(tensor.mode_names)
    assert frame.iloc[:, -1].tolist() == tensor.counts.tolist()
    assert as_tensor(frame) == tensor
    assert as_tensor(frame.sample(frac=1, random_state=0)) == tensor, "in any order of rows"


def test_the_rows_of_a_table_have_the_labels_of_their_cells():
    first = LABELLED.to_frame().iloc[0]
    assert first.tolist() == ["Ada", "x", 0, 5]
    assert LABELLED.to_frame().columns[-1] == "count_", "a mode has the name count"


@pytest.mark.parametrize("name", ["to_scipy", "to_sparse"])
def test_arrays_of_other_libraries_come_back_with_the_same_cells(name):
    again = as_tensor(getattr(LABELLED, name)(), mode_names=LABELLED.mode_names, labels=LABELLED.labels)
    assert again == LABELLED
    array = getattr(SMALL, name)()
    assert array.shape == (5, 2)
    np.testing.assert_array_equal(array.todense() if name == "to_sparse" else array.toarray(), SMALL.to_dense())


@pytest.mark.parametrize("name", ["to_scipy", "to_sparse"])
def test_missing_cells_are_never_turned_into_zeros(name):
    with refused("tensor", "a tensor with 2 missing patterns", "no missing cells"):
        getattr(MASKED, name)()


@given_by_tier(tensor=tensors(), quick=12, full=60)
def test_every_tensor_comes_back_from_a_table_and_from_parquet(tmp_path_factory, tensor):
    assert as_tensor(tensor.to_frame()) == tensor
    path = tmp_path_factory.mktemp("export") / "y.parquet"
    tensor.save(path)
    assert as_tensor(path) == tensor


def test_parquet_of_other_programs_and_a_damaged_file_are_refused(tmp_path):
    LABELLED.to_frame().to_parquet(tmp_path / "other.parquet")
    with refused("path", str(tmp_path / "other.parquet"), "read_events reads any table"):
        as_tensor(tmp_path / "other.parquet")
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1 once")
    with refused("path", str(tmp_path / "damaged.parquet"), "is damaged or not a Parquet file"):
        as_tensor(tmp_path / "damaged.parquet")


def test_an_unknown_suffix_and_a_missing_folder_are_refused(tmp_path):
    with refused("path", "y.csv", "must end in .npz, .parquet, .tns, .tns.gz or .zarr"):
        SMALL.save("y.csv")
    with refused("path", str(tmp_path / "nowhere" / "y.parquet"), "cannot be written: No such file or directory"):
        SMALL.save(tmp_path / "nowhere" / "y.parquet")
    assert list(tmp_path.iterdir()) == []


def test_every_flight_of_2013_is_counted():
    tensor = load_flights()
    assert tensor.total == 336_776
    assert tensor.nnz == 16_914
    assert tensor.shape == (3, 105, 16, 12, 20)
    assert tensor.mode_names == ("origin", "destination", "carrier", "month", "hour")
    assert len(tensor.missing) == 0


def test_the_labels_are_readable():
    origin, destination, carrier, month, hour = load_flights().labels
    assert origin == ("EWR Newark", "JFK New York Kennedy", "LGA New York LaGuardia")
    assert "LAX Los Angeles" in destination
    assert "JetBlue Airways" in carrier
    assert month[0] == "Jan"
    assert month[-1] == "Dec"
    assert hour[1:3] == ("05:00", "06:00")
    assert load_flights().top_labels("destination", top=1) == [("ORD Chicago O'Hare", 17_283)]


def test_no_flight_leaves_for_its_own_airport():
    tensor = load_flights()
    origins = [label[:3] for label in tensor.labels[0]]
    destinations = [label[:3] for label in tensor.labels[1]]
    same = [origins[i] == destinations[j] for i, j in tensor.coords[:2].T.tolist()]
    assert not any(same)


def test_the_file_is_small_and_comes_with_its_licence():
    folder = files("allocore.tensor")
    assert len((folder / "flights.npz").read_bytes()) < 100_000
    assert "CC0" in (folder / "flights.LICENSE").read_text()
    assert load_tensor(folder / "flights.npz") == load_flights()
