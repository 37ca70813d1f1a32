"""How alike draws are: classes planted in some draws and not in others, under numbers that change from draw to draw."""

import numpy as np
import pytest

import allocore as ac
from allocore.classes import profiles
from allocore.model.spec import Spec
from allocore.results import Posterior
from allocore.storage.record import Record, Schedule

ROWS, BUDGET = 6, 5
# Factors that any mode may have: one letter, one heavy label.
LETTERS = {letter: np.eye(ROWS)[d] + 0.02 for d, letter in enumerate("abcdef")}


def at(degrees, towards=1):
    """A factor at an angle to the first label: the cosine of two of them is that of the angle between."""
    return np.cos(np.radians(degrees)) * np.eye(ROWS)[0] + np.sin(np.radians(degrees)) * np.eye(ROWS)[towards]


def draw(rng, classes, vocabulary):
    """Core values, locations and factors of one draw; every number of a class or a factor is random.

    A class is a word, with the name of one factor per mode; words with the same letter in a mode share the factor.
    Core values beyond the words' are at the locations of words again.
    """
    modes = len(classes[0])
    words = rng.permutation([classes[q % len(classes)] for q in range(BUDGET)])
    locations, factors = np.empty((BUDGET, modes), dtype=int), np.zeros((modes, ROWS, BUDGET))
    for mode in range(modes):
        names = sorted({word[mode] for word in words})
        columns = dict(zip(names, rng.permutation(BUDGET), strict=False))
        locations[:, mode] = [columns[word[mode]] for word in words]
        for name, column in columns.items():
            factors[mode, :, column] = vocabulary[name] * rng.gamma(5.0)
    return rng.gamma(5.0, size=BUDGET), locations, factors


def posterior_of_letters(chains, vocabulary=LETTERS, missing=(), seed=0):
    """A run given as words: a list of chains, each a list of draws, each a list of classes."""
    rng = np.random.default_rng(seed)
    values, locations, factors = zip(*(draw(rng, each, vocabulary) for chain in chains for each in chain), strict=True)
    lead, modes = (len(chains), len(chains[0])), len(chains[0][0][0])
    tensor = ac.as_tensor(np.ones((ROWS,) * modes, dtype=int)).with_missing(missing)
    return Posterior(
        Record(
            tensor,
            Spec(BUDGET, (BUDGET,) * modes),
            Schedule(0, lead[1], 1),
            seed,
            core_values=np.reshape(values, (*lead, BUDGET)),
            core_locations=np.reshape(locations, (*lead, BUDGET, modes)),
            factors=tuple(np.reshape([each[m] for each in factors], (*lead, ROWS, BUDGET)) for m in range(modes)),
            stats={
                "log_likelihood": np.zeros(lead),
                "classes": np.full(lead, BUDGET),
                "factors": np.full((*lead, modes), BUDGET),
            },
        )
    )


def told(post, column="stability", **place):
    """The stability of each class of a draw, by the word of its heaviest labels."""
    table = post.classes(**{"draw": -1, "top": 1, **place})
    tops = [table[f"{name}_top"].str.split().str[1].astype(int) for name in post.tensor.mode_names]
    words = ["".join("abcdef"[d] for d in row) for row in zip(*tops, strict=True)]
    return dict(zip(words, table[column].tolist(), strict=True))


# Shares of draws


def test_a_class_of_every_draw_is_fully_stable_whatever_its_number():
    post = posterior_of_letters([[["ab", "cd"]] * 5, [["ab", "cd"]] * 5])
    assert len({tuple(each) for each in post.core_locations[..., 0, :].reshape(-1, 2).tolist()}) > 3
    assert told(post) == {"ab": 1.0, "cd": 1.0}
    assert told(post, "stable_chains") == {"ab": 1.0, "cd": 1.0}


def test_a_class_of_the_reference_draw_alone_is_not_stable_at_all():
    post = posterior_of_letters([[["cd"], ["cd"], ["ab", "cd"]], [["cd"], ["cd"], ["cd"]]])
    assert told(post) == {"ab": 0.0, "cd": 1.0}
    assert told(post, "stable_chains") == {"ab": 0.0, "cd": 1.0}


def test_stability_is_the_share_of_the_other_draws_that_hold_the_class():
    post = posterior_of_letters([[["ab", "cd"], ["ab"], ["ef", "cd"], ["ab", "cd"], ["ab", "cd", "ef"]]])
    assert told(post) == {"ab": 0.75, "cd": 0.75, "ef": 0.25}
    assert told(post, draw=1) == {"ab": 0.75}
    assert told(post, draw=2) == {"cd": 0.75, "ef": 0.25}


def test_draws_of_all_chains_count_and_any_chain_may_hold_the_reference():
    post = posterior_of_letters([[["ab"], ["ab"]], [["ab", "ef"], ["cd", "ef"]]])
    assert told(post) == {"ab": pytest.approx(2 / 3)}
    assert told(post, chain=1) == {"cd": 0.0, "ef": pytest.approx(1 / 3)}


# Shares of chains


def test_a_chain_holds_a_class_if_at_least_half_of_its_draws_do():
    none, some, half, all_ = (
        [["ab"]] * 4,
        [["cd"]] + [["ab"]] * 3,
        [["cd"]] * 2 + [["ab"]] * 2,
        [["cd"]] * 4,
    )
    assert told(posterior_of_letters([all_, none, some, half]), "stable_chains") == {"cd": 0.5}
    assert told(posterior_of_letters([all_, all_, half, none]), "stable_chains") == {"cd": 0.75}
    assert told(posterior_of_letters([[["ab"]] * 3 + [["cd"]], all_, all_, all_]), "stable_chains") == {"cd": 0.75}, (
        "its own chain"
    )


def test_the_chain_of_the_reference_does_not_count_where_it_has_no_other_draw():
    post = posterior_of_letters([[["ab", "cd"]], [["ab"]], [["ab", "cd"]]])
    assert told(post) == told(post, "stable_chains") == {"ab": 1.0, "cd": 0.5}


def test_with_a_single_chain_nothing_is_known_of_chains():
    post = posterior_of_letters([[["ab"], ["ab"]]])
    assert told(post) == {"ab": 1.0}
    assert post.classes(-1)["stable_chains"].isna().all()


def test_with_a_single_draw_nothing_is_known():
    table = posterior_of_letters([[["ab", "cd"]]]).classes(-1)
    assert table["stability"].isna().all()
    assert table["stable_chains"].isna().all()


# What is alike


def test_classes_that_share_a_factor_are_kept_apart():
    post = posterior_of_letters([[["ab", "ac", "db"], ["ab", "ac"], ["ab", "db"], ["ab"]]], seed=3)
    assert told(post, draw=0) == {"ab": 1.0, "ac": pytest.approx(1 / 3), "db": pytest.approx(1 / 3)}


def test_the_same_factors_in_other_company_are_another_class():
    post = posterior_of_letters([[["ab", "cd"], ["ad", "cb"]]])
    assert told(post) == {"ad": 0.0, "cb": 0.0}


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_classes_that_differ_in_any_one_mode_are_not_alike(mode):
    other = "".join("f" if m == mode else letter for m, letter in enumerate("abc"))
    assert told(posterior_of_letters([[[other], ["abc"]]])) == {"abc": 0.0}


@pytest.mark.parametrize(("degrees", "share"), [(0, 1.0), (25, 1.0), (26, 0.0), (60, 0.0)])
def test_classes_are_alike_from_a_cosine_of_nine_tenths_on(degrees, share):
    """The cosine of 25 degrees is 0.906, that of 26 is 0.899."""
    post = posterior_of_letters([[["0x"], ["1x"]]], {"0": at(0), "1": at(degrees), "x": at(0)})
    assert post.classes(-1)["stability"].tolist() == [share]


def test_a_draw_in_which_two_classes_became_one_holds_one_of_them():
    vocabulary = {"0": at(0), "1": at(20), "m": at(4), "x": at(0)}
    post = posterior_of_letters([[["mx"]] * 3 + [["0x", "1x"]]], vocabulary)
    table = post.classes(-1)
    assert sorted(table["stability"]) == [0.0, 1.0]
    (nearer,) = table.loc[table["stability"] == 1.0, "mode_0_factor"]
    assert post.factors[0][0, -1, 1, nearer] == 0.0, "the one at 0 degrees"


def test_as_many_classes_as_possible_find_a_partner():
    """Class 0 is nearer to x than to y, but class 1 is like x alone: 0 takes y."""
    vocabulary = {"0": at(0), "1": at(25), "x": at(8), "y": at(22, towards=2), "-": at(0)}
    post = posterior_of_letters([[["x-", "y-"], ["0-", "1-"]]], vocabulary)
    assert post.classes(-1)["stability"].tolist() == [1.0, 1.0]


def test_a_like_pair_is_not_given_up_for_pairs_that_are_nearly_alike():
    """0 is like x (24 degrees); 0 and y, 1 and x are not quite (27 degrees), though their cosines add up to more."""
    vocabulary = {"0": at(24), "1": at(27, towards=2), "x": at(0), "y": at(51), "-": at(0)}
    table = posterior_of_letters([[["x-", "y-"], ["0-", "1-"]]], vocabulary).classes(-1, top=2)
    stability = dict(zip(table["mode_0_top"], table["stability"], strict=True))
    assert stability == {"mode_0 0 69%, mode_0 1 31%": 1.0, "mode_0 0 66%, mode_0 2 34%": 0.0}


def test_core_values_at_one_location_are_one_class():
    post = posterior_of_letters([[["ab", "cd"], ["ab", "cd"]]])
    assert len(post.classes(-1)) == 2
    assert told(post) == {"ab": 1.0, "cd": 1.0}


def test_rows_that_are_missing_as_a_whole_do_not_count():
    vocabulary = {"0": at(0), "1": at(0) + 3 * LETTERS["f"], "x": at(0)}
    chains = [[["0x"], ["1x"]]]
    assert posterior_of_letters(chains, vocabulary).classes(-1)["stability"].tolist() == [0.0]
    assert posterior_of_letters(chains, vocabulary, [(5, None)]).classes(-1)["stability"].tolist() == [1.0]
    assert posterior_of_letters(chains, vocabulary, [(5, 5), (None, 5)]).classes(-1)["stability"].tolist() == [0.0], (
        "the other mode"
    )


@pytest.mark.parametrize("scale", [0.0, 1e-300, 1e-170, 1e170, 1e300])
def test_the_scale_of_a_factor_does_not_matter_until_it_is_zero(scale):
    vocabulary = {**LETTERS, "z": LETTERS["a"] * scale}
    table = posterior_of_letters([[["ab"], ["zb"]]], vocabulary).classes(-1)
    assert table["stability"].tolist() == [float(scale > 0)]


# Which draws, how often


@pytest.mark.parametrize(
    ("draws", "most", "left_out", "expected"),
    [
        (1, 5, 0, []),
        (1, 5, None, [0]),
        (4, 5, 1, [0, 2, 3]),
        (6, 3, None, [1, 3, 5]),
        (7, 3, 0, [2, 4, 6]),
        (100, 1, None, [50]),
    ],
)
def test_the_draws_compared_are_spread_evenly_and_leave_the_reference_out(draws, most, left_out, expected):
    assert profiles._other_draws(draws, most, left_out) == expected


@pytest.mark.parametrize(("chains", "draws", "number"), [(1, 300, 100), (2, 30, 59), (3, 80, 99), (4, 60, 100)])
def test_about_a_hundred_draws_are_compared_at_most(chains, draws, number, monkeypatch):
    post = posterior_of_letters([[["ab"]] * draws] * chains)
    calls = []
    monkeypatch.setattr(profiles, "match", lambda *given: calls.append(given) or (np.zeros(1, dtype=int),) * 2)
    post.classes(-1)
    assert len(calls) == number


def test_a_second_look_at_a_draw_compares_nothing(monkeypatch):
    post = posterior_of_letters([[["ab", "cd"], ["ab", "cd"]]])
    first = post.classes(-1), post.classes(0)
    monkeypatch.setattr(profiles, "match", None)
    assert post.classes(-1, chain=-1).equals(first[0])
    assert post.classes(-2).equals(first[1])
    assert post.classes(-1, top=1)["stability"].equals(first[0]["stability"])


def test_of_very_many_classes_only_the_largest_are_compared(monkeypatch):
    post = posterior_of_letters([[["ab", "cd", "ef"]] * 3])
    whole = post.classes(-1)
    assert whole["stability"].tolist() == [1.0, 1.0, 1.0]
    monkeypatch.setattr(profiles, "_COMPARED_CLASSES", 2)
    again = Posterior(post._record).classes(-1)["stability"]
    assert again.isna().tolist() == [False, False, True]


# Fitted models


@pytest.mark.parametrize("model", [ac.AlloCore(4), ac.CP(3), ac.Tucker((2, 3, 2))], ids=repr)
def test_classes_of_every_model_have_a_stability(model):
    Y = np.random.default_rng(0).poisson(1.0, (5, 4, 3))
    model.set_params(burn_in=2, draws=4, thin=1, chains=2, seed=1, progress=False)
    table = model.fit(Y).posterior_.classes(-1)
    assert table["stability"].between(0.0, 1.0).all()
    assert table["stable_chains"].isin([0.0, 0.5, 1.0]).all()


@pytest.mark.slow
@pytest.mark.jit
def test_classes_that_the_data_hold_apart_are_found_in_every_draw_of_every_chain():
    Y = np.zeros((6, 6, 4), dtype=int)
    Y[:3, :3, :2] = 40
    Y[3:, 3:, 2:] = 60
    model = ac.AlloCore(2, likelihood="poisson", burn_in=100, draws=20, thin=2, chains=3, seed=1, progress=False)
    post = model.fit(Y).posterior_
    table = post.classes(-1)
    assert (table["stability"] == 1.0).all()
    assert (table["stable_chains"] == 1.0).all()
