"""Pictures of the gallery: an example calls its figures `figure`, `figure_2` .., and each new one is saved."""

from typing import Any

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst


def save_figures(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the figures that a block of an example has made, and return how to show them."""
    saved: list[str] = []
    seen = block_vars.setdefault("saved_figures", set())
    for value in block_vars["example_globals"].values():
        if isinstance(value, Figure) and id(value) not in seen:
            seen.add(id(value))
            path = next(block_vars["image_path_iterator"])
            value.savefig(path, dpi=150, bbox_inches="tight")
            saved.append(path)
    return figure_rst(saved, gallery_conf["src_dir"])
