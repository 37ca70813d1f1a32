"""Undirected ties: one cell for a pair, kept as (i, j) with i < j, and missing in both directions."""

import pickle

import numpy as np
import pandas as pd

import allocore as ac
from allocore.tensor.count_tensor import both_directions, cells_of, undirected_finding
from support.errors import refused
from support.findings import warned

PEOPLE = ["Ada", "Bo", "Cy", "Di", "Ed"]
NAMES = ("one", "month", "other")
MONTHS = ["2001-01", "2001-02", "2001-03"]
ENDS = ("one", "other")


def dense(seed=0):
    """Symmetric counts of five people in three months."""
    counts = np.triu(np.random.default_rng(seed).poisson(1.2, (3, 5, 5)), 1)
    return np.moveaxis(counts + counts.transpose(0, 2, 1), 0, 1)


def tensor_of(counts, labels=(PEOPLE, MONTHS, PEOPLE)):
    return ac.CountTensor(np.array(np.nonzero(counts)), counts[np.nonzero(counts)], counts.shape, mode_names=NAMES,
                          labels=labels)  # fmt: skip


SYMMETRIC = dense()
Y = tensor_of(SYMMETRIC).undirected(ENDS)


def test_symmetric_counts_are_taken_once_and_counts_in_one_direction_as_they_are():
    above = np.triu(np.ones((5, 5)), 1)[:, None, :].astype(int)
    for counts in (SYMMETRIC * above, SYMMETRIC * above.transpose(2, 1, 0)):
        assert tensor_of(counts).undirected(ENDS) == Y
    assert (Y.coords[0] < Y.coords[2]).all()
    assert Y.total * 2 == SYMMETRIC.sum()
    np.testing.assert_array_equal(Y.to_dense(), SYMMETRIC)
    assert Y.undirected_modes == (0, 2)
    assert Y.undirected((2, 0)) is Y


def test_other_counts_are_refused_with_the_number_of_pairs_that_differ_or_added_up():
    counts = SYMMETRIC.copy()
    counts[0, 0, 1] += 1
    counts[3, 2, 1] += 2
    with refused("asymmetric", rule="must be 'sum'") as found:
        tensor_of(counts).undirected(ENDS)
    assert "2 of" in str(found.value.value)
    summed = tensor_of(counts).undirected(ENDS, asymmetric="sum")
    np.testing.assert_array_equal(summed.to_dense(), counts + counts.transpose(2, 1, 0))


def test_bad_modes_and_a_diagonal_with_counts_are_refused():
    with refused("modes", rule="must have the same labels"):
        tensor_of(SYMMETRIC).undirected(("one", "month"))
    with refused("modes", rule="two ends"):
        tensor_of(SYMMETRIC).undirected(("one", "other", "month"))
    with refused("modes"):
        tensor_of(SYMMETRIC).undirected("one")
    with refused("modes"):
        tensor_of(SYMMETRIC, (PEOPLE, MONTHS, PEOPLE[::-1])).undirected(ENDS)
    cube = ac.as_tensor(np.arange(27).reshape(3, 3, 3))
    with refused("modes", rule="two"):
        cube.undirected((0, 1, 2))
    with refused("modes", rule="mask_diagonal"):
        cube.undirected((0, 1), asymmetric="sum")
    with refused("modes", rule="already"):
        cube.mask_diagonal().undirected((0, 1), asymmetric="sum").undirected((0, 2))
    with refused("asymmetric"):
        cube.undirected(asymmetric="mean")


def test_what_is_missing_in_one_direction_is_missing_in_both():
    held = Y.with_missing([("Di", None, "Bo")])
    assert held.missing.contains([[1, 3], [0, 2], [3, 1]]).all()
    assert held.missing.has_diagonal(0, 2)
    assert held.observed == 3 * (5 * 4 // 2 - 1)
    assert held.density == held.nnz / held.observed
    given = tensor_of(SYMMETRIC).with_missing([("Di", None, "Bo")])
    assert given.undirected(ENDS) == held
    whole = Y.mask(one="Cy")
    assert whole.missing == Y.mask(other="Cy").missing
    assert not (whole.coords[[0, 2]] == 2).any()


def test_totals_count_a_tie_at_both_ends():
    for mode in (0, 2):
        np.testing.assert_array_equal(Y.mode_totals(mode), SYMMETRIC.sum(axis=(1, 2)))
        np.testing.assert_array_equal(Y.positive_totals(mode)[1], SYMMETRIC.sum(axis=(1, 2)))
    np.testing.assert_array_equal(Y.mode_totals("month"), SYMMETRIC.sum(axis=(0, 2)) // 2)


def test_selections_take_the_same_nodes_at_both_ends():
    part = Y.select(one=["Ada", "Di", "Ed"])
    assert part == Y.select(other=["Ed", "Ada", "Di"])
    np.testing.assert_array_equal(part.to_dense(), SYMMETRIC[np.ix_([0, 3, 4], range(3), [0, 3, 4])])
    with refused("rows"):
        Y.select(one=["Ada", "Bo"], other=["Ada", "Cy"])


def test_labels_of_one_end_are_those_of_both():
    other = Y.with_labels({"one": [name.upper() for name in PEOPLE]})
    assert other.labels[0] == other.labels[2]
    with refused("labels"):
        Y.with_labels([PEOPLE, MONTHS, PEOPLE[::-1]])


def test_parts_along_another_mode_are_joined_also_where_labels_come_in_another_order():
    assert ac.concat([Y.select(month=MONTHS[:1]), Y.select(month=MONTHS[1:])], mode="month") == Y
    order = [3, 0, 4, 2, 1]
    moved = SYMMETRIC[np.ix_(order, range(3), order)]
    names = [PEOPLE[place] for place in order]
    later = tensor_of(moved, (names, ["2001-04", "2001-05", "2001-06"], names)).undirected(ENDS)
    joined = ac.concat([Y, later], mode="month", join="outer")
    np.testing.assert_array_equal(joined.to_dense(), np.concatenate([SYMMETRIC, SYMMETRIC], axis=1))
    assert joined.undirected_modes == (0, 2)
    with refused("tensors"):
        ac.concat([Y.select(month=MONTHS[:1]), tensor_of(SYMMETRIC).select(month=MONTHS[1:])], mode="month")
    with refused("mode"):
        ac.concat([Y, Y], mode="one")


def test_files_shards_frames_and_pickles_keep_undirected_ties(tmp_path):
    for name in ("y.npz", "y.parquet", "y.zarr"):
        Y.save(tmp_path / name)
        stored = ac.load_tensor(tmp_path / name)
        assert stored == Y
        assert stored != both_directions(Y)
        np.testing.assert_array_equal(stored.mode_totals("one"), Y.mode_totals("one"))
    assert ac.as_tensor(Y.to_frame()) == Y
    assert pickle.loads(pickle.dumps(Y)) == Y
    assert "undirected between one and other" in repr(Y)


def test_both_directions_are_a_tensor_of_directed_ties():
    both = both_directions(Y)
    assert both.undirected_modes is None
    np.testing.assert_array_equal(both.to_dense(), SYMMETRIC)
    assert both_directions(both) is both
    np.testing.assert_array_equal(cells_of(Y, np.array([[3], [0], [1]])), [[1], [0], [3]])


# Hold-outs


def test_a_hold_out_takes_both_directions_of_a_fibre():
    split = ac.hold_out(Y, 0.3, along="month", seed=2)
    assert len(split.test) == 3 * 3  # a third of ten pairs, three months each
    assert (split.test.coords[0] < split.test.coords[2]).all()
    for cells in (split.test.coords, split.test.coords[[2, 1, 0]]):
        assert split.train.missing.contains(cells).all()
    np.testing.assert_array_equal(split.test.counts, SYMMETRIC[tuple(split.test.coords)])
    assert split.train.total + split.test.counts.sum() == Y.total
    assert split.train.undirected_modes == (0, 2)


def test_along_an_end_single_pairs_are_held_out():
    split = ac.hold_out(Y, 0.2, along="one", seed=1)
    assert len(split.test) == 6
    assert split.test.along is None
    assert split.train == Y.with_missing(split.test.coords.T.astype(int))
    assert ac.hold_out(Y, 0.2, along="other", seed=1).train == split.train


def test_every_pair_is_held_out_equally_often():
    found = np.zeros(5 * 5, dtype=int)
    for seed in range(400):
        one, _, other = ac.hold_out(Y, 0.1, along="month", seed=seed).test.coords[:, :1]
        found += np.bincount(one * 5 + other, minlength=25)
    pairs = found.reshape(5, 5)[np.triu_indices(5, 1)]
    assert pairs.sum() == 400
    assert pairs.min() > 20


# The note that asks


def test_a_note_asks_whether_ties_are_undirected():
    above = tensor_of(SYMMETRIC * np.triu(np.ones((5, 5), dtype=int), 1)[:, None, :])
    for tensor, kind in ((above, "ties-in-one-direction"), (tensor_of(SYMMETRIC), "symmetric-ties")):
        finding = undirected_finding(tensor)
        assert (finding.kind, finding.values["modes"]) == (kind, ["one", "other"])
        with warned(kind):
            ac.CP(1, sweeps=2, chains=1, likelihood="poisson", progress=False).fit(tensor)
    assert undirected_finding(Y) is None
    assert undirected_finding(tensor_of(np.random.default_rng(3).poisson(1.2, (5, 3, 5)))) is None
    assert undirected_finding(ac.CountTensor(above.coords, above.counts, above.shape)) is None


# Tables of events


def contacts(seed=4):
    rng = np.random.default_rng(seed)
    one, other = rng.choice(PEOPLE, (2, 300))
    days = pd.Timestamp("2001-01-01") + pd.to_timedelta(rng.integers(0, 90, 300), "D")
    return pd.DataFrame({"one": one, "other": other, "day": days})


READING = {"modes": ["one", "other"], "time": "day"}


def test_events_are_counted_in_pairs_in_memory_and_on_disk(tmp_path):
    table = contacts()
    found = ac.read_events(table, **READING, undirected=ENDS)
    directed = ac.read_events(table, **READING, shared_modes=ENDS)
    assert found == directed.undirected(asymmetric="sum")
    assert found.report.diagonal == (table["one"] == table["other"]).sum()
    stored = ac.read_events(table, **READING, undirected=ENDS, out=tmp_path / "y.zarr", shards=1)
    assert stored == found
    np.testing.assert_array_equal(stored.mode_totals("one"), found.mode_totals("other"))
    assert ac.read_events(table, **READING, like=found) == found


def test_a_report_asks_whether_ties_are_undirected():
    table = contacts()
    with warned("ties-in-one-direction"):
        found = ac.read_events(table[table["one"] < table["other"]], **READING, shared_modes=ENDS)
    assert found.report.findings[-1].kind == "ties-in-one-direction"


def test_settings_of_events_that_undirected_ties_cannot_have_are_refused():
    table = contacts()
    for argument, more in (
        ("undirected", {"undirected": "one"}),
        ("undirected", {"undirected": ("one", "day")}),
        ("diagonal", {"undirected": ENDS, "diagonal": "keep"}),
        ("shared_modes", {"undirected": ENDS, "shared_modes": ("one", "day")}),
        ("undirected", {"undirected": ENDS, "like": ac.read_events(table, **READING, shared_modes=ENDS)}),
    ):
        with refused(argument):
            ac.read_events(table, **READING, **more)
