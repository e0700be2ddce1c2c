"""Instructions reachable from a program counter, and the mbarriers that they operate on."""

from __future__ import annotations

from collections import deque
from functools import cached_property
from typing import Literal

import numpy as np
from tileproof.emulator import _engine
from tileproof.emulator.program import NONE, SHARED_WINDOW, Decoded
from tileproof.emulator.slots import layout_of

RANK_SHIFT = 24
OFFSET_MASK = (1 << RANK_SHIFT) - 1
_WINDOW_BYTES = 0x010000000000
Deed = Literal["arrive", "expect", "deliver"]


_SUMS = {"add.32": 4, "add.64": 8}  # bytes
# Instructions that name an mbarrier.
_OF_BARRIERS = (
    "mbarrier.", "cp.async.arrive", "tcgen05.commit", "tma.load", "bulk.copy", "st.async", "clc.try_cancel",
)  # fmt: skip
_BEFORE = 3  # instructions before a use in which its address is added up


class _Operands:
    """The operands of a decoded program, by the names of their slots."""

    def __init__(self, code: np.ndarray, names: dict[int, str]) -> None:
        self.handler = [names[number] for number in code["handler"].tolist()]
        self._operands = code["o"].tolist()

    def named(self, pc: int, name: str) -> int:
        """The operand in a named slot; NONE when the handler has no such slot."""
        layout = layout_of(self.handler[pc])
        return int(self._operands[pc][layout.operands.index(name)]) if name in layout.operands else NONE

    def summed_at(self, pc: int, register: int) -> int | None:
        """The addition just before `pc` that makes a register: offsets are added just before the use."""
        for before in range(pc - 1, max(-1, pc - 1 - _BEFORE), -1):
            if self.named(before, "dst") == register:
                return before if self.handler[before] in _SUMS else None
        return None


def registers_of_barriers(code: np.ndarray, names: dict[int, str]) -> set[int]:
    """Registers, by offset, that `ProgramView.barrier_named` and `reaches_cta` read in any warp of a CTA."""
    operands = _Operands(code, names)
    found: set[int] = set()

    def add(pc: int, operand: int) -> None:
        if operand < 0:
            return
        found.add(operand)
        if (sum_ := operands.summed_at(pc, operand)) is not None:
            for name in ("a", "b"):
                add(sum_, operands.named(sum_, name))

    for pc, handler in enumerate(operands.handler):
        if handler.startswith(_OF_BARRIERS):
            for name in ("barrier", "base", "mask"):
                add(pc, operands.named(pc, name))
    return found


class ProgramView:
    """A decoded kernel, for the diagnosis of hangs. `pc` counts instructions from 0."""

    def __init__(self, decoded: Decoded) -> None:
        self._decoded = decoded
        self._reach: dict[int, frozenset[int]] = {}

    # Each when it is asked for: a launch without findings asks for none. Lists: a scalar of a structured
    # array takes a microsecond, and every event asks for three.

    @cached_property
    def _operands(self) -> _Operands:
        names = {number: name for name, number in _engine.handlers().items()}
        return _Operands(self._decoded.code, names)

    @property
    def handler(self) -> list[str]:
        """The handler of each instruction."""
        return self._operands.handler

    @cached_property
    def _target(self) -> list[int]:
        return self._decoded.code["target"].tolist()

    @cached_property
    def _guarded(self) -> list[bool]:
        return [predicate >= 0 for predicate in self._decoded.code["pred"].tolist()]

    @cached_property
    def _line(self) -> list[int]:
        return self._decoded.code["line"].tolist()

    @cached_property
    def _source(self) -> list[int]:
        return self._decoded.code["source"].tolist()

    @cached_property
    def _name(self) -> list[int]:
        return self._decoded.code["name"].tolist()

    def line(self, pc: int) -> int:
        """Return the PTX line of an instruction, 0 if `pc` is negative."""
        return self._line[pc] if pc >= 0 else 0

    def source(self, pc: int) -> str:
        """Return the file:line of an instruction, "" without .loc."""
        source = self._source[pc] if pc >= 0 else -1
        return self._decoded.sources[source] if source >= 0 else ""

    def at(self, pc: int) -> str:
        """Return the place of an instruction as text; of inlined calls only the innermost caller."""
        source, *further = self.source(pc).split(", ")
        source += ")" if further else ""
        return f"line {self.line(pc)}" + (f" ({source})" if source else "")

    def instruction(self, pc: int) -> str:
        """Return the mnemonic."""
        return self._decoded.names[self._name[pc]] if pc >= 0 else ""

    def reach(self, pc: int) -> frozenset[int]:
        """Return every instruction that a thread at `pc` may still execute, for any predicate values."""
        if pc not in self._reach:
            seen = {pc}
            queue = deque(seen)
            while queue:
                at = queue.popleft()
                for after in self._after(at):
                    if after not in seen and after < len(self.handler):
                        seen.add(after)
                        queue.append(after)
            self._reach[pc] = frozenset(seen)
        return self._reach[pc]

    def _after(self, pc: int) -> tuple[int, ...]:
        if self.handler[pc] == "bra":
            return (self._target[pc], pc + 1) if self._guarded[pc] else (self._target[pc],)
        if self.handler[pc] in ("ret", "trap", "brx.none") and not self._guarded[pc]:
            return ()
        return (pc + 1,)

    def deeds(self, pc: int) -> frozenset[Deed]:
        """Return the effects of an instruction on the mbarrier that it names."""
        match self.handler[pc]:
            case "mbarrier.arrive":
                kinds: tuple[tuple[Deed, ...], ...] = (
                    ("arrive",),
                    ("arrive", "expect"),
                    ("expect",),
                    ("deliver",),
                )
                return frozenset(kinds[self.modifier(pc, "kind")])
            case "cp.async.arrive" | "tcgen05.commit":
                return frozenset({"arrive"})
            case "tma.load" | "bulk.copy" | "st.async" | "clc.try_cancel":
                return frozenset({"deliver"})
        return frozenset()

    def _cta_mask(self, pc: int) -> int:
        return self._operands.named(pc, "mask")

    def several_ctas(self, pc: int) -> bool:
        """Whether an instruction is a commit or copy with a CTA mask."""
        return self.handler[pc] in ("tcgen05.commit", "tma.load", "bulk.copy") and self._cta_mask(pc) != NONE

    def reaches_cta(self, pc: int, rank: int, lane: int, registers: bytes) -> bool:
        """Whether the CTA mask of a commit or copy includes `rank`; a mask that is still 0 may."""
        if not self.several_ctas(pc):
            return False
        mask = self.value(self._cta_mask(pc), lane, 2, registers)
        return not mask or bool(mask >> rank & 1)

    def barrier_named(self, pc: int, rank: int, lane: int, registers: bytes) -> tuple[int, int, bool] | None:
        """Return (CTA rank, byte offset, exact) of the mbarrier; `exact` when its address is constant.

        For an address in a register, uses the current value of the register.
        """
        row = self._decoded.code[pc]
        handler = self.handler[pc]
        wide = 8 in (self.modifier(pc, "address_bytes"), self.modifier(pc, "width"))
        operand = self._operands.named(pc, "barrier")
        if operand == NONE:
            operand = self._operands.named(pc, "base")
        address = int(row["imm"]) if handler == "mbarrier.arrive" else 0
        exact = True
        if operand != NONE:
            value, exact = self._computed(pc, operand, lane, 8 if wide else 4, registers)
            address += value
        if address - SHARED_WINDOW in range(_WINDOW_BYTES):
            address -= SHARED_WINDOW
        named, offset = address >> RANK_SHIFT, address & OFFSET_MASK
        own = handler == "mbarrier.arrive" and self.modifier(pc, "space") == 0
        own = own or handler in ("cp.async.arrive", "clc.try_cancel")
        own = own or bool(self.modifier(pc, "own_window"))
        return (rank if own else named, offset, exact)

    def _computed(self, pc: int, operand: int, lane: int, size: int, registers: bytes) -> tuple[int, bool]:
        """Return an operand's value, and whether it is constant: offsets are added just before the use."""
        if operand < 0 or operand in self._decoded.special_slots:
            return self.value(operand, lane, size, registers), True
        at = self._operands.summed_at(pc, operand)
        if at is not None:
            width = _SUMS[self.handler[at]]
            (base, base_constant), (offset, offset_constant) = (
                self._computed(at, self._operands.named(at, name), lane, width, registers)
                for name in ("a", "b")
            )
            return (base + offset) & ((1 << 8 * size) - 1), base_constant and offset_constant
        return self.value(operand, lane, size, registers), False

    def value(self, operand: int, lane: int, size: int, registers: bytes) -> int:
        """Return an operand's value in one lane, from the constant bank or the registers of a warp."""
        if operand < 0:
            data, at = self._decoded.constants, ~operand
        else:
            data, at = registers, self._decoded.registers.of(operand)
        return int.from_bytes(data[at + size * lane : at + size * (lane + 1)], "little")

    def operand(self, pc: int, name: str) -> int | None:
        """Return the operand in a named slot if it is a 32-bit constant, else None."""
        operand = self._operands.named(pc, name)
        return self.value(operand, 0, 4, b"") if operand < 0 and operand != NONE else None

    def immediate(self, pc: int) -> int:
        """Return the immediate of the packed instruction."""
        return int(self._decoded.code[pc]["imm"])

    def modifier(self, pc: int, name: str) -> int:
        """Return the modifier in a named slot; 0 when the handler has no such slot."""
        layout = layout_of(self.handler[pc])
        if name not in layout.modifiers:
            return 0
        return int(self._decoded.code[pc]["m"][layout.modifiers.index(name)])
