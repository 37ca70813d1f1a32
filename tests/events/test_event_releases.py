"""The real files: counted again with the csv module, one row at a time."""

import csv
from collections import Counter
from pathlib import Path

import pytest

import allocore as ac
from allocore.tensor.countries import resolve
from support.event_files import ACTIONS, cells

DATA = Path(__file__).parents[3] / "shared" / "data"
RELEASES = sorted((DATA / "icews_release").glob("*.tab"))
EVENTS = DATA / "icews_2018_2019_events.csv.gz"


@pytest.mark.filterwarnings("ignore:.*may be incomplete")
@pytest.mark.skipif(not RELEASES, reason="the released files of ICEWS are not here")
@pytest.mark.parametrize(("freq", "length"), [("day", 10), ("month", 7)])
def test_the_released_files_of_icews_are_counted_as_the_csv_module_counts_them(freq, length):
    expected = Counter()
    for path in RELEASES:
        with path.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
                sender, receiver = resolve(row["Source Country"]), resolve(row["Target Country"])
                if sender and receiver:
                    root = ACTIONS[int(row["CAMEO Code"][:2]) - 1]
                    expected[sender.name, receiver.name, root, row["Event Date"][:length]] += 1
    tensor = ac.read_events(RELEASES, freq=freq, diagonal="keep")
    assert cells(tensor) == expected
    assert tensor.labels[0] == tensor.labels[1] == tuple(sorted({name for cell in expected for name in cell[:2]}))


@pytest.mark.skipif(not EVENTS.exists(), reason="the events of ICEWS are not here")
@pytest.mark.filterwarnings("ignore:.*may be incomplete")
@pytest.mark.parametrize(
    ("freq", "periods", "nnz", "incomplete"), [("week", 64, 128_228, {}), ("month", 15, 92_404, {"2019-03": (24, 31)})]
)
def test_a_year_of_icews_has_the_known_shape(freq, periods, nnz, incomplete):
    modes = ["source", "target", "cameo_root"]
    tensor = ac.read_events(EVENTS, modes=modes, time="date", freq=freq, shared_modes=["source", "target"])
    assert tensor.shape == (225, 225, 20, periods)
    assert tensor.nnz == nnz
    assert tensor.total == 261_851
    assert tensor.incomplete == incomplete
