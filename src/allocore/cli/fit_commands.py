"""Commands that fit one model: fit, resume."""

import secrets
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

import allocore as ac
from allocore.cli.app import app, exit_if_stopped, telling_of_stops, terminal
from allocore.cli.cluster_options import Cluster, check_cluster, cluster_of
from allocore.cli.data_options import DataPaths, print_data, read_data, takes_events
from allocore.cli.likelihood_options import check_dispersion_by, mode_given, settings_of, takes_likelihood
from allocore.cli.model_options import ChosenModel, takes_model
from allocore.errors import InputError, StoreError, whole_number

Seed = Annotated[int | None, typer.Option(help="The seed: the same seed gives the same draws, to the byte.")]
Threads = Annotated[int | None, typer.Option(help="Threads; by default one per processor.")]
HoldOut = Annotated[
    float | None,
    typer.Option(
        help="Hold out this share of the fibres, keep them with the run, and report how well it predicts them."
    ),
]
Along = Annotated[
    str | None, typer.Option(help="The mode along which fibres are held out, by name or number; by default the last.")
]
Start = Annotated[
    Path | None,
    typer.Option(
        metavar="RUN",
        help="A run of the same model, of last month's data say: the chains begin at its last draws. Rows go by label.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(help="A Zarr folder to write the run to; it can be read, and resumed if the model has chains."),
]
Rows = Annotated[int, typer.Option(help="Classes to print.")]
Top = Annotated[int, typer.Option(help="Labels to print per mode.")]
OnError = Annotated[str, typer.Option(help="For damaged draws: 'raise' an error, or 'drop' them and go on.")]


@app.command()
@takes_model
@takes_likelihood
@takes_events
def fit(
    *,
    data: DataPaths,
    chosen: ChosenModel,
    seed: Seed = None,
    threads: Threads = None,
    hold_out: HoldOut = None,
    along: Along = None,
    start: Start = None,
    out: Out = None,
    cluster: Cluster = None,
    rows: Rows = 15,
    top: Top = 3,
    likelihood: dict[str, Any],
    events: dict[str, Any],
) -> None:
    """Fit a tensor or a table of events, and print its largest classes in words.

    allocore fit icews/*.tab --freq month --budget 100 --out run.zarr

    allocore fit sales.csv --modes store,product,week --budget 20 --hold-out 0.01

    allocore fit icews/*.tab --budget 50 --likelihood negative-binomial --e0 infer

    allocore fit icews/*.tab --model tucker --core-shape 20x20x6x3 --f0 1

    allocore fit icews/*.tab --budget 50 --start last_month.zarr --burn-in 100
    """
    console = terminal()
    whole_number("--rows", rows), whole_number("--top", top)
    if along is not None and hold_out is None:
        raise InputError(f"--along is {along!r}, but it needs --hold-out as well")
    check_dispersion_by(likelihood)
    chosen.check_likelihood(likelihood)
    chosen.check_memory()
    check_cluster(cluster)
    if out is not None:
        from allocore.run.zarr_store import check_free

        check_free("--out", out)  # before the data are read, not after
    Y, settings = settings_of(likelihood, read_data(data, events))
    seed = secrets.randbits(32) if seed is None else whole_number("--seed", seed, least=0)
    split = None if hold_out is None else _split(Y, hold_out, along, seed)
    if split is not None and isinstance(Y, ac.ShardedTensor):
        console.print("The tensor is read into memory to hold out cells: what is fitted is no longer in shards.")
    print_data(console, Y, binary=likelihood["binary"])
    model = chosen.estimator(settings, seed=seed, threads=threads)
    _fit_and_keep(model, Y if split is None else split, out, start, cluster)
    print_classes(console, model.posterior_, rows, top)
    if isinstance(model, ac.NNTuck):
        _print_starts(console, model)
    _print_held_out(console, model.posterior_)
    kept = "The fit is not kept: --out run.zarr would keep it" if out is None else f"Run written to {out}"
    console.print(Text(f"\nSeed {seed}. {kept}"))
    exit_if_stopped(_is_whole(model))


def _fit_and_keep(
    model: Any, Y: "ac.CountTensor | ac.Split", out: Path | None, start: Path | None, cluster: str | None
) -> None:
    """Fit a model; chains are written as they go, and an estimate of NNTuck once it is found."""
    if isinstance(model, ac.NNTuck):
        if start is not None:
            raise InputError(f"--start is {str(start)!r}, but nntuck has no chains that could begin there")
        if cluster is not None:
            raise InputError(f"--cluster is {cluster!r}, but nntuck has no chains that could run there")
        with telling_of_stops(None):
            model.fit(Y)
        if out is not None:
            model.posterior_.save(out)
    else:
        with telling_of_stops(out), cluster_of(cluster) as executor:
            model.set_params(store=out, executor=executor).fit(Y, start=None if start is None else ac.open_run(start))


def _is_whole(model: Any) -> bool:
    """Return whether a fit was not stopped early."""
    if not isinstance(model, ac.NNTuck):
        return bool(model.posterior_.finished)
    ended = model.restarts_["converged"] | (model.restarts_["iterations"] == model.max_iter)
    return bool(ended.all()) and len(ended) == model.restarts


@app.command()
def resume(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that allocore fit --out wrote.")],
    draws: Annotated[int | None, typer.Option(help="Draws in total; more than planned extend the run.")] = None,
    threads: Threads = None,
    cluster: Cluster = None,
    on_error: OnError = "raise",
    rows: Rows = 15,
    top: Top = 3,
) -> None:
    """Continue a run that was stopped or killed, or extend it. The draws are those of a run without a break.

    Runs of allocore, cp and tucker can be continued. NNTuck has no chains: fit it again.

    allocore resume run.zarr --draws 400
    """
    console = terminal()
    whole_number("--rows", rows), whole_number("--top", top)
    from allocore.estimators import model_of

    before = _draws_of(run)
    with telling_of_stops(run), cluster_of(cluster) as executor:
        model = model_of(run).resume(run, draws=draws, threads=threads, executor=executor, on_error=on_error)  # type: ignore[arg-type]
    posterior = model.posterior_
    print_classes(console, posterior, rows, top)
    _print_held_out(console, posterior)
    if posterior.finished and posterior.core_values.shape[1] == before:
        console.print(Text(f"\nThe run was finished: it has its {before} draws. A larger --draws extends it"))
    else:
        console.print(Text(f"\nSeed {posterior.seed}. Run written to {run}"))
    exit_if_stopped(posterior.finished)


def _draws_of(run: Path) -> int | None:
    """How many draws a run has; None if that cannot be read before it is repaired."""
    from allocore.run.run_reader import stored_sizes

    try:
        return stored_sizes(run)["draw"]
    except StoreError:
        return None


def print_classes(console: Console, posterior: "ac.Posterior", rows: int, top: int) -> None:
    """Print the largest classes of a fit in words."""
    from allocore.posterior.terminal_tables import class_report

    console.print()
    console.print(class_report(posterior, rows, top))


def _print_held_out(console: Console, posterior: "ac.Posterior") -> None:
    from allocore.posterior.terminal_evaluation import print_held_out

    print_held_out(console, posterior)


def _print_starts(console: Console, model: "ac.NNTuck") -> None:
    starts = model.restarts_
    number = f"{len(starts)} random start{'s' * (len(starts) > 1)}"
    console.print(
        f"\nMaximum likelihood, the best of {number}, {int(starts['converged'].sum())} of which converged: "
        f"log-likelihood [bold]{model.log_likelihood_:.2f}[/] after {model.n_iter_:,} iterations"
    )


def _split(Y: ac.CountTensor, hold_out: float, along: str | None, seed: int) -> "ac.Split":
    if not 0.0 < hold_out < 1.0:
        raise InputError(f"--hold-out is {hold_out}, but it must be above 0 and below 1")
    return ac.hold_out(Y, hold_out, -1 if along is None else mode_given(along, Y.mode_names), seed)
