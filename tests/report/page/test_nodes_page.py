"""The nodes of a network on the page: who belongs to which community, and a view of each node."""

import numpy as np
import pytest

import allocore as ac
from allocore.report.page import nodes as nodes_module
from allocore.report.page.nodes import nodes_of
from allocore.report.page.payload import payload
from support.browser_tab import needs_browser
from support.handmade_posterior import COUNTRIES, MONTHS, posterior
from support.planted import posterior_of, spike
from support.shown_posteriors import chains_apart, retail_posterior, varied_posterior


def masked():
    """Two roles with communities of their own, and a missing diagonal."""
    return varied_posterior(masked=True)


def tied():
    """A community of France, which acts on that of the United States, and the latter within itself."""
    one, other = spike(5, 0), spike(5, 3)
    planted = [(40.0, (one, other, spike(12, 0))), (30.0, (other, other, spike(12, 3)))]
    missing = [*((d, d, None) for d in range(5)), (None, None, 11), (2, None, None), (None, 2, None)]
    names, labels = ("sender", "receiver", "month"), (COUNTRIES, COUNTRIES, MONTHS)
    return posterior_of([[planted] * 3] * 2, (5, 5, 12), missing=missing, tied=(0, 1), names=names, labels=labels)


def shown(post):
    return nodes_of(post, post.class_summary())


@pytest.mark.parametrize("make", [masked, tied])
def test_nodes_have_the_memberships_of_their_roles_the_largest_first(make):
    post = make()
    found = shown(post)
    groups = [post.consensus().memberships(mode) for mode in ("sender", "receiver")[: 1 + (make is masked)]]
    assert [each["roles"] for each in found["memberships"]] == [each.roles for each in groups]
    sizes = dict(zip(COUNTRIES, sum(each.expected for each in groups), strict=True))
    assert found["labels"] == sorted(COUNTRIES, key=lambda label: -sizes[label])
    for given, group in zip(found["memberships"], groups, strict=True):
        assert [each["number"] for each in given["communities"]] == group.number.tolist()
        assert [each["name"] for each in given["communities"]] == list(group.names)
        for label, node in zip(found["labels"], given["nodes"], strict=True):
            row, main = COUNTRIES.index(label), node["main"]
            assert (-1 if main is None else main) == group.main[row]
            for g, *values in node["mixed"]:
                expected = [group.share[row, g], group.low[row, g], group.high[row, g]]
                assert values == pytest.approx(expected, rel=1e-5)
            if main is not None:
                assert node["probability"] == pytest.approx(group.probability[row, main], rel=1e-5)


@pytest.mark.parametrize("make", [masked, tied])
def test_partners_and_times_are_sums_over_the_observed_cells(make):
    post = make()
    found, counts = shown(post), post.tensor.to_dense()
    time = post.tensor.ndim - 1
    assert found["time"] == time
    for mode, direction in enumerate(found["directions"]):
        role, other = ("sender", "receiver")[:: 1 - 2 * mode]
        assert direction["role"] == role
        pairs = counts.sum(axis=tuple(range(2, counts.ndim)))
        pairs = pairs.T if mode else pairs
        for label, partners in zip(found["labels"], direction["partners"], strict=True):
            row = COUNTRIES.index(label)
            assert sum(observed for _, observed, _ in partners) == pairs[row].sum()
            assert [observed for _, observed, _ in partners] == sorted(pairs[row][pairs[row] > 0], reverse=True)
            for partner, observed, expected in partners:
                assert observed == pairs[row, COUNTRIES.index(partner)]
                assert expected == pytest.approx(
                    post.predict({role: label, other: partner})["expected"].item(), rel=1e-5
                )
        by_time = counts.sum(axis=tuple(m for m in range(counts.ndim) if m not in (mode, time)))
        for place, label in enumerate(found["labels"]):
            observed, expected = (direction["times"][name][place] for name in ("observed", "expected"))
            for period, month in enumerate(MONTHS):
                if make is tied and (label == "Singapore" or period == 11):
                    assert observed[period] is expected[period] is None, "no cell is observed"
                else:
                    assert observed[period] == by_time[COUNTRIES.index(label), period]
                    table = post.predict({role: label, post.tensor.mode_names[time]: month})
                    assert expected[period] == pytest.approx(table["expected"].item(), rel=1e-5)


def test_undirected_ties_have_one_list_of_partners():
    counts = np.random.default_rng(3).poisson(1.0, (5, 5, 12))
    Y = ac.as_tensor(counts, mode_names=["a", "b", "month"], labels=[COUNTRIES, COUNTRIES, MONTHS])
    Y = Y.mask_diagonal().undirected(asymmetric="sum")
    settings = {"burn_in": 5, "draws": 2, "thin": 1, "chains": 2, "seed": 1, "progress": False}
    post = ac.CP(2, likelihood="poisson", tied=("a", "b"), **settings).fit(Y).posterior_
    (direction,) = shown(post)["directions"]
    dense = Y.to_dense()
    for label, partners, times in zip(
        shown(post)["labels"], direction["partners"], direction["times"]["observed"], strict=True
    ):
        row = COUNTRIES.index(label)
        assert {partner: observed for partner, observed, _ in partners} == {
            COUNTRIES[w]: count for w, count in enumerate(dense[row].sum(axis=1)) if count
        }
        assert times == dense[row].sum(axis=0).tolist()
        for partner, _, expected in partners:
            assert expected == pytest.approx(post.predict({"a": partner, "b": label})["expected"].item(), rel=1e-5)


def test_a_large_network_has_its_largest_nodes_without_partners_if_there_are_too_many_pairs(monkeypatch):
    post = tied()
    monkeypatch.setattr(nodes_module, "_MOST_NODES", 2)
    monkeypatch.setattr(nodes_module, "MOST_PAIRS", 24)
    found = shown(post)
    assert (found["number"], found["directions"]) == (5, [])
    assert found["labels"] == ["United States", "France"]


def test_single_draws_other_data_and_runs_without_classes_have_no_nodes():
    for post, draw in ((posterior(), "best"), (retail_posterior(), None), (chains_apart(), None)):
        assert payload(post, "Title", draw=draw)["nodes"] is None


@needs_browser
def test_the_table_of_nodes_can_be_sorted_and_filtered_and_leads_to_a_node(shared):
    seen, post = shared(tied), tied()
    page = seen.go("nodes")
    assert page.inner_text("#nav [aria-current]") == "Nodes"
    assert seen.cut_placeholders() == []
    kinds = "rows => rows.map(row => [...row.cells].map(each => each.className))"
    heads, *rows = page.eval_on_selector_all(".panel:first-of-type tr", kinds)
    assert "number" in heads
    assert all(row == heads for row in rows), "headings of numbers stand above them"
    table = post.memberships("sender", progress=False)
    by_size = table.sort_values("expected", ascending=False, kind="stable")
    assert seen.texts(".panel >> nth=0 >> tbody td:first-child") == by_size.index.tolist()
    first = seen.texts(".panel >> nth=0 >> tbody tr >> nth=0 >> td")
    assert first[1] == f"{by_size['community'].iloc[0]}: {by_size['name'].iloc[0]}"
    assert first[2:4] == [f"{by_size['probability'].iloc[0]:.0%}", f"{by_size['share'].iloc[0]:.1%}"]
    page.click(".panel >> nth=0 >> button:text-is('node')")
    assert seen.texts(".panel >> nth=0 >> tbody td:first-child") == sorted(COUNTRIES)
    number = table.loc["France", "community"]
    page.fill("#nodes", f"{number}: ")
    members = table.index[(table["community"] == number).fillna(value=False)].tolist()
    assert seen.texts(".panel >> nth=0 >> tbody td:first-child") == sorted(members)
    assert page.url.endswith(f"#/nodes?q={number}%3A")
    page.click(".panel >> nth=0 >> tbody a")
    page.wait_for_selector(f"h1 bdi:text-is('{min(members)}')")


@needs_browser
def test_a_node_has_its_communities_partners_and_times(shared):
    seen, post = shared(masked), masked()
    page = seen.go("nodes?node=United+States")
    assert seen.texts(".panel h2") == [
        "Its communities as sender",
        "Its communities as receiver",
        "Its largest partners as sender",
        "Its largest partners as receiver",
        "Over time as sender",
        "Over time as receiver",
    ]
    member = post.memberships("sender", progress=False).loc["United States"]
    (row,) = seen.texts(".panel >> nth=0 >> tbody tr")
    assert row.startswith(f"{member['community']}: {member['name']} {member['share']:.1%}")
    page.wait_for_selector(".panel >> nth=4 >> .chart svg")
    page.click(".panel >> nth=4 >> summary")
    page.wait_for_selector(".panel >> nth=4 >> tbody tr")
    counts = post.tensor.to_dense()[3].sum(axis=(0, 1))
    assert [row.split()[1] for row in seen.texts(".panel >> nth=4 >> tbody tr")] == [str(int(each)) for each in counts]
    page.click(".panel >> nth=0 >> tbody a")
    page.wait_for_selector("h1:has-text('Class')")


@needs_browser
def test_a_node_that_does_not_exist_is_not_found(shared):
    seen = shared(tied)
    seen.go("nodes?node=Atlantis")
    assert seen.texts("h1") == ["Not found"]


def test_expected_counts_are_left_out_where_every_cell_would_be_visited(monkeypatch):
    monkeypatch.setattr(nodes_module, "_MOST_VISITED", 10)
    post = tied()
    binary = posterior_of(
        [[[(1.0, (spike(5, 0), spike(5, 3), spike(12, 0))), (2.0, (spike(5, 3), spike(5, 0), spike(12, 4)))]] * 3] * 2,
        (5, 5, 12), tied=(0, 1), names=post.tensor.mode_names, labels=post.tensor.labels, likelihood="bernoulli",
        missing=[(d, d, None) for d in range(5)],
    )  # fmt: skip
    direction = shown(binary)["directions"][0]
    assert {expected for each in direction["partners"] for *_, expected in each} == {None}
    assert np.all([each is None for each in direction["times"]["expected"][0]])
