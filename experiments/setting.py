"""What the experiments have in common: data, or the simulated network, and a folder for what comes out."""

from pathlib import Path
from typing import Annotated

import typer
from networks import FULL, QUICK, simulate

import allocore as ac
from allocore.cli.data_options import read_data

Data = Annotated[str | None, typer.Argument(help="A tensor or a table of events of a known format; else simulated.")]
Full = Annotated[bool, typer.Option("--full", help="The settings of the paper: hours instead of minutes.")]
Out = Annotated[Path | None, typer.Option(help="The folder for results; .cache/experiments/<name> by default.")]
Seed = Annotated[int, typer.Option(help="Seed.")]


def tensor_of(data: str | None, full: bool, seed: int) -> ac.CountTensor:
    """The data that were given, or a simulated network."""
    if data is None:
        return simulate(FULL if full else QUICK, seed).tensor
    return read_data(data, {})


def folder_of(out: Path | None, name: str, full: bool) -> Path:
    """Where to write; quick and full results never mix."""
    folder = out or Path(".cache/experiments") / (f"{name}-full" if full else name)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def fitting(sizes: tuple[int, ...], tensor: ac.CountTensor) -> str:
    """A core of the paper's for this tensor: no more factors than a mode has rows, as text."""
    modes = list(sizes)[: tensor.ndim] + [sizes[-1]] * (tensor.ndim - len(sizes))
    return "x".join(str(min(size, length)) for size, length in zip(modes, tensor.shape, strict=True))
