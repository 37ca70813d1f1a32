"""What the experiments have in common: data or the simulated network, and a folder for the results."""

from pathlib import Path
from typing import Annotated

import typer
from networks import FULL, QUICK, simulate

import allocore as ac
from allocore.cli.data_options import read_data

Data = Annotated[str | None, typer.Argument(help="A tensor, or events in a known format; simulated by default.")]
Full = Annotated[bool, typer.Option("--full", help="The settings of the paper: hours instead of minutes.")]
Out = Annotated[Path | None, typer.Option(help="The folder for results; .cache/experiments/<name> by default.")]
Seed = Annotated[int, typer.Option(help="Seed.")]


def tensor_of(data: str | None, full: bool, seed: int) -> ac.CountTensor:
    """The given data, or a simulated network."""
    if data is None:
        return simulate(FULL if full else QUICK, seed).tensor
    return read_data(data, {})


def folder_of(out: Path | None, name: str, full: bool) -> Path:
    """The folder for results; quick and full results have different folders."""
    folder = out or Path(".cache/experiments") / (f"{name}-full" if full else name)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def fitting(sizes: tuple[int, ...], tensor: ac.CountTensor) -> str:
    """The paper's core shape cut to this tensor, so that no mode has more factors than rows, as text."""
    modes = list(sizes)[: tensor.ndim] + [sizes[-1]] * (tensor.ndim - len(sizes))
    return "x".join(str(min(size, length)) for size, length in zip(modes, tensor.shape, strict=True))
