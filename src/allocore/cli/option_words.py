"""Messages in the words of the command line: `--modes source,target`, where Python says `modes=["source", "target"]`.

The library names arguments as Python does. What the command line prints goes through `in_options`: errors and warnings
as they are told, and sentences as `OptionConsole` prints them. Tables and labels are printed as they are, but for the
notes of the report on events.
"""

import ast
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rich.console import Group
from rich.text import Text

from allocore.data.safe_console import SafeConsole

# Arguments of the library that the command line calls otherwise.
_ALIASES = {
    "source": "DATA",
    "Y": "DATA",
    "Y_new": "DATA",
    "test": "TEST",
    "fraction": "--hold-out",
    "store": "--out",
    "path": "RUN",
    "rank": "--budget",
    "executor": "--cluster",
    "number": "--class",
}
_ALIASES_OF = {
    "fit": {"path": "--start"},
    "fold-in": {"like": "RUN"},
    "forecast": {"Y_future": "--against", "test": "--against"},
}
# What only Python can do, and what the command line has for it.
_PHRASES = {
    r"give modes, a dict from the modes of like to columns": "give a column for each of them, --modes MODE=COLUMN,..",
    r"pass test, or fit a split, model\.fit\([^)]*\)\), or with allocore fit": "give TEST, or fit with allocore fit",
    r"\(ac\.hold_out\), or pass ": "(allocore fit --hold-out), or give ",
    r"with ac\.hold_out and pass split\.test": "with allocore fit --hold-out",
    r"ac\.read_events\(\.\.\., like=post\.tensor, new_labels='drop'\) reads .*?, and Y_new\.select leaves rows out": (
        "leave these rows out; a table of events leaves them out with --new-labels drop"
    ),
    r"Y\.binary\(\), or --binary on the command line,": "--binary",
    r"ac\.open_run reads it": "allocore info describes it",
    r"post\.evaluate\(\) takes": "allocore evaluate takes",
    r"leave (it|them) out with post\.select_chains, or run longer": "run longer",
    r"leave (it|them) out, or run longer": "run longer",
    r"\(Y\.select\)": "(--where leaves rows out)",
    r" \(Y\.with_labels renames them\)": "",
    r", or resume in Python": "",
    r"the same call with": "the same command with",
    r"\bpass (?=[a-z_]+=)": "give ",
    r"\(dispersion_by\)": "(--dispersion-by)",
    r"\blike(?=,? (?:does not have|was made|the tensor|which decides|the diagonal|has ))": "--like",
}
_PHRASES_OF = {
    "fold-in": {r"new_labels='append' appends them, 'drop' drops their rows": "--new-labels drop drops their rows"},
}
_BOTH = re.compile(r"""\b[a-z_]\w*=(?:\[[^\]]*\]|"[^"]*"|'[^']*'|\S*) \(((?:--|allocore )[^)]*)\)""")
_QUOTED = r"""'[^']*'|"[^"]*"|\[[^\]]*\]|\([^)]*\)|-?[\w.]*\w"""
# What is the user's own, whatever it looks like: paths, and quoted texts with an equals sign, such as conditions.
_OWN = re.compile(
    r"""(?<![\w=])"[^"]*=[^"]*"|(?<![\w=])'[^']*=[^']*'|[^\s'"(]*[/\\][^\s'"]*|(?<=columns are )[^;.()]*"""
)
# A mode may have the name of an argument: "source has 2 labels that .." is about a mode.
_VERBS = r"(?= (?:is|must|needs|cannot|was|names|has(?! (?:[\d,]+ |such )?labels)|\())"


class _Names:
    """How the arguments of a command are called: those of the command that runs, and of all others."""

    of_commands: Mapping[str, Mapping[str, str]] = {}
    running: str | None = None

    @classmethod
    def known(cls) -> dict[str, str]:
        names = {name: option for each in cls.of_commands.values() for name, option in each.items()}
        own = cls.of_commands.get(cls.running or "", {})
        return {**names, **_ALIASES, **own, **_ALIASES_OF.get(cls.running or "", {})}


def learn_names(command: Any) -> None:
    """Take the names of all options and arguments from the command line itself."""
    _Names.of_commands = {
        name: {each.name: _shown(each) for each in one.params if each.name != "help"}
        for name, one in command.commands.items()
    }


def now_running(command: str | None) -> None:
    """Remember which command runs: an argument may be called otherwise in another."""
    _Names.running = command


def _shown(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper()).strip("[]").partition(".")[0]
    return str(parameter.opts[0])


def in_options(message: str) -> str:
    """Return a message that names options of the command line instead of arguments in Python."""
    told = message
    for pattern, replacement in (*_rules(), *_rules_for_errors()):
        for found in _found(pattern, told):
            told = told[: found.start()] + _replaced(found, replacement) + told[found.end() :]
    return told


def _found(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    """Return what a rule finds, last first, without what begins in a text of the user's."""
    own = [match.span() for match in _OWN.finditer(text)]
    found = [each for each in pattern.finditer(text) if not any(a <= each.start() < b for a, b in own)]
    return found[::-1]


_Replacement = str | Callable[[re.Match[str]], str]
_Rules = Iterable[tuple[re.Pattern[str], _Replacement]]


def _replaced(found: re.Match[str], replacement: _Replacement) -> str:
    return found.expand(replacement) if isinstance(replacement, str) else replacement(found)


def _rules() -> _Rules:
    """Yield rules that are safe in any sentence: what they replace is Python."""
    names = _Names.known()
    yield _BOTH, r"\1"  # where a message has both, the option alone
    for pattern, replacement in (_PHRASES_OF.get(_Names.running or "", {}) | _PHRASES).items():
        yield re.compile(pattern), replacement.replace("--like", names.get("like", "--like"))
    either = _any_of(names)
    yield re.compile(rf"(?<![\w.-])({either})=({_QUOTED})?"), lambda found: _option(names[found[1]], found[2])


def _rules_for_errors() -> _Rules:
    """Yield rules for errors, which begin with an argument and may name others: then these are no common words."""
    names = _Names.known()
    either, underscored = _any_of(names), _any_of(name for name in names if "_" in name)
    yield re.compile(rf"^((?:split \d+: )?)({either}){_VERBS}"), lambda found: found[1] + names[found[2]]
    yield re.compile(rf"(?<![\w.'\"-])({underscored})(?![\w='\"])"), lambda found: names[found[1]]
    yield re.compile(r"^(--[\w-]+(?: is)? )(\[[^\]]*\]|\([^)]*\))"), lambda found: found[1] + _value(found[2])


def _any_of(names: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, names), key=len, reverse=True))


def _option(name: str, value: str | None) -> str:
    if value is None or value == "True":
        return name
    return f"{name} {_value(value, ',' if name != '--core-shape' else 'x')}"


def _value(text: str, between: str | None = None) -> str:
    """Return a value as one types it: without quotes that a shell does not need, lists joined."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    if isinstance(value, list | tuple):
        numbers = bool(value) and all(isinstance(each, int) for each in value)
        joint = between or ("x" if numbers else ",")
        return joint.join("..." if each is ... else str(each) for each in value)
    return shlex.quote(value) if isinstance(value, str) else text


class OptionConsole(SafeConsole):
    """A console that prints sentences in the words of the command line."""

    def print(self, *objects: Any, **how: Any) -> None:
        """Print objects; those that are sentences, alone or in groups, name options."""
        super().print(*map(_told, objects), **how)


def _told(shown: Any) -> Any:
    if isinstance(shown, Group):
        return Group(*map(_told, shown.renderables), fit=shown.fit)
    return sentence_in_options(shown) if isinstance(shown, Text) else shown


def sentence_in_options(text: Text) -> Text:
    """Return a sentence with options in the place of arguments in Python; its other words and colours stay."""
    for pattern, replacement in _rules():
        for found in _found(pattern, text.plain):
            new = _replaced(found, replacement)
            text = text[: found.start()].append(new).append_text(text[found.end() :])
    return text
