"""CAMEO codes: no code ends up under a wrong root, and the table agrees with what ICEWS released."""

import csv
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocore.tensor.cameo import (
    PLOVER,
    ROOTS,
    code_label,
    code_of_text,
    is_code_column,
    labels_of_codes,
    other_spellings,
    respelt,
    restore,
    root_of,
    spelt_alike,
)

RELEASE = Path(__file__).parents[3] / "shared" / "data" / "icews_release"
TABLE = [
    (row["code"], row["text"])
    for row in csv.DictReader((files("allocore.tensor") / "cameo.csv").read_text(encoding="utf-8").splitlines())
]
TEXTS: dict[str, list[str]] = {}
for each_code, each_text in TABLE:
    TEXTS.setdefault(each_code, []).append(each_text)


def test_there_are_twenty_roots_in_order():
    assert list(ROOTS) == [f"{root:02d}" for root in range(1, 21)]
    assert ROOTS["01"] == "Make public statement"
    assert ROOTS["14"] == "Protest"
    assert ROOTS["20"] == "Engage in unconventional mass violence"
    assert len(set(ROOTS.values())) == 20


def test_there_are_sixteen_types_of_polecat_from_agree_to_assault():
    assert len(set(PLOVER)) == len(PLOVER) == 16
    assert (PLOVER[0], PLOVER[7], PLOVER[-1]) == ("AGREE", "REQUEST", "ASSAULT")


def test_the_table_has_every_code_in_order_and_every_root_has_its_general_code():
    assert [code for code, _ in TABLE] == sorted(code for code, _ in TABLE)
    assert len(TEXTS) == 298
    assert {root + "0" for root in ROOTS} <= set(TEXTS)
    # A code of four digits refines one of three.
    assert {code[:3] for code in TEXTS} <= set(TEXTS)


def test_every_code_of_the_table_has_a_root():
    assert {root_of(code) for code in TEXTS} == set(ROOTS)
    assert all(root_of(code) == code[:2] for code in TEXTS)


def test_no_text_has_two_codes_and_every_text_finds_its_code():
    assert len({"".join(text.lower().split()) for _, text in TABLE}) == len(TABLE)
    assert all(code_of_text(text) == code for code, text in TABLE)
    assert all(text == " ".join(text.split()) for _, text in TABLE)


def test_the_first_text_of_a_code_is_in_the_words_of_icews():
    assert TEXTS["010"][0] == "Make statement"
    assert TEXTS["044"][0] == "Meet at a 'third' location"
    assert TEXTS["193"][0] == "fight with small arms and light weapons"
    # GDELT's list has "Demand mediation" under 105 and "Demand meeting, negotiation" under 108.
    assert TEXTS["105"][0] == "Demand that target yields"
    assert code_of_text("Demand mediation") == "108"
    assert code_of_text("Demand meeting, negotiation") == "106"


def test_all_pairs_in_the_released_files_agree_with_the_table():
    names = sorted(RELEASE.glob("*.tab"))
    if not names:
        pytest.skip(f"{RELEASE} is absent: the table is not compared with released files")
    pairs = set()
    for name in names:
        with name.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            pairs |= {(row["CAMEO Code"], row["Event Text"]) for row in rows}
    assert len(pairs) > 100
    assert {code: text for code, text in pairs if TEXTS.get(code, [])[:1] != [text]} == {}
    assert {code: text for code, text in pairs if code_of_text(text) != code} == {}


def test_a_policy_option_read_as_a_number_is_not_a_protest():
    for written in ("14", "14.0", "14.", " 14 "):
        assert root_of(written) is None
        assert restore(written) == ("014", True)
    assert root_of(restore("14")[0]) == "01"
    # The other way round: protests stay protests.
    assert restore("140") == ("140", False)
    assert restore("140.0") == ("140", True)
    assert root_of("140") == root_of("1411") == "14"


def test_every_code_of_the_table_survives_being_saved_as_a_number():
    # Without exception: no code lies in 0100 to 0209, the only ones whose numbers have a second reading.
    for code in TEXTS:
        lost = code.startswith("0")
        assert restore(str(int(code))) == (code, lost)
        assert restore(str(float(code))) == (code, True)
        assert restore(code) == (code, False)


@pytest.mark.parametrize(
    ("number", "code"),
    [("10", "010"), ("99", "099"), ("100", "100"), ("209", "209"), ("210", "0210"), ("999", "0999"), ("1000", "1000")],
)
def test_zeros_come_back_exactly_where_the_rule_says(number, code):
    assert restore(number) == (code, number != code)


@pytest.mark.parametrize("code", ["", "5", "0", "5.0", "nan", "---", "X", "1x", "00", "-14", "1.4e1", "14.5", "21000"])
def test_what_is_no_code_is_left_alone_and_has_no_root(code):
    assert restore(code) == (code, False)
    assert root_of(code) is None


@pytest.mark.parametrize("code", ["210", "0014", "2100", "000", "14", "20th", "١٤٠", "13 y", "01411"])
def test_there_is_no_root_beyond_twenty_or_for_another_number_of_digits(code):
    assert root_of(code) is None


def test_a_code_that_ends_in_a_letter_keeps_its_root():
    assert root_of("13y") == "13"
    assert root_of("138y") == "13"
    assert restore("13y") == ("13y", False)


def test_capitals_and_blanks_in_a_text_do_not_matter():
    assert code_of_text("  MAKE  a\tvisit\n") == "042"
    assert code_of_text("Fight with artillery and tanks") == "194"
    assert code_of_text("Make a visit, perhaps") is None
    assert code_of_text("") is None


@given(st.text() | st.from_regex(r"[0-9]{1,5}(\.0)?[a-z]?", fullmatch=True) | st.sampled_from([t for _, t in TABLE]))
def test_no_text_raises_and_what_was_restored_stays(text):
    restored, changed = restore(text)
    assert restore(restored) == (restored, False)
    assert changed == (restored != text.strip())
    assert root_of(text) in {None, *ROOTS}
    assert code_of_text(text) in {None, *TEXTS}


def test_a_label_is_the_code_and_its_words_if_they_are_known():
    assert [code_label(code) for code in ("04", "042", "13y")] == ["04 Consult", "042 Make a visit", "13y"]
    assert [is_code_column(name) for name in ("CAMEO Code", "event_root_code", "code")] == [True, True, False]


def test_labels_with_and_without_words_are_matched():
    assert other_spellings("04 Consult") == ("04", "4")
    assert other_spellings("4") == ("04 Consult",)
    assert other_spellings("tea") == ()
    assert respelt(["04", "tea"], ["04 Consult"]) == ("04 Consult", "tea")
    assert respelt(["04 Consult"], ["04"]) == ("04",)
    with_words = [("04 Consult", "05 Engage in diplomatic cooperation"), ("04 Consult",)]
    assert spelt_alike([["04", "05"], ["04 Consult"]]) == with_words
    assert spelt_alike([["04"], ["05"]]) == [("04",), ("05",)]


def test_codes_get_words_unless_a_text_may_mean_two_codes():
    roots = {"4": "04 Consult", "20": "20 Engage in unconventional mass violence"}
    assert labels_of_codes("cameo_root", ["4", "20"]) == roots
    codes = {"04": "04 Consult", "190": "190 Use conventional military force"}
    assert labels_of_codes("cameo", ["04", "190"]) == codes
    assert labels_of_codes("cameo", ["14", "190"]) is None
