"""Memory of the host: the limit of a process, and the error for a request above it."""

from __future__ import annotations

import contextlib
import os
import resource
from functools import lru_cache
from pathlib import Path

from tileproof.emulator.errors import LaunchError
from tileproof.spec.machine.lazy import MAX_BYTES
from tileproof.spec.machine.limits import RESERVED_SHARED_BYTES

# Where a control group says how many bytes its processes may have, versions 2 and 1.
_GROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
# Bytes that the engine holds for each byte of shared memory, for tensor memory, and for a CTA beside.
_SHARED, _TENSOR, _CTA = 2, 128 * 512 * 5, 1 << 14


@lru_cache(maxsize=1)
def _machine_memory() -> int:
    """Bytes of the machine, or of this process's control group; read once, a launch asks several times."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _GROUPS:
        with contextlib.suppress(OSError, ValueError):  # "max": no limit
            found.append(int(Path(path).read_text()))
    return min(found)


def host_memory() -> int:
    """Bytes that this process may have: the least of the machine's memory, its control group's and its own
    limits (RLIMIT_AS, RLIMIT_DATA).
    """
    found = [_machine_memory()]
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        limit = resource.getrlimit(kind)[0]
        if limit != resource.RLIM_INFINITY:
            found.append(limit)
    return min(found)


def check_room(wanted: int, what: str, where: str = "", held: int = 0) -> None:
    """Raise LaunchError when `wanted` bytes for `what` and `held` bytes are more than the process may
    have.
    """
    limit = host_memory()
    if wanted + held <= limit:
        return
    raise LaunchError(
        f"{what} would take more memory than this process may have",
        where=where[:80],
        expected=f"at most {limit} bytes" + (f", of which {held} are taken" if held else ""),
        found=f"{wanted} bytes",
    )


def check_address_space(wanted: int, what: str, where: str = "") -> None:
    """Raise LaunchError when no process may map `wanted` bytes for `what`, whether it touches them or not."""
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    limit = min([MAX_BYTES, *(each for each in limits if each != resource.RLIM_INFINITY)])
    if wanted > limit:
        raise LaunchError(
            f"{what} would take more memory than this process may have",
            where=where[:80], expected=f"at most {limit} bytes of addresses", found=f"{wanted} bytes",
        )  # fmt: skip


def cluster_bytes(ctas: int, threads: int, shared: int, registers: int, local: int) -> int:
    """About what the engine holds for a resident cluster: `shared` bytes of each CTA, `registers` of each
    warp and `local` of each thread.
    """
    warps = -(-threads // 32)
    return ctas * (
        _SHARED * (RESERVED_SHARED_BYTES + shared) + _TENSOR + _CTA + warps * (registers + 32 * local)
    )
