"""For screen readers: words for figures of notebooks, for long signatures, and for the arrows of the sidebar."""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

# A long signature is a list of definitions without terms.
_SIGNATURE = re.compile(r'<dl>\n((?:<dd><em class="sig-param">.*?</dd>\n)+)</dl>', re.DOTALL)


def _as_list(found: re.Match[str]) -> str:
    lines = found[1].replace("<dd>", "<li>").replace("</dd>", "</li>")
    return f'<ul class="signature">\n{lines}</ul>'


def _mend(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object) -> None:
    if "body" in context:
        context["body"] = _SIGNATURE.sub(_as_list, context["body"])
    if toctree := context.get("generate_toctree_html"):
        name = '<summary aria-label="The pages of this section">'
        context["generate_toctree_html"] = lambda *args, **named: str(toctree(*args, **named)).replace(
            "<summary>", name
        )


def _describe(app: Sphinx, doctree: nodes.document) -> None:
    """A figure that a cell has drawn is named after its section, whose text says what it shows."""
    for image in doctree.findall(nodes.image):
        place = image.parent
        while place is not None and not isinstance(place, nodes.section):
            place = place.parent
        if "alt" not in image and place is not None:
            image["alt"] = f"Figure of the section {place.next_node(nodes.title).astext()!r}, which describes it"


def setup(app: Sphinx) -> dict[str, bool]:
    """Describe figures when a page is read, and mend it after the theme has prepared it."""
    app.connect("doctree-read", _describe)
    app.connect("html-page-context", _mend, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
