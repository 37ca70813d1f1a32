"""Small posteriors put together by hand, and what is drawn in a panel."""

import numpy as np
from matplotlib.text import Text

import allocore as ac
from allocore.model.spec import Spec
from allocore.report.figures import run as figure_files
from allocore.report.figures.style import Figure
from allocore.results import Posterior
from allocore.storage.record import Record, Schedule

WEEKS = tuple(f"2018-{month:02d}" for month in range(1, 13))
WHO = ("Ada", "Bo", "Cy", "Di", "Ed", "Flo")
WHAT = ("a long name for a small thing", "buy", "sell")


def drawable_posterior(
    factors=None,
    locations=((0, 0, 0), (1, 0, 1), (2, 1, 1)),
    values=(6.0, 3.0, 1.0),
    *,
    labels=(WHO, WHAT, WEEKS),
    names=("who", "what", "when"),
    chains=2,
    draws=3,
    burn_in=2,
    sweeps=None,
    learn=True,
):
    """Every draw of every chain is the same, but for the traces, which count the sweeps."""
    factors = some_factors() if factors is None else [np.asarray(factor, dtype=float) for factor in factors]
    core_shape = tuple(factor.shape[1] for factor in factors)
    shape = tuple(len(factor) for factor in factors)
    sweeps = burn_in + draws if sweeps is None else sweeps
    lead, modes = (chains, draws), len(shape)
    counted = np.arange(sweeps) + np.arange(chains)[:, None] * 100
    return Posterior(
        Record(
            ac.CountTensor(np.zeros((modes, 1), dtype=int), [1], shape, mode_names=names, labels=labels),
            Spec(len(values), core_shape, model="AlloCore" if learn else "CP"),
            Schedule(burn_in, max(draws, 1), 1),
            0,
            core_values=np.broadcast_to(np.array(values), (*lead, len(values))).copy(),
            core_locations=np.broadcast_to(np.array(locations), (*lead, *np.shape(locations))).copy(),
            factors=tuple(np.broadcast_to(factor, (*lead, *factor.shape)).copy() for factor in factors),
            stats={
                "log_likelihood": -1000.0 + counted,
                "classes": np.full((chains, sweeps), len(values)) - (np.arange(sweeps) % 2),
                "factors": np.stack([counted % (mode + 2) + 1 for mode in range(modes)], axis=-1),
                "moved": np.zeros((chains, sweeps)) if not learn else counted / 1000.0,
                "seconds": np.ones((chains, sweeps)),
            },
        )
    )


def some_factors():
    """Columns that add up to one: who 6 x 3, what 3 x 2, when 12 x 2."""
    who = np.array([[0.5, 0, 0], [0.3, 0, 0], [0.15, 0, 0], [0.04, 0, 0], [0.01, 0.2, 0], [0, 0.8, 1]])
    what = np.array([[0.1, 0.98], [0.2, 0.01], [0.7, 0.01]])
    when = np.full((12, 2), 1 / 12)
    when[:, 1] = [0.01, 0.01, 0.4, 0.1, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.35, 0.07]
    return [who, what, when]


def write_without_drawing(monkeypatch):
    """Let `write_all` write the files of empty figures, for tests of which files there are."""
    drawn = "adjacency", "classes", "communities", "core", "factors", "mass", "effective_shape", "over_time", "traces"
    for name in drawn:
        monkeypatch.setattr(figure_files, name, lambda *_, **__: Figure())
    monkeypatch.setattr(Figure, "savefig", lambda figure, stream, **how: stream.write(b"drawn"))


def artists(panel, gid):
    """Everything in a panel that is marked with a name."""
    return panel.findobj(lambda artist: artist.get_gid() == gid)


def texts(panel, gid="name"):
    return [artist.get_text() for artist in artists(panel, gid)]


def all_texts(ax):
    from matplotlib.text import Text

    return [text.get_text() for text in ax.findobj(Text) if text.get_text() and text.get_visible()]


def stems(panel, gid):
    """The stems of a panel that are grey or coloured, as a dict from row to height."""
    (lines,) = artists(panel, gid)
    segments = lines.get_segments()
    assert all(len(segment) == 2 and segment[0, 1] == 0 and segment[0, 0] == segment[1, 0] for segment in segments)
    return {int(segment[1, 0]): float(segment[1, 1]) for segment in segments}


def boxes(figure):
    """The boxes of all texts that can be seen, in pixels."""
    figure.draw_without_rendering()
    hidden = set()  # the names of ticks that lie beyond the ends of their axis
    for axis in (axis for panel in figure.panels for axis in (panel.xaxis, panel.yaxis)):
        low, high = sorted(axis.get_view_interval())
        hidden |= {tick.label1 for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high}
    shown = [text for text in figure.findobj(Text) if text.get_text().strip() and text.get_visible()]
    return [(text.get_text(), text.get_window_extent()) for text in shown if text not in hidden]


def cut_texts(figure):
    """The texts that stick out of a figure by more than a pixel."""
    low, high = figure.bbox.min - 1, figure.bbox.max + 1
    return [text for text, box in boxes(figure) if (box.min < low).any() or (box.max > high).any()]
