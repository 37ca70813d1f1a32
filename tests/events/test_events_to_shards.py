"""`read_events(..., out=)`: the same tensor, in shards on disk, whose cells were never all in Python's memory."""

import errno
import tempfile
from collections import Counter
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import allocore as ac
from allocore.errors import NO_VALUE
from allocore.tensor import sharded
from allocore.tensor.shards import ShardWriter
from allocore.tensor.sql import connect
from support.errors import refused
from support.event_files import EVENTS, ICEWS, cells, icews_rows, text_of, write
from support.tiers import by_tier, given_by_tier, parametrize_few

read_events_module = import_module("allocore.events.read_events")
MODEST = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=15)
MODES = {"modes": ["a", "b", "c"], "time": "day"}
SHARED = {**MODES, "shared_modes": ["a", "b"]}
LETTERS = "pqrstu"


def contents(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def assert_same(folder, source, shards=3, **options):
    """Shards that were written out of core have the bytes of those that a tensor in memory writes."""
    whole = ac.read_events(source, **options)
    whole.save(folder / "saved.zarr", shards=shards)
    sharded = ac.read_events(source, **options, out=folder / "out.zarr", shards=shards)
    assert type(sharded) is ac.ShardedTensor
    saved = ac.ShardedTensor(folder / "saved.zarr")
    assert sharded.files.sizes == saved.files.sizes
    assert sharded.files.fingerprint == saved.files.fingerprint
    np.testing.assert_array_equal(sharded.files.row_totals(), saved.files.row_totals())
    assert contents(folder / "out.zarr") == contents(folder / "saved.zarr")
    assert sharded.report == whole.report
    assert ac.load_tensor(folder / "out.zarr") == whole
    return whole


def some_events(rows=400, seed=0, letters=LETTERS):
    """Events of which some labels are rare, some counts are 0 and some periods are empty."""
    rng = np.random.default_rng(seed)
    weights = 0.5 ** np.arange(len(letters))
    a, b = rng.choice(list(letters), (2, rows), p=weights / weights.sum())
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.choice([0, 3, 40, 200, 201], rows), "D")
    frame = {"a": a, "b": b, "c": rng.integers(0, 20, rows).astype(str), "day": days.strftime("%Y-%m-%d")}
    return pd.DataFrame(frame | {"n": rng.integers(0, 4, rows)})


OPTIONS = {
    "plain": MODES,
    "three modes, no time": {"modes": ["a", "b", "c"]},
    "diagonal missing": SHARED,
    "diagonal dropped": {**SHARED, "diagonal": "drop"},
    "diagonal kept": {**SHARED, "diagonal": "keep"},
    "rare labels": {**MODES, "min_count": 9},
    "rare labels, shared": {**SHARED, "min_count": 12},
    "counts": {**SHARED, "count": "n", "freq": "day"},
    "rare counts": {**SHARED, "count": "n", "min_count": 8},
    "where": {**MODES, "where": "a <> 'p' AND n > 0", "freq": "quarter"},
    "duplicates": {**MODES, "dedup": "day"},
    "unobserved": {**MODES, "unobserved": ["2020-01", "2020-05"]},
    "unobserved and diagonal": {**SHARED, "unobserved": "2020-02", "count": "n"},
    "weeks": {**MODES, "freq": "week"},
}


SLOW = {"diagonal kept", "rare labels", "counts", "unobserved", "weeks"}  # others have nearly the same options


@parametrize_few("name", by_tier([(name,) for name in OPTIONS if name not in SLOW], OPTIONS))
def test_shards_have_the_bytes_of_a_tensor_that_was_saved(tmp_path, name):
    assert_same(tmp_path, some_events(), **OPTIONS[name])


@pytest.mark.parametrize(
    ("new_labels", "diagonal"),
    by_tier([("drop", "missing"), ("append", "keep")], ["drop", "append", "error"], ["missing", "keep"]),
)
def test_more_events_go_into_the_rows_of_another_tensor(tmp_path, new_labels, diagonal):
    old = ac.read_events(some_events(letters="pqr"), **SHARED, diagonal=diagonal)
    new = some_events(seed=1, letters="pqr" if new_labels == "error" else LETTERS)
    options = {"like": old, "diagonal": diagonal, "new_labels": new_labels, "shared_modes": ["a", "b"]}
    new = new[new["c"].isin(old.labels[2])] if new_labels == "error" else new
    whole = assert_same(tmp_path, new, **options)
    assert whole.labels[0][:3] == old.labels[0]
    assert (len(whole.labels[0]) > 3) == (new_labels == "append")


def test_the_tensor_whose_labels_are_taken_over_may_be_in_shards(tmp_path):
    ac.read_events(some_events(), **SHARED, out=tmp_path / "old.zarr")
    assert_same(tmp_path, some_events(seed=1), like=tmp_path / "old.zarr", new_labels="append")


def test_a_file_of_a_known_format_goes_into_shards(tmp_path):
    whole = assert_same(tmp_path, write(tmp_path / "events.tab", text_of(ICEWS, icews_rows())))
    assert whole.total == sum(sender != receiver for _, sender, receiver, _ in EVENTS)


def test_several_files_go_into_one_tensor_and_bad_rows_are_reported(tmp_path):
    source = tmp_path / "events"
    source.mkdir()
    for number in range(3):
        part = some_events(100, seed=number)
        part.loc[number, "day"] = "no day"
        part.to_csv(source / f"{number}.csv", index=False)
    some_events(50, seed=9).to_parquet(source / "9.parquet")
    whole = assert_same(tmp_path, source, **SHARED, on_error="drop", count="n")
    assert whole.report.dropped["unreadable time"] == 3


def test_a_frame_of_another_library_goes_into_shards(tmp_path):
    assert_same(tmp_path, pl.LazyFrame(some_events().to_dict("list")), **MODES)


ROW = st.tuples(
    st.sampled_from("xyz"), st.sampled_from("xyzw"), st.sampled_from(["2020-01-01", "2020-03-01"]), st.integers(0, 3)
)


@pytest.mark.filterwarnings("ignore:.*may be incomplete")
@pytest.mark.slow
@MODEST
@given(
    rows=st.lists(ROW, min_size=1, max_size=14),
    diagonal=st.sampled_from(["missing", "drop", "keep"]),
    least=st.integers(1, 4),
    unobserved=st.sampled_from([None, "2020-01"]),
)
def test_whatever_the_rows_both_ways_give_the_same_tensor_or_the_same_error(rows, diagonal, least, unobserved):
    frame = pd.DataFrame(rows, columns=["a", "b", "day", "n"])
    options = {"modes": ["a", "b"], "time": "day", "count": "n", "shared_modes": ["a", "b"], "diagonal": diagonal}
    options |= {"min_count": least, "unobserved": unobserved}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if error := refusal(frame, **options):
            assert refusal(frame, **options, out=folder / "out.zarr") == error
            assert list(folder.iterdir()) == []
        else:
            assert_same(folder, frame, **options)


def refusal(source, **options):
    """Why events cannot be read; None if they can."""
    try:
        ac.read_events(source, **options)
    except ac.InputError as error:
        return str(error)
    return None


def peeled(counts, least):
    """The cells that are left when rare labels are dropped until there are none, one label after another."""
    while True:
        totals = Counter()
        for cell, count in counts.items():
            for label in cell[:2]:
                totals[label] += count if cell[0] != cell[1] else 0
        rare = next((label for label, total in sorted(totals.items()) if total < least), None)
        if rare is None:
            return counts
        counts = {cell: count for cell, count in counts.items() if rare not in cell[:2]}


@pytest.mark.filterwarnings("ignore:.*may be incomplete")
@given_by_tier(rows=st.lists(ROW, min_size=1, max_size=30), least=st.integers(1, 6), quick=6, full=15)
def test_rare_labels_are_dropped_until_all_others_have_enough(rows, least):
    counts = Counter()
    for a, b, _, n in rows:
        counts[a, b] += n
    expected = {cell: n for cell, n in peeled(dict(counts), least).items() if n and cell[0] != cell[1]}
    frame = pd.DataFrame(rows, columns=["a", "b", "day", "n"])
    options = {"modes": ["a", "b"], "count": "n", "shared_modes": ["a", "b"], "min_count": least}
    if expected:
        assert cells(ac.read_events(frame, **options)) == expected
    else:
        with refused("source", NO_VALUE):
            ac.read_events(frame, **options)


def many_events(rows=30_000):
    """Events most of which have a cell to themselves."""
    rng = np.random.default_rng(3)
    return pd.DataFrame({name: rng.integers(0, 60, rows).astype(str) for name in "abc"})


@pytest.mark.parametrize("shards", by_tier([(5,)], [1, 5, 100]))
def test_batches_and_shards_of_any_size_hold_the_same_cells(tmp_path, monkeypatch, shards):
    monkeypatch.setattr(sharded, "_VECTORS", 1)
    assert_same(tmp_path, many_events(), shards, modes=["a", "b", "c"])


def test_no_array_ever_holds_all_cells(tmp_path, monkeypatch):
    monkeypatch.setattr(sharded, "_VECTORS", 1)
    monkeypatch.setattr(sharded.TableTensor, "_whole", None)
    sizes, add = [], ShardWriter.add

    def watched(self, coords, counts):
        sizes.append((coords.shape, counts.size, self._counts.size))
        add(self, coords, counts)

    monkeypatch.setattr(ShardWriter, "add", watched)
    source = many_events()
    Y = ac.read_events(source, modes=["a", "b", "c"], out=tmp_path / "y.zarr", shards=20)
    assert len(sizes) > 10
    assert all(shape == (3, cells) and cells <= 2048 for shape, cells, _ in sizes)
    assert max(waiting for _, _, waiting in sizes) <= 2048
    assert Y.nnz == sum(cells for _, cells, _ in sizes) == len(source.drop_duplicates())
    assert not Y._parts.counts.size  # the cells stay on disk until someone asks for them


@pytest.mark.parametrize(
    ("out", "shards", "argument", "rule"),
    [
        (None, 4, "shards", "needs `out`, the folder to write the tensor to"),
        ("y.npz", None, "out", "must end in .zarr"),
        ("there.zarr", None, "out", "exists already: choose another path"),
        ("no/y.zarr", None, "out", "must be in an existing folder"),
        ("y.zarr", 0, "shards", "must be a whole number of at least 1"),
        ("y.zarr", "many", "shards", "must be a whole number of at least 1"),
    ],
)
def test_a_wrong_target_is_an_error_before_anything_is_read(tmp_path, out, shards, argument, rule):
    (tmp_path / "there.zarr").mkdir()
    given = None if out is None else tmp_path / out
    with refused(argument, str(given) if argument == "out" else shards, rule):
        ac.read_events(tmp_path / "no such file.csv", out=given, shards=shards)
    assert [file.name for file in tmp_path.iterdir()] == ["there.zarr"]


def test_a_bad_row_leaves_nothing_behind(tmp_path):
    bad = some_events()
    bad.loc[3, "day"] = "no day"
    with refused("source", "a data frame", "'no day', which cannot be read as a date"):
        ac.read_events(bad, **MODES, out=tmp_path / "y.zarr")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (lambda: OSError(errno.ENOSPC, "No space left on device"), ac.StoreError, "y.zarr cannot be written: No space"),
        (lambda: KeyboardInterrupt("stopped"), KeyboardInterrupt, "stopped"),
    ],
)
def test_a_disk_that_fills_up_or_a_stop_leaves_nothing_behind(tmp_path, monkeypatch, error, raised, message):
    add, calls = ShardWriter.add, []

    def failing(self, coords, counts):
        calls.append(counts.size)
        if len(calls) == 5:
            raise error()
        add(self, coords, counts)

    monkeypatch.setattr(sharded, "_VECTORS", 1)
    monkeypatch.setattr(ShardWriter, "add", failing)
    with pytest.raises(raised, match=message):
        ac.read_events(many_events(), modes=["a", "b", "c"], out=tmp_path / "y.zarr", shards=20)
    assert len(calls) == 5
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("moment", ["while it sums up", "while it sorts"])
def test_a_disk_that_is_too_full_for_duckdb_is_one_sentence_and_leaves_nothing_behind(tmp_path, monkeypatch, moment):
    class Full:
        def __init__(self, connection):
            self.connection = connection

        def __getattr__(self, name):
            return getattr(self.connection, name)

        def execute(self, query, *more):
            if ("CREATE TABLE cells" if moment == "while it sums up" else "ORDER BY c") in query:
                raise duckdb.IOException("IO Error: Could not write file: No space left on device\nmore words")
            return self.connection.execute(query, *more)

    @contextmanager
    def connected(*given):
        with connect(*given) as connection:
            yield Full(connection)

    monkeypatch.setattr(read_events_module, "connect", connected)
    problem = "IO Error: Could not write file: No space left on device"
    with refused("source", NO_VALUE, f"cannot be made into a tensor: {problem}"):
        ac.read_events(some_events(), **MODES, out=tmp_path / "y.zarr")
    assert list(tmp_path.iterdir()) == []


def test_what_is_made_from_a_sharded_tensor_is_in_memory(tmp_path):
    Y = ac.read_events(some_events(), **MODES)
    sharded = ac.read_events(some_events(), **MODES, out=tmp_path / "y.zarr")
    assert sharded.binarize() == Y.binarize()
    assert type(sharded.binarize()) is ac.CountTensor
    assert sharded.mask(a="p") == Y.mask(a="p")
    assert sharded.select(a=["p", "q"]) == Y.select(a=["p", "q"])
    assert sharded.top_labels("c") == Y.top_labels("c")
    assert ac.hold_out(sharded, 0.1, seed=0).train == ac.hold_out(Y, 0.1, seed=0).train


def test_a_sharded_tensor_is_saved_in_other_shards_without_being_read_as_a_whole(tmp_path):
    sharded = ac.read_events(many_events(), modes=["a", "b", "c"], out=tmp_path / "y.zarr", shards=4)
    sharded.save(tmp_path / "other.zarr", shards=2)
    other = ac.load_tensor(tmp_path / "other.zarr")
    assert not sharded._parts.counts.size
    assert (sharded.shards, other.shards) == (4, 2)
    assert other == sharded
