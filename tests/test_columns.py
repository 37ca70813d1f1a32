"""A mode may have any name: the tables then have the same numbers in the same places, under names of their own.

The words that are columns of some table are found in the tables of a run with harmless names. Then the modes of the
same run get these words as their names, a few at a time.
"""

import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import numpy as np
import pandas as pd
import pytest

import allocore as ac
from allocore.classes.memberships import MembershipTable
from allocore.classes.tables import TidyTable
from allocore.report.objects import plain
from allocore.tensor.files import write_frame
from support.forecast_cases import MONTHS
from support.public_api import tables

HARMLESS = ("alpha", "beta", "gamma", "delta")
ACTORS = ("A", "B", "C", "D", "E")


@cache
def fitted():
    """A run with held-out cells, and another without the last label of a mode: records, without names to speak of."""
    rates = np.random.default_rng(0).gamma(0.6, 2.0, (5, 5, 3))[..., None] * np.linspace(1.0, 2.0, 9)
    counts = np.random.default_rng(1).poisson(rates)
    labels = [ACTORS, ACTORS, ("x", "y", "z"), MONTHS[:9]]
    found = []
    for first in (5, 4):
        Y = ac.as_tensor(counts[:first], mode_names=HARMLESS, labels=[ACTORS[:first], *labels[1:]])
        split = ac.hold_out(Y, 0.1, seed=1)
        model = ac.AlloCore(3, burn_in=20, draws=4, thin=2, chains=2, seed=1, threads=1, progress=False)
        found.append(model.fit(split).posterior_.record)
    return found


def named(record, names):
    """The same run with other names of its modes."""
    test = record.held_out
    held_out = ac.HeldOut(test.coords, test.counts, test.shape, names, test.labels, test.along)
    return ac.Posterior(replace(record, tensor=record.tensor.with_labels(mode_names=names), held_out=held_out))


def edges(post, kind):
    """The table of the edges of a graph."""
    with TemporaryDirectory() as folder:
        return pd.read_parquet(ac.write_graph(post, Path(folder) / "edges.parquet", kind, least=0.0))


@cache
def all_tables(names):
    record, before = fitted()
    post = named(record, names)
    consensus, forecast = post.consensus(progress=False), post.forecast(2)
    things = [post, consensus, consensus.summary, forecast, post.evaluate(), post.check(40), post.diagnose()]
    things += [
        consensus.memberships(0, progress=False),
        ac.diff(named(before, names), post),
        post.tensor,
        post.fold_in(post.tensor.select({0: ["A", "B"]}), mode=0),
    ]
    cells = [{names[0]: "A", names[3]: MONTHS[1]}, {names[1]: "B", names[2]: "x"}]
    values = {"cells": cells, "mode": 0, "number": int(consensus.numbers[0]), "draw": -1, "chain": 0, "permutations": 9}
    values |= {"k": int(post.core_locations[0, -1, 0, 0])}
    found = tables([thing for thing in things if thing is not forecast], values)
    found |= {f"memberships: {what}": post.memberships(0, what) for what in get_args(MembershipTable)}
    found |= {f"to_frame: {what}": consensus.to_frame(what) for what in get_args(TidyTable)}
    found |= {f"graph: {kind}": edges(post, kind) for kind in ("classes", "expected")}
    coming = [{names[0]: "A", names[3]: forecast.periods[0]}, {names[3]: forecast.periods[1]}]
    return found | tables([forecast], {**values, "cells": coming, "by": [names[0]]})


def words():
    """The columns that tables have beside those named by modes; and the stem of each that ends as one of these does."""
    fixed, endings = set(), set()
    for table in all_tables(HARMLESS).values():
        for column in (*map(str, table.columns), *filter(None, table.index.names)):
            mode = next((name for name in HARMLESS if name in column), None)
            (fixed if mode is None else endings).add(column if mode is None else column.replace(mode, "{}"))
    for pattern in endings:
        begin, _, end = pattern.partition("{}")
        fixed |= {
            word[len(begin) : len(word) - len(end)]
            for word in set(fixed)
            if word.startswith(begin) and word.endswith(end) and len(word) > len(begin) + len(end)
        }
    return sorted(fixed)


def groups():
    """Names for the modes of as many runs as have all words; the last mode is that of time."""
    every = words()
    every += [f"{word}_" for word in ("expected", "draw", "count")]
    every += list(HARMLESS)[: -len(every) % len(HARMLESS)]
    return [tuple(every[place : place + 4]) for place in range(0, len(every), 4)]


def same_tables(names):
    """Compare all tables of a run with those of the run with harmless names: equal numbers, no name twice."""
    expected = all_tables(HARMLESS)
    found = all_tables(names)
    assert found.keys() == expected.keys()
    for name, table in found.items():
        columns = [*filter(None, table.index.names), *map(str, table.columns)]
        assert len(set(columns)) == len(columns), (name, columns)
        assert table.shape == expected[name].shape, name
        for place, column in enumerate(expected[name].columns):
            assert table.iloc[:, place].map(str).tolist() == renamed(expected[name][column], names), (name, column)
        if any(table.index.names):
            assert list(table.reset_index().iloc[:, 0]) == list(table.index.get_level_values(0))
        plain(table)


def renamed(values, names):
    """Values as text, in which modes with harmless names have these names. A class may be named as a mode is."""
    others = dict(zip(HARMLESS, names, strict=True))
    return [str(others.get(value, value)) for value in values]


def test_the_words_of_all_tables_are_found():
    assert {"expected", "low", "draw", "outcome", "class", "name", "count", "share", "p", "rank", "0.05"} <= set(
        words()
    )


def test_modes_with_the_names_of_columns_that_once_failed_keep_their_labels_and_ours_their_numbers():
    same_tables(("outcome", "share", "low", "draw"))
    same_tables(("expected", "0.05", "count", "class"))


@pytest.mark.slow
def test_modes_may_be_named_as_any_column_of_any_table():
    for names in groups():
        same_tables(names)


def test_tables_with_such_names_are_written_and_read(tmp_path):
    for name, table in all_tables(("outcome", "share", "low", "draw")).items():
        frame = table.reset_index() if any(table.index.names) else table
        write_frame(frame, tmp_path / "table.csv")
        assert list(pd.read_csv(tmp_path / "table.csv").columns) == list(map(str, frame.columns)), name


def test_the_command_line_and_the_page_show_modes_with_the_names_of_columns(run, tmp_path):
    names = ("outcome", "expected", "class", "count")
    post = named(fitted()[0], names)
    post.save(tmp_path / "run.zarr")
    draws, table = tmp_path / "draws.parquet", tmp_path / "table.parquet"
    options = ("--by", "outcome", "--out", table, "--draws-out", draws, "--figure", tmp_path / "f.png")
    code, _, err = run("forecast", tmp_path / "run.zarr", *options, "--json")
    assert code == 0, err
    assert list(pd.read_parquet(draws).columns) == ["outcome", "count", "draw", "outcome_"]
    assert list(pd.read_parquet(table).columns) == [
        "outcome",
        "count",
        "expected",
        "0.05",
        "0.25",
        "0.5",
        "0.75",
        "0.95",
    ]
    for command in (("surprises",), ("summary", "--class", "0"), ("report", "--out", tmp_path / "page.html")):
        code, _, err = run(command[0], tmp_path / "run.zarr", *command[1:])
        assert code == 0, err
    with warnings.catch_warnings(action="ignore"):
        assert ac.figures.over_time(post, forecast=post.forecast(2)).caption
