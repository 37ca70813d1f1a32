"""What the text in a column means, in SQL: blanks around it are dropped, and some texts mean that there is none."""

from allocore.data.sql import literal

BLANKS = " \t\r\n\u00a0"
NOTHING = ("", "NA", "NULL", "None", "NaN", "nan", "--", "---")


def trimmed(text: str) -> str:
    """Return SQL for a text without blanks around it."""
    return f"trim({text}, {literal(BLANKS)})"


def meaning(text: str, strict: bool) -> str:
    """Return SQL that is NULL where a text means that there is no value; if `strict`, only empty text does."""
    nothing = NOTHING[:1] if strict else NOTHING
    return f"CASE WHEN {text} IN ({', '.join(literal(each) for each in nothing)}) THEN NULL ELSE {text} END"


def as_label(value: object) -> str:
    """Return the text that a value in a column of a frame has in `events`."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text.removesuffix(".0") if isinstance(value, float) else text.strip(BLANKS)
