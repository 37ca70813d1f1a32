"""The kinds of files that are read. Another kind is one more entry: how to write a valid file, and how to read it."""

import gzip
import json
import random
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

import allocore as ac
from allocore.tensor.files import read_frame


class Kind(NamedTuple):
    """`write` makes a valid file (or folder) at a path; `read` reads one that was damaged."""

    suffix: str
    write: Callable[[Path], None]
    read: Callable[[Path], object]
    inner: str = ""  # "gzip": what is compressed is damaged, and compressed again


def events(number=60):
    rng = random.Random(1)
    notes = ["plain", "5 feet", "a, b", 'say "no"', "two\nlines", "", "Zürich"]
    return pd.DataFrame(
        {
            "who": [f"actor {rng.randrange(6)}" for _ in range(number)],
            "what": [f"act {rng.randrange(4)}" for _ in range(number)],
            "day": [f"2020-{rng.randrange(1, 4):02d}-{rng.randrange(1, 28):02d}" for _ in range(number)],
            "n": [rng.randrange(4) for _ in range(number)],
            "note": [rng.choice(notes) for _ in range(number)],
        }
    )


def tensor():
    rng = np.random.default_rng(2)
    labels = [[f"a{n}" for n in range(5)], None, ["2020-01", "2020-02", "2020-03"]]
    made = ac.as_tensor(rng.poisson(0.7, (5, 4, 3)), mode_names=["who", "what", "when"], labels=labels)
    return made.with_missing([("a1", None, "2020-02"), (None, 2, None)])


def read_table(path):
    """Read events; the name of the file decides what is done with bad rows, so that a case is one file."""
    on_error = "drop" if path.name.startswith("drop") else "raise"
    Y = ac.read_events(path, modes=["who", "what"], time="day", count="n", where="n <> '3'", on_error=on_error)
    counted = Y.report.kept + sum(Y.report.dropped.values()) + Y.report.duplicates
    assert counted == Y.report.rows, "rows do not add up"
    return str(Y.report), repr(Y)


def read_tensor(path):
    Y = ac.as_tensor(path)
    return repr(Y), Y._repr_html_(), [Y.top_labels(mode) for mode in range(Y.ndim)]


def write_text(text):
    return lambda path: path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def saved(path):
    tensor().save(path)


def write_scipy(path):
    import scipy.sparse

    matrix = scipy.sparse.random(8, 6, 0.4, random_state=np.random.default_rng(3), format="csr")
    matrix.data[:] = np.arange(1, matrix.nnz + 1)
    scipy.sparse.save_npz(path, matrix, compressed=False)


def write_run(path):
    ac.AlloCore(4, burn_in=2, draws=3, thin=1, chains=2, seed=0, store=path).fit(tensor())


def network():
    """Undirected ties between actors, by what and when."""
    counts = np.random.default_rng(4).poisson(0.9, (5, 5, 3))
    made = ac.as_tensor(counts, mode_names=["one", "other", "what"], labels=[list("abcde"), list("abcde"), None])
    return made.mask_diagonal().undirected(asymmetric="sum")


def write_run_with_known_factors(path):
    frozen = pd.DataFrame({"first": range(1, 4), "second": [3, 1, 1]}, index=["0", "1", "2"])
    modes = {"one": ac.Mode(factors=3, seeds={"seed": ["a", "b"]}), "what": ac.Mode(frozen=frozen, free=1)}
    settings = {"burn_in": 2, "draws": 3, "thin": 1, "chains": 2, "seed": 0}
    ac.AlloCore(4, modes=modes, store=path, **settings).fit(network())


def read_run(path):
    posterior = ac.open_run(path, on_error="drop" if path.name.startswith("drop") else "raise")
    return repr(posterior), posterior.classes(draw=-1)


def read_and_resume_run(path):
    """Read a run, find its consensus and communities, and resume it."""
    read_run(path)
    with warnings.catch_warnings(action="ignore"):
        ac.open_run(path).memberships("one", progress=False)
        return repr(ac.AlloCore.resume(path, progress=False).posterior_)


CSV = events().to_csv(index=False)
TSV = events().assign(note="none").to_csv(index=False, sep="\t")
JSON = "".join(json.dumps(row) + "\n" for row in events().to_dict("records"))
TNS = "# a comment\n" + "".join(f"{a} {b} {c} {a * b}\n" for a in range(1, 5) for b in range(1, 4) for c in (1, 2))

DATA = {
    "csv": Kind(".csv", write_text(CSV), read_table),
    "tsv": Kind(".tsv", write_text(TSV), read_table),
    "json lines": Kind(".jsonl", write_text(JSON), read_table),
    "csv.gz": Kind(".csv.gz", write_text(CSV), read_table),
    "csv in gzip": Kind(".csv.gz", write_text(CSV), read_table, inner="gzip"),
    "json in gzip": Kind(".jsonl.gz", write_text(JSON), read_table, inner="gzip"),
    "parquet of events": Kind(".parquet", lambda path: events().astype(str).to_parquet(path), read_table),
    "parquet of a tensor": Kind(".parquet", saved, read_tensor),
    "npz of a tensor": Kind(".npz", saved, read_tensor),
    "npz of undirected ties": Kind(".npz", lambda path: network().save(path), read_tensor),
    "parquet of undirected ties": Kind(".parquet", lambda path: network().save(path), read_tensor),
    "npz of SciPy": Kind(".npz", write_scipy, read_tensor),
    "npz of arrays": Kind(
        ".npz",
        lambda path: np.savez(path, coords=tensor().coords, counts=tensor().counts, shape=(5, 4, 3)),
        read_tensor,
    ),
    "npy": Kind(".npy", lambda path: np.save(path, np.arange(24).reshape(2, 3, 4)), read_tensor),
    "tns": Kind(".tns", write_text(TNS), read_tensor),
    "tns.gz": Kind(".tns.gz", write_text(TNS), read_tensor),
    "tns in gzip": Kind(".tns.gz", write_text(TNS), read_tensor, inner="gzip"),
    "csv of cells": Kind(".csv", write_text(CSV), lambda path: read_frame(path, "cells")),
    "parquet of cells": Kind(
        ".parquet", lambda path: events().to_parquet(path), lambda path: read_frame(path, "cells")
    ),
}
RUNS = {
    "run": Kind(".zarr", write_run, read_run),
    "run with known factors": Kind(".zarr", write_run_with_known_factors, read_and_resume_run),
    "tensor in shards": Kind(".zarr", saved, lambda path: (read_tensor(path), ac.load_tensor(path).load())),
}


def _wait(path):
    time.sleep(600)


def _allocate(path):
    return np.ones(100_000_000).sum()


def _die(path):
    import os

    os.abort()


# To show that the fuzzer finds what it looks for.
PLANTED = {
    "raises": Kind(".tns", write_text(TNS), lambda path: 1 / 0),
    "hangs": Kind(".tns", write_text(TNS), _wait),
    "hoards": Kind(".tns", write_text(TNS), _allocate),
    "dies": Kind(".tns", write_text(TNS), _die),
}  # fmt: skip

KINDS = DATA | RUNS
ALL = DATA | RUNS | PLANTED
