"""Random calls of the public interface: what can be called, the values to call it with, and what may come of it.

A call is a target and a seed. It may raise an `InputError` or a `StoreError`, or the `TypeError` of a call that the
signature does not allow; otherwise its numbers are finite and it has the shape that its docstring promises.
"""

import datetime
import inspect
import os
import random
import traceback
import warnings
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path

import matplotlib as mpl
import networkx as nx
import numpy as np
import pandas as pd

import allocore as ac
from allocore.errors import NotFittedError
from support.public_api import CLASSES, FUNCTIONS, is_method, members
from support.serial_executor import SerialExecutor

mpl.use("agg")

ACTORS, MONTHS = ("A", "B", "C", "D"), tuple(f"2020-{month:02d}" for month in range(1, 9))
NAMES = ("who", "whom", "month")
SEEDS = {"spring": ["2020-03", "2020-04"]}
FROZEN = pd.DataFrame({"first": [4.0, 3.0, 2.0, 1.0], "second": [1.0, 1.0, 1.0, 4.0]}, index=list(ACTORS))
# Made by allocore alone: what users call are their methods.
RESULTS = {
    "Answer", "Check", "ClassSummary", "Comparison", "Consensus", "Diagnosis", "Diff", "Evaluation", "Forecast",
    "ForecastEvaluation", "Memberships", "Posterior", "Reproducibility", "Selection",
}  # fmt: skip
# Prints to the terminal, starts from the disk what `fit` does, or takes the fields of a file that allocore wrote.
LEFT_OUT = {
    "Finding",
    *("ac.load_flights", "AlloCore.resume", "CP.resume", "Tucker.resume", "EventReport", "EventReport.joined"),
    *("CountTensor.to_dense", "ShardedTensor.to_dense"),
}


class Things:
    """What methods are called on and what arguments are: a tensor, small runs, and their results."""

    def __init__(self, folder):
        rates = np.random.default_rng(0).gamma(0.6, 2.0, (4, 4, 1)) * np.linspace(1.0, 2.0, 8)
        counts = np.random.default_rng(1).poisson(rates)
        self.folder = Path(folder)
        self.Y = ac.as_tensor(counts, mode_names=NAMES, labels=[ACTORS, ACTORS, MONTHS])
        self.split = ac.hold_out(self.Y, 0.1, seed=1)
        self.posts = [
            self.model(ac.AlloCore, likelihood=likelihood, dispersion_by=by).fit(data).posterior_
            for likelihood, by, data in [
                ("negative-binomial", None, self.split),
                ("poisson", None, self.Y),
                ("bernoulli", None, self.Y.binarize()),
                ("negative-binomial", "whom", self.Y),
            ]
        ]
        self.post = self.posts[0]
        self.undirected = self.Y.mask_diagonal().undirected(asymmetric="sum")
        tied, known = {"tied": ("who", "whom")}, {"month": ac.Mode(seeds=SEEDS, free=1), "who": ac.Mode(frozen=FROZEN)}
        self.posts += [
            self.model(**settings).fit(data).posterior_
            for settings, data in [
                ({}, self.undirected),
                (tied, self.Y.mask_diagonal()),
                ({"modes": known, "core_shape": (3, 3, 2)}, self.Y),
            ]
        ]
        self.graph = nx.MultiDiGraph()
        self.graph.add_edges_from([("A", "B", {"year": 2001}), ("B", "C", {"year": 2002, "weight": 3})])
        self.Y.save(self.folder / "tensor.npz")
        self.Y.save(self.folder / "shards.zarr", shards=2)
        self.post.save(self.folder / "run.zarr")
        self.consensus = self.post.consensus(progress=False)
        self.number = int(self.consensus.numbers[0])

    def model(self, kind=ac.AlloCore, **settings):
        return kind(3, **{"burn_in": 6, "draws": 4, "thin": 1, "chains": 4, "seed": 1, "threads": 1} | settings)

    @cache  # noqa: B019
    def results(self):
        """One object of each class of results."""
        post, quick = self.post, {"executor": SerialExecutor(), "progress": False}
        made = [self.consensus, self.consensus.summary, post.evaluate(), post.check(40), post.diagnose()]
        made += [ac.diff(post, post), self.forecast(), self.forecast().evaluate(self.coming()), post.reproducibility()]
        made += [ac.compare(self.Y, {"a": [self.model()]}, splits=1, **quick)]
        made += [ac.select_budget(self.Y, [2], model=self.model(), splits=2, **quick)]
        return {type(each).__name__: each for each in (*made, self.consensus.memberships("who", progress=False))}

    @cache  # noqa: B019
    def forecast(self):
        return self.posts[1].forecast(2)

    def coming(self):
        labels = [ACTORS, ACTORS, self.forecast().periods]
        return ac.as_tensor(np.ones((4, 4, 2), dtype=int), mode_names=NAMES, labels=labels)

    def owner(self, kind, rng):
        """An object whose method is called."""
        if kind.__name__ in ("AlloCore", "CP"):
            return self.model(kind)
        if kind.__name__ in ("Tucker", "NNTuck"):
            few = {"burn_in": 2, "draws": 2, "thin": 1, "chains": 1} if kind is ac.Tucker else {"restarts": 1}
            return kind((2, 2, 2), seed=1, threads=1, **few)
        if kind is ac.Posterior:
            return rng.choice(self.posts)
        if kind is ac.ShardedTensor:
            return ac.ShardedTensor(self.folder / "shards.zarr")
        made = {"CountTensor": self.Y, "Missing": ac.Missing([(0, None, 1)], (4, 4, 8)), "EventReport": a_report()}
        return made[kind.__name__] if kind.__name__ in made else self.results()[kind.__name__]


def a_report():
    return ac.EventReport("custom", files=1, rows=9, kept=9)


def targets():
    """All public functions, methods and constructors, by name: a class (or None) and the attribute to call."""
    found = {name: (None, function) for name, function in FUNCTIONS.items()}
    for kind in CLASSES:
        if kind.__name__ not in RESULTS:
            found[kind.__name__] = (None, kind)
        for name, member in members(kind).items():
            if not isinstance(member, property):
                found[f"{kind.__name__}.{name}"] = (kind if is_method(member) else None, getattr(kind, name))
    return {name: target for name, target in found.items() if name not in LEFT_OUT}


# To show that a failure is found.
PLANTED = {
    "raises": (None, lambda: {}["nothing"]),
    "is not finite": (None, lambda: float("nan")),
    "dies": (None, os.abort),
}


def good_values(things):
    """Values that parameters of a name may well have."""
    Y, post, folder, cell = things.Y, things.post, things.folder, {"who": "A", "month": "2020-02"}
    coords = Y.coords[:, :3]
    numbers = [things.number, 0, 1]
    return {
        "Y": [Y, things.split, things.undirected, Y.mask_diagonal()],
        "Y_new": [Y.select(month="2020-03"), Y], "Y_future": [things.coming()],
        "absent": ["zero", "missing"], "asymmetric": ["error", "sum"],
        "against": ["budget", "seconds"], "along": [-1, "month", 0],
        "ax": [None], "budget": [2, "infer"], "budgets": [[2], [2, 3]], "by": ["who", ["who"], (), "month"],
        "cells": [cell, [cell], {}, coords, pd.DataFrame([cell]), things.split.test, {"who": ["A", "B"]}],
        "chain": [0, 1, -1, None], "chains": [[0], [0, 1], 1, 2], "coords": [coords, things.split.test],
        "core_shape": [(2, 2, 2)], "count": [None, "n"], "counts": [[1, 2, 3], Y.counts[:3]],
        "dispersion_by": [None, "who", 0], "draw": ["best", 0, -1, None], "draws": [True, False, 40, 3, None],
        "e0": [1.0, 0.5, "infer", [1.0, 2.0, 0.5]], "exposure": [None, [1.0, 2.0]], "exposures": [None],
        "factors": [2, None], "free": [None, 1], "frozen": [None, FROZEN, post, things.consensus, folder / "run.zarr"],
        "fraction": [0.1, 0.5], "folder": [folder / "figures"], "forecast": [things.forecast()],
        "found": [post, things.results()["Check"]], "format": ["markdown", "latex", "html", "auto"],
        "formats": [["png"]], "allow_training": [True],
        "horizon": [1, 2], "interval": [0.9, 0.5], "k": [0, 1],
        "kind": ["panels", "stacked", "communities", "classes", "expected"],
        "labels": [None, list(Y.labels), {"who": ACTORS}], "layers": ["year", ("key", "year"), ()],
        "level": ["good", "note"],
        "levels": [[0.1, 0.9], (0.5,)], "likelihood": ["auto", "nb", "poisson", "bernoulli"],
        "like": [Y], "log_likelihood": [None, "held-out", "cells"], "missing": [True, False, [(0, None, None)]],
        "mode": ["who", 0, -1, "month"], "mode_names": [NAMES, None], "model": [things.model()],
        "models": [{"a": [things.model()]}],
        "modes": [["who", "whom"], (0, 1), None, {"who": ac.Mode(factors=2)}, modes_known(things)],
        "most": [5, 20], "new": [post], "new_labels": ["error", "drop"], "number": numbers,
        "numbers": [numbers[:1]],
        "old": [post, things.posts[1]], "order": ["factors", "labels"], "other": [ac.Missing([], (4, 4, 8))],
        "path": [folder / name for name in PATHS],
        "permutations": [9],
        "patterns": [[("A", None, "2020-01")], [(0, 1, 2), (None, 1, None)]], "per_unit": [True, False],
        "place": [0], "places": [(0,)], "post": [*things.posts, folder / "run.zarr", things.model()],
        "posterior": things.posts, "rank": [2], "reports": [[a_report()]], "rows": [{"who": "A"}, 3, 1],
        "seed": [0, 1],
        "seeds": [None, SEEDS, {"a": "A", "b": ["B", "C"]}], "seed_weight": [10.0, 0.5],
        "shape": [(4, 4, 8)], "shards": [2, None], "source": [frame()], "start": [None],
        "table": [things.results()["Comparison"].table], "tensor": [Y, "a table"], "tensors": [[Y, things.coming()]],
        "test": [None, things.split.test, Y], "text": [a_report().to_json()], "threshold": [0.02, 0.2],
        "tied": [None, ("who", "whom"), (0, 1)], "weight": ["weight", None],
        "time": ["day", None], "top": [1, 5], "train": [Y], "values": [{}], "weights_D": [None, np.ones(4)],
        "what": ["nodes", "shares", "communities", "profiles", "classes", "factors"], "first": [0], "second": [1],
        "x": [Y.to_dense(), folder / "tensor.npz", Y.to_frame(), *graphs(things)], "y": [None], "node": [0, 1],
        "least": [0.05],
        "observed": [True, False], "heaviest": [{}], "freq": ["month"], "on_error": ["raise", "drop"],
    }  # fmt: skip


PATHS = (
    *("tensor.npz", "shards.zarr", "run.zarr", "new.npz", "new.zarr", "new.graphml", "new.csv", "new.parquet"),
    *("new.html", "new.txt"),
)


def modes_known(things):
    """Settings of modes of which something is known."""
    return {
        "month": ac.Mode(seeds=SEEDS, exposure=np.linspace(1.0, 2.0, len(MONTHS))),
        "who": ac.Mode(frozen=things.consensus, factors=3),
    }


def graphs(things):
    """Graphs as networkx and igraph have them, and lists and dicts of graphs."""
    import igraph

    graph = things.graph
    ties, loops = nx.Graph(graph), nx.DiGraph([("A", "A"), ("A", "B")])
    return [graph, ties, loops, [graph, graph], {"x": ties, 7: ties}, igraph.Graph.from_networkx(graph), nx.Graph()]


def frame():
    return pd.DataFrame({"who": ["A", "B", "A"], "whom": ["B", "A", "C"], "day": ["2020-01-03"] * 3, "n": [1, 2, 3]})


def hostile_values(things):
    """Values of the wrong type, size or range, of which some are right for some parameters."""
    nested = []
    for _ in range(2000):
        nested = [nested]
    return [
        *(None, True, False, 0, 1, -1, 2, 3, 7, 2**31, 2**63, -(2**63), 10**30),
        *(0.0, 0.5, 1.0, 1.5, -0.5, 1 - 1e-16, 1e-300, 5e-324, 1e300, float("nan"), float("inf"), -float("inf")),
        *("", "who", "A", "nobody", "\0", "\ud800", "x" * 5000, "2020", "a/b", b"who", bytearray(3), "=1+1", "🦆"),
        *([], [[]], (), {}, set(), frozenset({1}), [None], [1, 2, 3], [0.5], ["who"], ["A", "B"], [True], [-1], nested),
        *(["who", 1], [1, [2]], (0, 1), ("who", "whom"), ("who", "who"), {"who": "A"}, {"who": None}, {0: 1}),
        *({None: 1}, {"who": ["A", "A"]}, {"month": slice("2020", None)}, [{"who": "A"}], [{}], [{"whom": 7}]),
        *(np.array([]), np.array(1), np.array(np.nan), np.arange(3), np.ones(3), np.array([0.5, 0.6])),
        *(np.zeros((3, 0), dtype=int), np.zeros((0, 3), dtype=int), np.zeros((3, 2), dtype=int), np.ones((4, 4, 8))),
        *(np.array([[0, 9], [0, 0], [0, 0]]), np.full((3, 2), np.nan), np.array(["who", "A"]), np.array([1, -1])),
        *(np.array([None, "A"]), np.array([[1, 2]], dtype=object), np.uint64([2**63]), np.zeros(3, dtype=bool)),
        *(np.int8(1), np.uint64(2**63), np.float32(0.5), np.float64("nan"), np.str_("who"), np.bool_(True)),
        *(np.datetime64("2020-01-01"), np.ma.masked_array([1, 2], [True, False]), 1j, Decimal("0.5"), Fraction(1, 2)),
        *(pd.DataFrame(), pd.DataFrame({"who": ["A"]}), pd.DataFrame({"who": [None]}), pd.Series([1.0, 2.0]), pd.NA),
        *(pd.Series({"A": 1.0, "B": 2.0}), pd.Timestamp("2020-01-01"), pd.NaT, frame(), pd.Categorical(["who"])),
        *(slice(None), slice("A", "B"), slice(0, 2, 0), slice(3, 1), range(3), range(0), iter("ab"), (n for n in [1])),
        *(object(), object, print, lambda *_: None, ..., NotImplemented, datetime.date(2020, 1, 1), ac.InputError),
        *(things.folder, things.folder / "nowhere", things.folder / "run.zarr", Path("x" * 300), Path("/dev/null/x")),
        *(things.Y, things.post, things.consensus, things.split, things.split.test, things.model(), ac.Mode(factors=2)),
        *(things.graph, [things.graph, 1], {"x": things.graph}, things.undirected, FROZEN, -FROZEN, FROZEN.iloc[:2]),
        *(ac.Mode(seeds={"a": ["nobody"]}), {"who": ac.Mode(frozen=FROZEN, free=0)}, {"a": ["A"]}, {"a": []}),
        *({"month": ac.Mode(seeds=SEEDS, free=10**9)}, {"who": ac.Mode(frozen=things.posts[1])}),
    ]  # fmt: skip


# Large numbers are not wrong here: the call would take as long as was asked for.
ENDLESS = {
    *("burn_in", "draws", "thin", "sweeps", "chains", "max_iter", "restarts", "splits", "jobs", "max_time", "shards"),
    *("budget", "budgets", "rank", "core_shape", "horizon", "threads", "factors"),
}  # fmt: skip
# What a call needs in order to succeed, beside its required arguments; and what keeps it short.
NEEDED = {"ac.read_events": ("modes", "time"), "ac.select_budget": ("budgets", "model")}
EXTRA = {
    "ac.select_budget": {"executor": SerialExecutor(), "progress": False, "splits": 2},
    **{f"{kind}.{name}": {"who": "A"} for kind in ("CountTensor", "ShardedTensor") for name in ("mask", "select")},
}
ALWAYS = {"jobs": 1, "splits": 2, "progress": False}


def arguments(name, function, things, rng):
    """Draw arguments of a call: mostly good ones, and one or a few at random."""
    good, hostile, drawn = good_values(things), hostile_values(things), dict(EXTRA.get(name, {}))
    parameters = [each for each in inspect.signature(function).parameters.values() if each.name != "self"]
    chance = min(0.4, 2.0 / max(1, len(parameters)))  # of an option; many options at once rarely suit one another
    attacked = {each.name for each in rng.sample(parameters, min(len(parameters), rng.choice([0, 0, 1, 1, 1, 2, 3])))}
    for each in parameters:
        required = each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        required = required or each.name in NEEDED.get(name, ())
        if each.kind is each.VAR_POSITIONAL:
            continue
        if each.name in ALWAYS and (each.name, each.default) != ("progress", None):
            drawn[each.name] = ALWAYS[each.name]
        elif each.name == "executor" and each.name not in attacked:
            drawn[each.name] = SerialExecutor() if "jobs" in drawn else None
        elif each.name in attacked:
            value = rng.choice(hostile)
            if each.kind is each.VAR_KEYWORD:
                drawn[rng.choice(["who", "nobody", "seed", "x"])] = value
            elif each.name not in ENDLESS or not is_large(value):
                drawn[each.name] = value
        elif each.name in good and each.kind is not each.VAR_KEYWORD and (required or rng.random() < chance):
            drawn[each.name] = rng.choice(good[each.name])
            if each.name == "path" and required and rng.random() < 0.5:
                drawn[each.name] = good["path"][1 if function is ac.ShardedTensor else 0]
    return drawn


def is_large(value):
    return isinstance(value, int | np.integer | float) and value > 50


def call(name, seed, things):
    """Make a call; return what it was, and "answer", "refused" or what is wrong."""
    rng = random.Random(f"{name} {seed}")
    kind, function = (targets() | PLANTED)[name]
    given = arguments(name, function, things, rng)
    for own in ("burn_in", "draws", "thin", "chains", "restarts", "max_iter"):
        if name in ("AlloCore", "CP", "Tucker", "NNTuck") and own in inspect.signature(function).parameters:
            given.setdefault(own, 2)
    words = f"{name}({', '.join(f'{key}={short(value)}' for key, value in given.items())})"
    whole = dict(given)
    positional = [given.pop(each.name) for each in positional_only(function) if each.name in given]
    owner = [] if kind is None else [things.owner(kind, rng)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)  # NumPy's, of numbers that are not finite
            result = function(*owner, *positional, **given)
            if isinstance(result, ac.AlloCore | ac.CP | ac.Tucker | ac.NNTuck) and name.count(".") == 0:
                result = result.fit(things.Y)
        wrong = what_is_wrong(name, result, whole)
        return words, f"wrong: {wrong}" if wrong else "answer"
    except (ac.InputError, ac.StoreError, NotFittedError) as error:
        return words, "refused" if str(error).strip() else "no sentence"
    except BaseException as error:
        if isinstance(error, TypeError) and (is_of_the_call(error) or "keyword argument" in str(error)):
            return words, "refused"
        return words, traceback.format_exc()
    finally:
        close_figures()


def is_of_the_call(error):
    """Whether the arguments did not fit the signature, so that no line of allocore ran."""
    return error.__traceback__.tb_next is None


def positional_only(function):
    return [each for each in inspect.signature(function).parameters.values() if each.kind is each.POSITIONAL_ONLY]


def short(value):
    try:
        text = " ".join(repr(value).split())
    except RecursionError:
        text = "nested lists"
    return text if len(text) < 80 else f"{text[:77]}..."


def close_figures():
    import matplotlib.pyplot as plt

    plt.close("all")


# Results


def what_is_wrong(name, result, given):
    """Return what a result breaks of the promises, or an empty text."""
    if name in FINITE and (where := not_finite(result)):
        return f"{where} is not finite"
    return "" if name not in SHAPES or SHAPES[name](result, given) else f"the result has another shape: {result!r}"


def not_finite(value, place="the result"):
    """Return the place of the first number that is not finite, or an empty text."""
    if isinstance(value, pd.DataFrame):
        parts = [(f"{place}[{column!r}]", value[column].to_numpy()) for column in value]
    elif isinstance(value, dict | list | tuple):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        parts = [(f"{place}[{key!r}]", each) for key, each in items]
    elif isinstance(value, float | np.floating) or (isinstance(value, np.ndarray) and value.dtype.kind == "f"):
        return "" if np.isfinite(value).all() else place
    else:
        return ""
    return next((wrong for where, each in parts if (wrong := not_finite(each, where))), "")


def number_of_cells(cells):
    """How many cells or sums of cells a value names."""
    if hasattr(cells, "coords"):
        return cells.coords.shape[1]
    if isinstance(cells, np.ndarray):
        return cells.shape[1]
    return 1 if isinstance(cells, dict | tuple) else len(cells)


def is_table_of_cells(result, given):
    table, draws = result if given.get("draws") else (result, None)
    number = number_of_cells(given["cells"])
    fine = len(table) == number and (table["low"] <= table["high"]).all() and (table["low"] >= 0).all()
    return fine and table.columns.is_unique and (draws is None or (len(draws) == number and draws.ndim == 2))


def is_of_counts(result, given):
    draws = given.get("draws")
    shape = (result.shape[0] if draws is None else draws, number_of_cells(given["cells"]))
    return result.shape == shape and result.dtype == np.int64 and (result >= 0).all()


def is_of_quantiles(result, given):
    levels = np.atleast_1d(given.get("levels", (0.05, 0.25, 0.5, 0.75, 0.95)))
    quantiles = result[[str(level) for level in levels.tolist()]].to_numpy()
    return quantiles.shape == (number_of_cells(given["cells"]), len(levels)) and (np.diff(quantiles) >= 0).all()


def is_one_per_cell(result, given):
    return result.shape == (number_of_cells(given["coords"]),)


# Where every number is finite whatever the data; other tables have NaN for what does not exist.
FINITE = {
    *("Posterior.expected", "Posterior.predict", "Posterior.exposure", "Posterior.ppd"),
    *("Posterior.class_summary", "Posterior.factor", "Posterior.sharing", "Posterior.top_cells", "Forecast.predict"),
    *("Forecast.quantiles", "Forecast.by_class", "Forecast.changes", "Forecast.samples", "Consensus.profile"),
    *(
        "is not finite",
        "CountTensor.to_frame",
        "CountTensor.top_labels",
        "ShardedTensor.to_frame",
        "ClassSummary.to_frame",
    ),
}
SHAPES = {
    "Posterior.predict": is_table_of_cells,
    "Forecast.predict": is_table_of_cells,
    "Forecast.quantiles": is_of_quantiles,
    "Posterior.simulate": is_of_counts,
    "Forecast.simulate": is_of_counts,
    "Posterior.expected": is_one_per_cell,
    "Posterior.log_predictive": lambda result, given: is_one_per_cell(result, given) and (result <= 1e-9).all(),
    "Posterior.ppd": lambda result, _: 0.0 <= result <= 1.0,
    "Posterior.log_ppd": lambda result, _: result <= 1e-9,
    "Missing.contains": lambda result, given: result.shape == np.shape(given["coords"])[1:] and result.dtype == bool,
    "Missing.observed_rows": lambda result, given: result.dtype == bool,
    "ac.hold_out": lambda result, given: len(result.test) > 0 and result.train.missing.cells >= len(result.test),
}
