"""The exceptions, and the checks that many functions share.

An error has its argument, value and rule as data, so programs and the command line can use them in their own words.
"""

import operator
import re
import sys
from collections.abc import Callable, Sequence
from os import PathLike, fspath
from typing import Any, Final

import numpy as np

_MOST_CHARACTERS = 200  # of a value in a sentence
_NAMED = re.compile(r"`(\w+)`")


class Described(str):
    """A value in words, for what is too long to print: "an array of shape (3,)"."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class _NoValue(Described):
    __slots__ = ()

    def __reduce__(self) -> str:  # the same object in every process
        return "NO_VALUE"


NO_VALUE: Final = _NoValue("")


class InputError(ValueError):
    """A value given by the user breaks a rule.

    Parameters
    ----------
    argument : str
        The argument, as Python spells it: "burn_in".
    value : object
        What was given. `Described` says it in words; `NO_VALUE` leaves it out of the sentence.
    rule : str
        What holds for the argument, from its verb on: "must be at least 1". Other arguments are in backquotes.

    Examples
    --------
    >>> import allocore as ac
    >>> try:
    ...     ac.AlloCore(budget=0).fit(ac.load_flights())
    ... except ac.InputError as error:
    ...     print(error)
    ...     print(error.argument, error.value)
    budget is 0, but it must be a whole number of at least 1
    budget 0
    """

    def __init__(self, argument: str, value: object = NO_VALUE, rule: str = "") -> None:
        super().__init__(argument, value, rule)
        self.argument, self.value, self.rule = argument, value, rule

    def sentence(self, name: Callable[[str], str] = str) -> str:
        """Return the error in one sentence.

        Parameters
        ----------
        name : callable
            Maps the name of an argument to what the sentence calls it; by default the name itself.

        Returns
        -------
        str

        Examples
        --------
        >>> import allocore as ac
        >>> ac.InputError("burn_in", -1, "must be at least 0").sentence(lambda name: "--" + name.replace("_", "-"))
        '--burn-in is -1, but it must be at least 0'
        """
        rule = _NAMED.sub(lambda found: name(found[1]), self.rule)
        subject = name(self.argument)
        if self.value is NO_VALUE:
            return f"{subject} {rule}".strip()
        return f"{subject} is {in_brief(self.value)}, but it {rule}"

    def __str__(self) -> str:
        return self.sentence()


class StoreError(OSError):
    """A file or a run on disk cannot be written, read or resumed.

    Parameters
    ----------
    path : path
        The file or folder.
    problem : str
        What is wrong with it, from its verb on: "is damaged: its attributes cannot be read".

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> import allocore as ac
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "run.zarr"
    ...     model = ac.CP(2, burn_in=1, draws=1, thin=1, chains=1, seed=0, store=path).fit(ac.load_flights())
    ...     _ = (path / ".zattrs").write_text("damaged")
    ...     try:
    ...         ac.open_run(path)
    ...     except ac.StoreError as error:
    ...         print(error.problem)
    is damaged: its attributes (.zattrs) cannot be read: ...
    """

    def __init__(self, path: str | PathLike[str], problem: str = "") -> None:
        super().__init__(f"{fspath(path)} {problem}".strip())
        self.path, self.problem = fspath(path), problem

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.problem)


class NotFittedError(ValueError, AttributeError):
    """A result was asked for before `fit`; scikit-learn's class of this name takes its place where it is loaded."""


class NotInModelError(InputError, AttributeError):
    """A result was asked for that this model does not have. `hasattr` is then False, and `getattr` takes a default."""


def in_brief(value: object) -> str:
    """Return a value as a sentence shows it, with its middle left out if it is long."""
    try:
        text = repr(value.item() if isinstance(value, np.generic) else value)
    except RecursionError:
        text = f"a {type(value).__name__} that is nested very deeply"
    half = _MOST_CHARACTERS // 2
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:half]} ... {text[-half:]}"


def check_choice(name: str, value: object, allowed: Sequence[str]) -> None:
    """Raise an InputError unless the value is one of those allowed."""
    if not isinstance(value, str) or value not in allowed:
        raise InputError(name, value, f"must be one of {', '.join(allowed)}")


def is_word(value: object, word: str) -> bool:
    """Return whether a value is this word; an array is not, whereas `array == word` has no truth value."""
    return isinstance(value, str) and value == word


def check_flags(**values: object) -> None:
    """Raise an InputError unless each of the named values is True or False."""
    for name, value in values.items():
        if not isinstance(value, bool | np.bool):
            raise InputError(name, value, "must be True or False")


def as_list(name: str, value: Any, rule: str) -> list[Any]:
    """Return the entries of a value; raises an InputError with this rule if it has no entries."""
    try:
        return list(value)
    except TypeError:
        raise InputError(name, value, rule) from None


def place_of(name: str, value: object, length: int) -> int:
    """Return a place among `length` things, such as chains or modes; negative numbers count from the end."""
    try:
        place = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        rule = "must be a whole number or 'best'" if name == "draw" else "must be a whole number"
        raise InputError(name, value, rule) from None
    if not -length <= place < length:
        raise InputError(name, value, f"must be from {-length} to {length - 1}: there are {length}")
    return place % length


def whole_number(name: str, value: object, shown: object = None, least: int = 1) -> int:
    """Return `value` as an int of at least `least`. Raises an error that names the argument."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if isinstance(value, bool | np.bool) or number < least:
        if shown is not None:
            raise InputError(name, shown, f"must have whole numbers of at least {least}")
        raise InputError(name, value, f"must be a whole number of at least {least}")
    return number


def not_fitted(message: str) -> Exception:
    """Return the error for a result that needs `fit` first; users of scikit-learn get the one that they catch."""
    # Whoever can name scikit-learn's class has loaded it, so there is never a need to import it here.
    exceptions = sys.modules.get("sklearn.exceptions")
    kind: type[Exception] = exceptions.NotFittedError if exceptions else NotFittedError
    return kind(message)


def reason_of(error: Exception) -> str:
    """Return what an error says, in few words."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
