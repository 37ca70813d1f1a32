"""Draw the output of `allocore demo` as an SVG file, the picture in the README.

Usage: python scripts/make_demo_picture.py docs/demo.svg
"""

import sys

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import MONOKAI

import allocore as ac
from allocore.report.terminal import class_report


def main(path: str) -> None:
    """Fit the flights as the demo does, and draw the largest classes."""
    post = ac.AlloCore(25, seed=1).fit(ac.load_flights()).posterior_
    console = Console(record=True, width=132, force_terminal=True, color_system="truecolor")
    console.print(class_report(post, rows=9, top=2))
    # The picture must not fetch a web font, so drop the rules that name one.
    start, end = CONSOLE_SVG_FORMAT.index("@font-face"), CONSOLE_SVG_FORMAT.index(".{unique_id}-matrix")
    template = CONSOLE_SVG_FORMAT[:start] + CONSOLE_SVG_FORMAT[end:]
    console.save_svg(path, title="allocore demo", theme=MONOKAI, code_format=template, unique_id="allocore-demo")


if __name__ == "__main__":
    main(sys.argv[1])
