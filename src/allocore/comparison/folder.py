"""A comparison on disk.

    DIR/  settings.json            what all jobs have in common
          tensor.npz               the data
          jobs/NAME.json           the result of a job
          jobs/NAME.failed.json    or its error
          results.csv, report.md, figures

Every file is replaced as a whole. A job is done when its result file exists.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from allocore._io import ProcessLock, remove_unfinished, replacing
from allocore.comparison.models import EM_ONLY, Job, Settings
from allocore.errors import Described, InputError, StoreError
from allocore.storage.record import fingerprint
from allocore.tensor.count_tensor import CountTensor
from allocore.tensor.files import load_tensor

_FAILED = ".failed"


class Folder:
    """The files of a comparison."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tensor = path / "tensor.npz"
        self._requested: dict[str, list[Any]] = {}

    @contextmanager
    def opened(self, tensor: CountTensor, settings: Settings, requested: Sequence[Job]) -> Iterator["Folder"]:
        """Make the folder, or continue one with the same settings; lock it meanwhile."""
        self.check(settings, requested)
        try:
            (self.path / "jobs").mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise _not_a_folder(self.path) from None
        lock = ProcessLock(self.path / "lock")
        try:
            lock.acquire()
        except BlockingIOError:
            raise StoreError(self.path, "is being written by another process. Wait until it ends") from None
        try:
            remove_unfinished(self.path)
            # Without settings.json the tensor there may belong to another comparison.
            if not (self.path / "settings.json").exists() or not self.tensor.exists():
                tensor.save(self.tensor)
            write_json(self.path / "settings.json", {"format": 1, **settings.to_json()})
            for job in requested:
                self._requested.setdefault(job.model, []).append(job.settings)
            yield self
        finally:
            lock.release()

    def check(self, settings: Settings, requested: Sequence[Job] = ()) -> None:
        """Refuse a folder that holds something else, or a comparison with other settings."""
        check_place(self.path)
        given, complete = settings.to_json(), (self.path / "settings.json").exists()
        for there in [self._settings()] if complete else self._settings_of_results(given):
            for name in given:
                if there.get(name) != given[name]:
                    raise self._conflict(name, given, there)
        wanted = {job.model: job for job in requested}
        for outcome in self._all_outcomes().values() if requested else ():
            there_job = Job.from_json(outcome["job"])
            if there_job.model in wanted:
                self._check_model(wanted[there_job.model], there_job)

    def _check_model(self, job: Job, there: Job) -> None:
        """Refuse a model whose name the folder has with other settings. NNTuck with other starts is fitted again."""
        if job.estimator != there.estimator:
            rule = f"must have other names than those in {str(self.path)!r}, where it is a {there.estimator}"
            raise InputError("models", Described(f"{job.model!r}, a {job.estimator}"), rule)
        before = dict(there.settings)
        for name, value in job.settings:
            if name not in EM_ONLY and before[name] != value:
                rule = f"must agree with the comparison in {str(self.path)!r}, which has {name}={before[name]!r}"
                raise InputError("models", Described(f"{job.model!r} with {name}={value!r}"), rule)

    def _settings(self) -> dict[str, Any]:
        advice = "Remove it, and the same comparison rebuilds it from the data and results in the folder"
        return read_json(self.path / "settings.json", advice)

    def _settings_of_results(self, given: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the settings of every result, for a folder without settings.json."""
        jobs = [Job.from_json(outcome["job"]) for outcome in self._all_outcomes().values()]
        if not jobs:
            return []
        if not self.tensor.exists():
            rule = "must be another folder: this one has results, but neither settings.json nor tensor.npz"
            raise InputError("out", str(self.path), rule)
        tensor = load_tensor(self.tensor)
        same = fingerprint(tensor)
        found = [Settings(same, job.hold_out, job.along, tensor.mode_names[job.along], job.seed - job.split,
                          job.sampler_version) for job in jobs]  # fmt: skip
        return [settings.to_json() for settings in dict.fromkeys(found)]

    def _conflict(self, name: str, given: dict[str, Any], there: dict[str, Any]) -> InputError:
        """Return the error about a setting that differs from that of the folder."""
        if name == "tensor":
            return InputError("out", str(self.path), "must be another folder: this one compares another tensor")
        if name == "sampler_version":
            rule = (
                "must be another folder: this one has results of sampler version "
                f"{there.get(name, 0)}, and they cannot "
                f"be compared with version {given[name]}"
            )
            return InputError("out", str(self.path), rule)
        shown = "mode" if name == "along" else name
        rule = f"must be {there.get(shown)!r}, as in the comparison in {str(self.path)!r}; or use another folder"
        return InputError("along" if name == "mode" else name, given[shown], rule)

    def result(self, job: Job) -> Path:
        """Return the file for the result of a job."""
        return self.path / "jobs" / f"{job.name}.json"

    def failure(self, job: Job) -> Path:
        """Return the file for the error of a job."""
        return self.path / "jobs" / f"{job.name}{_FAILED}.json"

    def is_done(self, job: Job) -> bool:
        """Return whether this job has a result; an older version may have chosen another core for the budget."""
        return self.result(job).exists() and Job.from_json(read_json(self.result(job))["job"]) == job

    def has_failed(self, job: Job) -> bool:
        """Return whether this job has an error and no result."""
        return self.failure(job).exists() and Job.from_json(read_json(self.failure(job))["job"]) == job

    def fail(self, job: Job, error: str, log: str) -> None:
        """Write the error of a job."""
        write_json(self.failure(job), {"job": job.to_json(), "error": error, "log": log})

    def outcomes(self) -> list[dict[str, Any]]:
        """Return the results of all jobs in the folder, and the errors of jobs without a result.

        While the folder is open, fits of the requested models with other settings are left out.
        """
        found = {name: each for name, each in self._all_outcomes().items() if self._is_current(each["job"])}
        return [
            outcome
            for name, outcome in found.items()
            if not (name.endswith(_FAILED) and name.removesuffix(_FAILED) in found)
        ]

    def _all_outcomes(self) -> dict[str, dict[str, Any]]:
        files = sorted((self.path / "jobs").glob("*.json"))
        return {path.name.removesuffix(".json"): read_json(path) for path in files}

    def _is_current(self, fields: dict[str, Any]) -> bool:
        job = Job.from_json(fields)
        return job.settings in self._requested.get(job.model, [job.settings])


def check_place(path: Path) -> None:
    """Refuse a path that cannot be the folder of a comparison: there is a file, or the folder has other content."""
    if any(place.is_file() for place in (path, *path.parents)) or (path.exists() and not path.is_dir()):
        raise _not_a_folder(path)
    if not path.exists():
        return
    names = {each.name for each in path.iterdir() if not each.name.endswith(".tmp")}
    is_comparison = (
        "settings.json" in names or {"jobs", "results.csv"} <= names or names <= {"lock", "jobs", "tensor.npz"}
    )
    if not is_comparison:
        raise InputError("out", str(path), "must be an empty folder or one with a comparison")


def _not_a_folder(path: Path) -> InputError:
    return InputError("out", str(path), "must be a folder, and there is a file in its place")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file, as a whole or not at all."""
    with replacing(path) as file:
        file.write(json.dumps(content, indent=1).encode())


def read_json(path: Path, advice: str = "Remove it, and the job runs again") -> dict[str, Any]:
    """Read a JSON file; if it is damaged, the error gives the advice."""
    try:
        content = json.loads(path.read_bytes())
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise StoreError(path, f"is damaged. {advice}")
    return content
