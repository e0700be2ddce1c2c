"""Remove synchronisation without observable effect from an entry.

Removed are waits whose result is unused, arrivals that no wait observes, and instructions that only these
use. The runs of each program decide what is removed from it. Two programs are equivalent if the same text
remains.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from tileproof.conformance.beside.mutate.code import REGISTER, CodeLine, PtxCode
from tileproof.conformance.beside.mutate.fences import TELLS
from tileproof.conformance.beside.mutate.flow import Flow, meets
from tileproof.conformance.beside.mutate.operators import WAIT

ARRIVES = re.compile(r"mbarrier\.(arrive|expect_tx)|tcgen05\.commit|cp\.async\.mbarrier\.arrive")
# No effect but their result; not those that set the carry.
_PURE = re.compile(
    r"(?!.*\.cc\b)(mov|add|sub|mul|mad|and|or|xor|not|neg|shl|shr|selp|cvt|cvta|min|max|setp|mapa)\b"
)
_LABEL = re.compile(r"^\s*([\w$%]+):\s*(?:\{\s*)?(?://.*)?$")
_NOTHING = re.compile(r"^\s*(?:\{|\}|//.*|\.loc\b.*|\.reg\b[^;]*;|\.pragma\b.*)?\s*(?://.*)?$")
_NAME = re.compile(r"%?[A-Za-z_$][\w$]*")
_NUMBER = re.compile(r"-?(?:0x[0-9A-Fa-f]+|\d+)")
_FOLDED = re.compile(r"(setp\.(?:eq|ne)|selp|mov)\.([bsu]\d+|pred)$")
_ENDS = ("ret", "exit", "trap")
_STEPS = 40  # instructions from a failed wait back to it
_FENCE = "implied tcgen05.fence::before_thread_sync"  # of a commit (PTX ISA 9.7.16.12)

Key = tuple[str, int]  # a register or a label; of a name of inline assembly its block, else 0


@dataclass(frozen=True)
class Item:
    """An instruction, a label, or a line that is not read as either; `asm` numbers its inline assembly, in
    the text, 0 for none.
    """

    text: str
    asm: int
    at: CodeLine | None = None
    label: str = ""

    def key(self, name: str) -> Key:
        """What a name of it stands for."""
        return (name, 0 if name.startswith(("%", "$")) else self.asm)

    @property
    def defines(self) -> frozenset[Key]:
        """Registers that it writes."""
        if self.at is None:
            return frozenset()
        own = self.at.operands[:1] if _PURE.match(self.at.opcode) else ()
        named = self.at.defines | {one for one in own if _NAME.fullmatch(one)}  # an operator's register too
        return frozenset(self.key(one) for one in named)

    @property
    def uses(self) -> frozenset[Key]:
        """Registers and labels that it reads or goes to."""
        if self.at is None:
            return frozenset()
        read = self.at.operands[1:] if _PURE.match(self.at.opcode) else self.at.operands
        return frozenset(self.key(name) for one in (*read, self.at.guard) for name in _NAME.findall(one))


@lru_cache(maxsize=4)
def remaining(code: PtxCode, silent: frozenset[int]) -> tuple[str, ...]:
    """What is left of the entry without the waits and arrivals of the lines `silent`, in words to compare."""
    waits_loop = all(loops(code, one) for one in code.code if WAIT.match(one.opcode))
    items = list(_items(code, silent, waits_loop))
    before = -1
    while len(items) != before:
        before = len(items)
        items = list(_folded(items))
        items = list(_reached(items))
        items = _straight(items)
        items = _used(items)
    return tuple(item.text for item in items)


def _items(code: PtxCode, silent: frozenset[int], arrivals: bool) -> Iterator[Item]:
    flow = Flow.of(code) if code.alone else None
    asm = 0
    for n in code.body():
        line = code.lines[n]
        if "begin inline asm" in line:
            asm = n + 1
        elif "end inline asm" in line:
            asm = 0
        at = code.code[code.at[n + 1]] if n + 1 in code.at else None
        if at is not None:
            if n + 1 in silent and WAIT.match(at.opcode):
                passed = replace(at, opcode="setp.eq.u32", operands=(at.operands[0], "0", "0"))
                yield Item(passed.text(), asm, passed)
            elif n + 1 in silent and arrivals and ARRIVES.match(at.opcode) and at.defines <= {"_"}:
                if at.opcode.startswith("tcgen05.commit") and not _last(code, flow, at, silent):
                    yield Item(f"{at.guard} {_FENCE}", asm, replace(at, opcode="fence", operands=()))
            else:
                yield Item(at.text(), asm, at)
        elif match := _LABEL.match(line):
            yield Item(line.split(":")[0].strip() + ":", asm, label=match[1])
        elif not _NOTHING.match(line):
            yield Item(line.strip(), asm)


def _last(code: PtxCode, flow: Flow | None, at: CodeLine, silent: frozenset[int]) -> bool:
    """Whether its thread publishes nothing after it, so that the fence in the commit orders nothing."""

    def nothing(line: CodeLine) -> bool:
        over = line.opcode.split(".")[0] in _ENDS
        return over or not TELLS.match(line.opcode) or (line.number in silent and not WAIT.match(line.opcode))

    return flow is not None and meets(
        code, code.at[at.number], flow.after, lambda one: False, nothing, ends=True
    )


# ---- what is known of predicates, and branches that go one way


def _value(item: Item, operand: str, known: Mapping[Key, int]) -> int | None:
    """Of an integer instruction, modulo its width; of a predicate 0 or 1."""
    assert item.at is not None
    value = int(operand, 0) if _NUMBER.fullmatch(operand) else known.get(item.key(operand))
    width = re.search(r"\.[bsu](\d+)$", item.at.opcode)
    return value if value is None or width is None else value % (1 << int(width[1]))


def _result(item: Item, known: Mapping[Key, int]) -> int | None:
    """The value of its one result, where that is known."""
    at = item.at
    if at is None or at.guard or not _FOLDED.match(at.opcode) or not REGISTER.fullmatch(at.operands[0]):
        return None
    operands = at.operands[1:]
    if at.opcode.startswith("mov"):
        return _value(item, operands[0], known) if len(operands) == 1 else None
    if at.opcode.startswith("selp") and len(operands) == 3:
        chosen = _value(item, operands[2], known)
        return None if chosen is None else _value(item, operands[0 if chosen else 1], known)
    if at.opcode.startswith("setp") and len(operands) == 2:
        a, b = (_value(item, operand, known) for operand in operands)
        if a is not None and b is not None:
            return int((a == b) == (".eq." in at.opcode))
    return None


def _goes(item: Item, known: Mapping[Key, int]) -> bool | None:
    """Whether a branch is taken; None where that is not known."""
    assert item.at is not None
    guard = item.at.guard
    if not guard:
        return True
    value = known.get(item.key(guard.lstrip("@!")))
    return None if value is None else bool(value) != ("!" in guard)


def _learnt(item: Item, known: dict[Key, int]) -> None:
    """What is known behind it."""
    value = _result(item, known)
    for key in item.defines:
        known.pop(key, None)
    if value is not None and item.at is not None:
        known[item.key(item.at.operands[0])] = value


def _folded(items: list[Item]) -> Iterator[Item]:
    known: dict[Key, int] = {}
    for item in items:
        if item.at is None:
            known.clear()
        elif item.at.opcode.split(".")[0] == "bra" and item.at.guard:
            goes = _goes(item, known)
            if goes is False:
                continue
            if goes:
                item = Item(item.at.text(guard=""), item.asm, replace(item.at, guard=""))
        else:
            _learnt(item, known)
        yield item


def loops(code: PtxCode, wait: CodeLine) -> bool:
    """Whether a wait that fails is certainly tried again, with nothing done meanwhile."""
    flow = Flow.of(code)
    start = code.at[wait.number]
    item = Item("", wait.span[0], wait)
    known: dict[Key, int] = {item.key(wait.operands[0]): 0}
    n = start + 1
    for _ in range(_STEPS if flow is not None and not wait.guard else 0):
        assert flow is not None
        if n == start:
            return True
        if not 0 <= n < len(code.code):
            return False
        at = code.code[n]
        item = Item("", at.span[0], at)
        if at.opcode.split(".")[0] == "bra":
            goes = _goes(item, known)
            if goes is None:
                return False
            n = flow.after[n][0] if goes else n + 1
            continue
        if not _PURE.match(at.opcode) and not at.opcode.startswith("nanosleep"):
            return False
        _learnt(item, known)
        n += 1
    return False


# ---- what is not reached, not gone to, not used


def _reached(items: list[Item]) -> Iterator[Item]:
    over = False
    for item in items:
        over = over and not item.label
        if not over:
            yield item
        if item.at is not None and not item.at.guard:
            over = over or item.at.opcode.split(".")[0] in ("bra", *_ENDS)


def _straight(items: list[Item]) -> list[Item]:
    """Without branches to what comes next, and the second of two fences."""
    found = list[Item]()
    for n, item in enumerate(items):
        if item.at is not None and item.at.opcode.split(".")[0] == "bra":
            labels = []
            for other in items[n + 1 :]:
                if not other.label:
                    break
                labels.append(other.key(other.label))
            if item.key(item.at.operands[0]) in labels:
                continue
        if item.text.endswith(_FENCE) and found and found[-1].text == item.text:
            continue
        found.append(item)
    return found


def _used(items: list[Item]) -> list[Item]:
    """Without labels that nothing goes to and results that nothing reads."""
    counts = Counter(key for item in items for key in item.uses)
    said = {name for item in items if not item.at and not item.label for name in _NAME.findall(item.text)}
    while True:
        gone = []
        for item in items:
            if item.label:
                keys = frozenset((item.key(item.label),))
            elif item.at is not None and _PURE.match(item.at.opcode) and item.defines:
                keys = item.defines
            else:
                continue
            if not any(counts[key] or key[0] in said for key in keys):
                gone.append(item)
        if not gone:
            return items
        known = set(map(id, gone))
        for item in gone:
            counts.subtract(item.uses)
        items = [item for item in items if id(item) not in known]
