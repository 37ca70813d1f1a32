"""Fetch the libraries of the explorer's page and make its world map, in src/allocore/report/page/assets.

Usage: python scripts/make_explorer_assets.py      (needs npm, and pycountry from pip)

The libraries are those that their authors publish, unchanged. The map is Natural Earth's at 1:50 million, which is in
the public domain, from the package world-atlas. It is simplified, and its countries get three-letter ISO codes, as in
our tensors.
"""

import json
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pycountry

from allocore.tensor.countries import resolve

ASSETS = Path(__file__).parents[1] / "src/allocore/report/page/assets"
LIBRARIES = {
    "d3": ("7.9.2", "dist/d3.min.js", "d3.js"),
    "@observablehq/plot": ("0.6.17", "dist/plot.umd.min.js", "plot.js"),
    "topojson-client": ("3.1.0", "dist/topojson-client.min.js", "topojson.js"),
}
ATLAS = ("world-atlas", "2.0.2", "countries-50m.json")
# The share of points to keep. With fewer points, small countries become triangles.
KEPT_POINTS = "0.28"


def main() -> None:
    """Make all assets again."""
    ASSETS.mkdir(exist_ok=True)
    licences = ["The explorer's page contains these works.\n"]
    with TemporaryDirectory() as name:
        folder = Path(name)
        for package, (version, path, target) in LIBRARIES.items():
            files = packed(folder, package, version, path, "LICENSE")
            (ASSETS / target).write_bytes(files[path])
            licences.append(f"{package} {version}\n\n{files['LICENSE'].decode()}")
        package, version, path = ATLAS
        files = packed(folder, package, version, path, "LICENSE")
        (ASSETS / "world.json").write_text(world(folder, files[path]), encoding="utf-8")
        licences.append(f"{package} {version}, Natural Earth (public domain)\n\n{files['LICENSE'].decode()}")
    (ASSETS / "LICENSES.txt").write_text("\n\n".join(licences), encoding="utf-8")
    for file in sorted(ASSETS.iterdir()):
        print(f"{file.name:20} {file.stat().st_size:>9,}")


def packed(folder: Path, package: str, version: str, *paths: str) -> dict[str, bytes]:
    """Some files of a package."""
    done = run("npm", "pack", "--silent", f"{package}@{version}", cwd=folder)
    with tarfile.open(folder / done.strip().splitlines()[-1]) as archive:
        return {path: archive.extractfile(f"package/{path}").read() for path in paths}


def world(folder: Path, atlas: bytes) -> str:
    """The map, simplified and with three-letter codes."""
    (folder / "atlas.json").write_bytes(atlas)
    simplify = ["npx", "--yes", "-p", "topojson-simplify@3.0.3", "toposimplify", "-P", KEPT_POINTS, "-o", "world.json"]
    run(*simplify, "atlas.json", cwd=folder)
    topology = json.loads((folder / "world.json").read_text())
    del topology["objects"]["land"]
    shapes = topology["objects"]["countries"]["geometries"]
    for shape in shapes:
        name = shape["properties"]["name"]
        known = pycountry.countries.get(numeric=shape.pop("id", "none")) or None
        country = resolve(known.alpha_3 if known else name)
        shape["properties"] = {"name": country.name if country else name}
        if country:
            shape["id"] = country.iso3
        else:
            print(f"no code for {name}")
    topology["objects"]["countries"]["geometries"] = [
        each for each in shapes if each["properties"]["name"] != "Antarctica"
    ]
    return json.dumps(topology, separators=(",", ":"), ensure_ascii=False)


def run(*command: str, cwd: Path) -> str:
    """Run a command and return its output; if it fails, exit with its error message."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    main()
