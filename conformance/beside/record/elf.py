"""Whether a program can be recorded, according to its ELF file: the CUDA libraries that it needs."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from tileproof.emulator.errors import LaunchError

SHARED_RUNTIME = 13  # the major version of the runtime that the stub replaces
_SHARED = "link it with -cudart shared (nvcc's default is static)"


@dataclass(frozen=True)
class ElfProgram:
    """An executable's needed libraries, and its sections from nvcc."""

    needed: tuple[str, ...]
    dynamic: bool
    device_code: bool


def found(word: str) -> Path:
    """The path of a command's program; LaunchError if it is missing or not executable."""
    path = shutil.which(word)
    if path is None or not os.access(path, os.X_OK):
        raise LaunchError("no such program", where=word, expected="an executable file")
    return Path(path).absolute()  # "./program" would lose its folder


def examine(path: Path) -> ElfProgram | None:
    """The parsed file; None unless it is a 64-bit program (of scripts, child processes are recorded)."""
    with path.open("rb") as file:
        if file.read(4) != b"\x7fELF":
            return None
        try:
            elf = ELFFile(file)
            if elf.elfclass != 64 or not elf.little_endian:
                return None
            tags: list[Any] = [
                tag
                for segment in elf.iter_segments("PT_DYNAMIC")
                if isinstance(segment, DynamicSegment)
                for tag in segment.iter_tags("DT_NEEDED")
            ]
            needed = tuple(str(tag.needed) for tag in tags)
            dynamic = next(elf.iter_segments("PT_INTERP"), None) is not None
            return ElfProgram(needed, dynamic, elf.get_section_by_name(".nv_fatbin") is not None)
        except (ELFError, ValueError, OverflowError, MemoryError, OSError) as error:
            raise LaunchError(
                "the program's ELF file is damaged", where=str(path), found=str(error) or type(error).__name__
            ) from None


def check(path: Path) -> None:
    """Raise LaunchError, with a remedy, if the stub cannot replace the program's runtime."""
    program = examine(path)
    if program is None:
        return
    if not program.dynamic:
        raise LaunchError("the program is linked statically", where=str(path), do="link it without -static")
    runtimes = [
        int(m[1]) for library in program.needed if (m := re.fullmatch(r"libcudart\.so\.(\d+).*", library))
    ]
    if runtimes and runtimes != [SHARED_RUNTIME]:
        raise LaunchError(
            "the program is linked with another CUDA runtime",
            where=str(path),
            expected=f"libcudart.so.{SHARED_RUNTIME}",
            found=", ".join(program.needed),
            do=f"build it with CUDA {SHARED_RUNTIME}",
        )
    driver = any(library.startswith("libcuda.so") for library in program.needed)
    if program.device_code and not runtimes and not driver:
        raise LaunchError(
            "the program is linked with the static CUDA runtime",
            where=str(path),
            expected=f"libcudart.so.{SHARED_RUNTIME} among the libraries it needs",
            found=", ".join(program.needed) or "none",
            do=_SHARED,
        )
