"""The table for a paper: the same contents in three formats, in which labels stay text."""

import re
from html.parser import HTMLParser

import pytest

import allocore as ac
from allocore.classes.names import APART
from support.consensus_cases import consensus
from support.errors import refused
from support.handmade_posterior import COUNTRIES, MONTHS, NAMES, posterior

WICKED = ("50% of $x_1 & more", "a|b *c* <i> {d} \\e ~^# &lt;", "plain")


def test_markdown_has_a_line_for_each_class_weak_ones_last_and_a_caption():
    head, rule, *rows, empty, caption = ac.paper_table(consensus(), top=1).splitlines()
    assert head == f"| class | share | chains | {' | '.join(NAMES)} |"
    assert rule.count("---") == rule.count("|") - 1
    assert [row.split("|")[1].strip() for row in rows] == ["7", "0", "5", "", "3"]
    assert APART in rows[3]
    assert rows[0].startswith("| 7 | 40.0% (35.0–45.0) | 4 of 4 | United States 90% |")
    assert empty == ""
    assert caption.startswith("Table: The 4 classes of the consensus of 4 chains, 12 draws")


def test_the_caption_counts_the_classes_that_are_left_out():
    assert "The 2 largest of 4 classes" in ac.paper_table(consensus(), rows=2)
    assert ac.paper_table(consensus(), caption="My classes").endswith("Table: My classes\n")


def test_latex_is_balanced_and_special_letters_are_escaped():
    text = ac.paper_table(posterior(labels=(COUNTRIES, COUNTRIES, WICKED, MONTHS)), "latex")
    assert text.count(r"\begin{") == text.count(r"\end{") == 2
    rows = [line for line in text.splitlines() if re.match(r"\d+ &", line)]
    assert len(rows) == 4
    # Every row has all columns: an ampersand of a label does not end one.
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {len(NAMES) + 2}
    assert r"50\% of \$x\_1 \& more" in text
    assert r"a\textbar{}b *c* \textless{}i\textgreater{}" in text
    assert r"\{d\} \textbackslash{}e \textasciitilde{}\textasciicircum{}\#" in text


class Cells(HTMLParser):
    """The cells of each row of a table."""

    def __init__(self, html):
        super().__init__()
        self.rows, self.tags = [], set()
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            assert "style" in dict(attributes), "Word keeps styles of cells only"
            self.rows[-1].append("")

    def handle_data(self, data):
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data.strip("\n")


def test_html_has_its_styles_in_the_cells_and_labels_as_text():
    found = Cells(ac.paper_table(posterior(labels=(COUNTRIES, COUNTRIES, WICKED, MONTHS)), "html"))
    assert found.tags <= {
        "html",
        "head",
        "meta",
        "title",
        "body",
        "p",
        "b",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
    }
    assert [len(row) for row in found.rows] == [len(NAMES) + 3] * 5
    assert any("a|b *c* <i>" in cell for row in found.rows for cell in row)


def test_markdown_escapes_what_would_begin_another_column():
    rows = ac.paper_table(posterior(labels=(COUNTRIES, COUNTRIES, WICKED, MONTHS))).splitlines()[2:6]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {len(NAMES) + 4}
    assert any(r"\&lt;" in row for row in rows)


@pytest.mark.parametrize("format", ["latex", "markdown", "html"])
def test_control_characters_of_labels_are_shown_as_text(format):
    wicked = ("\x1b]0;a\x07", "\u202eb\u2028", "c\x0b\x85d")
    text = ac.paper_table(posterior(labels=(COUNTRIES, COUNTRIES, wicked, MONTHS)), format)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e]", text)


@pytest.mark.parametrize("name", ["word", "docx"])
def test_another_format_is_refused(name):
    with refused("format", name, rule="latex, markdown, html"):
        ac.paper_table(consensus(), name)
