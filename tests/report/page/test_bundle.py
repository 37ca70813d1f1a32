"""One script from ES modules: what it takes, in which order, and what it refuses."""

import re

import pytest

from allocore.report.page.page import bundle, modules

BOTH = {"b.js": "export const b = 1;", "c.js": "export const c = 2;"}


def order(script):
    return re.findall(r'^modules\["(.+)"\] =', script, re.MULTILINE)


def test_every_module_comes_once_and_after_those_that_it_imports():
    sources = {
        "app.js": 'import { d } from "./d.js";\nimport { b } from "./b.js";\nd(b);',
        "d.js": 'import {\n  b,\n} from "./b.js";\nexport function d() {}',
        "b.js": "export const b = 1;",
        "unused.js": "export const u = 1;",
    }
    assert order(bundle(sources, "app.js")) == ["b.js", "d.js", "app.js"]


def test_the_page_uses_all_of_its_modules():
    assert sorted(order(bundle(modules(), "app.js"))) == sorted(modules())


def test_nothing_of_import_and_export_is_left_and_the_script_cannot_end_its_element():
    script = bundle(modules(), "app.js")
    assert not re.search(r"^(import|export)\b", script, re.MULTILINE)
    assert "</script" not in script.lower()


def test_no_line_of_the_scripts_is_longer_than_120():
    found = [
        f"{name}:{n}"
        for name, text in modules().items()
        for n, line in enumerate(text.splitlines(), 1)
        if len(line) > 120
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('import { a } from "./a.js";', "a cycle: a.js -> a.js"),
        ('import { x } from "./x.js";', "a.js needs x.js, but there is no such module"),
        ('import { c } from "./b.js";', "a.js imports c from b.js, which does not export it"),
        ('import { b as one } from "./b.js";', "a form of import or export that is not supported"),
        ('import * as b from "./b.js";', "a form of import or export that is not supported"),
        ('import "./b.js";', "a form of import or export that is not supported"),
        ('const b = import("./b.js");', "a form of import or export that is not supported"),
        ("export let b = 1;", "a form of import or export that is not supported"),
        ("export default 1;", "a form of import or export that is not supported"),
        ("const b = 1;\nexport { b };", "a form of import or export that is not supported"),
    ],
)
def test_what_would_not_be_exact_is_refused(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        bundle({"a.js": text, **BOTH}, "a.js")


def test_a_longer_cycle_is_named_whole():
    sources = {"a.js": 'import { b } from "./b.js";', "b.js": 'import { a } from "./a.js";'}
    with pytest.raises(ValueError, match=re.escape("a.js -> b.js -> a.js")):
        bundle(sources, "a.js")


def test_lines_of_comments_are_left_out_and_addresses_stay():
    script = bundle({"a.js": '// says what it is\nexport const a = "https://x"; // here\n  // and why\n'}, "a.js")
    assert "says" not in script
    assert "and why" not in script
    assert 'const a = "https://x"; // here' in script
