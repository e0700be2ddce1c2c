"""Limits of a process that runs foreign code: memory, processor time, processes and files."""

from __future__ import annotations

import contextlib
import os
import resource
from dataclasses import dataclass
from pathlib import Path

MEMORY_PART = 0.75  # of the machine's
ROOM_OF_PROCESSES = 256  # above those that the user runs already: the kernel counts all of a user together


@dataclass(frozen=True)
class ForeignLimits:
    """`seconds`: of wall time for one answer, and of processor time in all. `memory`: bytes of data, 0 for
    `MEMORY_PART` of the machine's. `file_bytes`: of one written file. Processes are not limited for root.
    """

    seconds: float = 600.0
    memory: int = 0
    files: int = 500
    file_bytes: int = 1 << 32
    processes: int = ROOM_OF_PROCESSES

    def apply(self) -> None:
        """Limits this process and those that it starts; what a limit may not be raised to stays lower."""
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        _limit(resource.RLIMIT_DATA, self.memory or int(MEMORY_PART * whole))
        _limit(resource.RLIMIT_CPU, int(self.seconds * (os.cpu_count() or 1)) + 1)
        _limit(resource.RLIMIT_NOFILE, self.files)
        _limit(resource.RLIMIT_FSIZE, self.file_bytes)
        _limit(resource.RLIMIT_NPROC, _own_processes() + self.processes)
        _limit(resource.RLIMIT_CORE, 0)


def _limit(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(which, (value, value))


def _own_processes() -> int:
    """Threads of this user's processes: what RLIMIT_NPROC is compared with."""
    count = 0
    for tasks in Path("/proc").glob("[0-9]*/task"):
        with contextlib.suppress(OSError):
            count += len(os.listdir(tasks)) if tasks.stat().st_uid == os.getuid() else 0
    return count
