"""Print the lowest versions that pyproject.toml allows, one pin a line, as constraints for pip.

    python scripts/lowest_versions.py > lowest.txt
    pip install --constraint lowest.txt '.[dev]'

Only what a user installs is pinned; the tools of the `dev` extra may be of any version.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
BOUND = re.compile(r"(?P<name>[A-Za-z0-9._-]+)>=(?P<version>[0-9][0-9A-Za-z.]*)")


def lowest_pins(dependencies: list[str]) -> list[str]:
    """The pin `name==version` for each dependency `name>=version`; any other form is an error."""
    bounds = [(dependency, BOUND.fullmatch(dependency)) for dependency in dependencies]
    unclear = [dependency for dependency, bound in bounds if bound is None]
    if unclear:
        raise SystemExit(f"dependencies are {unclear}, but each must have the form name>=version")
    return [f"{bound['name']}=={bound['version']}" for _, bound in bounds if bound is not None]


if __name__ == "__main__":
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    print("\n".join(lowest_pins(project["dependencies"])))
