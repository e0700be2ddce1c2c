"""Where ptxas is known to make wrong code: patterns over the PTX of a kernel and its machine code.

docs/findings.md has a section for each defect, with a reproducer. A text that cannot show a pattern is not
assembled.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tileproof.kernels import toolchain
from tileproof.spec.machine.errors import TileproofError

_TARGET = re.compile(r"^\s*\.target\s+(\w+)", re.MULTILINE)
_ENTRY = re.compile(r"\.(entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)")
_PACKED = re.compile(r"\badd\.[su]16x2\b")
_NEGATIVE_ZERO = re.compile(
    r"\bselp\.f32\s+[^,]+,\s*(?:0f80000000,\s*0f3F800000|0f3F800000,\s*0f80000000)\b", re.I
)
_ZERO = re.compile(
    r"\bselp\.f32\s+[^,]+,\s*(?:0f00000000,\s*0f3F800000|0f3F800000,\s*0f00000000)\b|\bset\.", re.I
)
_ADDED_ZERO = re.compile(r"\bVIADD\.16x2\s+R\w+,\s*[^,;]+,\s*0x0\s*;")
_AS_FLOAT = re.compile(r"\bFSET\.BF\.")


@dataclass(frozen=True)
class KnownDefect:
    """A defect of ptxas. `may`: whether PTX can show it; `shows`: how often PTX and SASS of a kernel do."""

    name: str
    versions: str
    what: str
    may: Callable[[str], bool]
    shows: Callable[[str, str], int]


def _selected(ptx: str, sass: str) -> int:
    """FSET.BF beyond those that a right selection or `set` of the PTX accounts for."""
    wrong = len(_NEGATIVE_ZERO.findall(ptx))
    return max(0, min(wrong, len(_AS_FLOAT.findall(sass)) - len(_ZERO.findall(ptx))))


PATTERNS = (
    KnownDefect(
        "packed-constant",
        "13.0.88; mended in 13.5.37",
        "add.s16x2 or add.u16x2 of a constant of which only the low half of the sum is used adds 0 instead",
        lambda ptx: _PACKED.search(ptx) is not None,
        # a constant that is 0 in the PTX is added as RZ, never as the literal
        lambda ptx, sass: len(_ADDED_ZERO.findall(sass)),
    ),
    KnownDefect(
        "selected-negative-zero",
        "13.0.88 and 13.5.37",
        "a selection of -0.0 or 1.0 by a comparison of floats gives +0.0 for -0.0",
        lambda ptx: _NEGATIVE_ZERO.search(ptx) is not None,
        _selected,
    ),
)


@dataclass(frozen=True)
class WrongCode:
    """A pattern that a kernel shows."""

    entry: str
    pattern: KnownDefect
    count: int

    def __str__(self) -> str:
        return (
            f"{self.entry}: {self.pattern.name}, {self.count} time(s): {self.pattern.what} "
            f"(ptxas {self.pattern.versions}; docs/findings.md)"
        )


def wrong_code(ptx: str) -> tuple[WrongCode, ...]:
    """What the kernels of a module show, as this environment's ptxas assembles them.

    Raises TileproofError where a kernel may show a pattern and the tools are missing or refuse it.
    """
    entries = _bodies(ptx)
    possible = {name: [p for p in PATTERNS if p.may(body)] for name, body in entries.items()}
    if not any(possible.values()):
        return ()
    code = _machine_code(ptx)
    return tuple(
        WrongCode(name, pattern, count)
        for name, patterns in possible.items()
        for pattern in patterns
        if (count := pattern.shows(entries[name], code.get(name, "")))
    )


def _bodies(ptx: str) -> dict[str, str]:
    """The text of each kernel, up to the next kernel or function."""
    found = list(_ENTRY.finditer(ptx))
    ends = [match.start() for match in found[1:]] + [len(ptx)]
    return {m[2]: ptx[m.end() : end] for m, end in zip(found, ends, strict=True) if m[1] == "entry"}


def _machine_code(ptx: str) -> dict[str, str]:
    target = _TARGET.search(ptx)
    if target is None:
        raise TileproofError("the PTX names no .target", where="PTX", found=ptx[:80])
    with tempfile.TemporaryDirectory(prefix="tileproof-wrong-code-") as folder:
        source, cubin = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx)
        _run([str(toolchain.find().ptxas), f"-arch={target[1]}", str(source), "-o", str(cubin)])
        text = _run([str(toolchain.nvdisasm()), "-c", str(cubin)])
    parts = re.split(r"^\.text\.([\w$]+):$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TileproofError(
            "the kernel does not assemble", where=command[0], found=(done.stderr or done.stdout)[:400]
        )
    return done.stdout
