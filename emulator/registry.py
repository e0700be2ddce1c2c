"""The instruction registry: what the emulator executes, how faithfully, and what it refuses.

Each row names a family of spellings, the function that decodes it, a fidelity grade and the section of the
PTX ISA that defines it. `docs/instructions.md` is generated from these rows, so that table and behaviour
cannot part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tileproof.emulator.decode import Decoder
    from tileproof.emulator.ptx import Instruction

Grade = Literal["modelled", "order only", "refused"]


@dataclass(frozen=True)
class Row:
    """One family: `forms` are the accepted modifiers in words, `note` says what is modelled and what
    is not.
    """

    base: str
    group: str
    forms: str
    grade: Grade
    section: str
    note: str
    decode: Callable[[Decoder, Instruction, Modifiers], None] | None


ROWS: list[Row] = []
_BY_BASE: dict[str, Row] = {}


def instruction(
    base: str, *, group: str, forms: str, section: str, note: str = "", grade: Grade = "modelled"
) -> Callable[
    [Callable[[Decoder, Instruction, Modifiers], None]], Callable[[Decoder, Instruction, Modifiers], None]
]:
    """Registers the decoder of every opcode whose leading words are `base` (longest match wins)."""

    def register(
        decode: Callable[[Decoder, Instruction, Modifiers], None],
    ) -> Callable[[Decoder, Instruction, Modifiers], None]:
        row = Row(base, group, forms, grade, section, note, decode)
        ROWS.append(row)
        _BY_BASE[base] = row
        return decode

    return register


def refused(base: str, *, group: str, forms: str, section: str, note: str) -> None:
    """Registers a family that is known and not executed, with the reason."""
    row = Row(base, group, forms, "refused", section, note, None)
    ROWS.append(row)
    _BY_BASE[base] = row


def find(opcode: str) -> tuple[Row, str] | None:
    """The row of an opcode and the modifiers after its base; None when nothing matches."""
    words = opcode.split(".")
    for length in range(len(words), 0, -1):
        row = _BY_BASE.get(".".join(words[:length]))
        if row:
            return row, ".".join(words[length:])
    return None


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
