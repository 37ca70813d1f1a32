"""Commands that fit: fit, resume, and fold-in, which adds new rows to a fit."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

import allocore as ac
from allocore._io import temporary_folder
from allocore._text import plural
from allocore.cli.app import Output, app, exit_if_stopped, explaining_stops
from allocore.cli.options import (
    Binary,
    ChosenModel,
    Cluster,
    DataPaths,
    ExposureOfRows,
    Free,
    Freeze,
    KnownFactorsGiven,
    OnError,
    Rows,
    RunPath,
    Seed,
    Seeds,
    Threads,
    Top,
    check_cluster,
    cluster_of,
    exposure_in,
    exposures_given,
    mode_given,
    modes_with,
    number_or_auto,
    print_data,
    read_as_in,
    read_data,
    settings_of,
    takes_events,
    takes_events_of_a_run,
    takes_likelihood,
    takes_model,
    takes_output,
)
from allocore.errors import InputError, StoreError, whole_number
from allocore.model.spec import check_likelihood, likelihood_for
from allocore.storage.record import SWEEPS_OF_NEW_ROWS, fingerprint


@app.command()
@takes_model
@takes_likelihood
@takes_events
@takes_output
def fit(
    *,
    data: DataPaths,
    chosen: ChosenModel,
    seed: Seed = None,
    threads: Threads = None,
    hold_out: Annotated[
        float | None,
        typer.Option(
            help="Hold out this share of the fibres, such as 0.01, and report how well the run predicts them. For a "
            "tensor in shards, the training part is written next to the run, also in shards."
        ),
    ] = None,
    along: Annotated[
        str | None,
        typer.Option(help="The mode along which held-out fibres run, by name or number; the last by default."),
    ] = None,
    hold_out_seed: Annotated[
        int, typer.Option(help="The seed of the hold-out: fits with the same seed hold out the same cells.")
    ] = 0,
    start: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="An earlier run of the same model, such as last month's. The chains start from its last draws, with "
            "rows matched by label, and classes keep their numbers and names.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Save the run to this Zarr folder, which must not exist yet (except with --resume-or-start). A run "
            "with chains can be resumed."
        ),
    ] = None,
    resume_or_start: Annotated[
        bool,
        typer.Option(
            "--resume-or-start",
            help="If --out has a run of the same data and settings, continue it, or do nothing if it is complete. For "
            "scripts that may be killed and started again.",
        ),
    ] = False,
    seeds: Seeds = None,
    freeze: Freeze = None,
    free: Free = None,
    cluster: Cluster = None,
    rows: Rows = 15,
    top: Top = 3,
    likelihood: dict[str, Any],
    events: dict[str, Any],
    console: Output,
) -> None:
    """Fit a tensor or a table of events, and print its largest classes in words.

    allocore fit icews/*.tab --freq month --budget 100 --out run.zarr

    allocore fit sales.csv --modes store,product,week --budget 20 --hold-out 0.01

    allocore fit icews/*.tab --budget 50 --quick --out run.zarr

    allocore fit icews/*.tab --model tucker --core-shape 20x20x6x3 --f0 1

    allocore fit icews/*.tab --budget 50 --start last_month.zarr --burn-in 100

    allocore fit icews/*.tab --budget 50 --exposure days --exposure sender=population.csv

    allocore fit icews/*.tab --budget 50 --seeds seeds.csv

    allocore fit icews/*.tab --budget 50 --freeze action=old_run.zarr --free action=5
    """
    whole_number("rows", rows), whole_number("top", top)
    if hold_out is None and (along is not None or hold_out_seed):
        name, value = ("along", along) if along is not None else ("hold_out_seed", hold_out_seed)
        raise InputError(name, value, "needs `hold_out`")
    whole_number("hold_out_seed", hold_out_seed, least=0)
    check_likelihood(likelihood["likelihood"], likelihood["dispersion_by"])
    chosen.check_likelihood(likelihood)
    weights = events.pop("weights", None)
    if weights and not chosen.has_chains:
        rule = "does not apply to nntuck: without priors, the estimated rates are the same with and without weights"
        raise InputError("exposure", weights[0], rule)
    exposures = exposures_given(weights)
    known_factors = KnownFactorsGiven.of(seeds, freeze, free, has_chains=chosen.has_chains)
    chosen.check_memory()
    check_cluster(cluster)
    goes_on = _goes_on(out, chosen) if resume_or_start else False
    if out is not None and not goes_on:
        from allocore.storage.run_writer import check_free

        check_free("out", out)  # before the data are read, not after
    Y, settings = settings_of(likelihood, read_data(data, events))
    if chosen.has_chains:  # "auto" may turn out to be a likelihood without some of the priors
        known = likelihood_for(likelihood["likelihood"], Y.max, likelihood["dispersion_by"])
        chosen.check_likelihood({**likelihood, "likelihood": known})
    before = _size_of(out) if out is not None and goes_on else None
    print_data(console, Y, binary=likelihood["binary"])
    modes = known_factors.add_to(modes_with(exposures, Y), Y)
    model = chosen.estimator(settings, seed=seed, threads=threads, **({"modes": modes} if modes else {}))
    with ExitStack() as stack:
        to_fit: ac.CountTensor | ac.Split = Y
        if hold_out is not None:
            how = hold_out, -1 if along is None else mode_given(along, Y.mode_names), hold_out_seed
            to_fit = _held_out(Y, how, out, console, stack)
        _fit_and_save(model, to_fit, out, start, cluster, goes_on=goes_on)
        print_classes(console, model.posterior_, rows, top)
        if isinstance(model, ac.NNTuck):
            _print_starts(console, model)
        _print_run(console, model.posterior_, out, before)
    exit_if_stopped(_is_complete(model))


def _held_out(
    Y: "ac.CountTensor", how: tuple[float, int | str, int], out: Path | None, console: Output, stack: ExitStack
) -> "ac.Split":
    """Hold out cells. The training tensor of a tensor in shards is next to the run, or it is temporary."""
    if not isinstance(Y, ac.ShardedTensor):
        return ac.hold_out(Y, *how)
    if out is None:
        return ac.hold_out(Y, *how, out=stack.enter_context(temporary_folder(Y.scratch / "fit")) / "train.zarr")
    train = out.with_suffix(".train.zarr")
    if not train.exists():
        split = ac.hold_out(Y, *how, out=train)
        console.wrote(train, f"Training tensor, which the run needs, written to {train}")
        return split
    # A fit that was stopped or failed has written it.
    again = ac.hold_out(Y, *how, out=stack.enter_context(temporary_folder(train)) / "train.zarr")
    if fingerprint(ac.load_tensor(train)) != fingerprint(again.train):
        rule = f"must be another path: {train} is not the training tensor of these data and options"
        raise InputError("out", str(out), rule)
    return ac.Split(ac.load_tensor(train), again.test)


def _goes_on(out: Path | None, chosen: ChosenModel) -> bool:
    """Whether a fit with --resume-or-start finds a run that it continues."""
    if out is None:
        raise InputError("resume", True, "needs `out`")
    if not chosen.has_chains:
        raise InputError("resume", True, f"needs a model with chains, and {chosen.name} has none")
    if chosen.settings.get("quick"):
        raise InputError("resume", True, "must be left out with `quick`")
    return out.exists()


def _print_run(console: Output, posterior: "ac.Posterior", path: Path | None, before: dict[str, int] | None) -> None:
    """Print how well a run predicts its held-out cells, and where it is; `before` is its size when it went on."""
    from allocore.report.objects import evaluation_object, run_object
    from allocore.report.terminal import print_held_out

    if posterior.held_out is not None and posterior.core_values.shape[1]:
        console.keep(evaluation=evaluation_object(posterior.evaluate(brief=True)))
    console.keep(run=run_object(posterior))
    print_held_out(console, posterior)
    console.print()
    if path is None:
        console.print(Text(f"Seed {posterior.seed}. The fit was not saved. Use --out run.zarr to save it."))
    elif before is not None and posterior.finished and _size_of(path) == before:
        size = f"{plural(before['chain'], 'chain')}, {plural(before['draw'], 'draw')} each"
        more_of = "To extend it, use allocore resume with a larger --draws, --sweeps or --chains."
        console.print(Text(f"This run is already complete ({size}). {more_of}"))
    else:
        console.wrote(path, f"Seed {posterior.seed}. Run written to {path}")


def _fit_and_save(
    model: Any,
    Y: "ac.CountTensor | ac.Split",
    out: Path | None,
    start: Path | None,
    cluster: str | None,
    *,
    goes_on: bool,
) -> None:
    """Fit a model and save it: chains while they run, and the estimate of NNTuck at the end."""
    if isinstance(model, ac.NNTuck):
        for name, value in (("start", start), ("cluster", cluster)):
            if value is not None:
                raise InputError(name, str(value), "needs a model with chains, and nntuck has none")
        with explaining_stops(None):
            model.fit(Y)
        if out is not None:
            model.posterior_.save(out)
    else:
        with explaining_stops(out), cluster_of(cluster) as executor:
            started = None if start is None else ac.open_run(start)
            model.set_params(store=out, executor=executor).fit(Y, start=started, resume=goes_on)


def _is_complete(model: Any) -> bool:
    if not isinstance(model, ac.NNTuck):
        return bool(model.posterior_.finished)
    ended = model.restarts_["converged"] | (model.restarts_["iterations"] == model.max_iter)
    return bool(ended.all()) and len(ended) == model.restarts


@app.command()
@takes_output
def resume(
    *,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that allocore fit --out wrote.")],
    draws: Annotated[
        int | None, typer.Option(help="Total number of draws. A larger number than planned extends the run.")
    ] = None,
    sweeps: Annotated[
        int | None,
        typer.Option(
            help="Total number of sweeps, for chains that have not settled. The sweeps planned so far become burn-in, "
            "and later draws replace theirs."
        ),
    ] = None,
    chains: Annotated[
        str | None,
        typer.Option(help="Total number of chains. A larger number than planned adds chains. Or 'auto', as in fit."),
    ] = None,
    max_time: Annotated[float | None, typer.Option(help="Stop the run again after this many seconds.")] = None,
    threads: Threads = None,
    cluster: Cluster = None,
    on_error: OnError = "raise",
    rows: Rows = 15,
    top: Top = 3,
    console: Output,
) -> None:
    """Continue a run that was stopped or killed, or extend it. The draws are the same as if it had never stopped.

    Works for allocore, cp and tucker. NNTuck has no chains: fit it again.

    allocore resume run.zarr --draws 400
    """
    from allocore.estimators import model_of

    whole_number("rows", rows), whole_number("top", top)
    before = _size_of(run)
    with explaining_stops(run), cluster_of(cluster) as executor:
        options: dict[str, Any] = {"threads": threads, "executor": executor, "on_error": on_error}
        more: Any = None if chains is None else number_or_auto("chains", chains)
        model = model_of(run).resume(run, draws=draws, sweeps=sweeps, chains=more, max_time=max_time, **options)
    print_classes(console, model.posterior_, rows, top)
    _print_run(console, model.posterior_, run, before)
    exit_if_stopped(model.posterior_.finished)


def _size_of(run: Path) -> dict[str, int] | None:
    """Return how many chains, draws and sweeps a run has; None if it has to be repaired first."""
    from allocore.storage.run_reader import stored_sizes

    try:
        return stored_sizes(run)
    except StoreError:
        return None


def print_classes(console: Output, posterior: "ac.Posterior", rows: int, top: int) -> None:
    """Print the largest classes of a fit in words."""
    from allocore.report.objects import classes_object, diagnosis_object
    from allocore.report.terminal import class_report

    summary = posterior.class_summary()
    console.keep(classes=classes_object(summary, rows, top))
    if summary.is_consensus:
        console.keep(diagnosis=diagnosis_object(posterior.diagnose()))
    console.print()
    console.print(class_report(posterior, rows, top))


def _print_starts(console: Output, model: "ac.NNTuck") -> None:
    starts = model.restarts_
    console.keep(restarts=starts)
    number = f"{len(starts)} random start{'s' * (len(starts) > 1)}"
    console.print(
        f"\nMaximum likelihood, the best of {number}, {int(starts['converged'].sum())} of which converged: "
        f"log-likelihood [bold]{model.log_likelihood_:.2f}[/] after {model.n_iter_:,} iterations"
    )


@app.command(name="fold-in")
@takes_events_of_a_run
@takes_output
def fold_in(
    *,
    run: RunPath,
    data: DataPaths,
    mode: Annotated[
        str | None,
        typer.Option(
            help="The mode with new rows, by name or number; the last by default. Two, as in sender,receiver, for new "
            "nodes of a network."
        ),
    ] = None,
    absent: Annotated[
        str,
        typer.Option(
            help="How to read cells whose labels do not occur in DATA, in modes other than --mode: as 'zero' or as "
            "'missing'."
        ),
    ] = "zero",
    new_labels: Annotated[
        str,
        typer.Option(help="What to do with labels that RUN lacks, in modes other than --mode: 'error' or 'drop'."),
    ] = "error",
    binary: Binary = False,
    exposure: ExposureOfRows = None,
    sweeps: Annotated[int, typer.Option(help="Gibbs sweeps for each draw.")] = SWEEPS_OF_NEW_ROWS,
    seed: Annotated[int | None, typer.Option(help="The random seed; that of the run by default.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Save the new rows to this folder, which must not exist yet. It can be used like a run."),
    ] = None,
    rows: Rows = 15,
    surprises: Annotated[int, typer.Option(help="Number of surprising cells to print.")] = 10,
    events: dict[str, Any],
    console: Output,
) -> None:
    """Fold new rows, such as a new month, into a run, and print their classes and surprising cells.

    The classes and all other factors stay fixed. A table of events is read with the modes, columns and conditions of
    the run; options given here override them.

    allocore fold-in run.zarr april.tab --mode month --out april.zarr
    """
    whole_number("rows", rows), whole_number("surprises", surprises, least=0), whole_number("sweeps", sweeps)
    if out is not None:
        from allocore.storage.run_writer import check_free

        check_free("out", out)  # before the data are read, not after
    weights = None if exposure is None else exposure_in(exposure)
    posterior = ac.open_run(run)
    along = _modes_of_new_rows(mode, posterior.tensor)
    Y = read_as_in(posterior.tensor, data, events)
    Y = Y.binarize() if binary else Y
    how: dict[str, Any] = {"absent": absent, "new_labels": new_labels, "exposure": weights}
    folded = posterior.fold_in(Y, along, sweeps=sweeps, seed=seed, **how)
    print_data(console, folded.tensor, binary=binary)
    from allocore.report.objects import new_rows_object
    from allocore.report.terminal import new_rows_report

    table = folded.surprises(top=surprises) if surprises else None
    console.keep(shares=new_rows_object(posterior, folded, rows), surprises=table)
    console.print()
    console.print(new_rows_report(posterior, folded, rows, table))
    if out is not None:
        folded.save(out)
        console.wrote(out, f"New rows written to {out}. Use it like a run with summary, report, figures and predict.")


def _modes_of_new_rows(mode: str | None, tensor: ac.CountTensor) -> list[int] | int:
    if mode is None:
        return -1
    names = [mode] if mode in tensor.mode_names else mode.split(",")
    found = [tensor.mode(mode_given(name, tensor.mode_names)) for name in names]
    return found if len(found) > 1 else found[0]
