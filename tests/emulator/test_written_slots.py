# ruff: noqa: E501 - PTX lines are kept whole
"""Which slots an instruction writes, as its family declares them, against where PTX has its destinations."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import pytest
from tileproof.emulator import Module, PtxError, UnsupportedInstruction
from tileproof.emulator.decode import Decoder
from tileproof.emulator.program import NONE, Register
from tileproof.emulator.slots import layout_of, place

from tests.emulator.test_ptxas_oracle import ROWS, SM100A, line, sample, taken
from tests.kit.ptx import HEADER
from tests.kit.spelling_operands import BEFORE, declarations

# Their first operand is a source although it is no address in brackets.
NO_RESULT = {"nanosleep", "pmevent", "setmaxnreg", "tcgen05.dealloc", "discard"}


def operands_of(text: str, base: str) -> tuple[set[str], set[str]]:
    """Registers of the first operand, where it is the result, and of the others.

    PTX writes the result first, and addresses in brackets.
    """
    first = re.match(r"\S+\s+(\{[^}]*\}|[^,;]*)", text)
    source = base in NO_RESULT or (text.startswith("bar") and ".red." not in text)
    if first is None or first[1].startswith("[") or source:
        return set(), set(re.findall(r"%\w+", text))
    return set(re.findall(r"%\w+", first[1])), set(re.findall(r"%\w+", text[first.end() :]))


def test_declared_destinations_are_those_of_the_isa(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, handlers = [], set()
    emit = Decoder.emit
    text, base, results = "", "", set[int]()

    def checked(self: Decoder, handler: str, *, vec: Any = (), **given: Any) -> None:
        layout = layout_of(handler)
        first, end = given.get("written") or ((0, len(vec)) if layout.fills else (0, 0))
        operands = place(handler, {k: v for k, v in given.items() if k in layout.operands}, NONE)[0]
        written = [o for k, o in enumerate(operands) if layout.written >> k & 1] + list(vec[first:end])
        read = [o for k, o in enumerate(operands) if not layout.written >> k & 1] + [*vec[:first], *vec[end:]]
        if self.current is not None and self.current.opcode == text.split()[0]:
            result, others = (
                {register.offset for register in map(self.lookup, names) if isinstance(register, Register)}
                for names in operands_of(text, base)
            )
            if any(o < 0 and o != NONE for o in written):
                wrong.append(f"{text}: {handler} writes a constant")
            if (result - results - others) & set(read):
                wrong.append(f"{text}: {handler} reads its destination")
            if (others - result) & set(written):
                wrong.append(f"{text}: {handler} writes what is no destination")
            results.update(o for o in written if o != NONE)  # a later part of the instruction may read it
            handlers.add(handler)
        emit(self, handler, vec=vec, **given)

    monkeypatch.setattr(Decoder, "emit", checked)
    for row in ROWS:
        if row.decode is None or row.base in ("call", "brx"):
            continue
        for opcode in sample(row, 6):
            if not taken(opcode, SM100A) or "[slot]" in line(opcode):
                continue
            text, base = line(opcode), row.base
            results.clear()
            body = f"{HEADER.replace('8.8', '9.0')}{BEFORE}.visible .entry k(.param .align 16 .b8 whole[64]) {{ {declarations(SM100A)}\n{text}\nEND: ret; }}"
            with contextlib.suppress(UnsupportedInstruction, PtxError):
                Module.from_ptx(body).decode("k")
    assert len(handlers) > 100
    assert not wrong, f"{len(wrong)}\n" + "\n".join(sorted(set(wrong))[:40])
