"""The memory of this process."""

import resource
import sys
from contextlib import suppress
from pathlib import Path


def memory_mb(key: str) -> float:
    """VmRSS or its peak, VmHWM, of this process.

    Without /proc, the peak from `getrusage`. On Linux that one is not used, because it starts from the parent's size.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        unit = 2**20 if sys.platform == "darwin" else 2**10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    line = next(line for line in status.read_text().splitlines() if line.startswith(key))
    return int(line.split()[1]) / 2**10


def forget_peak() -> None:
    """Let VmHWM begin again at the present memory. Where that is not possible, the peak stays."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
