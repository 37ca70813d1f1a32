"""A run from a stranger: opening and continuing it never runs code and never writes outside its folder."""

import io
import json
import os
import pickle
import zipfile

import numpy as np
import pytest
from numcodecs import Zstd

import allocore as ac
from allocore import _memory as available_memory
from allocore._zarr import encode
from allocore.storage.run_reader import stored_tree
from support.damages import copy_of
from support.errors import refused, refused_file
from support.findings import warned

TENSOR = ac.as_tensor(np.arange(1, 7).reshape(2, 3), mode_names=["who", "what"], labels=[["a", "b"], ["x", "y", "z"]])
SETTINGS = {"burn_in": 0, "draws": 2, "thin": 1, "seed": 1, "progress": False, "chains": 1}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "run.zarr"
    ac.AlloCore(2, store=path, **SETTINGS).fit(TENSOR)
    return path


@pytest.fixture
def run_folder(whole, tmp_path):
    return copy_of(whole, tmp_path / "run.zarr")


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, target):
        self.target = str(target)

    def __reduce__(self):
        return os.mkdir, (self.target,)


def change(file, **changes):
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def both_refuse(run_folder, problem):
    for attempt in (ac.open_run, ac.AlloCore.resume):
        with refused_file(run_folder, problem) as caught:
            attempt(run_folder)
        assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("where", ["posterior/who", "constant_data/mode", "observed_data/counts"])
@pytest.mark.parametrize("how", ["compressor", "filter", "type"])
def test_an_array_that_names_the_codec_pickle_is_refused_and_nothing_is_unpickled(run_folder, tmp_path, where, how):
    trap, payload = tmp_path / "trap", pickle.dumps(Payload(tmp_path / "trap"))
    if how == "compressor":
        change(run_folder / where / ".zarray", compressor={"id": "pickle"}, dtype="|O")
        (run_folder / where / "0").write_bytes(payload)
    elif how == "filter":
        change(run_folder / where / ".zarray", filters=[{"id": "pickle", "protocol": 5}], dtype="|O")
        (run_folder / where / "0").write_bytes(Zstd(level=1, checksum=True).encode(payload))
    else:
        change(run_folder / where / ".zarray", dtype="|O")
        (run_folder / where / "0").write_bytes(encode(np.frombuffer(payload, dtype="u1")))
    problem = {"compressor": "names the codec 'pickle'", "filter": "names the filters", "type": "has the type '|O'"}
    both_refuse(run_folder, f"is damaged: its tensor cannot be read: {where} {problem[how]}")
    assert not trap.exists()


@pytest.mark.parametrize("codec", [None, {"id": "blosc"}, {"id": "gzip", "level": 1}, {}, "zstd", {"id": ["zstd"]}])
def test_a_run_has_one_codec(run_folder, codec):
    change(run_folder / "posterior" / "who" / ".zarray", compressor=codec)
    both_refuse(run_folder, "posterior/who names the codec ")


@pytest.mark.parametrize("name", ["posterior/core_values", "posterior/factors_who", "sweep_stats/moved"])
def test_draws_whose_metadata_name_another_codec_are_refused(run_folder, name):
    document = json.loads((run_folder / ".zmetadata").read_text())
    document["metadata"][f"{name}/.zarray"]["compressor"] = {"id": "pickle"}
    (run_folder / ".zmetadata").write_text(json.dumps(document))
    with refused_file(run_folder, f"{name} names the codec 'pickle'"):
        ac.open_run(run_folder)


def archive_of_pickles(file, names, target):
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            content = io.BytesIO()
            np.lib.format.write_array(content, np.array([Payload(target)], dtype=object), allow_pickle=True)
            archive.writestr(f"{name}.npy", content.getvalue())


def test_a_checkpoint_of_pickles_is_put_aside_and_nothing_is_unpickled(run_folder, tmp_path):
    for file in (run_folder / "checkpoints" / "0").iterdir():
        archive_of_pickles(file, ["sweep", "log_core_Q", "subs_QM", "used_0", "log_phi_0"], tmp_path / "trap")
    with warned("chain-starts-again", folder=str(run_folder / "checkpoints" / "0")):
        ac.AlloCore.resume(run_folder, progress=False)
    assert not (tmp_path / "trap").exists()


def test_a_checkpoint_that_unpacks_to_much_more_than_its_size_is_put_aside(run_folder):
    for file in (run_folder / "checkpoints" / "0").iterdir():
        with np.load(file) as arrays:
            parts = dict(arrays)
        np.savez_compressed(file, **parts, bomb=np.zeros(10**7))
    with warned("chain-starts-again"):
        ac.AlloCore.resume(run_folder, progress=False)


def test_a_numbering_of_pickles_is_not_taken_and_nothing_is_unpickled(run_folder, tmp_path):
    archive_of_pickles(run_folder / "numbering.npz", ["format", "number", "known_number"], tmp_path / "trap")
    with warned("numbering-not-read", path=str(run_folder / "numbering.npz")):
        ac.open_run(run_folder)
    assert not (tmp_path / "trap").exists()


def test_a_consensus_of_pickles_is_found_again_and_nothing_is_unpickled(run_folder, tmp_path):
    ac.open_run(run_folder).consensus(progress=False)
    archive_of_pickles(run_folder / "consensus.npz", ["format", "run", "number"], tmp_path / "trap")
    with warned("consensus-not-read", path=str(run_folder / "consensus.npz")):
        ac.open_run(run_folder).consensus(progress=False)
    assert not (tmp_path / "trap").exists()


def test_a_chunk_that_states_a_huge_content_is_refused_before_it_is_allocated(run_folder):
    huge = Zstd(level=1, checksum=True).encode(bytes(2**26))
    (run_folder / "posterior" / "core_values" / "0.0.0").write_bytes(huge)
    with refused_file(run_folder, "67108864 bytes of content"):
        ac.open_run(run_folder)


# Names of modes become names of arrays


RARER_NAMES = ["a/..", "/etc", "x" * 300, "factors_z", "q", "held_out", "checkpoints"]


@pytest.mark.parametrize(
    "name",
    ["a/b", "日" * 200, *(pytest.param(each, marks=pytest.mark.slow) for each in RARER_NAMES)],
)
def test_any_name_of_a_mode_is_safe_in_a_run(tmp_path, name):
    import xarray as xr

    tensor = TENSOR.with_labels(mode_names=[name, "z"])
    post = ac.AlloCore(2, store=tmp_path / "run.zarr", **SETTINGS).fit(tensor).posterior_
    assert os.listdir(tmp_path) == ["run.zarr"]
    assert ac.open_run(tmp_path / "run.zarr").tensor.mode_names == (name, "z")
    with xr.open_datatree(tmp_path / "run.zarr", engine="zarr") as tree:
        tree.load()
        xr.testing.assert_identical(tree["posterior"].to_dataset(), stored_tree(post.record)["posterior"].to_dataset())
        assert ["a", "b"] in [each.values.tolist() for each in tree["posterior"].coords.values()]
    assert ac.AlloCore.resume(tmp_path / "run.zarr", draws=3, progress=False).draws == 3
    assert {each.name for each in (tmp_path / "run.zarr").iterdir() if each.is_dir()} == {
        *("posterior", "sample_stats", "sweep_stats", "observed_data", "constant_data", "checkpoints")
    }


@pytest.mark.parametrize("name", ["..", ".", ".zgroup", ".zattrs", "a\\b", "../../x", "\ud800", "a\0b"])
def test_names_that_would_be_paths_or_no_text_are_refused_by_tensors(name):
    with refused("mode_names"):
        TENSOR.with_labels(mode_names=[name, "z"])
    if not name.startswith(".") and "\\" not in name:
        with refused("labels"):
            TENSOR.with_labels({"who": [name, "b"]})


def test_a_chunk_that_claims_to_be_larger_than_its_array_is_refused_before_it_is_allocated(run_folder):
    path = run_folder / "observed_data" / "counts" / ".zarray"
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "chunks": [2**27]}))
    (path.parent / "0").write_bytes(Zstd(level=1, checksum=True).encode(bytes(2**27 * 8)))
    with refused_file(run_folder, "chunks of the shape"):
        ac.open_run(run_folder)


def test_an_array_that_memory_cannot_hold_is_refused_before_it_is_allocated(run_folder, monkeypatch):
    monkeypatch.setattr(available_memory, "available_memory", lambda: 10)
    monkeypatch.setattr(available_memory, "_NEVER_CHECKED", 0)
    with refused_file(run_folder, "of memory"):
        ac.open_run(run_folder)


# What is no file of the run


def put_in_place(file, what, outside):
    """Put a pipe, a device or a link to a file elsewhere in place of a file of a run."""
    content = file.read_bytes()
    file.unlink()
    if what == "pipe":
        os.mkfifo(file)
    elif what == "device":
        file.symlink_to("/dev/zero")
    elif what == "link":
        outside.write_bytes(content)
        file.symlink_to(outside)
    else:
        with open(file, "wb") as hole:
            hole.truncate(2**40)


REPLACED = ["pipe", "device", "link", "terabyte"]


@pytest.mark.parametrize("what", REPLACED)
@pytest.mark.parametrize("name", [".zattrs", "observed_data/counts/0", "posterior/core_values/0.0.0"])
def test_what_is_no_file_of_the_run_is_refused_at_once(run_folder, tmp_path, name, what):
    put_in_place(run_folder / name, what, tmp_path / "outside")
    with refused_file(run_folder):
        ac.open_run(run_folder).core_values.sum()


@pytest.mark.parametrize("what", REPLACED)
def test_a_consensus_that_is_no_file_of_the_run_is_found_again(run_folder, tmp_path, what):
    ac.open_run(run_folder).consensus(progress=False)
    put_in_place(run_folder / "consensus.npz", what, tmp_path / "outside")
    with warned("consensus-not-read", path=str(run_folder / "consensus.npz")):
        ac.open_run(run_folder).consensus(progress=False)
    assert not (run_folder / "consensus.npz").is_symlink()
    assert (run_folder / "consensus.npz").stat().st_size < 10**6


@pytest.mark.parametrize("what", REPLACED)
def test_a_checkpoint_that_is_no_file_of_the_run_is_put_aside(run_folder, tmp_path, what):
    for place, file in enumerate((run_folder / "checkpoints" / "0").iterdir()):
        put_in_place(file, what, tmp_path / str(place))
    with warned("chain-starts-again", folder=str(run_folder / "checkpoints" / "0")):
        ac.AlloCore.resume(run_folder, progress=False)


def test_a_run_with_a_folder_outside_of_it_is_not_continued(run_folder, tmp_path):
    (run_folder / "checkpoints").rename(tmp_path / "outside")
    (run_folder / "checkpoints").symlink_to(tmp_path / "outside")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "outside").rglob("*")}
    with refused_file(run_folder):
        ac.AlloCore.resume(run_folder, draws=4, progress=False)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "outside").rglob("*")} == before


def test_a_run_that_is_reached_through_a_link_is_opened(run_folder, tmp_path):
    (tmp_path / "link.zarr").symlink_to(run_folder)
    assert ac.open_run(tmp_path / "link.zarr").core_values.shape[1] == 2


# Values in the file of the consensus


def damaged(array, value):
    array = array.copy()
    array.flat[0] = value
    return array


@pytest.mark.parametrize("value", [-0.5, 2.0, np.nan, np.inf])
@pytest.mark.parametrize(
    "name", ["shares", "profile_0_mean", "profile_1_high", "sharing_0", "alike", "known_profile_0"]
)
def test_a_consensus_with_impossible_values_is_found_again(run_folder, name, value):
    expected = ac.open_run(run_folder).consensus(progress=False).classes()
    with np.load(run_folder / "consensus.npz") as arrays:
        parts = dict(arrays)
    if name == "known_profile_0" and not np.isinf(value):
        value = -1.0
    np.savez_compressed(run_folder / "consensus.npz", **{**parts, name: damaged(parts[name], value)})
    with warned("consensus-not-read", path=str(run_folder / "consensus.npz")):
        found = ac.open_run(run_folder).consensus(progress=False).classes()
    assert found.equals(expected)


@pytest.mark.parametrize("number", [-1, 0.5])
def test_a_consensus_with_impossible_numbers_is_found_again(run_folder, number):
    expected = ac.open_run(run_folder).consensus(progress=False).classes()
    with np.load(run_folder / "consensus.npz") as arrays:
        parts = dict(arrays)
    changed = {name: np.full(len(parts[name]), number) for name in ("number", "known_number")}
    np.savez_compressed(run_folder / "consensus.npz", **{**parts, **changed})
    with warned("consensus-not-read", path=str(run_folder / "consensus.npz")):
        assert ac.open_run(run_folder).consensus(progress=False).classes().equals(expected)
