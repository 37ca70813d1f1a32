"""A run with a very long mode, made once for all tests of the explorer."""

import pytest

from allocore.explorer.payload import payload
from handmade_posterior import large_posterior


@pytest.fixture(scope="session")
def long_posterior():
    labels = [[f"a label with the number {n}" for n in range(100_000)], None]
    return large_posterior((100_000, 3), 40, labels=labels)


@pytest.fixture(scope="session")
def long_payload(long_posterior):
    return payload(long_posterior, "Long")
