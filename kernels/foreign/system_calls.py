"""The system calls that an isolated process is denied, and the seccomp filter that denies them.

The filter is data: `steps` returns it for either processor, on any machine.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

# What opens connections, reaches into other processes, or changes what Landlock ignores. A socketpair has no
# other end outside. aarch64 lacks the oldest calls, which have successors there.
DENIED: Mapping[str, str] = MappingProxyType(
    {
        "sockets": "socket connect io_uring_setup",
        "processes": "ptrace process_vm_readv process_vm_writev pidfd_getfd perf_event_open bpf userfaultfd",
        "namespaces": """
            pivot_root chroot mount umount2 unshare setns open_tree move_mount fsopen mount_setattr
        """,
        "keys and shared memory": "shmget semget msgget mq_open add_key request_key keyctl",
        "modes, owners, attributes, times of files": """
            chmod fchmod chown fchown lchown utime setxattr lsetxattr fsetxattr removexattr lremovexattr
            fremovexattr utimes fchownat futimesat fchmodat utimensat open_by_handle_at fchmodat2 setxattrat
            removexattrat
        """,
        "the machine": """
            acct settimeofday swapon swapoff reboot sethostname setdomainname init_module delete_module
            clock_settime kexec_load finit_module kexec_file_load
        """,
    }
)


class Architecture(NamedTuple):
    """How Linux numbers the system calls of a processor."""

    audit: int  # AUDIT_ARCH_*
    numbers: Mapping[str, int]
    foreign: int | None  # numbers from here on belong to another calling convention


def _numbered(text: str) -> Mapping[str, int]:
    words = text.split()
    return MappingProxyType(dict(zip(words[::2], map(int, words[1::2]), strict=True)))


_BOTH = """
    io_uring_setup 425 pidfd_getfd 438 open_tree 428 move_mount 429 fsopen 430 mount_setattr 442 fchmodat2 452
    setxattrat 463 removexattrat 466
"""
ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType(
    {
        "x86_64": Architecture(
            0xC000003E,
            _numbered(f"""{_BOTH}
                ioctl 16 prctl 157 seccomp 317 capset 126
                socket 41 connect 42 ptrace 101 process_vm_readv 310 process_vm_writev 311 perf_event_open 298
                bpf 321 userfaultfd 323 pivot_root 155 chroot 161 mount 165 umount2 166 unshare 272 setns 308
                shmget 29 semget 64 msgget 68 mq_open 240 add_key 248 request_key 249 keyctl 250 chmod 90
                fchmod 91 chown 92 fchown 93 lchown 94 utime 132 setxattr 188 lsetxattr 189 fsetxattr 190
                removexattr 197 lremovexattr 198 fremovexattr 199 utimes 235 fchownat 260 futimesat 261
                fchmodat 268 utimensat 280 open_by_handle_at 304 acct 163 settimeofday 164 swapon 167
                swapoff 168 reboot 169 sethostname 170 setdomainname 171 init_module 175 delete_module 176
                clock_settime 227 kexec_load 246 finit_module 313 kexec_file_load 320
            """),
            0x40000000,  # x32
        ),
        "aarch64": Architecture(
            0xC00000B7,
            _numbered(f"""{_BOTH}
                ioctl 29 prctl 167 seccomp 277 capset 91
                socket 198 connect 203 ptrace 117 process_vm_readv 270 process_vm_writev 271
                perf_event_open 241 bpf 280 userfaultfd 282 pivot_root 41 chroot 51 mount 40 umount2 39
                unshare 97 setns 268 shmget 194 semget 190 msgget 186 mq_open 180 add_key 217 request_key 218
                keyctl 219 fchmod 52 fchmodat 53 fchownat 54 fchown 55 setxattr 5 lsetxattr 6 fsetxattr 7
                removexattr 14 lremovexattr 15 fremovexattr 16 utimensat 88 open_by_handle_at 265 acct 89
                settimeofday 170 swapon 224 swapoff 225 reboot 142 sethostname 161 setdomainname 162
                init_module 105 delete_module 106 clock_settime 112 kexec_load 104 finit_module 273
                kexec_file_load 294
            """),
            None,
        ),
    }
)
_INTO_TERMINAL = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # classic BPF
Step = tuple[int, int, int, int]  # code, jump if true, jump if false, operand


def steps(architecture: Architecture) -> list[Step]:
    """The filter's program: the calls of `DENIED`, and those of another architecture, give EPERM."""
    numbers = architecture.numbers
    denied = [numbers[name] for names in DENIED.values() for name in names.split() if name in numbers]
    refuse = (_RETURN, 0, 0, REFUSE)
    program = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, architecture.audit), refuse, (_LOAD, 0, 0, 0)]
    if architecture.foreign is not None:
        program += [(_AT_LEAST, 0, 1, architecture.foreign), refuse]
    for number in denied:
        program += [(_EQUAL, 0, 1, number), refuse]
    program += [(_EQUAL, 0, 5, numbers["ioctl"]), (_LOAD, 0, 0, 24)]
    program += [(_EQUAL, 2, 0, _INTO_TERMINAL[0]), (_EQUAL, 1, 0, _INTO_TERMINAL[1])]
    return [*program, (_RETURN, 0, 0, ALLOW), refuse, (_RETURN, 0, 0, ALLOW)]
