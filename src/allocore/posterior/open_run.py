"""Opening a run on disk."""

import os
from pathlib import Path

from allocore.posterior.posterior import Posterior
from allocore.run.damage import OnError
from allocore.run.run_reader import read_record


def open_run(path: str | os.PathLike[str], *, on_error: OnError = "raise") -> Posterior:
    """Open a run on disk, finished or still running, with all draws saved so far.

    Parameters
    ----------
    path : str or path
        The folder that `store=`, `allocore fit --out` or `post.save` wrote.
    on_error : {"raise", "drop"}
        What to do about damaged draws: raise an error, or drop them and read the others.

    Returns
    -------
    Posterior
        The draws, of which those of a large run stay on disk. It does not follow a run that goes on; open the run
        again for newer draws.

    Examples
    --------
    >>> import tempfile
    >>> import allocore as ac
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/run.zarr"
    ...     model = ac.CP(3, burn_in=5, draws=4, thin=1, seed=1, store=path).fit(ac.load_flights())
    ...     ac.open_run(path)
    Posterior: 1 chain of 4 draws, 3 classes, core 3 x 3 x 3 x 3 x 3
    """
    folder = Path(path)
    return Posterior(read_record(folder, on_error=on_error), folder=folder)
