"""The reports that the front page shows, of the firm and of New York's flights: written while the site is built."""

import runpy
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

import allocore as ac

_LOG = logging.getLogger(__name__)


def _firm(source: Path) -> ac.CountTensor:
    """The ties of the tutorial on a network, whose communities are planted."""
    _, ties = runpy.run_path(str(source / "tutorials" / "make_firm.py"))["make_firm"]()
    return ac.read_events(ties, modes=["from", "to", "layer"], shared_modes=["from", "to"])


def _write(app: Sphinx) -> None:
    folder = Path(app.outdir) / "explorer"
    folder.mkdir(parents=True, exist_ok=True)
    firm = ac.hold_out(_firm(Path(app.srcdir)), 0.1, along="layer", seed=0)
    flights = ac.hold_out(ac.load_flights(), 0.01, seed=0)
    for name, split, budget, title in (
        ("firm", firm, 12, "Ties in an invented law firm"),
        ("flights", flights, 40, "Flights that left New York in 2013"),
    ):
        _LOG.info("fitting the %s for the report of the front page", name)
        model = ac.AlloCore(budget, seed=1, progress=False).fit(split)
        if name == "firm" and not model.posterior_.diagnose().ok:
            _LOG.warning("the front page says that all lights of the firm are green, but they are not")
        ac.write_report(model, folder / f"{name}.html", title=title)


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the reports before the pages."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
