"""The consensus on disk: read again, extended without new numbers for old classes, and never in the way."""

import os
import re
import shutil
import stat
import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest

import allocore as ac
from allocore.classes import numbering as consensus_file
from allocore.classes.numbering import FILE, number_and_save, number_classes, read_consensus
from support.findings import warned
from support.planted import A, B, C, D, a_class, planted_tensor, steady_run
from support.tiers import parametrize_few

E = a_class(9.0, 2, 3, 1)


def profiles(*chains):
    return steady_run(*chains).consensus().estimates.mean_profiles


def names_by_number(numbered):
    return dict(zip(numbered.number_C.tolist(), numbered.names, strict=True))


def changed(found, by):
    """The profiles of the same classes, mixed with even ones."""
    return tuple((1 - by) * mean + by / len(mean) for mean in found)


def test_numbers_and_names_are_taken_over_and_never_given_twice():
    first = number_classes(profiles([A, B, C], [A, B, C]), ("a", "b", "c"), None)
    second = number_classes(profiles([E, A, C], [E, A, C]), ("new", "x", "y"), first.known)
    assert dict(zip(second.number_C.tolist(), second.names, strict=True)) == {3: "new", 0: "a", 2: "c"}
    third = number_classes(profiles([A, B, D], [A, B, D]), ("x", "again", "a"), second.known)
    assert dict(zip(third.number_C.tolist(), third.names, strict=True)) == {0: "a", 1: "b", 4: "a (2)"}, "b is back"


def test_new_classes_are_numbered_in_their_order_and_weak_ones_after_the_others():
    found = profiles([A, B, C], [A, B, C])
    numbered = number_classes(found, ("a", "b", "c"), None, np.array([True, False, False]))
    assert names_by_number(numbered) == {0: "b", 1: "c", 2: "a"}
    known = number_classes(profiles([A], [A]), ("a",), None, np.array([True])).known
    assert number_classes(found, ("x", "b", "c"), known, np.array([True, False, False])).number_C.tolist() == [0, 1, 2]


def test_the_numbers_of_a_new_run_have_no_gaps_in_the_order_in_which_classes_are_shown():
    # A class that is larger than the others is held by one chain in two, so it is weakly supported.
    large = a_class(200.0, 2, 3, 1)
    summary = steady_run([A, large, C], [A, large, C], [A, B, C], [A, B, C]).consensus().summary
    assert summary.apart_C[:-1].any()
    assert not summary.apart_C.all()
    assert summary.number_C[summary.apart_last].tolist() == list(range(len(summary.number_C)))


def test_the_name_of_a_class_that_changed_follows_the_new_consensus_and_its_number_stays():
    found = profiles([A, B, C], [A, B, C])
    unsettled = number_classes(changed(found, 0.6), ("early a", "early b", "early c"), None)
    settled = number_classes(found, ("a", "b", "c"), unsettled.known)
    assert names_by_number(settled) == {0: "a", 1: "b", 2: "c"}
    assert settled.known.names == ("a", "b", "c"), "the early names are forgotten"


def test_a_class_that_hardly_changed_keeps_its_name():
    found = profiles([A, B, C], [A, B, C])
    first = number_classes(found, ("a", "b", "c"), None)
    assert number_classes(changed(found, 0.02), ("x", "y", "z"), first.known).names == ("a", "b", "c")


def test_a_class_that_changes_a_little_every_time_is_renamed_in_the_end():
    found = profiles([A, B, C], [A, B, C])
    numbered = number_classes(found, ("a", "b", "c"), None)
    for step in range(1, 21):
        numbered = number_classes(changed(found, 0.03 * step), ("x", "y", "z"), numbered.known)
    assert names_by_number(numbered) == {0: "x", 1: "y", 2: "z"}


def test_a_name_is_free_again_when_its_class_is_renamed():
    found = profiles([A, B, C], [A, B, C])
    unsettled = number_classes(changed(found, 0.6), ("a", "b", "c"), None)
    assert number_classes(found, ("b", "a", "c"), unsettled.known).names == ("b", "a", "c")


def test_names_of_an_older_wording_are_made_anew(stored, monkeypatch):
    path, post = stored
    found = post.consensus()
    arrays = dict(np.load(path / FILE))
    del arrays["wording"]
    for key in ("name", "known_name"):
        arrays[key] = np.array([f"old words {place}" for place in range(len(arrays[key]))])
    np.savez_compressed(path / FILE, **arrays)
    monkeypatch.setattr("allocore.classes.consensus.estimate_classes", None)  # finding it again would fail
    assert_same(ac.open_run(path).consensus(), found)


def test_classes_with_the_same_words_have_different_names():
    found = profiles([A, B, C], [A, B, C])
    assert number_classes(found, ("a", "a", "a"), None).names == ("a", "a (2)", "a (3)")


@pytest.fixture(scope="module")
def fitted_run(tmp_path_factory):
    """A run in a folder that no test changes."""
    path = tmp_path_factory.mktemp("fitted") / "run.zarr"
    Y, _ = planted_tensor(1, shape=(10, 10, 4, 6), factors=(3, 3, 2, 2), classes=5, total=2000)
    Y = Y.mask_diagonal((0, 1))
    schedule = {"burn_in": 60, "draws": 6, "thin": 3, "chains": 3}
    ac.AlloCore(8, likelihood="poisson", **schedule, seed=3, progress=False, store=path).fit(Y)
    return path


@pytest.fixture
def stored(fitted_run, tmp_path):
    path = tmp_path / "run.zarr"
    shutil.copytree(fitted_run, path)
    return path, ac.open_run(path)


def assert_same(one, other):
    assert one.names == other.names
    assert one.numbers.tolist() == other.numbers.tolist()
    np.testing.assert_allclose(one.share, other.share, rtol=1e-6)
    np.testing.assert_allclose(one.share_interval, other.share_interval, atol=1e-6)
    for ours, theirs in zip([*one.profiles, *one.factors], [*other.profiles, *other.factors], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(one.summary.sharing, other.summary.sharing, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_it_is_kept_with_the_run_and_read_again(stored, monkeypatch):
    path, post = stored
    found = post.consensus()
    assert (path / FILE).is_file()
    monkeypatch.setattr("allocore.classes.consensus.estimate_classes", None)  # finding it again would fail
    assert_same(ac.open_run(path).consensus(), found)


def test_a_resumed_run_keeps_the_numbers_and_names_of_its_classes(stored):
    path, post = stored
    before = post.consensus()
    longer = ac.AlloCore.resume(path, draws=12, progress=False).posterior_
    after = longer.consensus()
    assert after.shares_by_draw.shape[1] == 12
    old, new = (dict(zip(each.numbers.tolist(), each.names, strict=True)) for each in (before, after))
    kept = old.keys() & new.keys()
    assert len(kept) >= len(old) - 1, "most classes of a longer run are those of the shorter one"
    for number in kept:
        ours = before.profile(0, number)["share"].sort_index()
        theirs = after.profile(0, number)["share"].sort_index()
        assert ours @ theirs / np.sqrt((ours @ ours) * (theirs @ theirs)) > 0.6
    assert_same(ac.open_run(path).consensus(), after)


def test_saving_a_posterior_saves_its_consensus(stored, tmp_path, monkeypatch):
    _, post = stored
    found = post.consensus()
    post.save(tmp_path / "copy.zarr")
    monkeypatch.setattr("allocore.classes.consensus.estimate_classes", None)
    assert_same(ac.open_run(tmp_path / "copy.zarr").consensus(), found)


def test_a_damaged_file_is_told_and_found_again(stored):
    path, post = stored
    found = post.consensus()
    whole = (path / FILE).read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], b"no archive at all"):
        (path / FILE).write_bytes(damaged)
        with warned("consensus-not-read", path=str(path / FILE)):
            assert_same(ac.open_run(path).consensus(), found)
        assert_same(ac.open_run(path).consensus(), found)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root can write everywhere")
def test_a_folder_that_cannot_be_written_does_no_harm(stored):
    path, post = stored
    path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert post.consensus().share.size
        assert not (path / FILE).exists()
    finally:
        path.chmod(0o755)


def test_a_full_disk_does_no_harm(stored, monkeypatch):
    path, post = stored

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("allocore.classes.numbering.np.savez", full)
    assert post.consensus().share.size
    assert sorted(each.name for each in path.iterdir() if FILE in each.name) == []


def test_damaged_draws_are_left_out_and_their_consensus_is_not_kept(stored):
    path, post = stored
    found = post.consensus()
    kept = (path / FILE).read_bytes()
    rest = ac.Posterior(
        replace(post.record.with_draws((slice(None), [0, 2, 5])), chosen=np.array([0, 2, 5])), folder=path
    )
    few = rest.consensus()
    assert few.shares_by_draw.shape[1] == 3
    assert set(few.numbers.tolist()) & set(found.numbers.tolist())
    assert (path / FILE).read_bytes() == kept


def flipped(whole, place, bit):
    return whole[:place] + bytes([whole[place] ^ (1 << bit)]) + whole[place + 1 :]


def test_a_flipped_bit_ends_in_a_warning_or_in_a_consensus_never_in_a_traceback(stored):
    path, post = stored
    post.consensus()
    whole = (path / FILE).read_bytes()
    rng = np.random.default_rng(0)
    damaged = 0
    for place, bit in zip(rng.integers(0, len(whole), 150).tolist(), rng.integers(0, 8, 150).tolist(), strict=True):
        (path / FILE).write_bytes(flipped(whole, place, bit))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            found = read_consensus(path, post.record)
        assert (found is None) == bool(caught)
        damaged += found is None
    assert damaged > 50


def test_a_file_of_another_version_is_told_and_left_as_it_is(stored):
    path, post = stored
    np.savez(path / FILE, format=np.array(99))
    foreign = (path / FILE).read_bytes()
    with warned("consensus-not-read", problem="it has format 99, and this version reads 1"):
        assert post.consensus().share.size
    assert (path / FILE).read_bytes() == foreign


def test_a_posterior_of_fewer_draws_does_not_replace_the_consensus_of_more(stored):
    path, post = stored
    old = ac.Posterior(post.record.with_draws((slice(None), slice(0, 3))), folder=path)
    found = post.consensus()
    whole = (path / FILE).read_bytes()
    fewer = old.consensus()
    assert fewer.shares_by_draw.shape[1] == 3
    assert set(fewer.numbers.tolist()) & set(found.numbers.tolist())
    assert (path / FILE).read_bytes() == whole


def test_the_consensus_of_other_chains_is_not_taken_for_that_of_the_run(stored):
    path, post = stored
    post.consensus()
    two = ac.Posterior(post.record.with_chains([0, 1]), folder=path)
    assert two.consensus().shares_by_draw.shape[0] == 2


def test_some_chains_have_the_numbers_of_the_run(stored):
    path, post = stored
    found = post.consensus()
    whole = (path / FILE).read_bytes()
    for whose in (post, ac.open_run(path)):
        some = whose.select_chains([0, 2]).consensus()
        for number in set(some.numbers.tolist()) & set(found.numbers.tolist()):
            assert some.names[some.numbers.tolist().index(number)] == found.names[found.numbers.tolist().index(number)]
        assert set(some.numbers.tolist()) & set(found.numbers.tolist())
    assert (path / FILE).read_bytes() == whole


@pytest.mark.slow
def test_several_processes_give_the_same_numbers(stored):
    path, post = stored
    command = "import sys, allocore as ac; print(ac.open_run(sys.argv[1]).consensus().names)"
    at_once = [
        subprocess.Popen([sys.executable, "-c", command, path], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    told = {each.communicate()[0] for each in at_once}
    assert told == {f"{post.consensus().names}\n"}


def test_numbers_are_given_without_a_file_if_it_cannot_be_locked(stored, monkeypatch):
    path, post = stored

    def locked(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("allocore.classes.numbering.ProcessLock", locked)
    found = steady_run([A, B, C], [A, B, C]).consensus().estimates
    missing = path.parent / "nowhere"
    assert number_and_save(missing, post.record, found, ("a", "b", "c")).number_C.tolist() == [0, 1, 2]
    assert not missing.exists()


# Files from untrusted sources


def test_a_file_that_claims_more_than_a_consensus_can_be_is_not_unpacked(stored, monkeypatch):
    path, _ = stored
    ac.open_run(path).consensus(progress=False)
    monkeypatch.setattr(consensus_file, "_FEW_BYTES", 0)
    with np.load(path / FILE) as arrays:
        np.savez_compressed(path / FILE, **{**arrays, "known_profile_0": np.zeros((1000, 5000))})
    with warned("consensus-not-read", problem=re.compile(r"claims 40,\d+,\d+ bytes of content, but at most").search):
        ac.open_run(path).consensus(progress=False)


@parametrize_few(
    ("name", "change"),
    [
        ("name", lambda array: array[:-1]),
        ("value", lambda array: np.append(array, 1.0)),
        ("shares", lambda array: array[:, 0]),
        ("held", lambda array: array[:, :1]),
        ("draws", lambda array: array[:-1]),
        ("sharing_0", lambda array: array[:, :1]),
        ("known_name", lambda array: array[:-1]),
        ("known_profile_1", lambda array: array[:-1]),
        ("profile_0_low", lambda array: array[:, :-1]),
    ],
)
def test_a_file_whose_arrays_do_not_fit_together_is_found_again(stored, name, change):
    path, _ = stored
    ac.open_run(path).consensus(progress=False)
    with np.load(path / "consensus.npz") as arrays:
        np.savez_compressed(path / "consensus.npz", **{**arrays, name: change(arrays[name])})
    with warned("consensus-not-read", path=str(path / FILE)):
        ac.open_run(path).consensus(progress=False)
