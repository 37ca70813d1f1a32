"""The command warm-up: compile all kernels once, as part of an installation or of the image of a container."""

import subprocess
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from rich.text import Text

import allocore as ac
from allocore._text import plural
from allocore.cli.app import Output, app
from allocore.cli.options import Threads, takes_output
from allocore.errors import StoreError, whole_number
from allocore.model.spec import LikelihoodName
from allocore.progress import waiting

_SHORT: dict[str, Any] = {"burn_in": 4, "draws": 4, "thin": 1, "chains": 4, "seed": 0, "threads": 2, "progress": False}
_LIKELIHOODS: tuple[LikelihoodName, ...] = ("poisson", "negative-binomial", "bernoulli")
_MONTHS = [f"2003-{month:02}" for month in range(1, 13)]
_LONG = 2**16 + 1  # rows of a mode whose coordinates need four bytes


@app.command(name="warm-up")
@takes_output
def warm_up(*, threads: Threads = None, console: Output) -> None:
    """Compile all kernels in advance, so that no run has to wait, and print where they are cached.

    They are cached next to the package, or in the folder that NUMBA_CACHE_DIR names, for processors like this one.

    allocore warm-up --threads 4
    """
    from allocore.kernels.jit import kernel_folder
    from allocore.kernels.workers import available_threads

    processes = available_threads() if threads is None else whole_number("threads", threads)
    start, folder = perf_counter(), kernel_folder()
    if folder is None:
        raise StoreError(Path.cwd(), "cannot keep kernels: set NUMBA_CACHE_DIR to a folder that you may write to")
    first, *others = PARTS  # all share kernels with the first
    with waiting("compiling kernels") as set_news:
        _compile(first)
        with ThreadPoolExecutor(processes) as pool:
            for done, _ in enumerate(pool.map(_compile, others), 2):
                set_news(f"{done} of {len(PARTS)} parts are ready")
    kernels, seconds = len(list(folder.rglob("*.nbi"))), perf_counter() - start
    console.keep(folder=str(folder), kernels=kernels, seconds=round(seconds, 1))
    console.print(Text(f"{plural(kernels, 'kernel')} are ready in {folder}, after {seconds:.0f} s."))


def _compile(part: str) -> None:
    """Run a part in a process of its own: numba compiles one kernel at a time."""
    from allocore.kernels.jit import kernel_folder

    code = (
        f"from {__name__} import PARTS; PARTS[{part!r}]()\nfrom allocore.kernels import jit; print(jit.why_not_kept())"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    if done.stdout.strip():
        raise StoreError(kernel_folder() or Path.cwd(), f"cannot keep all kernels: {done.stdout.strip()}")


def run_part(part: str) -> None:
    """Run a part, and print why its kernels could not be kept, if so."""
    from allocore.kernels.jit import why_not_kept

    PARTS[part]()
    print(why_not_kept())


def _counts() -> ac.CountTensor:
    rng = np.random.default_rng(0)
    counts = rng.poisson(1.0, (6, 6, 12)) + 400 * (rng.random((6, 6, 12)) < 0.02)
    return ac.as_tensor(counts, mode_names=["who", "whom", "when"], labels=[None, None, _MONTHS])


def _likelihood(name: LikelihoodName) -> None:
    """Fit with a likelihood, with all that is learned besides, and look at the results."""
    warnings.simplefilter("ignore")
    Y = _counts().binarize() if name == "bernoulli" else _counts()
    split = ac.hold_out(Y, 0.1, seed=0)
    with TemporaryDirectory() as folder:
        store = Path(folder) / "run.zarr"
        post = ac.AlloCore(10, likelihood=name, e0="infer", store=store, **_SHORT).fit(split).posterior_
        _results(post, Y, Path(folder))
    ac.AlloCore("infer", max_budget=4, likelihood=name, **_SHORT).fit(Y)
    ac.AlloCore(40, likelihood=name, tied=(0, 1), **_SHORT).fit(Y.mask_diagonal((0, 1)))
    if name == "negative-binomial":
        ac.AlloCore(4, likelihood=name, dispersion_by="when", **_SHORT).fit(split.train)
    coords = np.array([[0, _LONG - 1], [1, 0], [2, 3]])
    ac.CP(2, likelihood=name, **_SHORT).fit(ac.CountTensor(coords, np.ones(2, dtype=int), (_LONG, 2, 4)))


def _results(post: "ac.Posterior", Y: ac.CountTensor, folder: Path) -> None:
    """Call what computes something from draws."""
    post.evaluate()
    post.diagnose()
    post.check(draws=40)
    post.surprises(top=2)
    post.predict([("0", None, None), ("0", "1", None)])
    post.fold_in(Y.select({"when": ["2003-12"]}), sweeps=2)
    post.forecast(2)
    ac.write_report(post, folder / "report.html")


def _em() -> None:
    """Fit the same model by maximum likelihood."""
    warnings.simplefilter("ignore")
    ac.NNTuck((2, 2, 2), restarts=1, max_iter=2, seed=0, progress=False).fit(ac.hold_out(_counts(), 0.1, seed=0))


PARTS: dict[str, Callable[[], None]] = {
    **{name: partial(_likelihood, name) for name in _LIKELIHOODS},
    "nntuck": _em,
}
