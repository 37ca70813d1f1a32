"""Every kind of finding has a sentence, and every sentence has a finding."""

import ast
import re
from string import Formatter

from allocore import findings
from support.source_code import SOURCE, syntax


def kinds():
    """The kinds that the package gives to findings as plain text."""
    for nodes in syntax().values():
        for node in nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding":
                kind = node.args[0] if node.args else next(each.value for each in node.keywords if each.arg == "kind")
                if isinstance(kind, ast.Constant):
                    yield kind.value


def test_every_kind_of_finding_has_a_sentence():
    found = set(kinds())
    assert len(found) > 20
    assert sorted(found - set(findings._WRITERS)) == []


def test_every_sentence_has_a_finding():
    texts = {
        node.value
        for path, nodes in syntax().items()
        if path != SOURCE / "findings.py"
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert sorted(findings._WRITERS.keys() - texts) == []


def test_every_warning_has_a_finding():
    plain = [
        (path.name, node.lineno)
        for path, nodes in syntax().items()
        if path != SOURCE / "findings.py"
        for node in nodes
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn"
    ]
    assert plain == []


TEMPLATES = {kind: text for kind, text in findings._WRITERS.items() if isinstance(text, str)}


def test_every_format_in_a_template_exists():
    specs = {(kind, spec) for kind, text in TEMPLATES.items() for _, name, spec, _ in Formatter().parse(text) if name}
    known = re.compile(r"count \w+|[^|]*\|[^|]*|,?(\.\d[gf%])?")
    assert {each for each in specs if each[1] not in findings._FORMATS and not known.fullmatch(each[1])} == set()


def test_small_errors_keep_their_digits():
    scores = {"baseline": "one rate", "log_ppd": -0.00512, "baseline_log_ppd": -0.00549}
    tiny = findings.Finding(
        "evaluation-better", "good", {**scores, "difference": 3.7e-4, "error": 2.1e-5, "intervals_off": False}
    )
    text = findings.sentence(tiny)
    assert all(number in text for number in ("-0.00512", "-0.00549", "0.00037", "2.1e-05"))
