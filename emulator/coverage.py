"""Which instructions and branches of an entry launches have executed, by PTX line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from tileproof.emulator.program import Decoded
from tileproof.emulator.registry import Row, spell

RAN, TAKEN, FELL_THROUGH, TOLD = 1, 2, 4, 8  # as in engine/machine.hpp and race.hpp
Kind = Literal["mma", "copy", "output", "branch", "other"]
_MMA = ("tcgen05.mma", "mma.", "wmma.mma", "wgmma.mma_async")
_COPY = ("cp.", "tcgen05.cp", "st.async", "red.async")
_OUTPUT = ("st.", "red.", "atom.", "multimem.")
_NOT_GLOBAL = {"shared", "shared::cta", "shared::cluster", "local", "param", "param::func", "async"}


@dataclass(frozen=True)
class Instructed:
    """One instruction of the PTX: whether it ran, and of a branch which ways lanes went (None: no branch).

    A branch without a guard has one way only, so that `fell_through` is None.
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
    """A spelling that is executed only as order: no value depends on it here."""

    form: str
    isa_section: str
    instructions: int


def kind_of(opcode: str) -> Kind:
    """What an instruction is for: a product, a copy between memories, a store that may be to global memory
    (without a state space it may be), or else.
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


def together(executed: Iterable[bytes]) -> bytes:
    """What several launches of one entry executed."""
    total: np.ndarray | None = None
    for one in executed:
        seen = np.frombuffer(one, np.uint8)
        total = seen.copy() if total is None else total | seen
    return b"" if total is None else total.tobytes()


def instructions(decoded: Decoded, executed: bytes) -> tuple[Instructed, ...]:
    """Each instruction of the entry, and of the functions that it calls, in the order of the PTX.

    What one PTX instruction became in the engine, and a function that is called at several places, count as
    one. ValueError when `executed` is of another program.
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
    return tuple(sorted(seen.values(), key=lambda one: one.line))


def idle_waits(decoded: Decoded, executed: bytes) -> frozenset[int]:
    """The PTX lines of mbarrier waits that ran and told no thread what it might not have known without them,
    in launches that looked for races: what their phase's arrivals give was known on another way, or no phase
    had ended, and the phase under way could not end before they were over.
    """
    told: dict[int, bool] = {}
    for row, bits in zip(decoded.code[:-1], executed, strict=False):
        if decoded.names[row["name"]].startswith(("mbarrier.try_wait", "mbarrier.test_wait")) and bits & RAN:
            line = int(row["line"])
            told[line] = told.get(line, False) or bool(bits & TOLD)
    return frozenset(line for line, news in told.items() if not news)


_ARRIVES = ("mbarrier.arrive", "mbarrier.expect_tx", "tcgen05.commit", "cp.async.mbarrier.arrive")


def unheard_arrivals(decoded: Decoded, executed: bytes) -> frozenset[int]:
    """The PTX lines of arrivals at mbarriers, and of byte counts, that ran and of which nobody may learn, in
    launches that looked for races: no wait for one of their mbarriers came after them or was in no order with
    them. A `test_wait` or `try_wait` that failed and was left at that is not seen.
    """
    heard: dict[int, bool] = {}
    for row, bits in zip(decoded.code[:-1], executed, strict=False):
        if decoded.names[row["name"]].startswith(_ARRIVES) and bits & RAN:
            line = int(row["line"])
            heard[line] = heard.get(line, False) or bool(bits & TOLD)
    return frozenset(line for line, one in heard.items() if not one)


def _either(one: bool | None, other: bool | None) -> bool | None:
    return one if other is None else other if one is None else one or other


def order_only(decoded: Decoded) -> tuple[OrderOnlyForm, ...]:
    """The forms of the entry that are executed only as order, by their spelling."""
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
    """The row of the instruction table that an opcode falls under."""
    spelled = spell(opcode, None)
    return None if spelled is None else spelled.row


def section_of(opcode: str) -> str:
    """The section of the PTX ISA that defines an instruction, empty when the table has none."""
    row = table_row(opcode)
    return "" if row is None else row.section
