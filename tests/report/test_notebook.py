"""A posterior, a consensus and a model in a notebook: tables of classes, in which every label is text."""

from html import escape
from html.parser import HTMLParser

import numpy as np
import pytest

import allocore as ac
from allocore.classes.names import APART
from support.consensus_cases import consensus, with_summary
from support.handmade_posterior import COUNTRIES, MONTHS, NAMES, posterior

TAGS = {"p", "b", "br", "i", "table", "caption", "thead", "tbody", "tr", "th", "td", "bdi", "code", "strong"}


class Reader(HTMLParser):
    """The rows of a table, and every tag."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.rows = [], []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data):
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


@pytest.mark.parametrize("shown", [consensus, lambda: consensus().consensus()], ids=["posterior", "consensus"])
def test_the_consensus_has_shares_with_intervals_support_and_names(shown):
    html = shown()._repr_html_()
    head, first, *_ = Reader(html).rows
    assert head == ["class", "share", "chains", "name", *NAMES]
    assert first == [
        "7",
        "40.0% (35.0-45.0)",
        "4 of 4",
        "United States → Iraq · Fight · 2003-03 to 2003-04",
        "United States 90%, Singapore 10%, shared with 3 (0.92)",
        "Iraq 80%, France 20%, shared with 0",
        "Fight 70%, Consult 30%",
        "2003-03 to 2003-04 (90%), shared with 3",
    ]
    assert "<caption>Consensus of 4 chains, 12 draws</caption>" in html
    assert "4 classes occur in at least 2 of 4 chains." in html


def test_a_posterior_answers_the_three_questions_before_it_lists_classes():
    post = posterior()
    html = post._repr_html_()
    for answer in post.diagnose().answers:
        assert html.index(escape(answer.question)) < html.index("<table>")
        assert escape(answer.sentence) in html


def test_small_or_weak_classes_stand_below_a_line():
    rows = Reader(consensus()._repr_html_()).rows
    assert [row[0] for row in rows] == ["class", "7", "0", "5", APART, "3"]


def test_one_draw_alone_has_no_support():
    html = posterior(draws=1)._repr_html_()
    head, first, *_ = Reader(html).rows
    assert head == ["class", "share", "name", *NAMES]
    assert first[:2] == ["0", "40.0%"]
    assert "<caption>Draw 0</caption>" in html
    assert "4 classes hold counts" in html


@pytest.mark.parametrize("draws", [1, 3])
def test_labels_and_names_in_a_notebook_are_text(draws):
    wicked = ("<script>alert(1)</script>", "'\"&", "<b>")
    html = posterior(labels=(COUNTRIES, COUNTRIES, wicked, MONTHS), draws=draws)._repr_html_()
    reader = Reader(html)
    assert set(reader.tags) <= TAGS
    column = [row[-2] for row in reader.rows[1:]]
    assert column[0].startswith("'\"& 70%, <script>alert(1)</script> 30%")


def test_the_name_of_a_class_cannot_break_out():
    post = with_summary(consensus(), names=("<img src=x onerror=alert(1)>", "</td></table>", "&amp;", "d"))
    for html in (post._repr_html_(), post.consensus()._repr_html_()):
        reader = Reader(html)
        assert set(reader.tags) <= TAGS
        names = [row[3] for row in reader.rows if len(row) > 1]
        assert names == ["name", "<img src=x onerror=alert(1)>", "&amp;", "d", "</td></table>"]


def test_more_classes_than_there_is_room_for_are_counted():
    classes = [(k % 2, k % 3, 0, k % 3) for k in range(6)] + [(k % 2, k % 3, 1, k % 3) for k in range(6)]
    html = posterior(classes=classes, values=range(12, 0, -1), draws=1)._repr_html_()
    assert len(Reader(html).rows) == 9
    assert "<p>and 4 more classes: <code>.show()</code></p>" in html


def test_a_factor_that_many_classes_share_names_three_of_them():
    classes = [(0, k % 3, k // 3, k % 3) for k in range(6)]
    first = Reader(posterior(classes=classes, values=range(6, 0, -1), draws=1)._repr_html_()).rows[1]
    assert first[3].endswith("shared with 1, 2, 3 and 2 more")


def test_a_notebook_says_of_a_run_without_draws_that_it_has_none():
    assert "no draws yet" in posterior(draws=0)._repr_html_()


def test_a_model_in_a_notebook_shows_its_settings_and_then_what_it_found():
    model = ac.AlloCore(2, burn_in=1, draws=2, thin=1, seed=1, progress=False, chains=1)
    assert "Not fitted yet" in model._repr_html_()
    assert "budget=2" in model._repr_html_()
    model.fit(ac.as_tensor(np.eye(3, dtype=int)))
    assert "Posterior: 1 chain of 2 draws" in model._repr_html_()
    assert escape(model.posterior_.diagnose().predictions.question) in model._repr_html_()
