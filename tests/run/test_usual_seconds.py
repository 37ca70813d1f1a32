"""What a worker usually takes, by which shards are cut anew, is not what one disturbed task took."""

import pytest

from allocore.run.cluster.shards import RangeFacts, RangeWorker, ShardRange, _Range
from allocore.run.cluster.tasks import Versions


def range_with(*seconds):
    facts = RangeFacts((), 0, 0, Versions.here())
    made = _Range(ShardRange("y.zarr", "", 0, 1), RangeWorker("0", 1, {}), facts, 0)
    for each in seconds:
        made.note(each)
    return made


def test_a_task_that_compiles_or_hangs_does_not_change_what_is_usual():
    assert range_with(20.0, 0.1, 0.1, 0.1).seconds == pytest.approx(0.1)
    assert range_with(0.1, 0.1, 0.1, 0.1, 3.0).seconds == pytest.approx(0.1)


def test_a_worker_that_has_become_slower_is_soon_known_to_be():
    assert range_with(*[0.1] * 50, 0.2, 0.2, 0.2).seconds == pytest.approx(0.2)
