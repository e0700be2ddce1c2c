"""Whether a program can be recorded, from its ELF file: which CUDA libraries it asks for."""

from __future__ import annotations

import os
import re
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path

from tileproof.emulator.errors import LaunchError

_MAGIC, _CLASS64, _LITTLE = b"\x7fELF", 2, 1
_DYNAMIC, _INTERPRETER = 2, 3  # program header types
_NEEDED, _STRTAB = 1, 5  # tags of the dynamic section
SHARED_RUNTIME = 13  # the major version whose runtime the stub stands in for
_SHARED = "link it with -cudart shared (nvcc's default is static)"


@dataclass(frozen=True)
class ElfProgram:
    """What an executable asks of the loader, and the sections that nvcc makes."""

    needed: tuple[str, ...]
    dynamic: bool
    device_code: bool


def found(word: str) -> Path:
    """The program of a command's first word; LaunchError when there is none that can be run."""
    path = shutil.which(word)
    if path is None or not os.access(path, os.X_OK):
        raise LaunchError("there is no such program", where=word, expected="an executable file")
    return Path(path).absolute()  # "./program" would lose its folder


def examine(path: Path) -> ElfProgram | None:
    """The file; None when it is none of a 64-bit program (a script: what it starts is recorded)."""
    data = path.read_bytes()
    if data[:4] != _MAGIC or data[4] != _CLASS64 or data[5] != _LITTLE:
        return None
    try:
        headers, needed = _headers(data), _needed(data)
    except struct.error as error:
        raise LaunchError("the program's ELF file is damaged", where=str(path), found=str(error)) from None
    kinds = {kind for kind, *_ in headers}
    return ElfProgram(needed, _INTERPRETER in kinds, b".nv_fatbin\0" in data)


def check(path: Path) -> None:
    """LaunchError when the program's runtime cannot be stood in for, with what to do."""
    program = examine(path)
    if program is None:
        return
    if not program.dynamic:
        raise LaunchError("the program is linked statically", where=str(path), do="link it without -static")
    runtimes = [int(m[1]) for one in program.needed if (m := re.fullmatch(r"libcudart\.so\.(\d+).*", one))]
    if runtimes and runtimes != [SHARED_RUNTIME]:
        raise LaunchError(
            "the program is linked with another CUDA runtime",
            where=str(path),
            expected=f"libcudart.so.{SHARED_RUNTIME}",
            found=", ".join(program.needed),
            do=f"build it with CUDA {SHARED_RUNTIME}",
        )
    driver = any(one.startswith("libcuda.so") for one in program.needed)
    if program.device_code and not runtimes and not driver:
        raise LaunchError(
            "the program does not link against the shared CUDA runtime: it has its own inside",
            where=str(path),
            expected=f"libcudart.so.{SHARED_RUNTIME} among the libraries it needs",
            found=", ".join(program.needed) or "none",
            do=_SHARED,
        )


def _headers(data: bytes) -> list[tuple[int, int, int, int]]:
    """(type, offset, virtual address, bytes in the file) of each program header."""
    table, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    out = []
    for at in range(table, table + 56 * count, 56):
        kind, offset, address, size = struct.unpack_from("<I4xQQ8xQ", data, at)
        out.append((kind, offset, address, size))
    return out


def _needed(data: bytes) -> tuple[str, ...]:
    headers = _headers(data)
    entries: list[tuple[int, int]] = []
    for kind, offset, _, size in headers:
        if kind == _DYNAMIC:
            entries = [struct.unpack_from("<qQ", data, at) for at in range(offset, offset + size, 16)]
    strings = next((value for tag, value in entries if tag == _STRTAB), 0)
    for _, offset, address, size in headers:
        if address <= strings < address + size:
            strings += offset - address
            break
    names = [strings + value for tag, value in entries if tag == _NEEDED]
    return tuple(data[at : data.index(b"\0", at)].decode() for at in names)
