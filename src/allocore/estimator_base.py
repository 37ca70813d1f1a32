"""What all estimators share: scikit-learn's conventions, and the checks of settings that every model has.

scikit-learn is never imported unless it asks for something itself.
"""

import secrets
from dataclasses import dataclass, fields
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Self

from allocore.errors import InputError, not_fitted, whole_number
from allocore.kernels.workers import available_threads

_MOST_THREADS = 1024


@dataclass(eq=False, repr=False)
class Estimator:
    """Base of all models: settings are read and changed by name, and shown in text and HTML."""

    _fitted: ClassVar[tuple[str, ...]] = ("posterior_",)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in self._fitted:
                raise not_fitted(f"this {type(self).__name__} has no {name} yet: call fit first")
            raise AttributeError(f"this {type(self).__name__} has no {name}")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name.

        Parameters
        ----------
        deep : bool, default=True
            Accepted for scikit-learn. It changes nothing, because no setting is itself an estimator.

        Returns
        -------
        dict
            Every setting and its value, as given to the constructor or to `set_params`.

        Examples
        --------
        >>> import allocore as ac
        >>> ac.AlloCore(budget=20).get_params()["budget"]
        20
        """
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def set_params(self, **params: Any) -> Self:
        """Change settings by name; they take effect at the next `fit`.

        Parameters
        ----------
        **params
            Settings and their new values. A name that is not a setting is an error, and then nothing is changed.

        Returns
        -------
        Self
            The same estimator.

        Examples
        --------
        >>> import allocore as ac
        >>> ac.AlloCore(budget=20).set_params(budget=30, seed=1)
        AlloCore(seed=1, budget=30)
        """
        known = [field.name for field in fields(self)]
        for name in params:
            if name not in known:
                raise InputError(f"{name!r} is not a setting of {type(self).__name__}; the settings are {known}")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def _forget_fit(self) -> None:
        for name in self._fitted:
            self.__dict__.pop(name, None)

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn, the only caller: counts of two or more modes in, no target."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=None,
            classifier_tags=None,
            regressor_tags=None,
            non_deterministic=getattr(self, "seed", None) is None,
            input_tags=InputTags(two_d_array=True, three_d_array=True, sparse=True, positive_only=True),
        )

    def _repr_html_(self) -> str:
        """Show the settings, and the posterior of a fitted model."""
        found = self.posterior_._repr_html_() if hasattr(self, "posterior_") else "<p>Not fitted yet.</p>"
        return f"<p><code>{escape(repr(self))}</code></p>{found}"

    def __repr__(self) -> str:
        texts = {field.name: (repr(getattr(self, field.name)), repr(field.default)) for field in fields(self)}
        changed = [f"{name}={value}" for name, (value, default) in texts.items() if value != default]
        return f"{type(self).__name__}({', '.join(changed)})"


def thread_number(threads: int | None) -> int:
    """Check a number of threads; None is all processors."""
    number = available_threads() if threads is None else whole_number("threads", threads)
    if number > _MOST_THREADS:
        raise InputError(f"threads is {number:,}, but it must be at most {_MOST_THREADS:,}")
    return number


def seed_number(seed: int | None) -> int:
    """Check a seed; None is a new one each time."""
    return secrets.randbits(32) if seed is None else whole_number("seed", seed, least=0)
