"""Every kind of finding has a sentence, and every sentence has a finding."""

import ast
import re
from pathlib import Path
from string import Formatter

import pytest

import allocore as ac
from allocore import findings

SOURCE = Path(ac.__file__).parent
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}
TEXTS = {
    node.value
    for path, tree in TREES.items()
    if path != SOURCE / "findings.py"
    for node in ast.walk(tree)
    if isinstance(node, ast.Constant) and isinstance(node.value, str)
}


def kinds():
    """The kinds that the package gives to findings as plain text."""
    for tree in TREES.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding":
                kind = node.args[0] if node.args else next(each.value for each in node.keywords if each.arg == "kind")
                if isinstance(kind, ast.Constant):
                    yield kind.value


def test_every_kind_of_finding_has_a_sentence():
    found = set(kinds())
    assert len(found) > 20
    assert sorted(found - set(findings._WRITERS)) == []


@pytest.mark.parametrize("kind", sorted(findings._WRITERS))
def test_every_sentence_has_a_finding(kind):
    assert kind in TEXTS


TEMPLATES = {kind: text for kind, text in findings._WRITERS.items() if isinstance(text, str)}


@pytest.mark.parametrize("kind", sorted(TEMPLATES))
def test_every_format_in_a_template_exists(kind):
    specs = {spec for _, name, spec, _ in Formatter().parse(TEMPLATES[kind]) if name}
    known = re.compile(r"count \w+|[^|]*\|[^|]*|,?(\.\d[gf%])?")
    assert {spec for spec in specs - set(findings._FORMATS) if not known.fullmatch(spec)} == set()
