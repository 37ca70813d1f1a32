"""Memberships, against sums over all cells of every draw, whose classes are known."""

from collections import Counter

import numpy as np
import pytest

import allocore as ac
from allocore.classes import memberships as memberships_module
from support.errors import refused
from support.findings import warned
from support.planted import SHAPE, A, B, C, D, posterior_of, shuffled, spike, steady_run

MISSING = [(d, d, None) for d in range(6)] + [(5, None, None), (0, 1, 2)]


def noisy(planted, rng):
    """A class like this one: another size, and other factors."""
    value, keys = planted
    return value * rng.gamma(20.0, 0.05), tuple(
        tuple((np.array(key) * rng.gamma(30.0, 1 / 30, len(key))).tolist()) for key in keys
    )


def sharing(classes, pairs, mode=0):
    """The same classes, some of them with the factor of another in one mode."""
    changed = list(classes)
    for one, other in pairs:
        value, keys = changed[one]
        changed[one] = value, (*keys[:mode], changed[other][1][mode], *keys[mode + 1 :])
    return changed


def by_brute_force(draws, mode, group_of, missing, weights=None):
    """Memberships from sums over all cells of whole tensors; `draws` lists (name of the class, class).

    `group_of` maps the names of consensus classes to communities. A class whose name is not in it is in that of the
    largest with the same factor.
    """
    observed = np.ones(SHAPE, dtype=bool)
    for pattern in missing:
        observed[tuple(slice(None) if each is None else each for each in pattern)] = False
    groups = sorted(set(group_of.values()))
    shares, mains = [], []
    for draw in draws:
        counts = {}
        for name, (value, keys) in draw:
            cells = value * np.einsum("i,j,k->ijk", *map(np.array, keys)) * observed
            if weights is not None:
                cells = cells * np.moveaxis(np.broadcast_to(weights, (*np.delete(SHAPE, mode), SHAPE[mode])), -1, mode)
            rows = cells.sum(axis=tuple(m for m in range(3) if m != mode))
            group = group_of.get(name)
            if group is None:
                same = [each for each in draw if each[1][1][mode] == keys[mode] and each[0] in group_of]
                # The largest by its expected counts in the observed cells.
                sizes = [
                    value * (np.einsum("i,j,k->ijk", *map(np.array, keys)) * observed).sum()
                    for _, (value, keys) in same
                ]
                group = group_of[same[int(np.argmax(sizes))][0]] if same else ("outside", keys[mode])
            counts[group] = counts.get(group, 0.0) + rows
        total = sum(counts.values())
        with np.errstate(invalid="ignore"):
            shares.append([np.where(total > 0, counts.get(group, 0.0 * total) / total, np.nan) for group in groups])
        mains.append(
            [max(counts, key=lambda each: counts[each][d]) if total[d] > 0 else None for d in range(SHAPE[mode])]
        )
    votes = [Counter(column) for column in zip(*mains, strict=True)]
    probability = np.array([[vote[group] / len(draws) for group in groups] for vote in votes])
    return groups, np.moveaxis(np.array(shares), -1, 1), probability


def planted_draws(rng, chains=3, draws=8):
    """Draws with the classes A to D, of which A and B share a sender, and a fifth that no consensus has."""
    found = []
    for chain in range(chains):
        of_chain = []
        for draw in range(draws):
            classes = sharing([noisy(each, rng) for each in (A, B, C, D)], [(1, 0)])
            # In some draws the fifth has a factor of C. In one, B has a factor of D, so it is no longer like B.
            fifth = 3.0, tuple(tuple(rng.dirichlet(np.full(length, 0.3)).tolist()) for length in SHAPE)
            if draw % 3 == 0:
                fifth = sharing([fifth, classes[2]], [(0, 1)])[0]
            changed = (chain, draw) == (0, 1)
            if changed:
                classes = sharing(classes, [(1, 3)], mode=1)
            of_chain.append(list(zip("A?CD?" if changed else "ABCD?", [*classes, fifth], strict=True)))
        found.append(of_chain)
    return found


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("missing", [[], MISSING], ids=["complete", "missing cells"])
def test_memberships_are_shares_of_the_expected_counts_of_each_draw(mode, missing):
    rng = np.random.default_rng(8)
    draws = planted_draws(rng)
    post = posterior_of(
        [[shuffled([each for _, each in draw], rng) for draw in of_chain] for of_chain in draws],
        SHAPE,
        missing=missing or None,
    )
    found = post.consensus()
    assert len(found.share) == 4, "the fifth class differs from draw to draw"
    last = [int(factor_D.argmax()) for factor_D in found.factors[2].T]  # A to D have their peaks in order
    factor_C = found.classes()[f"mode_{mode}_factor"].tolist()
    group_of = {name: factor_C[last.index(k)] for name, k in zip("ABCD", range(4), strict=True)}
    assert (group_of["A"] == group_of["B"]) == (mode == 0)
    groups, shares, probability = by_brute_force([each for chain in draws for each in chain], mode, group_of, missing)
    memberships = found.memberships(mode)
    order = [memberships.number.tolist().index(group) for group in groups]
    known = ~np.isnan(shares[0, :, 0])
    assert known.all() == (mode != 0 or not missing)
    np.testing.assert_allclose(memberships.share[:, order], shares.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(memberships.probability[:, order], np.where(known[:, None], probability, 0.0))
    low, high = np.quantile(shares, (0.05, 0.95), axis=0)
    np.testing.assert_allclose(memberships.low[:, order], low, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(memberships.high[:, order], high, rtol=1e-5, atol=1e-7)
    assert memberships.draws == 24


def test_memberships_count_the_weights_of_rows_as_the_data_do():
    rng, weights = np.random.default_rng(4), (1.0, 5.0, 0.2, 2.0)
    draws = [[[noisy(each, rng) for each in (A, B, C, D)] for _ in range(5)] for _ in range(2)]
    post = posterior_of(draws, SHAPE, missing=MISSING, exposures=((), (), weights))
    plain = posterior_of(draws, SHAPE, missing=MISSING)
    for mode in range(3):  # the weights are in the factors of the record already
        one, other = (each.consensus().memberships(mode) for each in (post, plain))
        np.testing.assert_allclose(one.share, other.share, rtol=1e-6)


def test_renumbering_classes_and_factors_changes_no_membership():
    chains = [[A, B, C, D], [A, B, C, D], [A, B, D, C]]
    one, other = (steady_run(*chains, seed=seed).memberships(0) for seed in (1, 2))
    np.testing.assert_allclose(one["share"], other["share"])
    assert one["name"].tolist() == other["name"].tolist()


def test_a_table_has_a_row_for_each_node_with_its_main_community():
    countries = ["Chad", "Cuba", "Fiji", "Iran", "Mali", "Togo"]
    post = steady_run([A, B, C], [A, B, C], labels=[countries, None, None], names=["sender", "receiver", "month"])
    table = post.memberships("sender")
    assert table.index.tolist() == countries
    assert table.index.name == "sender"
    assert table["community"].tolist() == [0, 0, 0, 2, 0, 0], "A and B are one community, by the lower of their numbers"
    assert table.loc["Chad", "name"].startswith("Chad")
    inside = 0.9 * 7 / (0.9 * 7 + 0.02 * 2)
    assert table.loc["Chad", ["share", "low", "high"]].tolist() == pytest.approx([inside] * 3)
    assert table.loc["Chad", "mixed"] == "0 99%"
    assert table.loc["Cuba", "mixed"] == "0 78%, 2 22%"
    assert (table["probability"] == 1.0).all()
    np.testing.assert_allclose(table["other"], 0.0, atol=1e-12)
    np.testing.assert_allclose(table.loc["Chad", "expected"], 0.9 * 7 + 0.02 * 2)
    assert table.attrs["source"] == "consensus of 2 chains, 8 draws"


def test_a_long_table_has_a_row_for_each_node_and_community():
    post = steady_run([A, B, C], [A, B, C], names=["share", "receiver", "month"])
    table = post.memberships("share", "shares")
    assert list(table.columns) == ["share", "community", "name", "probability", "share_", "low", "high"]
    assert table["share"].tolist() == [d for d in range(6) for _ in range(2)]
    np.testing.assert_allclose(table.groupby("share")["share_"].sum(), 1.0)
    nodes = post.memberships("share")
    assert list(nodes.reset_index().columns)[:5] == ["share", "community", "name", "probability", "share_"]
    with refused("what", "all", rule="one of nodes, shares, communities"):
        post.memberships("receiver", "all")
    with refused("mode", "when"):
        post.memberships("when")


def test_a_table_of_communities_has_their_sizes_nodes_and_classes():
    table = steady_run([A, B, C], [A, B, C]).memberships(0, "communities")
    assert table.index.tolist() == [0, 2]
    assert table["classes"].tolist() == [(0, 1), (2,)]
    assert table["share"].tolist() == pytest.approx([7 / 9, 2 / 9])
    assert table["nodes"].tolist() == [5, 1]


def test_a_node_without_observed_cells_has_no_community():
    table = steady_run([A, B, C], [A, B, C], missing=[(1, None, None)]).memberships(0)
    assert table["community"].isna().tolist() == [False, True] + [False] * 4
    assert table.loc[1, ["probability", "share", "low", "high", "other"]].isna().all()
    assert table.loc[1, ["name", "mixed"]].tolist() == ["", ""]
    assert table.loc[1, "expected"] == 0.0
    shares = steady_run([A, B, C], [A, B, C], missing=[(1, None, None)]).memberships(0, "shares")
    assert shares.loc[shares["mode_0"] == 1, "share"].isna().all()


def test_the_main_community_is_none_where_a_factor_outside_of_all_has_more():
    """Half of the draws of each chain have a class of their own that takes over the second node."""

    def taken_over(chain, draw):
        # No two draws have the same third class.
        place = 6 * chain + draw
        keys = spike(6, 1, 0.999), spike(6, place % 6), spike(4, place // 3)
        return [A, C, (20.0 if draw % 2 else 0.001, keys)]

    post = posterior_of([[taken_over(chain, draw) for draw in range(6)] for chain in range(2)], SHAPE)
    table = post.memberships(0)
    assert len(post.consensus().share) == 2
    assert table["probability"].tolist()[:2] == [1.0, 0.5]
    assert table["community"].tolist()[:2] == [0, 0]


def test_chains_without_a_common_class_have_no_communities():
    post = steady_run([A, B], [C, D])
    table = post.memberships(0)
    assert table["community"].isna().all()
    assert (table["other"] == 1.0).all()
    assert post.memberships(0, "shares").empty
    assert repr(post.consensus().memberships(0)) == (
        "Memberships of 6 nodes of mode_0 in 0 communities: consensus of 2 chains, 8 draws"
    )


def test_few_draws_are_kept_for_intervals_if_there_are_many_nodes(monkeypatch):
    whole = steady_run([A, B, C], [A, B, C], draws=20).memberships(0)
    monkeypatch.setattr(memberships_module, "_MOST_NUMBERS", 1)
    np.testing.assert_allclose(
        steady_run([A, B, C], [A, B, C], draws=20).memberships(0)["low"], whole["low"], rtol=1e-5
    )


def test_all_likelihoods_and_models_have_memberships():
    Y = ac.as_tensor(np.random.default_rng(0).poisson(2.0, (5, 4, 3)))
    settings = {"burn_in": 4, "draws": 4, "thin": 1, "chains": 2, "seed": 1, "progress": False}
    models = [
        ac.Tucker((2, 2, 2), **settings),
        ac.AlloCore(3, likelihood="negative-binomial", dispersion_by="mode_0", **settings),
        ac.CP(2, likelihood="bernoulli", **settings),
        ac.NNTuck((2, 2, 2), seed=0, restarts=1, max_iter=20),
    ]
    for model in models:
        post = model.fit(Y.binarize() if isinstance(model, ac.CP) else Y).posterior_
        table = post.memberships(0)
        np.testing.assert_allclose(
            post.memberships(0, "shares").groupby("mode_0")["share"].sum() + table["other"].to_numpy(), 1.0
        )


def test_tied_modes_have_one_membership_over_both_roles():
    """Three classes between two communities, which are senders in some and receivers in others."""
    north, south, late = spike(6, 0, 0.6), spike(6, 4, 0.7), [spike(4, month) for month in range(3)]
    planted = [(4.0, (north, south, late[0])), (3.0, (south, north, late[1])), (2.0, (north, north, late[2]))]
    missing = [(d, d, None) for d in range(6)]
    post = posterior_of([[planted] * 4] * 2, SHAPE, missing=missing, tied=(0, 1))
    found = post.consensus()
    factors = found.classes().set_index("name")[["mode_0_factor", "mode_1_factor"]].to_numpy()
    assert factors.tolist() == [[0, 1], [1, 0], [0, 0]], "a factor has the lowest number of its classes in either role"
    memberships = found.memberships(1)
    assert memberships is found.memberships(0)
    assert memberships.roles == ("mode_0", "mode_1")
    assert memberships.classes == ((0, 1, 2), (0, 1))
    observed = ~np.eye(6, dtype=bool)
    expected = np.zeros((2, 6))
    for (value, (one, other, when)), (g, h) in zip(planted, factors, strict=True):
        cells = value * sum(when) * np.outer(one, other) * observed
        expected[g] += cells.sum(axis=1)
        expected[h] += cells.sum(axis=0)
    np.testing.assert_allclose(memberships.share, (expected / expected.sum(axis=0)).T)
    np.testing.assert_allclose(memberships.expected, expected.sum(axis=0))


def test_tied_communities_are_found_again_in_the_folder_of_a_run(tmp_path):
    Y = ac.as_tensor(np.random.default_rng(0).poisson(2.0, (6, 6, 3))).mask_diagonal()
    settings = {"burn_in": 4, "draws": 4, "thin": 1, "chains": 2, "seed": 1, "progress": False}
    post = ac.CP(2, likelihood="poisson", tied=(0, 1), store=tmp_path / "run.zarr", **settings).fit(Y).posterior_
    first, again = (each.consensus(progress=False) for each in (post, ac.open_run(tmp_path / "run.zarr")))
    np.testing.assert_array_equal(again.estimates.roles, first.estimates.roles)
    np.testing.assert_allclose(np.diag(first.estimates.roles), 1.0, err_msg="both roles of a CP class are one factor")
    np.testing.assert_array_equal(again.summary.location_CM[:, 0], again.summary.location_CM[:, 1])
    arrays = dict(np.load(tmp_path / "run.zarr" / "consensus.npz"))
    np.savez(tmp_path / "run.zarr" / "consensus.npz", **{n: a for n, a in arrays.items() if n != "sharing_roles"})
    with warned("consensus-not-read"):
        ac.open_run(tmp_path / "run.zarr").consensus(progress=False)
