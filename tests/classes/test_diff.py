"""What changed between two runs, on runs whose changes are planted."""

from dataclasses import replace

import numpy as np
import pytest

import allocore as ac
from allocore.findings import sentence
from allocore.results import Posterior
from support.errors import refused
from support.refits import COUNTRIES, month_run, months

EVEN = (1.0, 1.0, 1.0, 1.0)
A, B, C = (5.0, "France", "Iraq", EVEN), (4.0, "Mali", "Peru", EVEN), (3.0, "Spain", "Yemen", EVEN)
D = (3.0, "Yemen", "France", EVEN)


def resized(cls, value):
    return value, *cls[1:]


def findings(found, kind):
    return [each.values for each in found.findings if each.kind == kind]


def changes(found):
    """The clear change of each class, by its number, in the new run if it is there."""
    numbers = found.table["new"].fillna(found.table["old"])
    return {int(number): change for number, change in zip(numbers, found.table["change"], strict=True) if change}


@pytest.fixture(scope="module")
def old():
    return month_run(A, B, C)


def test_nothing_has_changed_between_a_run_and_itself(old):
    found = ac.diff(old, old)
    assert found.table["old"].tolist() == found.table["new"].tolist() == [0, 1, 2]
    assert not found.table["difference"].any()
    assert found.table["similarity"].tolist() == pytest.approx([1.0] * 3)
    assert [each.kind for each in found.findings] == ["diff"]
    assert found.labels.empty


@pytest.mark.parametrize("refit", [True, False])
def test_a_new_class_is_gained_and_a_vanished_one_is_lost(old, refit):
    found = ac.diff(old, month_run(D, A, B, start=old if refit else None))
    of_new = 3 if refit else 2
    assert sorted(filter(None, found.table["change"])) == ["gained", "lost"]
    (gained,), (lost,) = findings(found, "class-gained"), findings(found, "class-lost")
    assert (gained["number"], lost["number"]) == (of_new, 2)
    assert (gained["old"], gained["new"]) == pytest.approx((0.0, 3 / 12))
    assert (lost["old"], lost["new"]) == pytest.approx((3 / 12, 0.0))
    (counts,) = findings(found, "diff")
    assert (counts["both"], counts["gained"], counts["lost"]) == (2, 1, 1)


def test_classes_of_runs_that_are_no_refits_are_matched_by_their_profiles_whatever_the_order_of_labels(old):
    turned = month_run(C, A, resized(B, 40.0), labels=tuple(reversed(COUNTRIES)))
    table = ac.diff(old, turned).table
    assert dict(zip(table["old"], table["new"], strict=True)) == {1: 0, 0: 1, 2: 2}
    assert table["sender_moved"].max() < 1e-9


def test_modes_in_another_order_are_matched_by_name(old):
    record = month_run(A, B, C).record
    order = [2, 0, 1]
    tensor = ac.CountTensor(
        record.tensor.coords[order],
        record.tensor.counts,
        [record.tensor.shape[mode] for mode in order],
        mode_names=[record.tensor.mode_names[mode] for mode in order],
        labels=[record.tensor.labels[mode] for mode in order],
    )
    other = replace(
        record,
        tensor=tensor,
        spec=replace(record.spec, core_shape=tuple(record.spec.core_shape[mode] for mode in order)),
        core_locations=np.asarray(record.core_locations)[..., order],
        factors=tuple(record.factors[mode] for mode in order),
    )
    found = ac.diff(old, Posterior(other))
    assert found.table["old"].tolist() == found.table["new"].tolist() == [0, 1, 2]
    assert [each.kind for each in found.findings] == ["diff"]


def test_a_class_grows_only_if_that_is_clear(old):
    grown = ac.diff(old, month_run(resized(A, 15.0), B, C, start=old))
    assert changes(grown) == {0: "grown", 1: "shrunk", 2: "shrunk"}
    (values,) = findings(grown, "class-grown")
    assert (values["old"], values["new"]) == pytest.approx((5 / 12, 15 / 22))
    assert values["low"] <= values["new"] - values["old"] <= values["high"]
    noisy = [month_run(resized(A, value), B, C, chains=3, wobble=1.0) for value in (5.0, 6.0)]
    assert changes(ac.diff(*noisy)) == {}
    little = ac.diff(old, month_run(resized(A, 5.2), B, C, start=old))
    assert changes(little) == {}, "less than a tenth"


def test_other_numbers_of_chains_and_single_chains_are_compared_too():
    many, one = month_run(A, B, C, chains=3, wobble=0.05), month_run(resized(A, 50.0), B, C, chains=1, wobble=0.05)
    assert changes(ac.diff(many, one))[0] == "grown"
    two = month_run(resized(A, 50.0), B, C, chains=2, wobble=0.05)
    assert changes(ac.diff(many, two))[0] == "grown"
    noisy = [month_run(resized(A, value), B, C, chains=1, draws=8, wobble=1.0) for value in (5.0, 6.0)]
    assert changes(ac.diff(*noisy)) == {}


def test_a_class_that_few_chains_have_is_no_clear_change():
    first = month_run(A, B, C, chains=8)
    few = month_run(A, B, D, chains=8).record
    mixed = first.record
    changed = {
        name: np.concatenate([np.asarray(getattr(mixed, name))[:6], np.asarray(getattr(few, name))[6:]])
        for name in ("core_values", "core_locations")
    }
    factors = tuple(np.concatenate([one[:6], other[6:]]) for one, other in zip(mixed.factors, few.factors, strict=True))
    found = ac.diff(first, Posterior(replace(mixed, **changed, factors=factors)))
    assert "gained" not in changes(found).values()
    (counts,) = findings(found, "diff")
    assert counts["weak_new"] == 1
    (row,) = found.table[found.table["old"].isna()].to_dict("records")
    assert (row["support_old"], row["support_new"]) == (0.0, 0.25)


def test_a_class_moves_in_time(old):
    moved = (5.0, "France", "Iraq", (1.0, 1.0, 1.0, 4.0))
    found = ac.diff(old, month_run(moved, B, C, start=old))
    (values,) = findings(found, "class-moved-in-time")
    assert (values["number"], values["mode"]) == (0, "month")
    assert values["labels"][0] == ("2018-04", pytest.approx(0.25), pytest.approx(4 / 7))
    assert found.labels["class"].unique().tolist() == [0]
    of_class = found.table.set_index("new").loc[0]
    assert of_class["month_moved"] == pytest.approx(4 / 7 - 1 / 4)
    assert of_class["sender_moved"] == pytest.approx(0.0)


def test_a_label_of_a_class_changes(old):
    joined = month_run(A, B, C).record
    senders = [np.array(each) for each in joined.factors]
    heavy = senders[0][..., 0, :] > 0.5  # the factor of France
    senders[0][..., 3, :] += np.where(heavy, 0.5, 0.0)  # now of Peru too
    found = ac.diff(old, Posterior(replace(joined, factors=tuple(senders))))
    (values,) = findings(found, "class-labels")
    assert (values["number"], values["mode"]) == (0, "sender")
    assert {label for label, _, _ in values["labels"]} == {"France", "Peru"}


def test_a_class_that_is_strong_in_a_new_month_is_named(old):
    later = [
        (value, sender, receiver, (*EVEN, new))
        for (value, sender, receiver, _), new in zip((A, B, C), (1, 6, 1), strict=True)
    ]
    found = ac.diff(old, month_run(*later, times=months(5), start=old))
    more, *less = findings(found, "class-in-new-labels")
    assert (more["number"], more["labels"], more["share"]) == (1, ("2018-05",), pytest.approx(0.6))
    assert more["share"] > more["every"]
    assert all(each["share"] < each["every"] for each in less)
    assert found.table.set_index("new")["month_new"].to_dict() == pytest.approx({0: 0.2, 1: 0.6, 2: 0.2})
    assert "class-moved-in-time" not in {each.kind for each in found.findings}, "the months of both runs are as before"


def test_it_takes_models_and_paths_and_shows_itself(old, tmp_path):
    month_run(D, A, B, start=old).save(tmp_path / "new.zarr")
    old.save(tmp_path / "old.zarr")
    found = ac.diff(str(tmp_path / "old.zarr"), tmp_path / "new.zarr")
    assert changes(found) == {2: "lost", 3: "gained"}
    assert found.sentences == tuple(map(sentence, found.findings))
    assert repr(found) == "\n".join(found.sentences)
    page = found._repr_html_()
    assert page.count("<tr") == 1 + len(found.table)
    assert page.count("<li>") == len(found.findings) - 1


def test_runs_with_other_modes_are_refused(old):
    other = Posterior(replace(old.record, tensor=old.record.tensor.with_labels(mode_names=["sender", "what", "month"])))
    with refused("new", rule="must have the modes of `old`: sender, receiver, month"):
        ac.diff(old, other)
    with refused("old"):
        ac.diff(3, old)
