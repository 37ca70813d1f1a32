"""A comparison on disk.

    DIR/  settings.json      what all jobs have in common
          tensor.npz         the data
          jobs/NAME.json     the result of a job, once it has one
          jobs/NAME.failed.json    or why it has none
          results.csv, report.md, figures

All files are replaced as a whole; a job is done when its result is there.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from allocore._files import remove_unfinished, replacing
from allocore.comparison.settings import Job, Settings
from allocore.data.files import load_tensor
from allocore.data.tensor import CountTensor
from allocore.errors import InputError, StoreError
from allocore.run.plan import fingerprint

_FAILED = ".failed"


class Folder:
    """The files of a comparison."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tensor = path / "tensor.npz"

    @contextmanager
    def opened(self, tensor: CountTensor, settings: Settings) -> Iterator["Folder"]:
        """Make the folder, or go on with it if it is about the same; meanwhile nobody else can."""
        self.check(settings)
        try:
            (self.path / "jobs").mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise _in_the_way(self.path) from None
        lock = FileLock(self.path / "lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise StoreError(f"{self.path} is being written by another process; wait for its end") from None
        try:
            remove_unfinished(self.path)
            # Without settings nobody knows whose tensor it is.
            if not (self.path / "settings.json").exists() or not self.tensor.exists():
                tensor.save(self.tensor)
            write_json(self.path / "settings.json", {"format": 1, **asdict(settings)})
            yield self
        finally:
            lock.release()

    def check(self, settings: Settings) -> None:
        """Refuse a folder that holds something else, or a comparison with other settings."""
        self._check_place()
        asked, whole = asdict(settings), (self.path / "settings.json").exists()
        for there in [self._settings()] if whole else self._settings_of_results(asked):
            for name in asked:
                if there.get(name) != asked[name]:
                    raise InputError(self._conflict(name, asked, there))

    def _check_place(self) -> None:
        """Refuse a place where there is a file, or a folder of something else."""
        if not self.path.exists():
            if any(parent.is_file() for parent in self.path.parents):
                raise _in_the_way(self.path)
            return
        if not self.path.is_dir():
            raise _in_the_way(self.path)
        names = {each.name for each in self.path.iterdir() if not each.name.endswith(".tmp")}
        ours = "settings.json" in names or {"jobs", "results.csv"} <= names or names <= {"lock", "jobs", "tensor.npz"}
        if not ours:
            raise InputError(f"out is {str(self.path)!r}, but that folder holds something else than a comparison")

    def _settings(self) -> dict[str, Any]:
        path = self.path / "settings.json"
        return read_json(path, "remove it, and the same call makes it again from the data and results beside it")

    def _settings_of_results(self, asked: dict[str, Any]) -> list[dict[str, Any]]:
        """Where settings.json is lost: those of every result; what a result does not tell is as it is asked for."""
        jobs = [outcome["job"] for outcome in self.outcomes()]
        if not jobs:
            return []
        if not self.tensor.exists():
            raise InputError(
                f"out is {str(self.path)!r}, but it lacks settings.json and tensor.npz, so nobody can tell which data "
                "its results are about: use another folder"
            )
        tensor, found = load_tensor(self.tensor), []
        same = fingerprint(tensor)
        for job in jobs:
            told = {name: job[name] for name in asked if job.get(name) is not None}
            told |= {"seed": job["seed"] - job["split"], "mode": tensor.mode_names[job["along"]]}
            told["sampler_version"] = job.get("sampler_version", 0)
            found.append({**asked, **told, "tensor": same})
        return found

    def _conflict(self, name: str, asked: dict[str, Any], there: dict[str, Any]) -> str:
        """What cannot be together in one folder."""
        if name == "tensor":
            return f"out is {str(self.path)!r}, but the comparison there is about another tensor: use another folder"
        if name == "sampler_version":
            return (
                f"out is {str(self.path)!r}, but the comparison there was made by sampler version "
                f"{there.get(name, 0)}, and this is version {asked[name]}: their results do not compare, so use "
                "another folder"
            )
        shown = "mode" if name == "along" else name
        return (
            f"{name} is {asked[shown]!r}, but the comparison in {str(self.path)!r} was made with {there.get(shown)!r}: "
            "use another folder"
        )

    def result(self, job: Job) -> Path:
        """Where the result of a job goes."""
        return self.path / "jobs" / f"{job.name}.json"

    def failure(self, job: Job) -> Path:
        """Where it is told why a job has no result."""
        return self.path / "jobs" / f"{job.name}{_FAILED}.json"

    def is_done(self, job: Job) -> bool:
        """Whether a job has a result, and it is of this very job: the core for a budget may have been another once."""
        return self.result(job).exists() and Job.from_json(read_json(self.result(job))["job"]) == job

    def fail(self, job: Job, error: str, log: str) -> None:
        """Keep why a job has failed."""
        write_json(self.failure(job), {"job": job.to_json(), "error": error, "log": log})

    def outcomes(self) -> list[dict[str, Any]]:
        """The results of all jobs in the folder, and the errors of those that have none."""
        found = {path.name.removesuffix(".json"): path for path in sorted((self.path / "jobs").glob("*.json"))}
        return [
            read_json(path)
            for name, path in found.items()
            if not (name.endswith(_FAILED) and name.removesuffix(_FAILED) in found)
        ]


def _in_the_way(path: Path) -> InputError:
    return InputError(f"out is {str(path)!r}, but there is a file where the folder should be")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a file of JSON, all of it or nothing."""
    with replacing(path) as file:
        file.write(json.dumps(content, indent=1).encode())


def read_json(path: Path, advice: str = "without it the job is done again") -> dict[str, Any]:
    """Read a file of JSON; if it is damaged, the error gives the advice."""
    try:
        content = json.loads(path.read_bytes())
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise StoreError(f"{path} is damaged; {advice}")
    return content
