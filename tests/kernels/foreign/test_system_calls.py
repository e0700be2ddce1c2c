"""The seccomp filter for both processors: its numbers against Linux's headers, its program step by step."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tileproof.kernels.foreign.system_calls import ALLOW, ARCHITECTURES, DENIED, REFUSE, steps

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),  # aarch64 has the generic numbers
}
NAMES = [name for names in DENIED.values() for name in names.split()]


def answer(machine: str, number: int, audit: int = 0, argument: int = 0) -> int:
    """What the filter returns for a system call; `argument` is its second."""
    own = ARCHITECTURES[machine]
    data = {0: number, 4: audit or own.audit, 24: argument}
    program, at, held = steps(own), 0, 0
    while True:
        code, true, false, operand = program[at]
        if code == 0x06:
            return operand
        if code == 0x20:
            held = data[operand]
            at += 1
        else:
            at += 1 + (true if (held == operand if code == 0x15 else held >= operand) else false)


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_what_the_filter_refuses(machine: str) -> None:
    numbers = ARCHITECTURES[machine].numbers
    denied = {numbers[name] for name in NAMES if name in numbers}
    ioctl = numbers["ioctl"]
    refused = {number for number in range(600) if answer(machine, number) == REFUSE}
    assert refused == denied and not denied & {ioctl, numbers["prctl"], numbers["capset"]}
    assert {answer(machine, number) for number in set(range(600)) - denied} == {ALLOW}
    wanted = {0x5412: REFUSE, 0x541C: REFUSE, 0x5401: ALLOW}
    assert {argument: answer(machine, ioctl, argument=argument) for argument in wanted} == wanted
    for other in {item.audit for item in ARCHITECTURES.values()} | {0x40000003, 0x40000028}:
        assert answer(machine, 0, other) == (ALLOW if other == ARCHITECTURES[machine].audit else REFUSE)
    assert answer("x86_64", 0x40000000) == REFUSE


def test_aarch64_lacks_only_what_has_a_successor() -> None:
    successors = {
        "chmod": "fchmodat", "chown": "fchownat", "lchown": "fchownat",
        "utime": "utimensat", "utimes": "utimensat", "futimesat": "utimensat",
    }  # fmt: skip
    lacks = {name for name in NAMES if name not in ARCHITECTURES["aarch64"].numbers}
    assert lacks == set(successors) and not lacks & set(successors.values())
    assert {*NAMES} <= {*ARCHITECTURES["x86_64"].numbers}


@pytest.mark.parametrize("machine", HEADERS)
def test_numbers_are_those_of_the_headers(machine: str) -> None:
    header = HEADERS[machine]
    if not header.exists():
        pytest.skip(f"{header} is missing (package linux-libc-dev)")
    found = re.findall(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)$", header.read_text(), re.MULTILINE)
    linux = {name: int(number) for name, number in found}
    own = ARCHITECTURES[machine].numbers
    known = {name: number for name, number in own.items() if name in linux}
    assert len(known) > 40 and known == {name: linux[name] for name in known}
    if machine == "aarch64":
        lacking = [name for name in NAMES if name not in own]
        assert not [name for name in lacking if name in linux and linux[name] < 1000]
