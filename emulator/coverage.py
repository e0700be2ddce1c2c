"""The instructions and branches of an entry that launches have executed, by PTX line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from tileproof.emulator.program import Decoded
from tileproof.emulator.registry import Row, spell

RAN, TAKEN, FELL_THROUGH = 1, 2, 4  # as in engine/machine.hpp
Kind = Literal["mma", "copy", "output", "branch", "other"]
_MMA = ("tcgen05.mma", "mma.", "wmma.mma", "wgmma.mma_async")
_COPY = ("cp.", "tcgen05.cp", "st.async", "red.async")
_OUTPUT = ("st.", "red.", "atom.", "multimem.")
_NOT_GLOBAL = {"shared", "shared::cta", "shared::cluster", "local", "param", "param::func", "async"}


@dataclass(frozen=True)
class Instructed:
    """One instruction of the PTX: whether it ran, and for a branch, whether lanes took it or fell through.

    Both are None for other instructions; `fell_through` is also None for a branch without a guard.
    """

    line: int
    opcode: str
    source: str
    kind: Kind
    ran: bool
    taken: bool | None = None
    fell_through: bool | None = None


@dataclass(frozen=True)
class OrderOnlyForm:
    """A spelling of grade "order only": no value depends on it in the emulator."""

    form: str
    isa_section: str
    instructions: int


def kind_of(opcode: str) -> Kind:
    """Classify an instruction: a matrix product, a copy between memories, a store that may go to global
    memory (any store without a state space may), a branch, or other.
    """
    words = opcode.split(".")
    if opcode.startswith(_MMA):
        return "mma"
    if (
        opcode.startswith(_COPY)
        and words[-1] not in ("commit_group", "wait_all")
        and "wait_group" not in words
    ):
        return "copy"
    if f"{opcode}.".startswith(_OUTPUT) and not _NOT_GLOBAL & set(words[1:]):
        return "output"
    return "branch" if words[0] in ("bra", "brx") else "other"


def union(executed: Iterable[bytes]) -> bytes:
    """Combine the coverage of several launches of the same entry."""
    total: np.ndarray | None = None
    for launch in executed:
        seen = np.frombuffer(launch, np.uint8)
        total = seen.copy() if total is None else total | seen
    return b"" if total is None else total.tobytes()


def instructions(decoded: Decoded, executed: bytes) -> tuple[Instructed, ...]:
    """Return each instruction of the entry and of the functions that it calls, in PTX order.

    A PTX instruction counts once, even if it is decoded into several engine instructions or belongs to a
    function with several call sites. ValueError when `executed` belongs to another program.
    """
    if len(executed) != len(decoded.code):
        raise ValueError(f"{len(executed)} bytes for {len(decoded.code)} instructions")
    seen: dict[tuple[int, str], Instructed] = {}
    for row, bits in zip(decoded.code[:-1], executed, strict=False):  # the last is the return at the end
        opcode = decoded.names[row["name"]]
        source = decoded.sources[row["source"]] if row["source"] >= 0 else ""
        taken = fell = None
        if opcode.startswith(("bra", "brx")):
            taken = bool(bits & TAKEN)
            fell = bool(bits & FELL_THROUGH) if row["pred"] >= 0 else None
        key = (int(row["line"]), opcode)
        before = seen.get(key)
        seen[key] = Instructed(
            line=key[0],
            opcode=opcode,
            source=source,
            kind=kind_of(opcode),
            ran=bool(bits & RAN) or (before is not None and before.ran),
            taken=_either(taken, before.taken if before else None),
            fell_through=_either(fell, before.fell_through if before else None),
        )
    return tuple(sorted(seen.values(), key=lambda instructed: instructed.line))


def _either(first: bool | None, second: bool | None) -> bool | None:
    return first if second is None else second if first is None else first or second


def order_only(decoded: Decoded) -> tuple[OrderOnlyForm, ...]:
    """Return the forms of the entry whose grade is "order only", sorted by spelling."""
    lines: dict[str, set[int]] = {}
    for row in decoded.code[:-1]:
        lines.setdefault(decoded.names[row["name"]], set()).add(int(row["line"]))
    found = []
    for opcode in sorted(lines):
        row_of = table_row(opcode)
        if row_of is not None and row_of.grade == "order only":
            found.append(OrderOnlyForm(opcode, row_of.section, len(lines[opcode])))
    return tuple(found)


def table_row(opcode: str) -> Row | None:
    """Return the row of the instruction table for an opcode, None when no row matches."""
    spelled = spell(opcode, None)
    return None if spelled is None else spelled.row


def section_of(opcode: str) -> str:
    """Return the section of the PTX ISA that defines an instruction, "" when the table has no row for it."""
    row = table_row(opcode)
    return "" if row is None else row.section
