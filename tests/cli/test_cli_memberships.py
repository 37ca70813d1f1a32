"""allocore memberships: the communities of a mode and their nodes, printed and as tables."""

import pandas as pd
import pytest

import allocore as ac
from support.command_line import as_words, assert_refused


def test_it_prints_communities_and_nodes(run, stored_run):
    code, out, err = run("memberships", stored_run, "--mode", "when")
    assert (code, err) == (0, "")
    found = ac.open_run(stored_run).consensus().memberships("when")
    assert f"communit{'y' if len(found.number) == 1 else 'ies'} of when, consensus of 4 chains" in as_words(out)
    for name, row in found.frame().iterrows():
        (line,) = (line.split() for line in out.splitlines() if line.split()[:1] == [name])
        assert line[1:3] == [str(row["community"]), f"{row['probability']:.2f}"]


def test_the_first_mode_is_the_default_and_the_largest_nodes_are_printed(run, stored_run):
    _, out, _ = run("memberships", stored_run, "--rows", 2)
    assert "of who," in out
    assert "The 2 largest of 4 by expected counts." in as_words(out)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_tables_are_written(run, stored_run, tmp_path, ending):
    nodes, shares = tmp_path / f"nodes{ending}", tmp_path / f"shares{ending}"
    code, out, _ = run("memberships", stored_run, "--mode", "when", "--out", nodes, "--shares", shares)
    assert code == 0
    assert f"written to {shares}" in as_words(out)
    read = pd.read_csv if ending == ".csv" else pd.read_parquet
    post = ac.open_run(stored_run)
    for path, known in ((nodes, post.memberships("when").reset_index()), (shares, post.memberships("when", "shares"))):
        table = read(path)
        assert list(table.columns) == list(known.columns)
        assert table["when"].tolist() == known["when"].tolist()
        assert table["share"].tolist() == pytest.approx(known["share"].tolist())


def test_a_mode_that_does_not_exist_is_refused(run, stored_run):
    assert_refused(
        run("memberships", stored_run, "--mode", "whom"),
        "--mode",
        repr("whom"),
        "must be one of the modes who, what, when",
    )


def test_a_graph_is_written_as_from_python(run, stored_run, tmp_path):
    path = tmp_path / "graph.graphml"
    code, out, _ = run("graph", stored_run, "--kind", "expected", "--modes", "who,2", "--least", 2, "--out", path)
    assert (code, as_words(out)) == (0, f"Graph written to {path}")
    ac.write_graph(stored_run, tmp_path / "same.graphml", "expected", modes=["who", "when"], least=2)
    assert path.read_bytes() == (tmp_path / "same.graphml").read_bytes()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--out", "graph.gexf"), "--out"),
        (("--out", "a.csv", "--kind", "nodes"), "--kind"),
        (("--out", "a.csv", "--modes", "who"), "--modes"),
        (("--out", "a.csv", "--modes", "who,what", "--least", -1), "--least"),
    ],
)
def test_a_graph_that_cannot_be_written_is_refused(run, stored_run, tmp_path, monkeypatch, options, named):
    monkeypatch.chdir(tmp_path)
    assert_refused(run("graph", stored_run, *options), named)
