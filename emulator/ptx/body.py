"""Reads the statements of one entry (PTX ISA 4.3).

The grammar is known here, the instructions are not: an instruction is an opcode string and operands.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

from tileproof.emulator.errors import PtxError
from tileproof.emulator.ptx.operands import parse_operand, split_operands
from tileproof.emulator.ptx.syntax import (
    IDENTIFIER,
    TYPE_BYTES,
    BranchTargets,
    Declaration,
    Entry,
    Instruction,
    Label,
    Operand,
    PtxModule,
    Scope,
    Statement,
    alignment,
    fail,
)

_SPACE = re.compile(r"\s*")
_LABEL = re.compile(rf"({IDENTIFIER})\s*:(?!:)")
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:[^\n]*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?[^\n]*")
_LINE_DIRECTIVE = re.compile(r"\.(?:file|loc)\b[^\n]*")
_GUARDED = re.compile(
    rf"(?:@(!?)\s*({IDENTIFIER})\s+)?([A-Za-z][A-Za-z0-9_:]*(?:\s*\.[A-Za-z0-9_:]+)*)\s*(.*)$", re.S
)
_DECLARE = re.compile(
    r"\.(reg|local|shared|param)\s+(?:\.align\s+(\d+)\s+)?(?:\.v([24])\s+)?\.([a-z0-9]+)\s+(.*)$",
    re.S,
)
_DECLARED = re.compile(rf"({IDENTIFIER})\s*(?:<(\d+)>|((?:\[\d+\]\s*)+))?$")

_DEEPEST = 256  # of an inline chain; a longer chain is a cycle
_KEPT = 4  # call sites at each end of a long chain


class _Sources:
    """Source places of a body: "file:line", and for inlined code the chain of its call sites."""

    def __init__(self, module: PtxModule) -> None:
        self._names = {number: path.rsplit("/", 1)[-1] for number, path in module.files.items()}
        self._callers: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._known: dict[str, str] = {}  # places by the text of a .loc, until a place has another caller

    def _name(self, place: tuple[str, ...]) -> str:
        return f"{self._names.get(int(place[0]), place[0])}:{place[1]}"

    def at(self, loc: re.Match[str]) -> str:
        """The place that a .loc names. An `inlined_at` is the place of an earlier .loc (PTX ISA 11.5.1)."""
        place, caller = loc.group(1, 2, 3), loc.group(4, 5, 6)
        if caller[0] is None:
            if self._callers.pop(place, None) is not None:
                self._known.clear()
            return self._name(place)
        if self._callers.get(place) != caller:
            self._callers[place] = caller
            self._known.clear()
        text = loc[0]
        if text not in self._known:
            self._known[text] = self._chain(place, caller)
        return self._known[text]

    def _chain(self, place: tuple[str, ...], caller: tuple[str, ...]) -> str:
        chain: list[str] = []
        while caller and len(chain) < _DEEPEST:
            chain.append(self._name(caller))
            caller = self._callers.get(caller, ())
        if len(chain) > 2 * _KEPT:  # the innermost say what it is, the outermost where in the user's kernel
            chain = [*chain[:_KEPT], "...", *chain[-_KEPT:]]
        return f"{self._name(place)} (inlined at {', '.join(chain)})"


def parse_body(module: PtxModule, entry: Entry) -> list[Statement]:
    """The statements of an entry, in order; raises `PtxError` with line and token."""
    text, at, end = module.text, entry.body_start, entry.body_end
    out: list[Statement] = []
    line, counted = module.line_of(at), at
    source = ""
    sources = _Sources(module)
    while True:
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        if at >= end:
            return out
        line += text.count("\n", counted, at)
        counted = at
        char = text[at]
        if char in "{}":
            out.append(Scope(line, char == "{"))
            at += 1
            continue
        if char == ";":
            at += 1
            continue
        if label := _LABEL.match(text, at):
            out.append(Label(line, label.group(1)))
            at = label.end()
            continue
        if directive := _LINE_DIRECTIVE.match(text, at):
            if loc := _LOC.match(text, at):
                source = sources.at(loc)
            at = directive.end()
            continue
        stop = text.find(";", at, end)
        if stop < 0:
            raise fail(module, at, "a statement has no ';'", "';'")
        statement = text[at:stop]
        if statement.startswith(".branchtargets"):
            if not out or not isinstance(out[-1], Label):
                raise fail(module, at, "a list of branch targets has no label", "name: .branchtargets a, b;")
            names = tuple(name.strip() for name in statement.removeprefix(".branchtargets").split(","))
            out[-1] = BranchTargets(line, out[-1].name, names)
        elif statement.startswith((".callprototype", ".calltargets")):
            if not out or not isinstance(out.pop(), Label):
                raise fail(module, at, "a call's prototype has no label", "name: .callprototype ...;")
        elif char == ".":
            if not statement.startswith(".pragma"):
                out.extend(_declaration(module, at, line, statement))
        else:
            out.append(_instruction(module, at, line, source, statement))
        at = stop + 1


def _declaration(module: PtxModule, at: int, line: int, statement: str) -> list[Declaration]:
    match = _DECLARE.match(statement.strip())
    if not match or (match.group(4) != "pred" and match.group(4) not in TYPE_BYTES):
        raise fail(module, at, "a declaration cannot be read", ".reg, .local, .shared or .param with a type")
    elements = int(match.group(3) or 1)
    size = TYPE_BYTES.get(match.group(4), 4) * (1 if match.group(1) == "reg" else elements)
    out = []
    try:
        parts = split_operands(match.group(5))
    except ValueError:
        raise fail(module, at, "a declaration cannot be read", "names, separated by commas") from None
    for part in parts:
        found = _DECLARED.match(part)
        if not found:
            raise fail(module, at, f"the declared name {part!r} cannot be read")
        out.append(
            Declaration(
                line,
                match.group(1),
                match.group(4),
                found.group(1),
                int(found.group(2)) if found.group(2) else None,
                alignment(module, at, match.group(2), size),
                size * math.prod(map(int, re.findall(r"\d+", found.group(3) or ""))),
                elements if match.group(1) == "reg" else 1,
            )
        )
    return out


class _BadOperand(Exception):
    """Of an opcode, with the text of its operands."""


@lru_cache(maxsize=2**14)  # of a text and its mutants all but a few are the same
def _read(statement: str) -> tuple[str, bool, str, tuple[Operand, ...]] | None:
    """Guard, its negation, opcode and operands; None where the statement is no instruction."""
    match = _GUARDED.match(statement.strip())
    if not match:
        return None
    # ptxas takes blanks before a modifier, and nvcc prints one before .L2::cache_hint in one place.
    opcode, rest = re.sub(r"\s+", "", match.group(3)), match.group(4)
    try:
        operands = tuple(parse_operand(part) for part in split_operands(rest))
    except (ValueError, IndexError):
        raise _BadOperand(opcode, rest) from None
    return match.group(2) or "", bool(match.group(1)), opcode, operands


def _instruction(module: PtxModule, at: int, line: int, source: str, statement: str) -> Instruction:
    try:
        found = _read(statement)
    except _BadOperand as bad:
        opcode, rest = bad.args
        raise PtxError(
            f"an operand of {opcode} cannot be read",
            where=f"line {line}",
            found=repr(rest.strip()[:80]),
            expected="registers, numbers, {vectors} or [addresses]",
            do="is the file complete PTX, as nvcc -ptx writes it?",
        ) from None
    if found is None:
        raise fail(module, at, "not an instruction", "[@p] opcode operands;")
    return Instruction(line, source, *found)
