"""The one exception for what a user can get wrong."""


class InputError(ValueError):
    """A value given by the user breaks a rule; the message names the argument, the value and the rule."""
