"""The report of New York's flights that the front page shows: fitted and written while the site is built."""

from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

import allocore as ac

_LOG = logging.getLogger(__name__)


def _write(app: Sphinx) -> None:
    _LOG.info("fitting the flights for the explorer of the front page")
    page = Path(app.outdir) / "explorer" / "flights.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    model = ac.AlloCore(40, seed=1, progress=False)
    model.fit(ac.hold_out(ac.load_flights(), 0.01, seed=0))
    ac.write_report(model, page, title="Flights that left New York in 2013")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the report before the pages."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
