"""A quick look at a run is labelled as preliminary everywhere, and `resume` continues it to the bytes of the run."""

import io
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from rich.console import Console

import allocore as ac
from allocore import growth
from allocore.growth import Judgement
from allocore.report.terminal import class_report, posterior_html, progress_line
from allocore.storage.record import Schedule, planned
from allocore.storage.run_reader import read_plan
from support.errors import refused
from support.same_draws import assert_same

Y = ac.as_tensor(np.random.default_rng(5).poisson(1.2, (6, 5, 4)))
SETTINGS = {"budget": 3, "sweeps": 40, "chains": 6, "seed": 3, "progress": False}


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """A quick look has ten sweeps."""
    monkeypatch.setattr("allocore.estimators._QUICK_SWEEPS", 10)


@pytest.fixture(scope="module")
def whole():
    """The whole run, without a quick look before it."""
    return ac.AlloCore(**SETTINGS).fit(Y).posterior_


@pytest.fixture(scope="module")
def look(tmp_path_factory):
    """A quick look on disk; nobody changes it."""
    path = tmp_path_factory.mktemp("look") / "run.zarr"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("allocore.estimators._QUICK_SWEEPS", 10)
        ac.AlloCore(**SETTINGS, quick=True, store=path).fit(Y)
    return path


@pytest.fixture
def copy(look, tmp_path):
    """The path of a quick look that may be changed."""
    return shutil.copytree(look, tmp_path / "run.zarr")


def test_a_quick_look_has_the_first_sweeps_of_the_first_chains(look, whole):
    post = ac.open_run(look)
    assert post.core_values.shape[:2] == (4, 5)
    assert (post.preliminary, post.finished, whole.preliminary) == (True, True, False)
    assert post.stats["log_likelihood"].tobytes() == whole.stats["log_likelihood"][:4, :10].tobytes()


@pytest.mark.parametrize("where", [{"threads": 3}, "executor"])
def test_a_quick_look_goes_on_to_the_bytes_of_the_whole_run(copy, whole, where):
    with ThreadPoolExecutor(2) as pool:
        model = ac.AlloCore.resume(copy, progress=False, **({"executor": pool} if where == "executor" else where))
    assert_same(model.posterior_, whole)
    assert_same(ac.open_run(copy), whole)
    assert (model.quick, model.posterior_.preliminary, read_plan(copy).full) == (False, False, None)


def test_the_classes_of_the_whole_run_do_not_take_the_numbers_of_a_quick_look(copy, whole):
    assert len(ac.open_run(copy).consensus().numbers) > 0
    found = ac.AlloCore.resume(copy, progress=False).posterior_.consensus()
    assert (found.numbers.tolist(), found.names) == (whole.consensus().numbers.tolist(), whole.consensus().names)


@pytest.mark.parametrize("sweep", [1, 15, 60])
def test_a_quick_look_whose_continuation_is_interrupted_goes_on_to_the_same_bytes(copy, whole, stop_at, sweep):
    stop_at(sweep)
    with pytest.raises(KeyboardInterrupt):
        ac.AlloCore.resume(copy, threads=1, progress=False)
    assert_same(ac.AlloCore.resume(copy, progress=False).posterior_, whole)


def test_a_quick_look_that_is_interrupted_goes_on_to_the_bytes_of_the_whole_run(whole, tmp_path, stop_at):
    path = tmp_path / "run.zarr"
    stop_at(9)
    with pytest.raises(KeyboardInterrupt):
        ac.AlloCore(**SETTINGS, quick=True, store=path, threads=1).fit(Y)
    assert_same(ac.AlloCore.resume(path, progress=False).posterior_, whole)


def test_a_quick_look_at_a_run_that_grows_goes_on_and_grows(tmp_path, monkeypatch):
    rounds = {(20, 5): Judgement(True), (40, 5): Judgement(False, 0.8, True), (40, 10): Judgement(False, 0.95, True)}
    monkeypatch.setattr("allocore.estimators._FIRST_SWEEPS", 20)
    monkeypatch.setattr("allocore.estimators._FIRST_CHAINS", 5)
    monkeypatch.setattr(growth, "judge", lambda _, plan, __: rounds[plan.schedule.sweeps, plan.chains])
    growing = {"budget": 3, "seed": 3, "progress": False}
    path = tmp_path / "run.zarr"
    look = ac.AlloCore(**growing, quick=True, store=path).fit(Y).posterior_
    assert look.stats["moved"].shape == (4, 10)
    grown = ac.AlloCore.resume(path, progress=False)
    assert_same(grown.posterior_, ac.AlloCore(**growing).fit(Y).posterior_)
    assert grown.posterior_.stats["moved"].shape == (10, 40)
    assert (grown.sweeps, grown.chains) == ("auto", "auto")


@pytest.mark.parametrize(
    ("more", "schedule", "chains"),
    [
        ({"sweeps": 80}, {"burn_in": 40, "draws": 20, "thin": 2}, 6),
        ({"draws": 25}, {"burn_in": 20, "draws": 25, "thin": 1}, 6),
        ({"chains": 5}, {"burn_in": 20, "draws": 20, "thin": 1}, 5),
        ({"sweeps": 40}, {"burn_in": 20, "draws": 20, "thin": 1}, 6),
    ],
)
def test_a_quick_look_can_go_on_to_another_size_than_planned(copy, more, schedule, chains):
    settings = {"budget": 3, "seed": 3, "progress": False, **schedule, "chains": chains}
    assert_same(ac.AlloCore.resume(copy, progress=False, **more).posterior_, ac.AlloCore(**settings).fit(Y).posterior_)


def test_a_quick_look_at_a_run_that_starts_from_another_has_all_its_chains(whole, tmp_path):
    path, settings = tmp_path / "run.zarr", {**SETTINGS, "seed": 4}
    ac.AlloCore(**settings, quick=True, store=path).fit(Y, start=whole)
    assert ac.open_run(path).core_values.shape[:2] == (6, 5)
    straight = ac.AlloCore(**settings).fit(Y, start=whole).posterior_
    assert_same(ac.AlloCore.resume(path, progress=False).posterior_, straight)


@pytest.mark.parametrize("model", [ac.CP(3), ac.Tucker((2, 1, 2))], ids=repr)
def test_other_models_have_quick_looks_too(model, tmp_path):
    path = tmp_path / "run.zarr"
    model.set_params(sweeps=12, chains=2, seed=1, progress=False)
    straight = model.fit(Y).posterior_
    assert model.set_params(quick=True, store=path).fit(Y).posterior_.core_values.shape[:2] == (2, 3)
    assert_same(type(model).resume(path, progress=False).posterior_, straight)


@pytest.mark.parametrize("settings", [{"sweeps": 2}, {"burn_in": 1, "draws": 9}])
def test_a_run_without_burn_in_has_no_quick_look(settings):
    with refused("quick", True):
        ac.AlloCore(3, quick=True, progress=False, **settings).fit(Y)


def test_a_quick_look_says_so_wherever_it_is_shown(look):
    post = ac.open_run(look)
    screen = io.StringIO()
    Console(file=screen, width=200).print(class_report(post))
    for text in (repr(post), post._repr_html_(), repr(post.consensus()), screen.getvalue(), progress_line(post.record)):
        assert "preliminary" in text or "quick look" in text
    assert "quick look" in post.class_summary("best").source
    assert "preliminary" in posterior_html(post)


def test_no_light_of_a_quick_look_is_green_and_the_only_advice_is_the_whole_fit(look):
    found = ac.open_run(look).diagnose()
    assert [each.kind for each in found.predictions.findings] == ["quick-look"]
    assert found.predictions.findings[0].values == {"chains": 4, "sweeps": 10, "stored": True}
    assert "caution" in (found.predictions.level, found.classes.level)
    assert "good" not in (found.predictions.level, found.classes.level)
    assert not {each.kind for each in found.classes.findings} & {"more-chains", "fewer-classes"}


def test_a_quick_look_in_memory_knows_that_it_cannot_be_resumed(tmp_path):
    post = ac.AlloCore(**SETTINGS, quick=True).fit(Y).posterior_
    assert post.diagnose().predictions.findings[0].values["stored"] is False
    post.save(tmp_path / "kept.zarr")
    assert ac.open_run(tmp_path / "kept.zarr").preliminary


def test_a_comparison_refuses_quick_looks():
    with refused("quick", True):
        ac.compare(Y, {"a": ac.AlloCore(2, quick=True)}, splits=1)


def test_the_size_of_the_whole_run_is_part_of_the_plan_and_checked(look):
    plan = read_plan(look)
    assert (plan.full, plan.schedule, plan.chains) == ((Schedule(20, 20, 1), 6), Schedule(5, 5, 1), 4)
    attributes = plan.attributes()
    assert planned(Y, attributes) == plan
    for size in ("6.5", "0", '"6"'):
        damaged = attributes["settings"].replace('"chains": 6}', f'"chains": {size}}}')
        assert damaged != attributes["settings"]
        with pytest.raises(ValueError, match="chains"):
            planned(Y, {**attributes, "settings": damaged})
