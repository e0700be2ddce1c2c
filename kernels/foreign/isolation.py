"""Isolates a process by Landlock and seccomp: no network, no writes outside a folder, no privileges.

Linux on x86-64 or aarch64, by the system calls themselves; what the system does not provide is an error that
names it. A process that is isolated stays so, with every process that it starts.
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

from tileproof.kernels.foreign.system_calls import ARCHITECTURES, REFUSE, Architecture, steps
from tileproof.spec.machine.errors import TileproofError

# What `isolate` gives, and what the system must have for it.
NEEDS = {
    "privileges": "prctl PR_SET_NO_NEW_PRIVS and capset (Linux 3.5)",
    "network": "seccomp filters (CONFIG_SECCOMP_FILTER), on x86-64 or aarch64",
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

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP = 38, 22
_GET_ACTION_AVAIL = 2

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
    if _architecture() is None:
        return list(NEEDS)
    return ["network", *found] if _without_filters() else found


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
            found=_system(),
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


def _architecture() -> Architecture | None:
    return ARCHITECTURES.get(os.uname().machine) if sys.platform == "linux" else None


def _landlock_abi() -> int:
    with contextlib.suppress(OSError, AttributeError):
        return max(int(ctypes.CDLL(None).syscall(_CREATE, None, ctypes.c_size_t(0), 1)), 0)
    return 0


def _without_filters() -> int:
    """The errno of seccomp(SECCOMP_GET_ACTION_AVAIL); 0 where a filter can refuse a call.

    Asked of the kernel itself: under qemu-user, /proc describes the machine below.
    """
    own = _architecture()
    if own is None:
        return errno.ENOSYS
    libc = ctypes.CDLL(None, use_errno=True)
    action = ctypes.c_uint32(REFUSE & 0xFFFF0000)
    failed = libc.syscall(own.numbers["seccomp"], _GET_ACTION_AVAIL, 0, ctypes.byref(action))
    return ctypes.get_errno() if failed else 0


def _system() -> str:
    """What this system provides; a system call that fails is named."""
    kernel = os.uname()
    facts = [f"{kernel.sysname} {kernel.release} on {kernel.machine}"]
    abi = _landlock_abi()
    facts += [f"Landlock ABI {abi}" if abi else "no landlock_create_ruleset"]
    if code := _without_filters():
        facts += [f"seccomp: {os.strerror(code)}"]
    return ", ".join(facts) + (
        " (qemu-user emulates neither call)" if not abi and code and _emulated() else ""
    )


def _emulated() -> bool:
    """Whether the processor of the machine below is another: a process under qemu-user."""
    with contextlib.suppress(OSError):
        return ("model name" in Path("/proc/cpuinfo").read_text()) != (os.uname().machine == "x86_64")
    return False


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
    """Sets the filter of system_calls.py."""
    own = _architecture()
    assert own is not None
    program = steps(own)
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
