"""Event tables are read in notebooks, with or without ipywidgets."""

import pytest

from support.notebooks import outputs_of

READ = """
import allocore as ac, pandas as pd
ac.read_events(pd.DataFrame({"store": ["A", "B"], "item": ["tea", "rice"]}), modes=["store", "item"]).shape
"""


@pytest.mark.slow
def test_events_are_read_in_a_notebook_without_ipywidgets(tmp_path):
    (read,) = outputs_of(tmp_path, READ)
    assert read[0]["data"]["text/plain"] == "(2, 2)"
