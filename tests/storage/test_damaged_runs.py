"""A run that is damaged in any way is read as it was, or refused in one sentence; never another error, never memory."""

import json
import tracemalloc
import warnings
from functools import cache

import numpy as np
import pytest

import allocore as ac
from support.damages import copy_of, damage_run
from support.errors import refused_file
from support.findings import warned

TENSOR = ac.CountTensor(
    *np.unique(np.random.default_rng(5).integers(0, [[6], [5], [4]], (3, 200)), axis=1, return_counts=True),
    mode_names=["who", "what", "when"],
    labels={"who": ["a", "b", "c", "d", "e", "f"]},
    missing=[(0, None, 1)],
)
SETTINGS = {"burn_in": 2, "draws": 6, "thin": 2, "chains": 2, "seed": 11, "progress": False}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "run.zarr"
    ac.AlloCore(3, store=path, likelihood="negative-binomial", e0="infer", **SETTINGS).fit(TENSOR)
    return path


@pytest.fixture
def run_folder(whole, tmp_path):
    return copy_of(whole, tmp_path / "run.zarr")


@cache
def draws_of(path):
    post = ac.open_run(path)
    return [array.tobytes() for array in post.record.draw_arrays]


def change(file, **changes):
    document = json.loads(file.read_text())
    file.write_text(json.dumps({**document, **changes}))


def try_to(attempt, path):
    """Attempt to read or continue a run: its draws if that is possible, or the error."""
    try:
        with warnings.catch_warnings(action="ignore"):
            found = attempt(path)
    except (ac.StoreError, ac.InputError) as error:
        return str(error)
    post = getattr(found, "posterior_", found)
    return [array.tobytes() for array in post.record.draw_arrays]


def check_damages(whole, folder, seeds, attempts):
    """Whatever is done to a run: it is read as it was, perhaps with fewer draws, or it is refused in one sentence."""
    refused = 0
    for seed in seeds:
        for attempt in attempts:
            run_folder = copy_of(whole, folder / "damaged.zarr")
            rng = np.random.default_rng(seed)
            done = [damage_run(run_folder, rng) for _ in range(1 + seed % 2)]
            tracemalloc.start()
            try:
                found = try_to(attempt, run_folder)
            except Exception as error:
                raise AssertionError(f"seed {seed}: {done}") from error
            finally:
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
            assert peak < 2**27, (seed, done, peak)
            refused += isinstance(found, str)
            assert not isinstance(found, str) or len(found.splitlines()) == 1, found
            assert isinstance(found, str) or found == draws_of(whole), (seed, done)
    return refused / (len(seeds) * len(attempts))


@pytest.mark.slow
def test_damage_at_random_is_told_in_a_sentence_or_does_no_harm_to_reading_and_to_continuing(whole, tmp_path):
    attempts = [ac.open_run, lambda path: ac.AlloCore.resume(path, progress=False)]
    assert 0.2 < check_damages(whole, tmp_path, range(1000, 1150), attempts) < 1.0


OTHERS = [
    ("seed", "12"), ("seed", "x"), ("seed", 11), ("seed", None), ("seed", "9" * 5000), ("tensor", "0" * 64),
    ("settings", "{}"), ("settings", "[]"), ("settings", "[" * 10**5), ("settings", 3),
]  # fmt: skip


def test_another_seed_or_other_settings_are_not_another_run(run_folder):
    text = (run_folder / ".zattrs").read_text()
    for name, value in OTHERS:
        (run_folder / ".zattrs").write_text(text)
        change(run_folder / ".zattrs", **{name: value})
        for attempt in (ac.open_run, ac.AlloCore.resume):
            with refused_file(run_folder, "is damaged: "):
                attempt(run_folder)


def test_a_flipped_bit_in_settings_seed_or_schedule_is_found(run_folder, whole):
    text = (run_folder / ".zattrs").read_bytes()
    rng = np.random.default_rng(0)
    start, stop = text.index(b'"settings"') + 13, text.index(b'"tensor"') - 5
    for place in rng.choice(np.arange(start, stop), 60, replace=False).tolist():
        flipped = bytearray(text)
        flipped[place] ^= 1 << int(rng.integers(7))
        (run_folder / ".zattrs").write_bytes(bytes(flipped))
        found = try_to(ac.open_run, run_folder)
        # A flipped quote or name may still be the same JSON to a reader; then nothing is lost.
        assert isinstance(found, str) or found == draws_of(whole), place
        assert not isinstance(found, list) or json.loads(bytes(flipped)) == json.loads(text)


@pytest.mark.parametrize(
    "settings",
    [
        {"budget": 10**12}, {"budget": "3"}, {"budget": None}, {"core_shape": [3, 3]}, {"core_shape": 7},
        {"core_shape": [10**9] * 3}, {"a0": "x"}, {"likelihood": "pickle"}, {"unknown": 1}, {"dispersion_by": 9},
    ],
)  # fmt: skip
def test_absurd_settings_of_a_run_from_before_the_checksum_are_told(run_folder, settings):
    attributes = json.loads((run_folder / ".zattrs").read_text())
    del attributes["checksum"]
    there = json.loads(attributes["settings"])
    there["spec"].update(settings)
    (run_folder / ".zattrs").write_text(json.dumps({**attributes, "settings": json.dumps(there)}))
    for attempt in (ac.open_run, ac.AlloCore.resume):
        with refused_file(run_folder, "is damaged: "):
            attempt(run_folder)


def test_a_run_from_before_the_checksum_is_read_and_gets_one_when_it_goes_on(run_folder, whole):
    attributes = json.loads((run_folder / ".zattrs").read_text())
    del attributes["checksum"]
    (run_folder / ".zattrs").write_text(json.dumps(attributes))
    assert try_to(ac.open_run, run_folder) == draws_of(whole)
    assert ac.AlloCore.resume(run_folder, draws=7, progress=False).posterior_.core_values.shape == (2, 7, 3)
    assert "checksum" in json.loads((run_folder / ".zattrs").read_text())
    assert ac.open_run(run_folder).core_values.shape == (2, 7, 3)


@pytest.mark.parametrize("name", ["observed_data/counts", "constant_data/missing_patterns", "posterior/who"])
def test_absurd_shapes_of_arrays_are_told_and_take_no_memory(run_folder, name):
    for shape in ([10**15], [2**40], [0], [-3], ["7"], 7, None, [[3]], [3, 3]):
        change(run_folder / name / ".zarray", shape=shape)
        tracemalloc.start()
        with refused_file(run_folder, "is damaged: "):
            ac.open_run(run_folder)
        assert tracemalloc.get_traced_memory()[1] < 2**26, shape
        tracemalloc.stop()


@pytest.mark.parametrize("size", [5, 7, 10**12, -1, "6", None])
def test_a_size_that_not_all_arrays_have_is_told(run_folder, size):
    document = json.loads((run_folder / ".zmetadata").read_text())
    document["metadata"]["posterior/core_values/.zarray"]["shape"][1] = size
    (run_folder / ".zmetadata").write_text(json.dumps(document))
    with refused_file(run_folder, "is damaged: .zmetadata cannot be read"):
        ac.open_run(run_folder)
    assert ac.AlloCore.resume(run_folder, progress=False).posterior_.core_values.shape == (2, 6, 3)


def test_a_location_outside_the_core_is_told_before_any_kernel_sees_it(run_folder):
    from allocore._zarr import encode

    wrong = np.zeros((1, 512, 3, 3), dtype="<i8")
    wrong[0, 2, 1, 1] = 10**6
    (run_folder / "posterior" / "core_locations" / "0.0.0.0").write_bytes(encode(wrong, order="F"))
    with refused_file(run_folder, "(some values are not below (3, 3, 3))"):
        ac.open_run(run_folder)


def test_a_checkpoint_with_a_location_outside_the_core_is_put_aside(run_folder):
    for file in (run_folder / "checkpoints" / "0").iterdir():
        with np.load(file) as arrays:
            parts = dict(arrays)
        parts["subs_QM"][0, 0] = 10**6
        np.savez(file, **parts)
    with warned("chain-starts-again"):
        ac.AlloCore.resume(run_folder, progress=False)
    assert len(list((run_folder / "checkpoints" / "0").glob("*.damaged"))) >= 1
