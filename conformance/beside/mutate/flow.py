"""The control flow of a PTX entry, from instruction to instruction."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tileproof.conformance.beside.mutate.code import CodeLine, PtxCode

_LABEL = re.compile(r"^\s*([\w$]+):")
_ENDS = ("ret", "exit", "trap")


@dataclass(frozen=True)
class Flow:
    """Successors and predecessors of each instruction, by index in `code.code`; -1 is the entry's end, and
    what comes before its first instruction.
    """

    after: tuple[tuple[int, ...], ...]
    before: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(code: PtxCode) -> Flow | None:
        """None if a branch has an unknown target."""
        labels: dict[str, list[int]] = {}
        for number, text in enumerate(code.lines, 1):
            if match := _LABEL.match(text):
                labels.setdefault(match[1], []).append(number)
        numbers = [at.number for at in code.code]
        after: list[tuple[int, ...]] = []
        for n, at in enumerate(code.code):
            following = n + 1 if n + 1 < len(numbers) else -1
            if at.opcode.startswith(("brx", "call")):
                return None
            if at.opcode.split(".")[0] == "bra":
                # A label of inline assembly is its block's own: the nearest of that name.
                known = labels.get(at.operands[0], ())
                if not known:
                    return None
                line = min(known, key=lambda number: abs(number - at.number))
                target = next((m for m, there in enumerate(numbers) if there > line), -1)
                after.append((target, following) if at.guard else (target,))
            elif at.opcode.split(".")[0] in _ENDS:
                after.append((-1, following) if at.guard else (-1,))
            else:
                after.append((following,))
        before: list[list[int]] = [[-1] if n == 0 else [] for n in range(len(numbers))]
        for n, targets in enumerate(after):
            for successor in targets:
                if successor >= 0:
                    before[successor].append(n)
        return Flow(tuple(after), tuple(tuple(predecessors) for predecessors in before))


def meets(
    code: PtxCode,
    start: int,
    edges: Sequence[Sequence[int]],
    met: Callable[[CodeLine], bool],
    passed: Callable[[CodeLine], bool],
    ends: bool = False,
) -> bool:
    """Whether every way along `edges` from the instruction `start` comes to one that is `met`, over `passed`
    ones only; `ends`: or to the end of the entry, backwards to its beginning.
    """
    seen, pending = {start}, list(edges[start])
    while pending:
        n = pending.pop()
        if n in seen:
            continue
        if n < 0:
            if not ends:
                return False
            continue
        seen.add(n)
        at = code.code[n]
        if met(at):
            continue
        if not passed(at):
            return False
        pending += edges[n]
    return True
