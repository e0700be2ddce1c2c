"""Where diverged lanes reconverge: immediate post-dominators of conditional branches.

PTX does not specify reconvergence points; compilers and hardware reconverge at the immediate post-dominator.
Algorithm: iterative dominance on the reversed graph (Cooper, Harvey, Kennedy, "A Simple, Fast Dominance
Algorithm").
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BasicBlocks:
    """Basic blocks by number. The exit is an extra block without successors."""

    starts: list[int]  # first instruction of each block
    last: list[int]  # last instruction of each block
    successors: list[list[int]]

    @property
    def exit(self) -> int:
        return len(self.starts)


def immediate_post_dominators(blocks: BasicBlocks, code: list[tuple[str, int, bool]]) -> dict[int, int]:
    """Return the index of the immediate post-dominator of each conditional branch, -1 for the exit."""
    dominators = _post_dominators(blocks)
    meets: dict[int, int] = {}
    for block, last in enumerate(blocks.last):
        kind, _, conditional = code[last]
        if kind == "branch" and conditional:
            meet = dominators.get(block, blocks.exit)
            meets[last] = blocks.starts[meet] if meet != blocks.exit else -1
    return meets


def basic_blocks(code: list[tuple[str, int, bool]]) -> BasicBlocks:
    """Return the basic blocks of (kind, target, conditional) of each instruction; kind is "next", "branch" or
    "exit".
    """
    leaders = {0}
    for index, (kind, target, _) in enumerate(code):
        if kind == "branch":
            leaders.add(target)
        if kind in ("branch", "exit"):
            leaders.add(index + 1)
    starts = sorted(leader for leader in leaders if leader < len(code))
    last = [start - 1 for start in (*starts[1:], len(code))]
    block_of = {start: block for block, start in enumerate(starts)}
    successors: list[list[int]] = []
    for end in last:
        kind, target, conditional = code[end]
        behind = block_of.get(end + 1, len(starts))
        if kind == "exit":
            successors.append([len(starts)])
        elif kind == "branch":
            successors.append([block_of[target], behind] if conditional else [block_of[target]])
        else:
            successors.append([behind])
    return BasicBlocks(starts, last, [*successors, []])


def _postorder(blocks: BasicBlocks) -> list[int]:
    """Postorder of the reversed graph from the exit; blocks in endless loops never reach it."""
    predecessors: list[list[int]] = [[] for _ in blocks.successors]
    for block, out in enumerate(blocks.successors):
        for to in out:
            predecessors[to].append(block)
    order: list[int] = []
    seen = {blocks.exit}
    stack = [(blocks.exit, iter(predecessors[blocks.exit]))]
    while stack:
        block, children = stack[-1]
        for child in children:
            if child not in seen:
                seen.add(child)
                stack.append((child, iter(predecessors[child])))
                break
        else:
            order.append(block)
            stack.pop()
    return order


def _post_dominators(blocks: BasicBlocks) -> dict[int, int]:
    """The immediate post-dominator of each block that reaches the exit."""
    order = _postorder(blocks)
    number = {block: index for index, block in enumerate(order)}
    found = {blocks.exit: blocks.exit}

    def common(a: int, b: int) -> int:
        while a != b:
            while number[a] < number[b]:
                a = found[a]
            while number[b] < number[a]:
                b = found[b]
        return a

    changed = True
    while changed:
        changed = False
        for block in reversed(order):
            known = [to for to in blocks.successors[block] if to in found]
            if block == blocks.exit or not known:
                continue
            new = known[0]
            for to in known[1:]:
                new = common(to, new)
            if found.get(block) != new:
                found[block] = new
                changed = True
    return found
