"""A comparison on disk.

    DIR/  settings.json            what all jobs have in common
          tensor.npz               the data
          jobs/NAME.json           the result of a job
          jobs/NAME.failed.json    or its error
          results.csv, report.md, figures

Every file is replaced as a whole. A job is done when its result file exists.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from allocore._files import remove_unfinished, replacing
from allocore._locks import ProcessLock
from allocore.comparison.settings import EM_ONLY, Job, Settings
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
        self._em: dict[str, int] = {}

    @contextmanager
    def opened(self, tensor: CountTensor, settings: Settings) -> Iterator["Folder"]:
        """Make the folder, or continue one with the same settings; lock it meanwhile."""
        self.check(settings)
        try:
            (self.path / "jobs").mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise _in_the_way(self.path) from None
        lock = ProcessLock(self.path / "lock")
        try:
            lock.acquire()
        except BlockingIOError:
            raise StoreError(f"{self.path} is being written by another process; wait until it ends") from None
        try:
            remove_unfinished(self.path)
            # Without settings.json the tensor there may belong to another comparison.
            if not (self.path / "settings.json").exists() or not self.tensor.exists():
                tensor.save(self.tensor)
            write_json(self.path / "settings.json", {"format": 1, **settings.to_json()})
            self._em = {name: getattr(settings, name) for name in EM_ONLY}
            yield self
        finally:
            lock.release()

    def check(self, settings: Settings) -> None:
        """Refuse a folder that holds something else, or a comparison with other settings."""
        check_place(self.path)
        given, whole = settings.to_json(), (self.path / "settings.json").exists()
        for there in [self._settings()] if whole else self._settings_of_results(given):
            for name in given:
                # Every fit of NNTuck says with how many restarts and iterations it was made.
                if name not in EM_ONLY and there.get(name) != given[name]:
                    raise InputError(self._conflict(name, given, there))

    def _settings(self) -> dict[str, Any]:
        path = self.path / "settings.json"
        advice = "remove it, and the same call rebuilds it from the data and results beside it"
        return Settings.of_older(read_json(path, advice))

    def _settings_of_results(self, given: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the settings of every result, for a folder without settings.json; gaps are filled from `given`."""
        jobs = [Job.from_json(outcome["job"]).to_json() for outcome in self.outcomes()]
        if not jobs:
            return []
        if not self.tensor.exists():
            raise InputError(
                f"out is {str(self.path)!r}, but it lacks settings.json and tensor.npz, so the data behind its results "
                "are unknown: use another folder"
            )
        tensor, found = load_tensor(self.tensor), []
        same = fingerprint(tensor)
        for job in jobs:
            known = {name: job[name] for name in given if job.get(name) is not None}
            known |= {"seed": job["seed"] - job["split"], "mode": tensor.mode_names[job["along"]]}
            found.append({**given, **known, "tensor": same})
        return found

    def _conflict(self, name: str, given: dict[str, Any], there: dict[str, Any]) -> str:
        """Return the message about a setting that differs from that of the folder."""
        if name == "tensor":
            return f"out is {str(self.path)!r}, but the comparison there is of another tensor: use another folder"
        if name == "sampler_version":
            return (
                f"out is {str(self.path)!r}, but the comparison there was made by sampler version "
                f"{there.get(name, 0)}, and this is version {given[name]}: their results cannot be compared, so use "
                "another folder"
            )
        shown = "mode" if name == "along" else name
        return (
            f"{name} is {given[shown]!r}, but the comparison in {str(self.path)!r} was made with {there.get(shown)!r}: "
            "use another folder"
        )

    def result(self, job: Job) -> Path:
        """Return the file for the result of a job."""
        return self.path / "jobs" / f"{job.name}.json"

    def failure(self, job: Job) -> Path:
        """Return the file for the error of a job."""
        return self.path / "jobs" / f"{job.name}{_FAILED}.json"

    def is_done(self, job: Job) -> bool:
        """Return whether this very job has a result; an older version may have chosen another core for the budget."""
        return self.result(job).exists() and Job.from_json(read_json(self.result(job))["job"]) == job

    def has_failed(self, job: Job) -> bool:
        """Return whether this very job has an error and no result."""
        return self.failure(job).exists() and Job.from_json(read_json(self.failure(job))["job"]) == job

    def fail(self, job: Job, error: str, log: str) -> None:
        """Write the error of a job."""
        write_json(self.failure(job), {"job": job.to_json(), "error": error, "log": log})

    def outcomes(self) -> list[dict[str, Any]]:
        """Return the results of all jobs in the folder, and the errors of jobs without a result.

        While the folder is open, fits of NNTuck with other restarts or iterations than now are left out.
        """
        there = {
            path.name.removesuffix(".json"): read_json(path) for path in sorted((self.path / "jobs").glob("*.json"))
        }
        found = {name: outcome for name, outcome in there.items() if self._is_current(outcome["job"])}
        return [
            outcome
            for name, outcome in found.items()
            if not (name.endswith(_FAILED) and name.removesuffix(_FAILED) in found)
        ]

    def _is_current(self, job: dict[str, Any]) -> bool:
        return all(job.get(name) in (None, value) for name, value in self._em.items())


def check_place(path: Path) -> None:
    """Refuse a path that cannot be the folder of a comparison: a file is in the way, or it holds something else."""
    if any(place.is_file() for place in (path, *path.parents)) or (path.exists() and not path.is_dir()):
        raise _in_the_way(path)
    if not path.exists():
        return
    names = {each.name for each in path.iterdir() if not each.name.endswith(".tmp")}
    ours = "settings.json" in names or {"jobs", "results.csv"} <= names or names <= {"lock", "jobs", "tensor.npz"}
    if not ours:
        raise InputError(f"out is {str(path)!r}, but that folder holds something other than a comparison")


def _in_the_way(path: Path) -> InputError:
    return InputError(f"out is {str(path)!r}, but there is a file where the folder should be")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file, as a whole or not at all."""
    with replacing(path) as file:
        file.write(json.dumps(content, indent=1).encode())


def read_json(path: Path, advice: str = "remove it, and the job runs again") -> dict[str, Any]:
    """Read a JSON file; if it is damaged, the error gives the advice."""
    try:
        content = json.loads(path.read_bytes())
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise StoreError(f"{path} is damaged; {advice}")
    return content
