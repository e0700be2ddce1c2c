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

from tileproof.conformance.timing.path import Run
from tileproof.conformance.timing.sass import Sass

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


@dataclass(frozen=True)
class MachineCode:
    """Machine code in blocks. `of`: the blocks (by their index) that run for a block of PTX, per copy."""

    sass: list[Sass]
    blocks: list[tuple[int, int]]
    of: dict[int, list[list[int]]]


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
    live = _reachable(sass, blocks)
    anchored: dict[int, list[int]] = defaultdict(list)
    last = 0
    for index, (first, end) in enumerate(blocks):
        if index not in live:
            continue
        votes: Counter[int] = Counter()
        for one in sass[first:end]:
            if one.line in block_at and one.root != "NOP":
                votes[block_at[one.line]] += _FIXED_WEIGHT if one.root.startswith(_FIXED) else 1
        if votes:
            last = _head(votes, starts, targets)
        anchored[last].append(index)
    return MachineCode(
        sass, blocks, {block: _copies(sass, blocks, found) for block, found in anchored.items()}
    )


def _head(votes: Counter[int], starts: list[int], targets: Sequence[int]) -> int:
    """The block with most votes, or the one that branches around it: ptxas made predicates of the branch."""
    best = min(votes, key=lambda block: (-votes[block], block))
    for block in sorted(votes):
        end = starts[block + 1] - 1 if block + 1 < len(starts) else starts[block]
        if block < best and targets[end] >= starts[best]:
            return block
    return best


def stream(code: MachineCode, runs: list[Run], starts: list[int]) -> list[tuple[int, int, int]]:
    """(block of code, lanes, event) in order of execution."""
    out: list[tuple[int, int, int]] = []
    turn: Counter[int] = Counter()
    for run in runs:
        block = bisect_right(starts, run.first) - 1
        while block < len(starts) and starts[block] <= run.last:
            copies = code.of.get(block)
            if copies:
                for index in copies[turn[block] % len(copies)]:
                    out.append((index, run.lanes, run.event))
                turn[block] += 1
            block += 1
    return out


def _blocks(sass: list[Sass]) -> list[tuple[int, int]]:
    leaders = {0}
    for at, one in enumerate(sass):
        if one.target >= 0:
            leaders.add(one.target)
        if one.root in _ENDS:
            leaders.add(at + 1)
    ordered = sorted(leader for leader in leaders if leader < len(sass))
    return list(zip(ordered, [*ordered[1:], len(sass)], strict=True))


def _reachable(sass: list[Sass], blocks: list[tuple[int, int]]) -> set[int]:
    """Blocks that are reached without BRA.DIV, which leaves for code that collects diverged lanes."""
    by_first = {first: index for index, (first, _) in enumerate(blocks)}
    seen, queue = {0}, [0]
    while queue:
        first, end = blocks[queue.pop()]
        after = [one.target for one in sass[first:end] if one.target >= 0 and ".DIV" not in one.opcode]
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
            (one.line, one.root)
            for one in sass[first:end]
            if one.root.startswith(_FIXED) and one.root != "BRA"
        }
        if effects & seen:
            groups.append([])
            seen = set()
        groups[-1].append(index)
        seen |= effects
    return groups
