"""The text of one PTX entry as code: instructions with guard, opcode and operands, and where they come from.

Edits are textual, so that the assembled PTX is the compiler's except for the changed lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

Frame = tuple[str, int]  # a source file and its line
PTX = "PTX"  # the file of a place in PTX that names no source

_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]+)"', re.MULTILINE)
_LABEL = re.compile(r"^\s*([\w$%]+):\s*(?:\{\s*)?(?://.*)?$")
_ONE = re.compile(
    r"^(\s*\{?\s*)(?:@(!?)\s*([\w$%]+)\s+)?([a-z][\w:]*(?:\.[\w:]+)*)\s*([^;]*);\s*(\}?)\s*(?://.*)?$"
)
REGISTER = re.compile(r"%[a-z]+\d+|(?<![\w.$%])[A-Za-z_]\w*(?![\w.])")
# Instructions whose first operand is no register that they define, nor an address in brackets.
_NO_RESULT = re.compile(
    r"(st|red|bra|brx|ret|exit|trap|bar(rier)?(?!.*\.red\b)|fence|membar|cp|tcgen05(?!\.ld)|prefetchu?|"
    r"griddepcontrol|setmaxnreg|nanosleep|discard|pragma|pmevent|wgmma\.(fence|commit_group|wait_group))\b"
)
_ADDS_TO_RESULT = re.compile(r"wgmma\.mma")  # the first operand is read as well


@dataclass(frozen=True)
class CodeLine:
    """One instruction. `number` is its 1-based line; `span` the lines of the inline-asm block that it must
    stay in, or its own; `frames` the source places that it was made of, innermost first; `block` the number
    of its basic block.
    """

    number: int
    guard: str
    opcode: str
    operands: tuple[str, ...]
    frames: tuple[Frame, ...]
    block: int
    span: tuple[int, int]

    @property
    def defines(self) -> frozenset[str]:
        """Registers that it writes."""
        if not self.operands or "[" in self.operands[0] or _NO_RESULT.match(self.opcode):
            return frozenset()
        return frozenset(REGISTER.findall(self.operands[0]))

    @property
    def uses(self) -> frozenset[str]:
        """Registers that it reads, its guard among them."""
        made = self.defines and not _ADDS_TO_RESULT.match(self.opcode)
        rest = self.operands[1:] if made else self.operands
        named = {name for operand in rest for name in REGISTER.findall(operand)}
        return frozenset(named | ({self.guard.lstrip("@!")} if self.guard else set()))

    def text(
        self, opcode: str | None = None, operands: tuple[str, ...] | None = None, guard: str | None = None
    ) -> str:
        """The instruction with some of its parts replaced."""
        guard = self.guard if guard is None else guard
        listed = ", ".join(self.operands if operands is None else operands)
        return f"\t{guard + ' ' if guard else ''}{opcode or self.opcode} {listed};"


def split(text: str) -> tuple[str, ...]:
    """Operands, at the commas outside brackets and braces."""
    parts, depth, here = [], 0, ""
    for c in text.strip():
        depth += {"[": 1, "{": 1, "(": 1, "]": -1, "}": -1, ")": -1}.get(c, 0)
        if c == "," and depth == 0:
            parts.append(here.strip())
            here = ""
        else:
            here += c
    return (*parts, here.strip()) if here.strip() else tuple(parts)


@dataclass(frozen=True)
class PtxCode:
    """The instructions of entry `entry` of a PTX text."""

    text: str = field(repr=False)
    entry: str

    @cached_property
    def lines(self) -> list[str]:
        """Every line of the text."""
        return self.text.split("\n")

    @cached_property
    def code(self) -> tuple[CodeLine, ...]:
        """The entry's instructions that stand alone on their line, in order."""
        return tuple(self._read())

    @cached_property
    def at(self) -> Mapping[int, int]:
        """Index in `code` by line number."""
        return {line.number: n for n, line in enumerate(self.code)}

    def body(self) -> range:
        start = re.search(rf"\.entry\s+{re.escape(self.entry)}\b", self.text)
        if start is None:
            return range(0)
        opened = self.text.index("{", self.text.index("(", start.end()))
        depth, at = 0, opened
        for match in re.finditer(r"[{}]", self.text[opened:]):
            depth += 1 if match[0] == "{" else -1
            if depth == 0:
                at = opened + match.start()
                break
        return range(self.text.count("\n", 0, opened) + 1, self.text.count("\n", 0, at))

    def _read(self) -> Iterator[CodeLine]:
        files = {int(number): path for number, path in _FILE.findall(self.text)}
        callers: dict[tuple[str, ...], tuple[Frame, ...]] = {}
        frames: tuple[Frame, ...] = ()
        placed = bool(files)  # without source places every line of the PTX is a place of its own
        block, asm = 0, 0
        for n in self.body():
            line = self.lines[n]
            if loc := _LOC.match(line):
                own = loc.group(1, 2, 3)
                chain = callers.get(loc.group(4, 5, 6), ()) if loc[4] else ()
                here = ((files.get(int(own[0]), ""), int(own[1])), *chain)
                callers[own] = here
                frames = here if own[1] != "0" else frames
            elif _LABEL.match(line):
                block += 1
            elif "begin inline asm" in line:
                asm = n + 1
            elif "end inline asm" in line:
                asm = 0
            elif (match := _ONE.match(line)) and not match[4].startswith("pragma"):
                guard = f"@{match[2]}{match[3]}" if match[3] else ""
                span = (n + 1, n + 1) if not asm else self._asm(asm)
                frames = frames if placed else ((PTX, n + 1),)
                yield CodeLine(n + 1, guard, match[4], split(match[5]), frames, block, span)
                if match[4].startswith(("bra", "brx", "ret", "exit", "trap")):
                    block += 1

    def _asm(self, begin: int) -> tuple[int, int]:
        """First and last line of the inline-asm block behind the comment in line `begin`."""
        end = begin
        while end < len(self.lines) and "end inline asm" not in self.lines[end]:
            end += 1
        return begin + 1, end

    def changed(self, edits: Mapping[int, str]) -> str:
        """The text with line numbers replaced; "" removes the line's text."""
        lines = list(self.lines)
        for number, replacement in edits.items():
            lines[number - 1] = replacement
        return "\n".join(lines)

    def held(self, span: tuple[int, int]) -> list[str]:
        """The lines of a span."""
        return self.lines[span[0] - 1 : span[1]]
