"""A tensor goes out to other programs and comes back the same."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import allocore as ac
from support.errors import refused

LABELLED = ac.CountTensor(
    [[0, 1, 1, 3], [2, 0, 0, 1], [0, 4, 1, 1]],
    [5, 1, 2, 10**12],
    (4, 3, 6),
    mode_names=["who", "count", 'it\'s "when"'],
    labels={"who": ["Ada", "it's", '"quoted", comma', "日本"], "count": ["1", "02", "x"]},
)
MASKED = LABELLED.with_missing([(0, None, 1), (2, 2, None)])
PLAIN = ac.CountTensor([[0, 1], [1, 0]], [3, 4], (5, 2))


@st.composite
def tensors(draw):
    shape = draw(st.lists(st.integers(1, 5), min_size=2, max_size=4))
    cells = draw(st.lists(st.tuples(*(st.integers(0, d - 1) for d in shape)), min_size=1, max_size=12))
    counts = draw(st.lists(st.integers(1, 2**40), min_size=len(cells), max_size=len(cells)))
    texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4)
    labels = [draw(st.none() | st.lists(texts, min_size=d, max_size=d, unique=True)) for d in shape]
    plain = texts.filter(lambda name: name and not name.startswith(".") and "\\" not in name)
    names = draw(st.lists(plain, min_size=len(shape), max_size=len(shape), unique=True))
    return ac.CountTensor(np.array(cells).T, counts, shape, mode_names=names, labels=labels)


@pytest.mark.parametrize("tensor", [LABELLED, MASKED, PLAIN], ids=["labelled", "masked", "plain"])
@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_files_with_labels_and_missing_cells_come_back_the_same(tmp_path, tensor, suffix):
    tensor.save(tmp_path / f"it's {suffix}")
    assert ac.as_tensor(tmp_path / f"it's {suffix}") == tensor


@pytest.mark.parametrize("suffix", [".tns", ".tns.gz"])
def test_a_tns_file_keeps_cells_and_counts(tmp_path, suffix):
    full = ac.as_tensor(np.arange(1, 13).reshape(3, 4))
    full.save(tmp_path / f"y{suffix}")
    assert ac.as_tensor(tmp_path / f"y{suffix}") == full


@pytest.mark.parametrize("tensor", [LABELLED, MASKED, PLAIN], ids=["labelled", "masked", "plain"])
def test_a_pandas_table_has_a_row_a_cell_and_comes_back_the_same(tensor):
    frame = tensor.to_frame()
    assert len(frame) == tensor.nnz
    assert list(frame.columns[:-1]) == list(tensor.mode_names)
    assert frame.iloc[:, -1].tolist() == tensor.counts.tolist()
    assert ac.as_tensor(frame) == tensor
    assert ac.as_tensor(frame.sample(frac=1, random_state=0)) == tensor, "in any order of rows"


def test_the_rows_of_a_table_have_the_labels_of_their_cells():
    first = LABELLED.to_frame().iloc[0]
    assert first.tolist() == ["Ada", "x", 0, 5]
    assert LABELLED.to_frame().columns[-1] == "count_", "a mode has the name count"


@pytest.mark.parametrize("name", ["to_scipy", "to_sparse"])
def test_arrays_of_other_libraries_come_back_with_the_same_cells(name):
    again = ac.as_tensor(getattr(LABELLED, name)(), mode_names=LABELLED.mode_names, labels=LABELLED.labels)
    assert again == LABELLED
    array = getattr(PLAIN, name)()
    assert array.shape == (5, 2)
    np.testing.assert_array_equal(array.todense() if name == "to_sparse" else array.toarray(), PLAIN.to_dense())


@pytest.mark.parametrize("name", ["to_scipy", "to_sparse"])
def test_missing_cells_are_never_turned_into_zeros(name):
    with refused("tensor", "a tensor with 2 missing patterns", "no missing cells"):
        getattr(MASKED, name)()


@settings(max_examples=60, deadline=None)
@given(tensor=tensors())
def test_every_tensor_comes_back_from_a_table_and_from_parquet(tmp_path_factory, tensor):
    assert ac.as_tensor(tensor.to_frame()) == tensor
    path = tmp_path_factory.mktemp("export") / "y.parquet"
    tensor.save(path)
    assert ac.as_tensor(path) == tensor


def test_parquet_of_other_programs_is_told_apart_and_so_is_a_damaged_file(tmp_path):
    LABELLED.to_frame().to_parquet(tmp_path / "other.parquet")
    with refused("path", str(tmp_path / "other.parquet"), "read_events reads any table"):
        ac.as_tensor(tmp_path / "other.parquet")
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1 once")
    with refused("path", str(tmp_path / "damaged.parquet"), "is damaged or not a Parquet file"):
        ac.as_tensor(tmp_path / "damaged.parquet")


def test_an_unknown_suffix_and_a_folder_that_is_not_there_are_named(tmp_path):
    with refused("path", "y.csv", "must end in .npz, .parquet, .tns, .tns.gz or .zarr"):
        PLAIN.save("y.csv")
    with refused("path", str(tmp_path / "nowhere" / "y.parquet"), "cannot be written: No such file or directory"):
        PLAIN.save(tmp_path / "nowhere" / "y.parquet")
    assert list(tmp_path.iterdir()) == []
