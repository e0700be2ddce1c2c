"""The instruction registry: the instructions that the emulator executes or rejects, with a fidelity grade.

Each row has a family of spellings, its decoder, a fidelity grade and the section of the PTX ISA that defines
it. `docs/instructions.md` is generated from these rows, so that the table agrees with the behaviour.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal

from tileproof.emulator.spelling import Forms, Target

if TYPE_CHECKING:
    from tileproof.emulator.decode import Decoder
    from tileproof.emulator.ptx import Instruction

Grade = Literal["modelled", "order only", "refused"]


@dataclass(frozen=True)
class Row:
    """An instruction family. `forms`: its spellings, in the grammar of `spelling.py`. `note`: what is
    modelled and what is not. A refused row may have the same base as an executed row: it then lists the valid
    PTX spellings that the emulator does not execute.
    """

    base: str
    group: str
    forms: str
    grade: Grade
    section: str
    note: str
    decode: Callable[[Decoder, Instruction, Modifiers], None] | None

    @cached_property
    def spellings(self) -> Forms:
        """The parsed forms, computed at first use: parsing all rows takes as long as the rest of the import.

        Raises ValueError when the forms violate the grammar.
        """
        try:
            return Forms(self.forms)
        except ValueError as error:
            raise ValueError(f"the row of {self.base}: {error}") from None


ROWS: list[Row] = []
_BY_BASE: dict[str, list[Row]] = {}


def add(row: Row) -> None:
    """Add a row; executed rows come before the refused rows of their base."""
    ROWS.append(row)
    _BY_BASE.setdefault(row.base, []).append(row)
    _BY_BASE[row.base].sort(key=lambda r: r.decode is None)
    spell.cache_clear()


def instruction(
    base: str, *, group: str, forms: str, section: str, note: str = "", grade: Grade = "modelled"
) -> Callable[
    [Callable[[Decoder, Instruction, Modifiers], None]], Callable[[Decoder, Instruction, Modifiers], None]
]:
    """Register the decoder of the opcodes `base` + a spelling of `forms`. The longest matching base wins."""

    def register(
        decode: Callable[[Decoder, Instruction, Modifiers], None],
    ) -> Callable[[Decoder, Instruction, Modifiers], None]:
        add(Row(base, group, forms, grade, section, note, decode))
        return decode

    return register


def refused(base: str, *, group: str, forms: str, section: str, note: str) -> None:
    """Register valid PTX spellings that the emulator does not execute; `note` describes them."""
    add(Row(base, group, forms, "refused", section, note, None))


@dataclass(frozen=True)
class Spelled:
    """An opcode that matches a row. `opcode`: in the order of the ISA. `modifiers`: the words after the base.

    `requires`: the requirements that the target does not meet, "" for none.
    """

    row: Row
    opcode: str
    modifiers: str
    requires: str


@lru_cache(maxsize=4096)
def spell(opcode: str, target: Target | None) -> Spelled | None:
    """Return the row of an opcode for a module's target; None when no row has this spelling."""
    words = tuple(opcode.split("."))
    lacking = None
    longest = True
    for length in range(len(words), 0, -1):
        base = ".".join(words[:length])
        rows = _BY_BASE.get(base, [])
        for row in rows:
            # A refused family `cp.async` does not cover `cp.async.bulk`, nor a form that another target has.
            if row.spellings.any and (lacking or not longest):
                continue
            for found in row.spellings.find(base, words[length:]):
                missing = [need for need in found.requires if target and not target.meets(need)]
                spelled = Spelled(row, base + found.text, found.text[1:], " and ".join(missing))
                if not missing:
                    return spelled
                lacking = lacking or spelled
        longest = longest and not rows
    return lacking


def rows_of(opcode: str) -> list[Row]:
    """Return the rows of the longest base that is a prefix of `opcode`."""
    words = opcode.split(".")
    for length in range(len(words), 0, -1):
        if rows := _BY_BASE.get(".".join(words[:length])):
            return rows
    return []


def nearest(opcode: str) -> str:
    """Return the known spelling nearest to an unknown opcode, "" when no spelling is near."""
    rows = rows_of(opcode)
    if not rows:
        first = opcode.split(".")[0]
        close = difflib.get_close_matches(first, {base.split(".")[0] for base in _BY_BASE}, 1, 0.7)
        rows = [row for row in ROWS if close and row.base.split(".")[0] == close[0]]
    best = (1 << 30, "")
    for row in rows:
        if not row.spellings.any:
            rest = opcode[len(row.base) :] if opcode.startswith(row.base) else None
            cost, text = row.spellings.nearest(rest if rest is not None else _tail(opcode, row.base))
            cost += 0 if rest is not None else _edits(opcode, row.base)
            best = min(best, (cost, row.base + text))
    return best[1]


def _tail(opcode: str, base: str) -> str:
    """Return the words after the base, if the first words of the opcode stand for the base."""
    rest = opcode.split(".")[base.count(".") + 1 :]
    return "".join("." + word for word in rest)


def _edits(opcode: str, base: str) -> int:
    head = ".".join(opcode.split(".")[: base.count(".") + 1])
    return round((1 - difflib.SequenceMatcher(None, head, base).ratio()) * len(base))


class Unknown(Exception):
    """A modifier or operand form that the decoder of an instruction does not support."""


class Modifiers:
    """The modifiers of an opcode, consumed by its decoder; a remaining modifier is rejected by name."""

    def __init__(self, text: str) -> None:
        self.remaining = text.split(".") if text else []

    def take(self, *words: str) -> str | None:
        """Remove and return the first of `words` that is present, None when none is."""
        for word in words:
            if word in self.remaining:
                self.remaining.remove(word)
                return word
        return None

    def need(self, *words: str) -> str:
        """Like `take`; raises Unknown when none of `words` is present."""
        found = self.take(*words)
        if found is None:
            raise Unknown(f"needs one of .{', .'.join(words)}")
        return found

    def drop(self, *words: str) -> None:
        """Remove hints and orderings, which have no effect on values."""
        while self.take(*words):
            pass

    def drop_prefix(self, *prefixes: str) -> None:
        """Like `drop`, by prefix (cache hints)."""
        self.remaining = [word for word in self.remaining if not word.startswith(prefixes)]

    def types(self) -> list[str]:
        """Remove and return all remaining words, which must be types."""
        found, self.remaining = self.remaining, []
        return found

    def done(self) -> None:
        """Raise Unknown if a modifier remains."""
        if self.remaining:
            raise Unknown(f"does not support the modifier .{self.remaining[0]}")
