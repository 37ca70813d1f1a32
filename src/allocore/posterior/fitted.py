"""What shows a run takes the posterior itself, the fitted model that has it, or the folder of the run on disk."""

import os
from typing import Protocol, TypeAlias

from allocore.errors import InputError
from allocore.posterior.open_run import open_run
from allocore.posterior.posterior import Posterior


class FittedModel(Protocol):
    """An estimator after `fit`."""

    posterior_: Posterior


Fitted: TypeAlias = Posterior | FittedModel | str | os.PathLike[str]


def as_posterior(given: Fitted, name: str = "post") -> Posterior:
    """The posterior of what is given; an error that names the argument if it has none.

    Examples
    --------
    >>> as_posterior(7)
    Traceback (most recent call last):
    allocore.errors.InputError: post is a int, but it must be a posterior, a fitted model or the path of a run
    """
    if isinstance(given, Posterior):
        return given
    if isinstance(given, str | os.PathLike):
        return open_run(given)
    # A model that is not fitted says so itself.
    found = given.posterior_ if hasattr(given, "fit") else None
    if not isinstance(found, Posterior):
        kind = type(given).__name__
        raise InputError(f"{name} is a {kind}, but it must be a posterior, a fitted model or the path of a run")
    return found
