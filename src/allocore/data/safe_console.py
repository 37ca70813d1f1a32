"""A console of rich that shows control characters in data as text, and sends none of them to the terminal."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from allocore.data.display import visible


class SafeConsole(Console):
    """A console for labels and names that strangers chose. Colours, and what rich itself sends, are as ever."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of what is printed."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))
