"""The instruction registry: what the emulator executes, how faithfully, and what it refuses.

Each row names a family of spellings, the function that decodes it, a fidelity grade and the section of the
PTX ISA that defines it. `docs/instructions.md` is generated from these rows, so that table and behaviour
cannot part.
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
    """One family: `forms` are its spellings in the grammar of `spelling.py`, `note` says what is modelled
    and what is not. A refused row may share its base with an executed one: it then lists what PTX has and the
    emulator does not execute.
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
        """The forms, parsed; raises ValueError for what breaks the grammar."""
        return Forms(self.forms)


ROWS: list[Row] = []
_BY_BASE: dict[str, list[Row]] = {}


def add(row: Row) -> None:
    """Enters a row, whose forms must parse; executed rows come before refused ones of their base."""
    try:
        row.spellings  # noqa: B018 - parsed now, so that a bad pattern fails where it is written
    except ValueError as error:
        raise ValueError(f"the row of {row.base}: {error}") from None
    ROWS.append(row)
    _BY_BASE.setdefault(row.base, []).append(row)
    _BY_BASE[row.base].sort(key=lambda r: r.decode is None)
    spell.cache_clear()


def instruction(
    base: str, *, group: str, forms: str, section: str, note: str = "", grade: Grade = "modelled"
) -> Callable[
    [Callable[[Decoder, Instruction, Modifiers], None]], Callable[[Decoder, Instruction, Modifiers], None]
]:
    """Registers the decoder of the opcodes that are `base` and one of `forms` (the longest base wins)."""

    def register(
        decode: Callable[[Decoder, Instruction, Modifiers], None],
    ) -> Callable[[Decoder, Instruction, Modifiers], None]:
        add(Row(base, group, forms, grade, section, note, decode))
        return decode

    return register


def refused(base: str, *, group: str, forms: str, section: str, note: str) -> None:
    """Registers spellings that PTX has and the emulator does not execute, with what they are."""
    add(Row(base, group, forms, "refused", section, note, None))


@dataclass(frozen=True)
class Spelled:
    """An opcode that a row has: `opcode` in the order of the ISA, `modifiers` what follows the base.

    `requires` is what the target lacks, "" when it lacks nothing.
    """

    row: Row
    opcode: str
    modifiers: str
    requires: str


@lru_cache(maxsize=4096)
def spell(opcode: str, target: Target | None) -> Spelled | None:
    """The row of an opcode under a module's target; None when no row has this spelling."""
    words = tuple(opcode.split("."))
    lacking = None
    longest = True
    for length in range(len(words), 0, -1):
        base = ".".join(words[:length])
        rows = _BY_BASE.get(base, [])
        for row in rows:
            if row.spellings.any and not longest:  # `cp.async` refused whole says nothing of `cp.async.bulk`
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
    """The rows of the longest base that leads `opcode`."""
    words = opcode.split(".")
    for length in range(len(words), 0, -1):
        if rows := _BY_BASE.get(".".join(words[:length])):
            return rows
    return []


def nearest(opcode: str) -> str:
    """The known spelling that is nearest to an unknown one, "" when none is near."""
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
    """What follows the base when the opcode's first words are taken for it."""
    rest = opcode.split(".")[base.count(".") + 1 :]
    return "".join("." + word for word in rest)


def _edits(opcode: str, base: str) -> int:
    head = ".".join(opcode.split(".")[: base.count(".") + 1])
    return round((1 - difflib.SequenceMatcher(None, head, base).ratio()) * len(base))


class Unknown(Exception):
    """A modifier or operand form that the decoder of an instruction does not know."""


class Modifiers:
    """The modifiers of one opcode, consumed by its decoder; what is left over is refused by name."""

    def __init__(self, text: str) -> None:
        self.left = text.split(".") if text else []

    def take(self, *words: str) -> str | None:
        """Removes and returns the first of `words` that is present."""
        for word in words:
            if word in self.left:
                self.left.remove(word)
                return word
        return None

    def need(self, *words: str) -> str:
        """As `take`, and it must be there."""
        found = self.take(*words)
        if found is None:
            raise Unknown(f"needs one of .{', .'.join(words)}")
        return found

    def drop(self, *words: str) -> None:
        """Hints and orderings that change no value here."""
        while self.take(*words):
            pass

    def drop_prefix(self, *prefixes: str) -> None:
        """As `drop`, by prefix (cache hints)."""
        self.left = [word for word in self.left if not word.startswith(prefixes)]

    def types(self) -> list[str]:
        """All remaining words, which must be types; empties the list."""
        found, self.left = self.left, []
        return found

    def done(self) -> None:
        """Every modifier must have been understood."""
        if self.left:
            raise Unknown(f"does not know the modifier .{self.left[0]}")
