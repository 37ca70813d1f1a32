"""The benchmark of clusters: its tensors are what they should be, and its model finds costs that are known."""

from pathlib import Path

import numpy as np
import pytest

import allocore as ac

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))


@pytest.mark.parametrize(("shape", "last"), [((50, 5, 30, 40), 3), ((50, 200, 3, 4), 1)])
def test_a_tensor_that_is_written_row_by_row_is_sound_and_sorted_into_fibres(benchmarks, tmp_path, shape, last):
    from tensors import write_large

    nnz = write_large(tmp_path / "y.zarr", shape, 20_000, shards=4)
    found = ac.load_tensor(tmp_path / "y.zarr")
    found.load().save(tmp_path / "again.zarr", shards=4)
    assert found.nnz == nnz == found.load().nnz > 5_000
    assert found.files.sizes.order[-1] == last
    assert found.files.fingerprint == ac.load_tensor(tmp_path / "again.zarr").files.fingerprint


def test_the_model_finds_known_costs_and_explains_a_size_that_it_has_not_seen(benchmarks):
    from cluster_model import Costs, explained, fitted, modelled

    known = Costs(a=3e-8, b=2e-10, c=5e-9, d=1e-7, e=1e-9, f=0.01, g=2e-9, add=1e-9)

    def point(cells, rows, budget):
        ranges = [
            {"cells": n, "rows": r, "seconds": known.worker(n, r, budget)}
            for n, r in ((cells, rows), (cells, rows / 2))
        ]
        size = 12 * rows * budget
        seconds = {
            "driver": known.driver(rows, budget),
            "handling": 1e-9 * size,
            "waiting": known.travel(size) - 1e-9 * size,
        }
        made = {"cells": cells, "rows": rows, "budget": budget, "ranges": ranges, "bytes": size, **seconds}
        return made | {"sweep": explained(known, made)["all parts"]}

    points = [point(*each) for each in ((1e5, 2000, 50), (1e6, 4000, 50), (1e6, 2000, 100), (1e7, 4000, 100))]
    found = fitted(points)
    for name in "abcdefg":
        assert getattr(found, name) == pytest.approx(getattr(known, name), rel=1e-6), name
    result = modelled(points, point(5e7, 4000, 100))
    assert result["check"]["model"]["all parts"] == pytest.approx(result["check"]["measured"]["all parts"], rel=1e-6)
    four, sixteen = result["predictions"][:2]
    assert sixteen["parts"]["network"] > four["parts"]["network"], "more machines, more bytes"
    assert sixteen["parts"]["cells, on the workers"] == pytest.approx(
        four["parts"]["cells, on the workers"] / 4, rel=0.05
    )
    assert np.isfinite(sixteen["speed-up over one machine"])
