"""A matplotlib figure that shows itself in a notebook: once, at a size for screens, without pyplot."""

from base64 import b64encode
from io import BytesIO
from typing import Any

import matplotlib.figure
from matplotlib.axes import Axes

# On a screen an inch of print is this many pixels wide, and every pixel is drawn with two dots in each direction.
_PIXELS, _DOTS = 110, 2


class Figure(matplotlib.figure.Figure):
    """A figure as `allocore.figures` makes it: all that a matplotlib figure is, and shown in notebooks by itself.

    pyplot does not know it. So a notebook shows it where it is the last value of a cell, with or without
    `%matplotlib inline`, and never twice; and it takes no memory once nobody refers to it.
    """

    @property
    def panels(self) -> list[Axes]:
        """The axes that have something drawn in them: the panels of a sheet, or the axes of a single plot."""
        found = [panel for ax in self.axes for panel in (ax.child_axes or [ax])]
        return [panel for panel in found if isinstance(panel, Axes)]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, str], dict[str, Any]]:
        """Show the figure in Jupyter, VS Code or Colab, also if nothing there knows matplotlib."""
        from allocore.figures import style

        stream = BytesIO()
        with style.look():
            self.savefig(stream, format="png", dpi=_DOTS * _PIXELS)
        width, height = (round(float(inches) * _PIXELS) for inches in self.get_size_inches())
        shown = {"image/png": b64encode(stream.getvalue()).decode("ascii"), "text/plain": repr(self)}
        return shown, {"image/png": {"width": width, "height": height}}


def figure_or_axes(drawn: Axes, given: Axes | None) -> "Figure | Axes":
    """What a function returns: the new figure, or the axes that it was given to draw in.

    Given axes belong to a figure of somebody else, which a notebook would show twice if it were returned.
    """
    if given is not None:
        return given
    figure = drawn.get_figure(root=True)
    assert isinstance(figure, Figure)
    return figure
