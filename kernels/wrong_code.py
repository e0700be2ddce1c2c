"""Known miscompilations by ptxas: patterns over a kernel's PTX and machine code.

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
_HALF_ATOMIC = re.compile(r"\b(?:atom|red)\.[\w.:]*add\.noftz\.b?f16x2\b")
# A half of the cell added to a half of the value, upper or lower.
_HALF_ADDED = re.compile(
    r"\bHADD2(?:\.\w+)? R\d+, (R\d+)(?:\.reuse)?\.H([01])_H[01], R(\d+)(?:\.reuse)?\.H[01]_H[01] ;"
)
# The upper half of the value comes from the other register of 64 bits.
_HALVES_JOINED = re.compile(
    r"\bPRMT (R\d+), (R\d+), 0x5410, \2 ;[^?]*?\bPRMT (R\d+), R\d+, 0x7610, \1 ;"
    r"[^?]*?\bHFMA2[.\w]* R\d+, R\d+, 1, 1, \3 ;"
)
_LOP3_TWICE = re.compile(
    r"\blop3\.b32\s+%\w+,\s*(?:(%\w+),\s*\1,\s*%\w+|(%\w+),\s*%\w+,\s*\2|%\w+,\s*(%\w+),\s*\3),"
)
_LOP3 = re.compile(
    r"\bLOP3\.LUT\s+(?:P\d,\s*)?R\w+,\s*([^,;]+),\s*([^,;]+),\s*([^,;]+),\s*(0x\w+),\s*!?PT\s*;"
)
_SET_HALF = re.compile(r"\bset\.\w+(?:\.\w+)*?\.(?:b?f16)\.\w+\s+(%\w+),")
_HALF_RESULTS = re.compile(r"\bHSET2\.BF|\bSEL(?:\.64)?\s+R\d+,\s*RZ,\s*0x3(?:c00|f80)\b")
_SHIFTED_PAIR = re.compile(
    r"\bHSET2(?:\.BF16_V2)?\.BF\.\w+\.\w+ (R\d+),[^?]*?\bSHF\.R\.\w+(?:\.HI)? R\d+, RZ, R\d+, \1 ;"
)
_NEGATED = re.compile(r"\b(?:IMAD\.MOV (R\d+), RZ, RZ, -R\d+|IADD3 (R\d+), (?:PT, PT, )?RZ, -R\d+, RZ) ;")
_NEGATED_SHORT = re.compile(r"\b(?:neg\.s16\s+(%\w+),|sub\.s16\s+(%\w+),)")
_SHORT_USE = re.compile(r"\b(?:mul\.wide\.s16\s+%\w+|setp\.\w+\.s16\s+%\w+),\s*(%\w+),\s*(%\w+)")
_ALL_ONES = re.compile(r"\bmov\.[bsu]32\s+(%\w+),\s*(?:-1|4294967295|0x[fF]{8})\s*;")
_COPIED = re.compile(r"\bmov\.b32\s+(%\w+),\s*(%\w+)\s*;")
_ONE = re.compile(r"\b(?:1|0x3f800000)\s*[,;]")
_INTEGER_ONE = re.compile(r"\bSEL(?:\.64)?\s+R\d+,\s*RZ,\s*0x1,")
_FIELD = re.compile(r"\bbfe\.s32\s+%\w+,\s*%\w+,\s*(%?\w+),\s*(%?\w+)\s*;")
_CONSTANT = re.compile(r"\bmov\.[bsu]32\s+(%\w+),\s*(-?%?\w+)\s*;")
_MINUS_ONE = re.compile(r"(?:-0x1|0xffffffff)\s*;")
_SELECTED_ZERO = re.compile(
    r"\bselp\.f32\s+(%\w+),\s*(?:0f80000000,\s*0f[0-7]\w{7}|0f[0-7]\w{7},\s*0f80000000)\b", re.I
)
_ABSOLUTE = re.compile(r"\babs(?:\.ftz)?\.f32\s+%\w+,\s*(%\w+)\s*;")
_NEGATIVE_SELECTION = re.compile(r"\bFSEL\s+R\d+,\s*(?:-RZ,|[^;]*?,\s*-RZ,)")
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


def _halves(sass: str) -> int:
    """Additions to both halves of a cell whose values lie in two registers, not in a single register."""
    added = _HALF_ADDED.findall(sass)
    low = {cell: value for cell, half, value in added if half == "0"}
    split = sum(half == "1" and low.get(cell, value) != value for cell, half, value in added)
    return split + len(_HALVES_JOINED.findall(sass))


def _one_operand(sass: str) -> int:
    """LOP3 with fewer than two operands that matter, except a complement."""
    return sum(_operands_that_matter(int(lut, 16), names) < 2 for *names, lut in _LOP3.findall(sass))


def _operands_that_matter(table: int, names: list[str]) -> int:
    variable = [k for k, name in enumerate(names) if name.strip() != "RZ"]
    rows = [row for row in range(8) if all(k in variable or not row >> (2 - k) & 1 for k in range(3))]
    matters = [k for k in variable if any((table >> row ^ table >> (row ^ 1 << (2 - k))) & 1 for row in rows)]
    complement = len(matters) == 1 and table & 1
    return 2 if complement else len(matters)


def _set_as_one(ptx: str, sass: str) -> int:
    """Comparisons with a half as their result that are neither a half nor a select of 1.0 in the SASS, or
    whose packed result is shifted as 32 bits.
    """
    lost = len(_SET_HALF.findall(ptx)) - len(_HALF_RESULTS.findall(sass))
    return max(0, min(lost, len(_INTEGER_ONE.findall(sass)))) + len(_SHIFTED_PAIR.findall(sass))


def _short_uses(ptx: str) -> int:
    """Signed uses as wider numbers of 16 bits that were negated."""
    negated = {name for pair in _NEGATED_SHORT.findall(ptx) for name in pair if name}
    return sum(bool(negated & set(pair)) for pair in _SHORT_USE.findall(ptx))


def _unwrapped(ptx: str, sass: str) -> int:
    """Negations in 32 bits that a product or comparison reads as they are."""
    names = {name for pair in _NEGATED.findall(sass) for name in pair if name}
    reads = [n for n in names if re.search(rf"\b(?:IMAD|ISETP[.\w]*) [^;]*, -?{n}(?:\.reuse)?, [^;]*;", sass)]
    return min(_short_uses(ptx), len(reads))


def _merged_ones(ptx: str) -> bool:
    registers = set(_ALL_ONES.findall(ptx))
    for to, source in _COPIED.findall(ptx):
        if source in registers:
            registers.add(to)
    return any(name.startswith("%f") for name in registers) and "bra" in ptx


def _fields_past_sign(ptx: str) -> int:
    """bfe.s32 of a constant position from 32 to 255 and a constant length above 0."""
    constants: dict[str, str] = dict(_CONSTANT.findall(ptx))

    def value(word: str) -> int:
        text = constants.get(word, word)
        text = constants.get(text, text)
        return 0 if text.startswith("%") else int(text, 0) & 0xFF

    return sum(value(at) > 31 and value(length) > 0 for at, length in _FIELD.findall(ptx))


def _absolutes(ptx: str) -> int:
    selected = set(_SELECTED_ZERO.findall(ptx))
    return sum(source in selected for source in _ABSOLUTE.findall(ptx))


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
    KnownDefect(
        "half-atomic-of-64-bits",
        "13.0.88 and 13.5.37",
        "an atomic addition of f16x2 or bf16x2 in shared memory, of the low word of a 64-bit register, takes "
        "its upper half from the high word",
        lambda ptx: _HALF_ATOMIC.search(ptx) is not None,
        lambda ptx, sass: _halves(sass),
    ),
    KnownDefect(
        "lop3-equal-operands",
        "13.0.88; mended in 13.5.37",
        "lop3 with the same register twice, merged with other logic, loses an operand",
        lambda ptx: _LOP3_TWICE.search(ptx) is not None,
        lambda ptx, sass: _one_operand(sass),
    ),
    KnownDefect(
        "set-half-widened",
        "13.0.88 and 13.5.37",
        "set with a result of f16 or bf16 that is widened gives the integer 1 for 1.0, or 1.0 in both halves",
        lambda ptx: _SET_HALF.search(ptx) is not None,
        _set_as_one,
    ),
    KnownDefect(
        "negated-short",
        "13.0.88; mended in 13.5.37",
        "the negation of -32768 in 16 bits is multiplied or compared as 32768",
        lambda ptx: _short_uses(ptx) > 0,
        _unwrapped,
    ),
    KnownDefect(
        "merged-ones",
        "13.0.88; mended in 13.5.37",
        "a branch that gives 1.0 by cvt.sat, and else the bits 0xffffffff, always gives these bits",
        _merged_ones,
        lambda ptx, sass: int(_MINUS_ONE.search(sass) is not None and not _ONE.search(sass)),
    ),
    KnownDefect(
        "field-past-sign",
        "13.0.88 and 13.5.37",
        "bfe.s32 of a constant position above 31 gives -1 for any sign",
        lambda ptx: _fields_past_sign(ptx) > 0,
        lambda ptx, sass: min(_fields_past_sign(ptx), len(_MINUS_ONE.findall(sass))),
    ),
    KnownDefect(
        "absolute-negative-zero",
        "13.0.88 and 13.5.37",
        "abs of a selection of -0.0 or a positive constant is dropped",
        lambda ptx: _absolutes(ptx) > 0,
        lambda ptx, sass: min(_absolutes(ptx), len(_NEGATIVE_SELECTION.findall(sass))),
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


def wrong_code(ptx: str, tools: tuple[str, str] | None = None) -> tuple[WrongCode, ...]:
    """What the kernels of a module show, as ptxas assembles them.

    `tools`: paths of ptxas and nvdisasm (those of this environment).

    Raises TileproofError where a kernel may show a pattern and the tools are missing or refuse it.
    """
    entries = _bodies(ptx)
    possible = {name: [p for p in PATTERNS if p.may(body)] for name, body in entries.items()}
    if not any(possible.values()):
        return ()
    code = _machine_code(ptx, tools)
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


def _machine_code(ptx: str, tools: tuple[str, str] | None) -> dict[str, str]:
    target = _TARGET.search(ptx)
    if target is None:
        raise TileproofError("the PTX names no .target", where="PTX", found=ptx[:80])
    ptxas, nvdisasm = tools or (str(toolchain.find().ptxas), str(toolchain.nvdisasm()))
    with tempfile.TemporaryDirectory(prefix="tileproof-wrong-code-") as folder:
        source, cubin = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx)
        _run([ptxas, f"-arch={target[1]}", str(source), "-o", str(cubin)])
        text = _run([nvdisasm, "-c", str(cubin)])
    parts = re.split(r"^\.text\.([\w$]+):$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TileproofError(
            "the kernel does not assemble", where=command[0], found=(done.stderr or done.stdout)[:400]
        )
    return done.stdout
