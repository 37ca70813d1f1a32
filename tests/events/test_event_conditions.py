"""`where` is one expression on the columns of a row: anything else is refused before anything is run."""

import re

import duckdb
import pandas as pd
import pytest

import allocore as ac
from allocore.tensor.sql import connect
from support.errors import refused
from support.tiers import parametrize_few

TABLE = "a,b,n,day\nx,p,1,2020-01-05\ny,p,2,2020-02-05\nx,q,3,2020-02-06\nz,q,40,2021-01-01\n"


def read(tmp_path, where):
    (tmp_path / "t.csv").write_text(TABLE)
    return ac.read_events(tmp_path / "t.csv", modes=["a", "b"], where=where)


ALLOWED = {
    "a = 'x'": 2,
    "a <> 'x' AND NOT (b = 'q')": 1,
    "a IN ('x', 'z') OR n::INT > 30": 3,
    "TRY_CAST(n AS INTEGER) BETWEEN 2 AND 3": 2,
    "lower(a) LIKE 'X%' OR a ILIKE 'X%'": 2,
    "regexp_matches(a, '^[xy]$') AND a IS NOT NULL": 3,
    "year(day::DATE) = 2020 -- root events alone": 3,
    "day::DATE >= DATE '2020-02-05' AND day::DATE - INTERVAL 1 DAY < DATE '2020-12-31'": 2,
    "CASE WHEN b = 'q' THEN n::INT % 2 = 1 ELSE coalesce(a, '') = 'y' END": 2,
    "source.\"a\" || b = 'xq'": 1,
    "substr(day, 1, 4) = '2021' /* ; DROP TABLE x */": 1,
}


@parametrize_few("where", ALLOWED)
def test_conditions_on_columns_are_allowed(tmp_path, where):
    assert read(tmp_path, where).report.kept == ALLOWED[where]


REFUSED = [
    "true) IS TRUE AS keep, true AS lead, NULL AS file, true AS is_row; COPY (SELECT 1) TO '{out}'; SELECT (1",
    "a = 'x'; COPY (SELECT 1) TO '{out}'",
    "(SELECT count(*) FROM read_text('{secret}')) > 0",
    "EXISTS (FROM read_csv('{secret}'))",
    "a IN (SELECT content FROM read_text('{secret}'))",
    "a = 'x') OR (b = 'q'",
    "a = 'x') FROM t WHERE (b",
    "a = 'x' FROM t",
    "a = 'x' LIMIT 1",
    "a = 'x' UNION SELECT true",
    "a, b",
    "a AS b",
    "a = 'x' /*",
    "a = 'x') --",
    "getenv('HOME') = 'x'",
    "current_setting('temp_directory') <> ''",
    "system.main.pg_sleep(1) = 1",
    "main.lower(a) = 'x'",
    "random() < 0.5",
    "nextval('s') = 1",
    "sum(n::INT) > 1",
    "row_number() OVER () = 1",
    "COLUMNS('.*') = 'x'",
    "$1 = a",
    "list_transform([1], x -> x + 1) = [2]",
    "repeat(a, 1000000000000) = 'x'",
    "INSTALL httpfs",
    "a = 'x' \0",
    "a = '\ud800'",
    "",
    "--",
    "(" * 5000 + "true" + ")" * 5000,
    "NOT " * 100_000 + "true",
]  # fmt: skip


@parametrize_few("where", REFUSED, quick=10, ids=lambda where: where[:40].encode("ascii", "backslashreplace").decode())
def test_all_else_is_refused_and_nothing_of_it_is_run(tmp_path, where):
    secret, out = tmp_path / "secret", tmp_path / "written.csv"
    secret.write_text("password")
    where = where.replace("{secret}", str(secret)).replace("{out}", str(out))
    with refused("where", where) as caught:
        read(tmp_path, where)
    assert "password" not in str(caught.value)
    assert not out.exists()


def test_a_frame_is_filtered_by_the_same_rule(tmp_path):
    frame = pd.DataFrame({"a": ["x", "y"], "b": ["p", "q"]})
    assert ac.read_events(frame, modes=["a", "b"], where="a = 'x'").report.kept == 1
    with refused("where", "getenv('HOME') = 'x'", "the function getenv is not allowed"):
        ac.read_events(frame, modes=["a", "b"], where="getenv('HOME') = 'x'")


def test_a_connection_reaches_the_given_files_alone_and_its_settings_are_locked(tmp_path):
    given, other = tmp_path / "gi[v]en*.csv", tmp_path / "other.csv"
    given.write_text("a\n1\n")
    other.write_text("a\n1\n")
    (tmp_path / "scratch").mkdir()
    with connect([given], tmp_path / "scratch") as connection:
        assert connection.execute(f"FROM read_csv('{tmp_path}/gi[[]v]en[*].csv')").fetchall() == [(1,)]
        for query in (
            f"FROM read_csv('{other}')",
            f"FROM read_text('{tmp_path}/*')",
            f"COPY (SELECT 1) TO '{tmp_path}/new.csv'",
            f"ATTACH '{tmp_path}/new.db'",
            "INSTALL httpfs",
            "LOAD httpfs",
            "FROM read_csv('https://example.org/a.csv')",
            "SET enable_external_access = true",
            "SET allowed_directories = ['/']",
            "RESET lock_configuration",
            "FROM frame",
        ):
            frame = pd.DataFrame({"a": [1]})
            assert len(frame) == 1, "it is there, but duckdb may not look for it in Python"
            with pytest.raises(duckdb.Error):
                connection.execute(query).fetchall()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gi[v]en*.csv", "other.csv", "scratch"]


def test_no_module_connects_to_duckdb_by_itself():
    from pathlib import Path

    source = Path(ac.__file__).parent
    connects = re.compile(r"duckdb\.(connect|sql|execute)\(")
    connecting = [path.name for path in source.rglob("*.py") if connects.search(path.read_text())]
    assert connecting == ["sql.py"]


@pytest.mark.slow
def test_tables_beyond_the_memory_limit_still_spill_to_the_folder(tmp_path):
    with connect([], tmp_path, {"memory_limit": "'60MB'", "threads": "1"}) as connection:
        query = "SELECT count(*) FROM (SELECT DISTINCT md5(i::VARCHAR) FROM range(1000000) AS r(i))"
        assert connection.execute(query).fetchall() == [(1_000_000,)]
