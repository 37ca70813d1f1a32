"""The attributes of a run on disk: its settings and its seed, which have a checksum, and the versions that made it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from allocore.data.shard_files import is_sharded
from allocore.data.zarr_metadata import parsed_object, read_json
from allocore.errors import InputError, StoreError
from allocore.run.plan import RUN_FORMAT, with_checksum

_ATTRIBUTES = ("inference_library_version", "packages", "settings", "seed", "tensor")


def is_run(path: Path) -> bool:
    """Whether a folder is a run, finished or not."""
    return (path / "posterior").is_dir() and (path / ".zgroup").is_file()


def read_attributes(path: Path) -> dict[str, Any]:
    """The attributes of a run, after a check that this version can read it and that they are what was written."""
    if not path.exists():
        raise InputError(f"path is {str(path)!r}, but nothing of that name exists: it must be the folder of a run")
    if not is_run(path):
        kind = "a folder that holds no run of allocore" if path.is_dir() else "a file, and no run of allocore"
        kind = "a tensor in shards, and no run: fit it first" if is_sharded(path) else kind
        raise InputError(f"path is {str(path)!r}, but that is {kind}")
    with telling(path, "its attributes (.zattrs) cannot be read"):
        attributes = read_json(path / ".zattrs")
        form = attributes["run_format"]
        wrong = [name for name in _ATTRIBUTES if form == RUN_FORMAT and not isinstance(attributes.get(name), str)]
        if wrong:
            raise ValueError(f"{wrong[0]} is missing" if wrong[0] not in attributes else f"{wrong[0]} is no text")
    if form != RUN_FORMAT:
        raise StoreError(f"{path} is a run of format {form}; this version of allocore reads format {RUN_FORMAT}")
    # Runs from before there was a checksum have none.
    if attributes.get("checksum", "") not in ("", with_checksum(attributes)["checksum"]):
        raise StoreError(f"{path} is damaged: its settings, its seed or the hash of its tensor have changed (.zattrs)")
    return attributes


def stored_model(path: Path) -> str:
    """The name of the model of a run."""
    attributes = read_attributes(path)
    with telling(path, "its settings cannot be read"):
        return str(parsed_object(attributes["settings"], "settings")["model"])


@contextmanager
def telling(path: Path, what: str) -> Iterator[None]:
    """Turn whatever damage raises into a StoreError; the kinds are many, and no code of a run is ever run."""
    try:
        yield
    except Exception as error:
        raise StoreError(f"{path} is damaged: {what}: {reason_of(error)}") from error


def reason_of(error: Exception) -> str:
    """What an error says, in few words."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
