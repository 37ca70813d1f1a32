"""Classes keep their numbers and names through refits, whatever becomes of the rows."""

import numpy as np
import pytest

import allocore as ac
from allocore.classes.numbering import FILE, START, write_start
from support import planted
from support.findings import warned
from support.refits import COUNTRIES, by_sender, month_run, months

EVEN = (1.0, 1.0, 1.0, 1.0)
A, B, C = (5.0, "France", "Iraq", EVEN), (4.0, "Mali", "Peru", EVEN), (3.0, "Spain", "Yemen", EVEN)
D = (6.0, "Yemen", "France", EVEN)


def later(cls, *weights, value=None):
    """The same class in more months."""
    own, sender, receiver, known = cls
    return own if value is None else value, sender, receiver, (*known, *weights)


@pytest.fixture(scope="module")
def old():
    return month_run(A, B, C)


def since(post):
    """What the consensus says about the run where the chains started: the numbers of lost, new and returned classes."""
    (values,) = (each.values for each in post.consensus().findings if each.kind == "classes-since-start")
    lost, new, back = ([number for number, _ in values[what]] for what in ("lost", "new", "back"))
    return (lost, new, back) if back else (lost, new)


def test_classes_keep_their_numbers_and_names_when_their_order_and_their_months_change(old):
    refit = month_run(later(C, 1, 1, value=9.0), later(A, 1, 1), later(B, 1, 1), times=months(6), start=old)
    assert by_sender(old) == {"France": 0, "Mali": 1, "Spain": 2}
    assert refit.consensus().numbers.tolist() == [2, 0, 1], "the largest class comes first"
    names = dict(zip(old.consensus().numbers.tolist(), old.consensus().names, strict=True))
    assert refit.consensus().names == tuple(names[number] for number in (2, 0, 1))
    assert since(refit) == ([], [])


def test_rows_are_matched_by_label(old):
    turned = (*reversed(COUNTRIES), "Zambia")
    refit = month_run(B, A, C, (2.0, "Zambia", "Mali", EVEN), labels=turned, start=old)
    assert by_sender(refit) == {"France": 0, "Mali": 1, "Spain": 2, "Zambia": 3}
    assert since(refit) == ([], [3])


def test_a_lost_class_is_listed_and_its_number_is_never_given_again(old):
    second = month_run(A, B, start=old)
    assert since(second) == ([2], [])
    third = month_run(A, B, D, start=second)
    assert by_sender(third) == {"France": 0, "Mali": 1, "Yemen": 3}
    assert since(third) == ([], [3])
    fourth = month_run(A, C, start=third)
    assert by_sender(fourth) == {"France": 0, "Spain": 2}, "a class that comes back has its number again"
    assert since(fourth) == ([3, 1], [], [2]), "largest first"


def test_a_class_that_grows_tenfold_in_the_new_month_stays_the_same_class(old):
    refit = month_run(later(A, 10.0), later(B, 1.0), later(C, 1.0), times=months(5), start=old)
    assert by_sender(refit) == {"France": 0, "Mali": 1, "Spain": 2}
    assert refit.consensus().names[0] != old.consensus().names[0], "its name has the month"
    assert "2018-05" in refit.consensus().names[0]


def test_a_class_of_the_new_month_only_is_new(old):
    burst = (2.0, "France", "Iraq", (0.001, 0.002, 0.001, 0.001, 9.0))
    refit = month_run(later(A, 1.0), later(B, 1.0), later(C, 1.0), burst, times=months(5), start=old)
    assert sorted(refit.consensus().numbers.tolist()) == [0, 1, 2, 3]
    assert since(refit) == ([], [3])


def test_numbers_last_through_a_moving_window():
    post = month_run(A, B, C, times=months(4))
    for first in range(2, 8):
        post = month_run(C, B, A, times=months(4, first), start=post)
    assert by_sender(post) == {"France": 0, "Mali": 1, "Spain": 2}
    assert since(post) == ([], [])


def test_months_without_one_in_common_do_not_count():
    post = month_run(B, C, A, times=months(4, 13), start=month_run(A, B, C))
    assert by_sender(post) == {"France": 0, "Mali": 1, "Spain": 2}


def test_some_chains_of_a_refit_have_its_numbers(old):
    refit = month_run(C, A, D, start=old)
    for _ in range(2):  # before and after the consensus of all chains is known
        some = refit.select_chains([1])
        assert by_sender(some) == {"France": 0, "Spain": 2, "Yemen": 3}
        assert since(some) == ([1], [3])
        assert refit.consensus().numbers.tolist() == [3, 0, 2]


def test_some_chains_number_their_classes_as_all_chains_do():
    larger = (5.0, *planted.B[1:])
    both = planted.steady_run([planted.A, planted.B, planted.C], [planted.A, larger, planted.C])
    some = both.select_chains([1])
    assert some.consensus().numbers.tolist() == [1, 0, 2], "of this chain, another class is the largest"
    assert both.consensus().numbers.tolist() == [0, 1, 2]


def test_new_rows_folded_into_a_refit_do_not_free_the_numbers_of_lost_classes(old):
    second = month_run(A, B, start=old)
    january = second.fold_in(second.tensor.select(month=["2018-01"]), "month", sweeps=1, progress=False)
    third = month_run(A, B, D, start=january)
    assert by_sender(third) == {"France": 0, "Mali": 1, "Yemen": 3}


def test_a_saved_refit_keeps_the_numbers_of_its_start(old, tmp_path):
    month_run(B, D, start=old).save(tmp_path / "refit.zarr")
    assert not (tmp_path / "refit.zarr" / FILE).exists(), "its consensus has not been found yet"
    opened = ac.open_run(tmp_path / "refit.zarr")
    assert by_sender(opened) == {"Mali": 1, "Yemen": 3}
    again = ac.open_run(tmp_path / "refit.zarr")
    assert by_sender(again) == {"Mali": 1, "Yemen": 3}
    assert since(again) == ([0, 2], [3])
    (tmp_path / "refit.zarr" / FILE).write_bytes(b"damaged")
    with warned("consensus-not-read"):
        assert by_sender(ac.open_run(tmp_path / "refit.zarr")) == {"Mali": 1, "Yemen": 3}


def test_a_damaged_numbering_warns(old, tmp_path):
    month_run(B, D, start=old).save(tmp_path / "refit.zarr")
    (tmp_path / "refit.zarr" / START).write_bytes(b"damaged")
    with warned("numbering-not-read"):
        opened = ac.open_run(tmp_path / "refit.zarr")
    assert sorted(by_sender(opened).values()) == [0, 1]


def test_a_numbering_of_other_rows_is_not_taken(old, tmp_path):
    refit = month_run(B, D, start=old)
    refit.save(tmp_path / "refit.zarr")
    write_start(tmp_path / "refit.zarr", month_run(later(A, 1.0), times=months(5)).consensus().numbering)
    with warned("numbering-not-read", problem=lambda text: "lengths of the modes" in text):
        ac.open_run(tmp_path / "refit.zarr")


@pytest.fixture(scope="module")
def fitted_months(tmp_path_factory):
    """Counts of three blocks over five months, and a stored run of the first four."""
    rng = np.random.default_rng(0)
    rates = np.zeros((6, 6, 5))
    for sender, receiver, rate in ((0, 1, 30.0), (2, 3, 20.0), (4, 5, 12.0)):
        rates[sender, receiver] += rate
    Y = ac.as_tensor(rng.poisson(rates + 0.02), mode_names=["sender", "receiver", "month"])
    Y = Y.with_labels([COUNTRIES, COUNTRIES, months(5)])
    path = tmp_path_factory.mktemp("months") / "old.zarr"
    fit(Y.select(month=slice("2018-01", "2018-04")), path)
    return Y, path


def fit(Y, path, start=None, draws=6):
    settings = {"burn_in": 60, "draws": draws, "thin": 2, "chains": 2, "threads": 1, "progress": False}
    return ac.CP(4, likelihood="poisson", seed=1, store=path, **settings).fit(Y, start=start).posterior_


def test_a_stored_refit_has_the_numbers_of_its_start_when_that_is_gone_and_when_it_is_resumed(fitted_months, tmp_path):
    Y, path = fitted_months
    earlier = ac.open_run(path)
    before = by_sender(earlier)
    assert len(before) >= 2
    # As if an earlier run had numbered the classes otherwise.
    numbering = earlier.consensus().numbering
    moved = numbering._replace(
        number_C=numbering.number_C + 7, known=numbering.known._replace(number_K=numbering.known.number_K + 7)
    )
    earlier.consensus().numbering = moved
    refit = fit(Y, tmp_path / "refit.zarr", earlier)
    wanted = {name: number + 7 for name, number in before.items()}.items()
    assert wanted <= by_sender(refit).items()
    (tmp_path / "refit.zarr" / FILE).unlink()
    longer = ac.CP.resume(tmp_path / "refit.zarr", draws=8, threads=1, progress=False).posterior_
    assert wanted <= by_sender(longer).items()
    in_memory = fit(Y, None, ac.open_run(tmp_path / "refit.zarr"))
    assert wanted <= by_sender(in_memory).items()
