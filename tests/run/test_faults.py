"""What goes wrong with disks: a clear error, the finished draws always readable, nothing torn."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from functools import cache
from importlib.metadata import version

import numpy as np
import pytest
import xarray as xr

import allocore as ac
from allocore.gibbs import SAMPLER_VERSION
from allocore.kernels.rounding import rounding
from allocore.model.spec import Spec
from allocore.model.state import Dispersion, State
from allocore.storage import zarr_format
from allocore.storage.state_files import read_checkpoint, write_checkpoint
from support.errors import refused, refused_file
from support.findings import warned
from support.same_draws import save_always
from support.tiers import by_tier, parametrize_few

TENSOR = ac.CountTensor(
    *np.unique(np.random.default_rng(5).integers(0, [[6], [5], [4]], (3, 200)), axis=1, return_counts=True),
    mode_names=["who", "what", "when"],
    labels={"who": ["a", "b", "c", "d", "e", "f"]},
    missing=[(0, None, 1)],
)
SETTINGS = {"burn_in": 2, "draws": 6, "thin": 2, "chains": 2, "seed": 11, "progress": False}
# Two kinds of damage for every test; the others take the same branches, and are slow.
RARER_DAMAGES = [pytest.param(how, marks=pytest.mark.slow) for how in ("emptied", "zeroed", "removed")]
DAMAGES = ["truncated", "flipped", *RARER_DAMAGES]


@pytest.fixture(autouse=True)
def always_saving(monkeypatch):
    save_always(monkeypatch)


def stored_run(path, chunk_bytes):
    with pytest.MonkeyPatch.context() as patch:
        save_always(patch)
        patch.setattr(zarr_format, "_CHUNK_BYTES", chunk_bytes)
        ac.AlloCore(3, store=path, **SETTINGS).fit(TENSOR)
    return path


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    """The path of a finished run, to copy."""
    return stored_run(tmp_path_factory.mktemp("finished") / "run.zarr", zarr_format._CHUNK_BYTES)


@cache
def in_memory(draws):
    """The same run of any length, never stored."""
    return ac.AlloCore(3, **{**SETTINGS, "draws": draws}).fit(TENSOR).posterior_


@pytest.fixture
def run_folder(finished_run, tmp_path):
    shutil.copytree(finished_run, tmp_path / "run.zarr")
    return tmp_path / "run.zarr"


def damage(file, how):
    content = file.read_bytes()
    if how == "removed":
        file.unlink()
        return
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :]
    file.write_bytes(
        {"truncated": content[:middle], "emptied": b"", "zeroed": bytes(len(content)), "flipped": flipped}[how]
    )


def arrays_of(post):
    return [post.core_values, post.core_locations, *post.factors]


def assert_draws(post, other, kept):
    for mine, theirs in zip(arrays_of(post), arrays_of(other), strict=True):
        assert mine.tobytes() == theirs[:, kept].tobytes()


# Damaged draws


@pytest.fixture(scope="module")
def finished_in_small_chunks(tmp_path_factory):
    return stored_run(tmp_path_factory.mktemp("small-chunks") / "run.zarr", 1)


@pytest.fixture
def draw_a_chunk(finished_in_small_chunks, tmp_path, monkeypatch):
    """A run with one draw a chunk, so that damage to one leaves the others."""
    monkeypatch.setattr(zarr_format, "_CHUNK_BYTES", 1)
    shutil.copytree(finished_in_small_chunks, tmp_path / "run.zarr")
    return tmp_path / "run.zarr"


@pytest.mark.parametrize(
    ("name", "how"),
    by_tier(
        [("core_values", "truncated"), ("core_locations", "flipped")],
        ["core_values", "core_locations", "factors_what"],
        ["truncated", "flipped", "emptied", "zeroed", "removed"],
    ),
)
def test_a_damaged_draw_is_named_and_all_others_can_be_read(tmp_path, draw_a_chunk, name, how):
    path, whole = draw_a_chunk, in_memory(6)
    (file,) = (path / "posterior" / name).glob("1.4.*")
    damage(file, how)
    with refused_file(path, f"is damaged: draw 4 cannot be read from posterior/{name}/1.4"):
        ac.open_run(path)
    with warned("draws-left-out", path=str(path), left_out=1, draws=6):
        post = ac.open_run(path, on_error="drop")
    assert_draws(post, whole, [0, 1, 2, 3, 5])
    assert post.draw_sweeps.tolist() == [4, 6, 8, 10, 14]
    with refused("path", str(tmp_path / "again.zarr"), "only complete runs can be saved"):
        post.save(tmp_path / "again.zarr")
    assert post.to_datatree()["posterior"]["draw"].values.tolist() == [0, 1, 2, 3, 5]
    np.testing.assert_array_equal(
        post.to_datatree()["sample_stats"]["log_likelihood_total"], whole.stats["log_likelihood"][:, [3, 5, 7, 9, 13]]
    )
    with xr.open_datatree(path, engine="zarr") as tree:
        for draw in (0, 3, 5):
            np.testing.assert_array_equal(
                tree["posterior"]["factors_what"].sel(draw=draw), whole.factors[1][:, draw], err_msg="plain xarray"
            )
        if how != "removed":
            with pytest.raises(Exception, match=r"(?i)zstd"):
                tree["posterior"][name].sel(draw=4, chain=1).load()


@parametrize_few("how", DAMAGES, quick=1)
def test_a_run_with_a_damaged_draw_can_be_made_longer_without_it(draw_a_chunk, how):
    path = draw_a_chunk
    longer = in_memory(9)
    damage(path / "posterior" / "core_values" / "0.2.0", how)
    with refused_file(path, "draw 2 cannot be read"):
        ac.AlloCore.resume(path, draws=9, progress=False)
    with warned("draws-left-out", left_out=1, draws=6):
        assert ac.AlloCore.resume(path, on_error="drop", progress=False).draws == 6, "told before anything was done"
    with warned("draws-left-out", left_out=1, draws=9):
        model = ac.AlloCore.resume(path, draws=9, on_error="drop", progress=False)
    assert_draws(model.posterior_, longer, [0, 1, 3, 4, 5, 6, 7, 8])


@parametrize_few("how", DAMAGES, quick=1)
def test_damage_to_a_chunk_of_many_draws_is_told_before_the_run_goes_on(run_folder, how):
    damage(run_folder / "posterior" / "factors_who" / "0.0.0.0", how)
    for attempt in (ac.open_run, ac.AlloCore.resume):
        with refused_file(run_folder, "draws 0 to 5 cannot be read"):
            attempt(run_folder)


@pytest.mark.parametrize("how", DAMAGES)
def test_damaged_statistics_are_told_and_the_draws_can_be_read(run_folder, how):
    damage(run_folder / "sweep_stats" / "log_likelihood" / "1.0", how)
    with refused_file(run_folder, "statistics of sweeps 1 to 14 cannot be read from sweep_stats/log_likelihood/1.0"):
        ac.open_run(run_folder)
    with warned("statistics-lost", name="log_likelihood"):
        post = ac.open_run(run_folder, on_error="drop")
    assert_draws(post, in_memory(6), slice(None))
    assert np.isnan(post.stats["log_likelihood"][1]).all()
    np.testing.assert_array_equal(post.stats["log_likelihood"][0], in_memory(6).stats["log_likelihood"][0])


def test_on_error_must_be_known(run_folder):
    with refused("on_error", "ignore"):
        ac.open_run(run_folder, on_error="ignore")


def test_lost_statistics_of_whole_numbers_are_not_taken_for_zeros(run_folder):
    damage(run_folder / "sweep_stats" / "classes" / "0.0", "removed")
    with warned("statistics-lost", name="classes"):
        post = ac.open_run(run_folder, on_error="drop")
    assert np.isnan(post.stats["classes"][0]).all()
    assert (post.stats["classes"][1] > 0).all()


@parametrize_few("how", DAMAGES, quick=1)
def test_a_damaged_chunk_that_grows_never_becomes_false_draws(run_folder, how):
    """All six draws share a chunk, and the next three would too: they are left out together."""
    damage(run_folder / "posterior" / "factors_who" / "1.0.0.0", how)
    longer = in_memory(9)
    with warned("draws-left-out", left_out=9, draws=9):
        ac.AlloCore.resume(run_folder, draws=9, on_error="drop", progress=False)
    with refused_file(run_folder, "cannot be read from posterior/factors_who/1.0.0.0"):
        ac.open_run(run_folder)
    with xr.open_datatree(run_folder, engine="zarr") as tree:
        np.testing.assert_array_equal(tree["posterior"]["factors_what"], longer.factors[1])


# Damaged checkpoints


@pytest.mark.parametrize("how", DAMAGES)
def test_where_the_newest_checkpoint_is_damaged_the_one_before_is_used(run_folder, how):
    longer = in_memory(8)
    damage(run_folder / "checkpoints" / "1" / "000000014.npz", how)
    if how == "removed":
        model = ac.AlloCore.resume(run_folder, draws=8, progress=False)
    else:
        with warned("checkpoint-damaged", path=str(run_folder / "checkpoints" / "1" / "000000014.npz"), sweep=13):
            model = ac.AlloCore.resume(run_folder, draws=8, progress=False)
    assert_draws(model.posterior_, longer, slice(None))


@pytest.mark.parametrize("how", DAMAGES[:-1])
def test_where_no_checkpoint_is_whole_the_chain_begins_anew_and_comes_to_the_same_draws(run_folder, how):
    longer = in_memory(8)
    for file in (run_folder / "checkpoints" / "0").iterdir():
        damage(file, how)
    with warned("chain-starts-again", folder=str(run_folder / "checkpoints" / "0")):
        model = ac.AlloCore.resume(run_folder, draws=8, progress=False)
    assert_draws(model.posterior_, longer, slice(None))


def test_damaged_checkpoints_are_put_aside_so_that_a_chain_that_begins_anew_keeps_its_own(run_folder):
    for file in (run_folder / "checkpoints" / "0").iterdir():
        damage(file, "zeroed")
    with warned("chain-starts-again"):
        ac.AlloCore.resume(run_folder, draws=8, progress=False)
    assert sorted(os.listdir(run_folder / "checkpoints" / "0"))[-1] == "000000018.npz"
    ac.AlloCore.resume(run_folder, draws=9, progress=False)


def values_of(state):
    """The bytes of everything in a state."""
    learned = [] if state.dispersion is None else [state.dispersion.log_odds_D, np.array(state.dispersion.mode)]
    arrays = (state.log_core_Q, state.subs_QM, *state.log_phi, state.concentrations_M, *learned)
    return [array.tobytes() for array in arrays]


BURSTS = Spec(3, (2, 3), likelihood="negative-binomial", dispersion_by=1, e0="infer")


@pytest.mark.parametrize("spec", [Spec(3, (2, 3)), Spec(400, (2, 3)), BURSTS], ids=["3", "400", "bursts"])
def test_every_flipped_bit_of_a_checkpoint_is_found_or_does_no_harm(tmp_path, spec):
    """Some bits of a zip file mean nothing, such as its dates; whatever is read must be what was written."""
    rng, budget = np.random.default_rng(0), spec.budget
    log_phi = tuple(rng.normal(size=size) for size in zip((4, 5), spec.core_shape, strict=True))
    learned = (rng.gamma(1.0, size=2), Dispersion(rng.normal(size=5), 1)) if spec is BURSTS else ()
    written = State(rng.normal(size=budget), np.arange(budget)[:, None] % spec.core_shape, log_phi, *learned)
    write_checkpoint(tmp_path, 7, written)
    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    heads = [place for head in re.finditer(b"NUMPY", content) for place in range(head.start(), head.start() + 120)]
    places, found = {*heads, *rng.choice(len(content), 300, replace=False).tolist()}, 0
    for place in sorted(places):
        flipped = content[:place] + bytes([content[place] ^ 1 << int(rng.integers(8))]) + content[place + 1 :]
        path.write_bytes(flipped)
        try:
            _, state, _ = read_checkpoint(tmp_path, (4, 5), spec)
        except FileNotFoundError:
            found += 1
            path.with_suffix(".damaged").unlink()
            continue
        assert values_of(state) == values_of(written)
    assert found > 0.8 * len(places)


# Damage to the rest


@pytest.mark.parametrize("how", ["truncated", *RARER_DAMAGES])  # one bit of a JSON text may mean anything
def test_damaged_sizes_are_told_and_made_anew_by_resuming(run_folder, how):
    damage(run_folder / ".zmetadata", how)
    with refused_file(run_folder, "is damaged: .zmetadata cannot be read"):
        ac.open_run(run_folder)
    assert_draws(ac.AlloCore.resume(run_folder, progress=False).posterior_, in_memory(6), slice(None))
    assert_draws(ac.open_run(run_folder), in_memory(6), slice(None))


def test_a_resume_that_fails_leaves_what_could_be_read_as_it_was(run_folder):
    damage(run_folder / ".zmetadata", "emptied")
    bad = run_folder / "posterior" / "core_values" / "0.0.0"
    content = bad.read_bytes()
    damage(bad, "truncated")
    with refused_file(run_folder, "draws 0 to 5 cannot be read"):
        ac.AlloCore.resume(run_folder, progress=False)
    bad.write_bytes(content)
    assert_draws(ac.AlloCore.resume(run_folder, progress=False).posterior_, in_memory(6), slice(None))


@pytest.mark.parametrize("content", ["[]", "null", "{}", '{"run_format": "1"}'])
def test_attributes_without_what_is_needed_are_told(run_folder, content):
    (run_folder / ".zattrs").write_text(content)
    for attempt in (ac.open_run, ac.AlloCore.resume):
        with refused_file(run_folder, "its attributes (.zattrs) cannot be read"):
            attempt(run_folder)


def test_a_label_that_a_run_cannot_hold_is_refused_before_the_work(tmp_path):
    with refused("labels"):
        ac.as_tensor(np.ones((2, 2), dtype=int), labels=[["a", "b\0"], None])
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("name", ["observed_data/counts/0", "observed_data/coords/0.0", "posterior/who/0"])
def test_a_damaged_tensor_is_told(run_folder, name, how):
    damage(run_folder / name, how)
    for attempt in (ac.open_run, ac.AlloCore.resume):
        with refused_file(run_folder, "is damaged: its tensor "):
            attempt(run_folder)


@pytest.mark.parametrize("how", ["truncated", "emptied", "zeroed", "removed"])
def test_damaged_attributes_are_told(run_folder, how):
    damage(run_folder / ".zattrs", how)
    for attempt in (ac.open_run, ac.AlloCore.resume):
        with refused_file(run_folder, "is damaged: its attributes (.zattrs) cannot be read"):
            attempt(run_folder)


# Other versions, another tensor


def rewrite(run_folder, **changes):
    attributes = json.loads((run_folder / ".zattrs").read_text())
    (run_folder / ".zattrs").write_text(json.dumps({**attributes, **changes}))


def test_a_run_of_another_format_is_neither_read_nor_continued(run_folder):
    rewrite(run_folder, run_format="99")
    for attempt in (ac.open_run, ac.AlloCore.resume):
        with refused_file(run_folder, "is a run of format 99"):
            attempt(run_folder)


@pytest.mark.parametrize("other", ["99", None], ids=["another", "from before there was one"])
def test_a_run_of_another_sampler_version_can_be_read_but_not_continued(run_folder, other):
    rewrite(run_folder, inference_library_version="0.0.1", sampler_version=other)
    if other is None:
        attributes = json.loads((run_folder / ".zattrs").read_text())
        del attributes["sampler_version"]
        (run_folder / ".zattrs").write_text(json.dumps(attributes))
    assert_draws(ac.open_run(run_folder), in_memory(6), slice(None))
    with refused_file(run_folder, f"was started with sampler version {other or 0} (allocore 0.0.1)") as caught:
        ac.AlloCore.resume(run_folder)
    assert f"this is sampler version {SAMPLER_VERSION}" in caught.value.problem


def test_another_release_with_the_same_sampler_version_continues_a_run(run_folder):
    rewrite(run_folder, inference_library_version="0.0.1")
    assert_draws(ac.AlloCore.resume(run_folder, progress=False).posterior_, in_memory(6), slice(None))


def test_another_version_of_a_numeric_package_is_warned_of(run_folder):
    rewrite(run_folder, packages=json.dumps({"numba": "0.1", "numpy": version("numpy")}))
    with warned("other-arithmetic", differences=lambda found: found[0].startswith("numba 0.1 (now ")):
        model = ac.AlloCore.resume(run_folder, progress=False)
    assert_draws(model.posterior_, in_memory(6), slice(None))


def test_arithmetic_that_rounds_otherwise_is_warned_of(run_folder):
    rewrite(run_folder, rounding="0123456789abcdef")
    difference = f"arithmetic that rounds as 0123456789abcdef (now {rounding()})"
    with warned("other-arithmetic", differences=[difference]):
        model = ac.AlloCore.resume(run_folder, progress=False)
    assert_draws(model.posterior_, in_memory(6), slice(None))


def test_a_run_from_before_rounding_was_recorded_is_read_and_continued(run_folder):
    attributes = json.loads((run_folder / ".zattrs").read_text())
    assert attributes.pop("rounding") == rounding()
    (run_folder / ".zattrs").write_text(json.dumps(attributes))
    assert_draws(ac.open_run(run_folder), in_memory(6), slice(None))
    with warnings.catch_warnings(action="error"):
        assert_draws(ac.AlloCore.resume(run_folder, progress=False).posterior_, in_memory(6), slice(None))


def test_a_run_with_the_tensor_of_another_is_told(run_folder, tmp_path):
    other = ac.CountTensor(TENSOR.coords, TENSOR.counts + 1, TENSOR.shape, mode_names=TENSOR.mode_names)
    ac.AlloCore(3, store=tmp_path / "other.zarr", **{**SETTINGS, "draws": 1}).fit(other)
    shutil.rmtree(run_folder / "observed_data")
    shutil.copytree(tmp_path / "other.zarr" / "observed_data", run_folder / "observed_data")
    for attempt in (ac.open_run, ac.AlloCore.resume):
        with refused_file(run_folder, "its tensor is not the one that the run started with"):
            attempt(run_folder)


# Disks that are full, or not ours


def test_a_disk_that_fills_up_is_told_and_the_run_goes_on_when_there_is_room(tmp_path, monkeypatch):
    path, real, room = tmp_path / "run.zarr", os.replace, 400

    def replace(*paths):
        nonlocal room
        room -= 1
        if room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(*paths)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        with refused_file(path, "cannot be written: No space left on device. The "):
            ac.AlloCore(3, store=path, **SETTINGS).fit(TENSOR)
    draws = ac.open_run(path).core_values.shape[1]
    assert 0 < draws < 6
    assert_draws(ac.open_run(path), in_memory(6), slice(draws))
    assert_draws(ac.AlloCore.resume(path, progress=False).posterior_, in_memory(6), slice(None))


WRITER = """
import sys, numpy as np, allocore as ac
from allocore.storage import run_writer
run_writer.SAVE_INTERVAL = run_writer.SAVE_INTERVAL_FACTOR = 0.0
Y = np.random.default_rng(5).poisson(1.2, (40, 30, 20))
settings = dict(burn_in=2, draws=int(sys.argv[2]), thin=1, chains=2, seed=11, progress=False)
try:
    if sys.argv[3] == "resume":
        ac.AlloCore.resume(sys.argv[1], progress=False)
    else:
        ac.AlloCore(30, store=sys.argv[1], **settings).fit(Y)
except ac.StoreError as error:
    print("error", error)
    sys.exit(3)
post = ac.open_run(sys.argv[1])
memory = ac.AlloCore(30, **settings).fit(Y).posterior_
assert all(a.tobytes() == b.tobytes() for a, b in zip(post.factors, memory.factors))
print("whole")
"""


def write(path, draws=40, what="fit", before="", **options):
    return subprocess.run(
        ["sh", "-c", f'{before} exec "$0" "$@"', sys.executable, "-c", WRITER, str(path), str(draws), what],
        capture_output=True, text=True, **options,
    )  # fmt: skip


def check_safe(path):
    """The error has said that some draws are safe: they are, and they are right."""
    post = ac.open_run(path)
    draws = post.core_values.shape[1]
    if draws:
        Y = np.random.default_rng(5).poisson(1.2, (40, 30, 20))
        memory = ac.AlloCore(30, burn_in=2, draws=draws, thin=1, chains=2, seed=11, progress=False).fit(Y).posterior_
        assert_draws(post, memory, slice(None))
    return draws


@pytest.mark.slow
def test_a_full_disk_is_told_the_draws_are_safe_and_the_run_goes_on_when_there_is_room(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], capture_output=True).returncode != 0:
        pytest.skip("mounting a small disk is not allowed here")
    try:
        told = write(disk / "run.zarr")
        assert told.returncode == 3, told.stderr
        rule = "run.zarr cannot be written: No space left on device. The "
        assert rule in told.stdout
        assert "draws in it are safe; once the cause is fixed, continue with AlloCore.resume(" in told.stdout
        draws = check_safe(disk / "run.zarr")
        told_of = int(told.stdout.partition(" device. The ")[2].partition(" draws")[0])
        assert told_of <= draws, "the other chain may have saved after that"
        assert 0 < draws < 40
        assert write(disk / "run.zarr", what="resume").returncode == 3, "still full"
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        told = write(disk / "run.zarr", what="resume")
        assert (told.returncode, told.stdout) == (0, "whole\n"), told.stderr
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.slow
def test_files_that_may_not_grow_are_told_and_the_run_goes_on_when_they_may(tmp_path):
    """The limit of a process on the size of its files: a disk that is full for the larger files alone."""
    told = write(tmp_path / "run.zarr", before="ulimit -f 60;")
    assert told.returncode == 3, (told.stdout, told.stderr)
    assert "run.zarr cannot be written: File too large." in told.stdout
    assert check_safe(tmp_path / "run.zarr") < 40
    told = write(tmp_path / "run.zarr", what="resume")
    assert (told.returncode, told.stdout) == (0, "whole\n"), told.stderr


@pytest.fixture
def unwritable(tmp_path):
    """A folder with a run in it that cannot be written to; the superuser needs a disk that is read-only."""
    folder = tmp_path / "unwritable"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], capture_output=True).returncode == 0
    if not mounted and os.geteuid() == 0:
        pytest.skip("nothing is forbidden to the superuser, and mounting a disk is not allowed here")
    ac.AlloCore(3, store=folder / "run.zarr", **SETTINGS).fit(TENSOR)
    folders = [name for name, _, _ in os.walk(folder)]
    if mounted:
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    for name in folders if not mounted else []:
        os.chmod(name, 0o555)
    yield folder
    for name in folders if not mounted else []:
        os.chmod(name, 0o755)
    if mounted:
        subprocess.run(["umount", folder], check=True)


def test_a_folder_without_the_right_to_write_is_told_and_its_runs_can_be_read(unwritable):
    with refused_file(unwritable / "new.zarr", "cannot be written: "):
        ac.AlloCore(3, store=unwritable / "new.zarr", **SETTINGS).fit(TENSOR)
    with refused_file(unwritable / "run.zarr", "cannot be written: "):
        ac.AlloCore.resume(unwritable / "run.zarr", draws=99)
    assert sorted(os.listdir(unwritable)) == ["run.zarr"]
    assert_draws(ac.open_run(unwritable / "run.zarr"), in_memory(6), slice(None))
