"""What the experiments have in common: data or the simulated network, and a folder for the results."""

from pathlib import Path
from typing import Annotated

import typer
from networks import FULL, QUICK, simulate

import allocore as ac
from allocore.cli.options import Cluster, ClusterOfFits, cluster_of, read_data

__all__ = ["Bursts", "Cluster", "ClusterOfFits", "Data", "Full", "Out", "Seed", "cluster_of", "fitting", "folder_of",
           "tensor_of"]  # fmt: skip

Data = Annotated[str | None, typer.Argument(help="A tensor, or events in a known format; simulated by default.")]
Full = Annotated[bool, typer.Option("--full", help="The settings of the paper: hours instead of minutes.")]
Out = Annotated[Path | None, typer.Option(help="The folder for results; .cache/experiments/<name> by default.")]
Seed = Annotated[int, typer.Option(help="Seed.")]
Bursts = Annotated[float, typer.Option(help="Share of the simulated events that are repeated, 8 times on average.")]


def tensor_of(data: str | None, full: bool, seed: int, bursts: float = 0.0) -> ac.CountTensor:
    """The given data, or a simulated network."""
    if not 0.0 <= bursts <= 1.0 or (bursts and data is not None):
        raise typer.BadParameter(f"--bursts is {bursts}, but it must be from 0 to 1, and needs simulated data")
    if data is None:
        return simulate(FULL if full else QUICK, seed, bursts).tensor
    return read_data([data], {})


def folder_of(out: Path | None, name: str, full: bool) -> Path:
    """The folder for results; quick and full results have different folders."""
    folder = out or Path(".cache/experiments") / (f"{name}-full" if full else name)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def fitting(sizes: tuple[int, ...], tensor: ac.CountTensor) -> tuple[int, ...]:
    """The paper's core shape cut to this tensor, so that no mode has more factors than rows."""
    modes = list(sizes)[: tensor.ndim] + [sizes[-1]] * (tensor.ndim - len(sizes))
    return tuple(min(size, length) for size, length in zip(modes, tensor.shape, strict=True))
