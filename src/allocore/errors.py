"""The exceptions: for wrong input, for a run on disk, for a model that was not fitted; and the commonest check."""

import operator
import sys

import numpy as np


class InputError(ValueError):
    """A value given by the user breaks a rule; the message names the argument, the value and the rule.

    Examples
    --------
    >>> import allocore as ac
    >>> try:
    ...     ac.CountTensor([[0], [0]], [-1])
    ... except ac.InputError as error:
    ...     print(error)
    counts must not be negative; got -1 at position 0
    """


class StoreError(OSError):
    """A run on disk cannot be written, read or continued; the message says why, and what is safe.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import allocore as ac
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "run.zarr"
    ...     model = ac.CP(2, burn_in=1, draws=1, thin=1, seed=0, store=path).fit(ac.load_flights())
    ...     _ = (path / ".zattrs").write_text("damaged")
    ...     try:
    ...         ac.open_run(path)
    ...     except ac.StoreError as error:
    ...         print(str(error).partition("run.zarr ")[2])
    is damaged: its attributes (.zattrs) cannot be read: ...
    """


class NotFittedError(ValueError, AttributeError):
    """A result was asked for before `fit`; scikit-learn's class of this name takes its place where it is loaded."""


class NotInModelError(InputError, AttributeError):
    """A result was asked for that this model does not have. `hasattr` is then False, and `getattr` takes a default."""


def whole_number(name: str, value: object, shown: object = None, least: int = 1) -> int:
    """`value` as an int of at least `least`, or an error that names the argument and what is `shown` of it."""
    subject, shown = ("it", value) if shown is None else ("every entry", shown)
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if isinstance(value, bool | np.bool) or number < least:
        raise InputError(f"{name} is {shown!r}, but {subject} must be a whole number of at least {least}")
    return number


def not_fitted(message: str) -> Exception:
    """The error for a result that needs `fit` first: what users of scikit-learn catch, if they use it."""
    # Whoever can name scikit-learn's class has loaded it, so there is never a need to import it here.
    exceptions = sys.modules.get("sklearn.exceptions")
    kind: type[Exception] = exceptions.NotFittedError if exceptions else NotFittedError
    return kind(message)
