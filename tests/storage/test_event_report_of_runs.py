"""A run on disk keeps the report on the events that its tensor was made from."""

import pandas as pd
import pytest
import zarr

import allocore as ac

STORED = "constant_data/event_report"
SETTINGS = {"budget": 2, "burn_in": 1, "draws": 1, "thin": 1, "seed": 0, "progress": False, "chains": 1}


@pytest.fixture
def events():
    table = pd.DataFrame({"who": ["Zo\u00eb", "B", "C", None], "what": ["tea", "rice", "tea", "tea"]})
    return ac.read_events(table, modes=["who", "what"])


def test_a_run_gives_back_the_report_of_its_tensor(tmp_path, events):
    post = ac.AlloCore(**SETTINGS, store=tmp_path / "run.zarr").fit(events).posterior_
    assert events.report.dropped == {"no who": 1}
    assert post.tensor.report == events.report
    assert ac.open_run(tmp_path / "run.zarr").tensor.report == events.report
    assert post.to_datatree()["constant_data"]["event_report"].item() == events.report.to_json()


def test_a_run_without_a_report_is_read_as_before(tmp_path, events):
    plain = ac.CountTensor(events.coords, events.counts, mode_names=events.mode_names, labels=events.labels)
    ac.AlloCore(**SETTINGS, store=tmp_path / "run.zarr").fit(plain)
    assert STORED not in zarr.open_group(tmp_path / "run.zarr", mode="r", zarr_format=2)
    again = ac.open_run(tmp_path / "run.zarr")
    assert again.tensor == plain == events
    assert again.tensor.report is None


def test_a_resumed_run_keeps_the_report(tmp_path, events):
    ac.AlloCore(**SETTINGS, store=tmp_path / "run.zarr").fit(events)
    more = ac.AlloCore.resume(tmp_path / "run.zarr", draws=2, progress=False)
    assert more.posterior_.tensor.report == events.report
