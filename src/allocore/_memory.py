"""How much memory this process can still use, so that work that is too large fails before it starts."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from allocore.errors import Described, InputError, StoreError

_NEVER_CHECKED = 2**26  # bytes; less than this always fits


def available_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes that can still be taken, swap included; None if unknown. /proc and /sys are in `root`."""
    found = [*_machine(root), *_control_groups(root), *_own_limits(root)]
    return max(0, min(found)) if found else None


def require_memory(needed: int, what: str) -> None:
    """Raise an InputError if `what` needs more bytes than are available."""
    available = available_memory()
    if available is not None and needed > available:
        rule = f"must be at least {needed / 1e9:,.1f} GB for {what}"
        raise InputError("memory", Described(f"{available / 1e9:,.1f} GB"), rule)


def check_room(path: Path, size: int, what: str, advice: str = "") -> None:
    """Raise a StoreError if `what` in a file or folder has more bytes than are available in memory."""
    if size < _NEVER_CHECKED:
        return
    available = available_memory()
    if available is not None and size > available:
        problem = f"cannot be read: {what} takes {in_bytes(size)} of memory, but {in_bytes(available)} are available"
        raise StoreError(path, f"{problem}{advice}")


def in_bytes(size: int) -> str:
    """Return a size in a readable unit: "3.2 GB"."""
    number, unit = float(size), "bytes"
    for unit in ("bytes", "kB", "MB", "GB", "TB", "PB"):
        if number < 1000.0 or unit == "PB":
            break
        number /= 1000.0
    return f"{number:,.0f} {unit}" if unit == "bytes" or number >= 100 else f"{number:.1f} {unit}"


def _machine(root: Path) -> Iterator[int]:
    with suppress(OSError, ValueError, IndexError):
        lines = (line.split() for line in (root / "proc/meminfo").read_text().splitlines())
        kilobytes = {parts[0].rstrip(":"): int(parts[1]) for parts in lines if len(parts) > 1}
        if "MemAvailable" in kilobytes:
            yield 1024 * (kilobytes["MemAvailable"] + kilobytes.get("SwapFree", 0))
            return
    with suppress(OSError, ValueError, AttributeError):
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _control_groups(root: Path) -> Iterator[int]:
    """The limits of a container. The cache of files counts as used there, but is given back when memory runs short."""
    mounted, own = root / "sys/fs/cgroup", "/"
    with suppress(OSError, IndexError):
        lines = (root / "proc/self/cgroup").read_text().splitlines()
        own = next((line.split(":", 2)[2] for line in lines if line.startswith("0::")), "/")
    group = mounted / own.strip("/")
    for folder in (group, *group.parents):
        if folder == mounted or mounted in folder.parents:
            yield from _left(folder, "memory.max", "memory.current", "inactive_file")
    yield from _left(mounted / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _left(folder: Path, limit: str, usage: str, cached: str) -> Iterator[int]:
    with suppress(OSError, ValueError):  # "max" means that there is no limit
        most, used = (int((folder / name).read_text()) for name in (limit, usage))
        reclaimable = 0
        with suppress(OSError, ValueError):
            stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            reclaimable = int(stat.get(cached, 0))
        yield most - used + reclaimable


def _own_limits(root: Path) -> Iterator[int]:
    with suppress(ImportError, OSError, ValueError, IndexError):
        import resource

        pages = [int(number) for number in (root / "proc/self/statm").read_text().split()]
        for kind, taken in ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5])):
            most = resource.getrlimit(kind)[0]
            if most != resource.RLIM_INFINITY:
                yield most - taken * os.sysconf("SC_PAGE_SIZE")
