"""From arrays, files and events to a CountTensor; missing cells, hold-out sets, and an example data set."""

from allocore.data.convert import as_tensor
from allocore.data.files import load_tensor, read, save_tensor, write_tns
from allocore.data.flights import load_flights
from allocore.data.holdout import HeldOut, Split, hold_out
from allocore.data.missing import Missing
from allocore.data.tensor import CountTensor

__all__ = [
    "CountTensor",
    "HeldOut",
    "Missing",
    "Split",
    "as_tensor",
    "hold_out",
    "load_flights",
    "load_tensor",
    "read",
    "save_tensor",
    "write_tns",
]
