"""The machine instructions of each warp, from the PTX instructions that it executed.

ptxas keeps a line of PTX with each instruction, moves instructions between blocks, merges blocks and makes
some twice. A block of machine code is taken to run when the block of PTX that most of it stands for runs;
everything in it runs then, wherever it was moved from.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tileproof.conformance.beside.timing.path import Run
from tileproof.conformance.beside.timing.sass import Sass
from tileproof.conformance.beside.timing.wait_tests import is_wait_test, resolved

_ENDS = ("BRA", "EXIT", "RET", "BRX", "JMP", "BREAK", "BSYNC", "KILL", "CALL")
# Never moved out of their block by ptxas: they tell best which block of PTX a block of code stands for.
_FIXED = (
    "RED",
    "ST",
    "LDG",
    "LDS",
    "LDTM",
    "ATOM",
    "SYNCS",
    "BAR",
    "UT",
    "SHFL",
    "UBLK",
    "MEMBAR",
    "FENCE",
    "UCGA",
    "UGET",
    "BRA",
)
_FIXED_WEIGHT = 8
_LOOK_WEIGHT = 4
_GUARDED_WEIGHT = 0.01  # where nothing else is


@dataclass(frozen=True)
class MachineCode:
    """Machine code in blocks. `of`: the blocks (by their index) that run for a block of PTX, per copy."""

    sass: list[Sass]
    blocks: list[tuple[int, int]]
    of: dict[int, list[list[int]]]


class Passage(NamedTuple):
    """A block of machine code that a warp runs for a block of PTX, which begins at `line`.

    Of the trace, by index: `begin` to `end`, the run that has the block of PTX; `before`, the end of the run
    that had it the time before, `next`, where the run begins that has it the next time.
    """

    block: int
    lanes: int
    line: int
    before: int
    begin: int
    end: int
    next: int

    def holds(self, line: int, at: int) -> bool:
        """Whether the execution at `at` of an instruction of PTX may be one by this block of code, into
        which ptxas took it from the blocks before or behind its own."""
        if line < self.line:
            return self.before < at <= self.end
        return self.begin < at <= self.next


def ptx_starts(kinds: Sequence[str], targets: Sequence[int]) -> list[int]:
    """The first instructions of the blocks of PTX; `kinds` are the handlers by instruction."""
    leaders = {0}
    for at, kind in enumerate(kinds):
        if kind == "bra":
            leaders |= {targets[at], at + 1}
        elif kind == "ret":
            leaders.add(at + 1)
    return sorted(leader for leader in leaders if leader < len(kinds))


def match(sass: list[Sass], starts: list[int], line_of: Sequence[int], targets: Sequence[int]) -> MachineCode:
    """Which blocks of machine code run for each block of PTX; `line_of` has the line of each PTX instruction,
    `targets` where it branches to.
    """
    block_at = {}
    for pc, line in enumerate(line_of):
        block_at[line] = bisect_right(starts, pc) - 1
    blocks = _blocks(sass)
    looks = resolved(sass)
    cold = {at for first, end in looks.repeated for at in range(first, end)}
    live = {index for index in _reachable(sass, blocks) if blocks[index][0] not in cold}
    bodies = (looks.sass[first:end] for first, end in (blocks[index] for index in live))
    branches = {code.line for body in bodies for code in body if code.root in ("BRA", "BRX")}
    gone = {pc for pc, line in enumerate(line_of) if line not in branches}
    anchored: dict[int, list[int]] = defaultdict(list)
    last = 0
    for index, (first, end) in enumerate(blocks):
        if index not in live:
            continue
        votes: dict[int, float] = defaultdict(float)
        for at in range(first, end):
            instruction = looks.sass[at]
            if instruction.line in block_at and instruction.root != "NOP":
                votes[block_at[instruction.line]] += _weight(instruction, at in looks.changed)
        if votes:
            last = _head(votes, starts, targets, gone)
        anchored[last].append(index)
    copies = {block: _copies(looks.sass, blocks, found) for block, found in anchored.items()}
    return MachineCode(looks.sass, blocks, copies)


def _weight(instruction: Sass, look: bool) -> float:
    """The vote of an instruction for the place of its block. First tests precede their loop, mostly in the
    block before the loop; an instruction with a predicate may be a whole PTX block that was jumped over."""
    if look:
        return _LOOK_WEIGHT if is_wait_test(instruction) else 0
    if instruction.guard and instruction.root != "BRA":
        return _GUARDED_WEIGHT
    return _FIXED_WEIGHT if instruction.root.startswith(_FIXED) else 1


def _head(votes: dict[int, float], starts: list[int], targets: Sequence[int], gone: set[int]) -> int:
    """The block with most votes, or the one that branched around it: ptxas made predicates of the branch,
    one of those that are `gone`."""
    best = min(votes, key=lambda block: (-votes[block], block))
    for block in sorted(votes):
        end = starts[block + 1] - 1 if block + 1 < len(starts) else starts[block]
        if block < best and end in gone and targets[end] >= starts[best]:
            return block
    return best


def stream(code: MachineCode, runs: list[Run], starts: list[int], line_of: Sequence[int]) -> list[Passage]:
    """The blocks of code that a warp runs, in order."""
    found: list[tuple[int, int, int]] = []  # run, block of PTX, block of code
    turn: Counter[int] = Counter()
    for number, run in enumerate(runs):
        block = bisect_right(starts, run.first) - 1
        while block < len(starts) and starts[block] <= run.last:
            copies = code.of.get(block)
            if copies:
                found += [(number, block, index) for index in copies[turn[block] % len(copies)]]
                turn[block] += 1
            block += 1
    after: dict[int, int] = {}
    last: dict[int, tuple[int, int]] = {}  # of each block of PTX the run that had it last, and the next one
    out: list[Passage] = []
    for number, block, index in reversed(found):
        if block not in last or last[block][0] != number:
            last[block] = number, last[block][0] if block in last else len(runs)
        after[len(out)] = last[block][1]
        out.append(Passage(index, runs[number].lanes, line_of[starts[block]], -1, 0, runs[number].event, 0))
    before: dict[int, tuple[int, int]] = {}
    made: list[Passage] = []
    for at, (number, block, _) in enumerate(found):
        if block not in before or before[block][0] != number:
            before[block] = number, runs[before[block][0]].event if block in before else -1
        next_run = after[len(found) - 1 - at]
        made.append(
            out[len(found) - 1 - at]._replace(
                before=before[block][1],
                begin=runs[number - 1].event if number else -1,
                next=runs[next_run - 1].event,
            )
        )
    return made


def _blocks(sass: list[Sass]) -> list[tuple[int, int]]:
    leaders = {0}
    for at, instruction in enumerate(sass):
        leaders.update(instruction.targets)
        if instruction.root in _ENDS:
            leaders.add(at + 1)
    ordered = sorted(leader for leader in leaders if leader < len(sass))
    return list(zip(ordered, [*ordered[1:], len(sass)], strict=True))


def _reachable(sass: list[Sass], blocks: list[tuple[int, int]]) -> set[int]:
    """Blocks that are reached without BRA.DIV, which leaves for code that collects diverged lanes."""
    by_first = {first: index for index, (first, _) in enumerate(blocks)}
    seen, queue = {0}, [0]
    while queue:
        first, end = blocks[queue.pop()]
        after = [
            at
            for instruction in sass[first:end]
            if ".DIV" not in instruction.opcode
            for at in instruction.targets
        ]
        if sass[end - 1].falls_through:
            after.append(end)
        for at in after:
            index = by_first.get(at)
            if index is not None and index not in seen:
                seen.add(index)
                queue.append(index)
    return seen


def _copies(sass: list[Sass], blocks: list[tuple[int, int]], found: list[int]) -> list[list[int]]:
    """The blocks in groups: a new one begins where a line with an effect comes again: ptxas made it twice."""
    groups: list[list[int]] = [[]]
    seen: set[tuple[int, str]] = set()
    for index in found:
        first, end = blocks[index]
        effects = {
            (instruction.line, instruction.root)
            for instruction in sass[first:end]
            if instruction.root.startswith(_FIXED) and instruction.root != "BRA"
        }
        if effects & seen:
            groups.append([])
            seen = set()
        groups[-1].append(index)
        seen |= effects
    return groups
