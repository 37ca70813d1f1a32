"""Check a built site: every link leads to a page and a place in it, and no page needs the network to be shown.

A directive that a page shows as text was not understood, and is a fault too.

Usage: python scripts/check_site.py FOLDER
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser loads by itself, by tag and attribute; `a` is only followed.
_LOADED = {
    ("link", "href"),
    ("script", "src"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("object", "data"),
}
# What a page shows if a directive was not understood.
_DIRECTIVE = re.compile(r"^(?:\.\. [a-z:]+::|:::+ ?\{[a-z-]+\}|\{[a-z-]+\}`)", re.MULTILINE)
# Links between pages that name no file to load.
_RELATIONS = {"canonical", "alternate", "next", "prev", "search", "index"}


class _Page(HTMLParser):
    """The links of a page, those that it loads, and the places that a link can lead to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.places = {""}
        self.raw: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_data(self, data: str) -> None:
        self.raw += _DIRECTIVE.findall(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        self.places.update(named[name] for name in ("id", "name") if name in named)
        if tag == "a" and "href" in named:
            self.links.append(named["href"])
        for name in ("href", "src", "data"):
            relations = set(named.get("rel", "").split())
            if (tag, name) in _LOADED and name in named and not relations & _RELATIONS:
                self.loaded.append(named[name])


def _pages(folder: Path) -> list[Path]:
    """The pages, without the templates that a theme leaves among its files."""
    return [path for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts]


def faults(folder: Path) -> list[str]:
    """One sentence for each link that leads nowhere, thing loaded from the network, or directive left as text."""
    pages = {path.resolve(): _Page(path) for path in _pages(folder)}
    found = []
    for path, page in pages.items():
        name = path.relative_to(folder.resolve())
        found += [f"{name}: shows the directive {text!r} as text" for text in dict.fromkeys(page.raw)]
        found += [f"{name}: loads {link} from the network" for link in page.loaded if urlsplit(link).netloc]
        for link in dict.fromkeys(page.links + page.loaded):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                found.append(f"{name}: {link} leads to no file")
            elif parts.fragment.startswith("/"):  # a view of the explorer, not a place
                continue
            elif target in pages and unquote(parts.fragment) not in pages[target].places:
                found.append(f"{name}: {link} leads to no place on the page")
    return found


def main() -> None:
    """Print the faults; exit with 1 if there are any."""
    folder = Path(sys.argv[1])
    pages = len(_pages(folder))
    if not pages:
        sys.exit(f"{folder} has no pages")
    found = faults(folder)
    print("\n".join(found))
    if found:
        sys.exit(f"{len(found)} faults in {pages} pages of {folder}")
    print(f"{pages} pages: all links lead somewhere, and nothing comes from the network. Open {folder / 'index.html'}")


if __name__ == "__main__":
    main()
