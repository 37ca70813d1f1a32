"""Connections to duckdb (allocore.tensor.sql)."""

import subprocess
import sys

CONNECT = """
from allocore.tensor.sql import connect
print(connect().execute("SELECT current_setting('enable_progress_bar')").fetchone()[0])
"""


def test_no_bar_is_drawn_into_a_pipe():
    """Where a command prints JSON."""
    done = subprocess.run([sys.executable, "-c", CONNECT], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
