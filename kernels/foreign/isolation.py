"""Isolates a process by Landlock and seccomp: no network, no writes outside a folder, no privileges.

Linux x86-64 only, by the system calls themselves; what the system does not provide is an error that names it.
A process that is isolated stays so, with every process that it starts.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

from tileproof.spec.machine.errors import TileproofError

# What `isolate` gives, and what the system must have for it.
NEEDS = {
    "privileges": "prctl PR_SET_NO_NEW_PRIVS and capset (Linux 3.5)",
    "network": "seccomp filters (CONFIG_SECCOMP_FILTER) on x86-64",
    "files": "Landlock ABI 3 (Linux 6.2, `landlock` among the lsm= of the kernel)",
    "signals": "Landlock ABI 6 (Linux 6.12)",
}
FILES_ABI, SIGNALS_ABI, DEVICES_ABI = 3, 6, 5

# Landlock's rights to change the file system; a single file can be written and truncated.
_WRITE, _TRUNCATE, _DEVICES = 1 << 1, 1 << 14, 1 << 15
_CHANGES = _WRITE | sum(1 << bit for bit in range(4, 14)) | _TRUNCATE
_SCOPES = 0b11  # abstract sockets and signals
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_ALWAYS = (Path("/dev/null"),)

# Numbers of x86-64: what opens connections, reaches into other processes, or changes what Landlock ignores.
_DENIED = {
    "sockets": (41, 42, 425),  # socket, connect, io_uring_setup; a socketpair has no other end outside
    "processes": (101, 310, 311, 438, 298, 321, 323),  # ptrace, process_vm_*, pidfd_getfd, perf, bpf, ...
    "namespaces": (155, 161, 165, 166, 272, 308, 428, 429, 430, 442),
    "keys and shared memory": (29, 64, 68, 240, 248, 249, 250),
    "modes, owners, attributes, times of files": (
        90, 91, 92, 93, 94, 132, 188, 189, 190, 197, 198, 199, 235, 260, 261, 268, 280, 304, 452, 463, 466,
    ),
    "the machine": (163, 164, 167, 168, 169, 170, 171, 175, 176, 227, 246, 313, 320),
}  # fmt: skip
_IOCTL, _INTO_TERMINAL = 16, (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_X86_64, _X32 = 0xC000003E, 0x40000000
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP = 38, 22

_within: list[Path] = []
_held: list[str] = []


def within() -> Path | None:
    """The folder that this process may write to; None where it is not isolated."""
    return _within[-1] if _within else None


def held() -> tuple[str, ...]:
    """The names of `NEEDS` that hold for this process."""
    return tuple(_held)


def missing() -> list[str]:
    """The names of `NEEDS` that this system does not provide."""
    abi = _landlock_abi()
    found = [] if abi >= FILES_ABI else ["files"]
    found += [] if abi >= SIGNALS_ABI else ["signals"]
    if not (sys.platform == "linux" and os.uname().machine == "x86_64"):
        return list(NEEDS)
    seccomp = Path("/proc/sys/kernel/seccomp/actions_avail").exists()
    return found if seccomp else ["network", *found]


def isolate(folder: Path, files: Sequence[Path] = (), without: Sequence[str] = ()) -> None:
    """Isolates this process: from here on it may write beneath `folder` and to the existing `files` only.

    TileproofError names what the system does not provide and is not among `without`.
    """
    lacks = missing()
    if wanted := [name for name in lacks if name not in without]:
        raise TileproofError(
            "this system cannot isolate the judging",
            where=", ".join(wanted),
            expected="; ".join(f"{name}: {NEEDS[name]}" for name in wanted),
            found=f"{os.uname().sysname} {os.uname().release}, Landlock ABI {_landlock_abi()}",
            do="judge in a container or a virtual machine, or accept it: "
            + " ".join(f"--isolate-without {name}" for name in wanted),
        )
    if (threads := len(os.listdir("/proc/self/task"))) > 1:
        raise TileproofError("a process with several threads cannot be isolated", found=f"{threads} threads")
    libc = ctypes.CDLL(None, use_errno=True)
    _done(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "privileges")
    if "files" not in lacks:
        _restrict_files(libc, folder, files)
    # Without capabilities root is a user that owns root's files, also for what it starts (no new privileges).
    header, none = struct.pack("<Ii", 0x20080522, 0), bytes(24)
    _done(libc.capset(header, none), "privileges")
    if "network" not in lacks:
        _filter_calls(libc)
    _within.append(folder)
    _held[:] = [name for name in NEEDS if name not in lacks]


def _landlock_abi() -> int:
    with contextlib.suppress(OSError, AttributeError):
        return max(int(ctypes.CDLL(None).syscall(_CREATE, None, ctypes.c_size_t(0), 1)), 0)
    return 0


def _restrict_files(libc: ctypes.CDLL, folder: Path, files: Sequence[Path]) -> None:
    abi = _landlock_abi()
    handled = _CHANGES | (_DEVICES if abi >= DEVICES_ABI else 0)
    scoped = _SCOPES if abi >= SIGNALS_ABI else 0
    attributes = struct.pack("<QQQ", handled, 0, scoped)[: 24 if scoped else 8]
    rules = libc.syscall(_CREATE, attributes, ctypes.c_size_t(len(attributes)), 0)
    _done(rules, "files")
    try:
        for path in (folder, *files, *_ALWAYS):
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                allowed = _CHANGES if path.is_dir() else _WRITE | _TRUNCATE
                rule = struct.pack("<Qi", allowed, fd)
                _done(libc.syscall(_ADD, rules, 1, rule, 0), "files")
            finally:
                os.close(fd)
        _done(libc.syscall(_RESTRICT, rules, 0), "files")
    finally:
        os.close(rules)


def _filter_calls(libc: ctypes.CDLL) -> None:
    """A seccomp filter: the calls of `_DENIED` give EPERM."""
    numbers = [number for group in _DENIED.values() for number in group]
    program = [(0x20, 0, 0, 4), (0x15, 1, 0, _X86_64), (0x06, 0, 0, _REFUSE)]  # the architecture
    program += [(0x20, 0, 0, 0), (0x35, 0, 1, _X32), (0x06, 0, 0, _REFUSE)]  # the number; no x32 calls
    for number in numbers:
        program += [(0x15, 0, 1, number), (0x06, 0, 0, _REFUSE)]
    program += [(0x15, 0, 5, _IOCTL), (0x20, 0, 0, 24)]
    program += [(0x15, 2, 0, _INTO_TERMINAL[0]), (0x15, 1, 0, _INTO_TERMINAL[1])]
    program += [(0x06, 0, 0, _ALLOW), (0x06, 0, 0, _REFUSE), (0x06, 0, 0, _ALLOW)]
    code = b"".join(struct.pack("<HBBI", *step) for step in program)
    held = ctypes.create_string_buffer(code, len(code))
    described = struct.pack("<HxxxxxxQ", len(program), ctypes.addressof(held))
    _done(libc.prctl(_PR_SET_SECCOMP, 2, described, 0, 0), "network")


def _done(result: int, name: str) -> None:
    if result < 0:
        raise TileproofError(
            "this system cannot isolate the judging", where=name, expected=NEEDS[name],
            found=os.strerror(ctypes.get_errno()), do=f"accept it: --isolate-without {name}",
        )  # fmt: skip
