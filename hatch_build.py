"""The README as a package index shows it: links and pictures that work outside of the repository.

A package index shows the README alone, so a link to docs/ leads nowhere there. With the address of the repository in
ALLOCORE_HOME, as a release has it (RELEASING.md), links and pictures become absolute. Without it, links keep their
words alone, and pictures are left out.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"^!\[([^\]]*)\]\((?!\w+:)([^)]+)\)\n\n?", flags=re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!\w+:|#)([^)]+)\)")


def package_readme(text: str, home: str | None) -> str:
    """Return the README with absolute addresses below `home`, or without pictures and link targets."""
    if home:
        pages, pictures = f"{home.rstrip('/')}/blob/main", f"{home.rstrip('/')}/raw/main"
        text = _PICTURE.sub(rf"![\1]({pictures}/\2)\n\n", text)
        return _LINK.sub(rf"[\1]({pages}/\2)", text)
    return _LINK.sub(r"\1", _PICTURE.sub("", text))


class ReadmeHook(MetadataHookInterface):
    """Give the package the README of `package_readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme of the package, and its addresses if there is a home."""
        home = os.environ.get("ALLOCORE_HOME")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": package_readme(text, home)}
        if home:
            metadata["urls"] = {"Repository": home}
