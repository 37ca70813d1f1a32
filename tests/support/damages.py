"""Damage to the files of a run, at random: what disks, copies and strangers do to it."""

import json
import shutil

# Values that no reader expects in JSON metadata.
ABSURD = [
    None, True, -1, 0, 10**18, 10**400, 1e308, "", "..", "pickle", "|O", [], [[]], {}, [10**15] * 3, [-1], "9" * 5000,
    {"id": "pickle"}, [{"id": "vlen-utf8"}],
]  # fmt: skip


def damage_run(run, rng):
    """Damage one file of a run, chosen at random; return what was done, in words. `rng` is a NumPy generator."""
    files = sorted(path for path in run.rglob("*") if path.is_file() and path.name != "lock")
    # Metadata have the most kinds of damage, and those of the whole run are two files among a hundred.
    metadata = [path for path in files if path.name.startswith(".z")]
    chosen = [path for path in metadata if path.parent == run], metadata, files
    file = _one_of(rng, _one_of(rng, chosen))
    kinds = [_cut, _flip, _zero, _remove, _swap, _nest]
    kind = _change_json if file in metadata and rng.random() < 0.6 else _one_of(rng, kinds)
    return f"{file.relative_to(run)}: {kind(file, files, rng)}"


def _one_of(rng, choices):
    return choices[int(rng.integers(len(choices)))]


def _cut(file, files, rng):
    content = file.read_bytes()
    length = int(rng.integers(len(content) + 1))
    file.write_bytes(content[:length])
    return f"cut to {length} of {len(content)} bytes"


def _flip(file, files, rng):
    content = bytearray(file.read_bytes())
    if not content:
        return "left as it is"
    place, bit = int(rng.integers(len(content))), int(rng.integers(8))
    content[place] ^= 1 << bit
    file.write_bytes(bytes(content))
    return f"bit {bit} of byte {place} flipped"


def _zero(file, files, rng):
    file.write_bytes(bytes(file.stat().st_size))
    return "zeroed"


def _remove(file, files, rng):
    file.unlink()
    return "removed"


def _swap(file, files, rng):
    other = _one_of(rng, files)
    content = other.read_bytes()
    file.write_bytes(content)
    return f"has the content of {other.name} of {other.parent.name}"


def _nest(file, files, rng):
    file.write_bytes(b"[" * 100_000)
    return "nested brackets"


def _change_json(file, files, rng):
    """Replace or remove one value somewhere in a JSON document."""
    document = json.loads(file.read_bytes())
    places = list(_places(document))
    if not places:
        return "left as it is"
    container, key = _one_of(rng, places)
    if rng.random() < 0.2:
        del container[key]
        done = f"{key!r} is gone"
    else:
        value = _one_of(rng, ABSURD)
        container[key] = value
        done = f"{key!r} is {str(value)[:30]!r}"
    file.write_text(json.dumps(document))
    return done


def _places(document):
    pairs = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in list(pairs):
        yield document, key
        if isinstance(value, dict | list):
            yield from _places(value)


def copy_of(run, to):
    """A copy of a run to damage."""
    shutil.rmtree(to, ignore_errors=True)
    return shutil.copytree(run, to)
