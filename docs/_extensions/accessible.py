"""What Sphinx and its theme write is mended for screen readers: long signatures, and the arrows of the sidebar."""

import re
from typing import Any

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


def setup(app: Sphinx) -> dict[str, bool]:
    """Mend a page after the theme has prepared it."""
    app.connect("html-page-context", _mend, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
