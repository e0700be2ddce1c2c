"""The result of an integer instruction, for each thread."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]
_COMPARED: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt,
    "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


@dataclass(frozen=True)
class IntegerForm:
    """An instruction's opcode (`parts`: its words), and its type: signed or not, of `width` bits."""

    parts: tuple[str, ...]
    signed: bool
    width: int

    @property
    def whole(self) -> int:
        """The mask of all bits of the type."""
        return (1 << self.width) - 1

    def sign(self, x: int) -> int:
        """The number with these bits."""
        return x - (1 << self.width) if self.signed and x >> self.width - 1 else x


Rule = Callable[[IntegerForm, Sequence[int]], int]


def _insert(form: IntegerForm, given: Sequence[int]) -> int:
    low, into, position, length = given[0], given[1], given[2] & 0xFF, given[3] & 0xFF
    mask = ((1 << length) - 1) << position & form.whole
    return into & ~mask | low << position & mask


# By opcode and number of operands: bits, of which those beyond the width are cut off.
_RULES: dict[tuple[str, int], Rule] = {
    ("mov", 1): lambda form, x: x[0],
    ("not", 1): lambda form, x: ~x[0],
    ("and", 2): lambda form, x: x[0] & x[1],
    ("or", 2): lambda form, x: x[0] | x[1],
    ("xor", 2): lambda form, x: x[0] ^ x[1],
    ("add", 2): lambda form, x: x[0] + x[1],
    ("sub", 2): lambda form, x: x[0] - x[1],
    ("mul", 2): lambda form, x: x[0] * x[1],
    ("mad", 3): lambda form, x: x[0] * x[1] + x[2],
    ("shl", 2): lambda form, x: x[0] << x[1] if x[1] < form.width else 0,
    ("shr", 2): lambda form, x: form.sign(x[0]) >> min(x[1], form.width),
    ("bfi", 4): _insert,
    ("setp", 2): lambda form, x: int(_COMPARED[form.parts[1]](form.sign(x[0]), form.sign(x[1]))),
}
# The forms of an opcode that its rule covers, where it does not cover all.
_COVERED: dict[str, Callable[[IntegerForm], bool]] = {
    "add": lambda form: not {"cc", "sat"} & set(form.parts),
    "sub": lambda form: not {"cc", "sat"} & set(form.parts),
    "mul": lambda form: form.parts[1] == "lo",
    "mad": lambda form: form.parts[1] == "lo" and "cc" not in form.parts,
    "bfi": lambda form: not form.signed,
    "setp": lambda form: len(form.parts) == 3 and form.parts[1] in _COMPARED,
}


def computed(form: IntegerForm, operands: Sequence[U64]) -> U64 | None:
    """The result, element by element; None for an unknown instruction."""
    name = form.parts[0]
    rule, covered = _RULES.get((name, len(operands))), _COVERED.get(name)
    if rule is None or (covered is not None and not covered(form)):
        return None
    cut = [[int(x) & form.whole for x in operand] for operand in operands]
    return np.array([rule(form, x) & form.whole for x in zip(*cut, strict=True)], np.uint64)
