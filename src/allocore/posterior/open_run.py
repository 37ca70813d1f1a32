"""Opening a run that lies on disk."""

import os
from pathlib import Path

from allocore.posterior.posterior import Posterior
from allocore.run.run_reader import OnError, read_record


def open_run(path: str | os.PathLike[str], *, on_error: OnError = "raise") -> Posterior:
    """The posterior of a run on disk, finished or still going: all draws that are saved so far.

    Parameters
    ----------
    path
        The folder that `store=`, `allocore fit --out` or `post.save` wrote.
    on_error
        What to do about draws that are damaged: "raise" an error, or "drop" them and read the others.

    Examples
    --------
    >>> import allocore as ac, tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "run.zarr"
    ...     model = ac.CP(3, burn_in=5, draws=4, thin=1, seed=1, store=path).fit(ac.load_flights())
    ...     ac.open_run(path)
    Posterior: 1 chain of 4 draws, 3 classes, core 3 x 3 x 3 x 3 x 3
    """
    return Posterior(read_record(Path(path), on_error=on_error))
