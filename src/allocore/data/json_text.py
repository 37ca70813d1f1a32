"""JSON that a stranger may have written: what cannot be parsed is an InputError, however it is broken."""

import json
from typing import Any

from allocore.errors import InputError


def parsed_json(text: str | bytes) -> Any:
    """Return the value of a JSON text. Very deep nesting and numbers with thousands of digits are refused."""
    try:
        return json.loads(text)
    except RecursionError:
        raise InputError("JSON with too many brackets inside one another") from None
    except ValueError as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise InputError(f"not JSON: {error}") from None
