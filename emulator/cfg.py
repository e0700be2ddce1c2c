"""Where diverged lanes meet again: immediate post-dominators of conditional branches.

PTX does not write convergence down; compilers and hardware reconverge at the immediate post-dominator.
Algorithm: iterative dominance on the reversed graph (Cooper, Harvey, Kennedy, "A Simple, Fast Dominance
Algorithm").
"""

from __future__ import annotations


def immediate_post_dominators(code: list[tuple[str, int, bool]]) -> dict[int, int]:
    """For each conditional branch, the index of its immediate post-dominator, or -1 where only the exit is.

    `code` holds (kind, target, conditional) per instruction, kind one of "next", "branch", "exit".
    """
    count = len(code)
    leaders = {0}
    for index, (kind, target, _) in enumerate(code):
        if kind == "branch":
            leaders.add(target)
        if kind in ("branch", "exit"):
            leaders.add(index + 1)
    starts = sorted(leader for leader in leaders if leader < count)
    block_of = {start: block for block, start in enumerate(starts)}
    exit_block = len(starts)
    successors: list[list[int]] = []
    last: list[int] = []
    for block in range(len(starts)):
        end = (starts[block + 1] if block + 1 < len(starts) else count) - 1
        last.append(end)
        kind, target, conditional = code[end]
        if kind == "exit":
            successors.append([exit_block])
        elif kind == "branch":
            out = [block_of[target]]
            if conditional:
                out.append(block_of.get(end + 1, exit_block))
            successors.append(out)
        else:
            successors.append([block_of.get(end + 1, exit_block)])
    successors.append([])

    predecessors: list[list[int]] = [[] for _ in range(exit_block + 1)]
    for block, out in enumerate(successors):
        for to in out:
            predecessors[to].append(block)
    # Postorder of the reversed graph from the exit; blocks in endless loops never reach it and keep no
    # dominator.
    order: list[int] = []
    seen = {exit_block}
    stack = [(exit_block, iter(predecessors[exit_block]))]
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
    number = {block: index for index, block in enumerate(order)}
    idom = {exit_block: exit_block}
    changed = True
    while changed:
        changed = False
        for block in reversed(order):
            if block == exit_block:
                continue
            new = -1
            for to in successors[block]:
                if to not in idom:
                    continue
                if new < 0:
                    new = to
                    continue
                a, b = to, new
                while a != b:
                    while number[a] < number[b]:
                        a = idom[a]
                    while number[b] < number[a]:
                        b = idom[b]
                new = a
            if new >= 0 and idom.get(block) != new:
                idom[block] = new
                changed = True

    meets: dict[int, int] = {}
    for block in range(exit_block):
        kind, _, conditional = code[last[block]]
        if kind == "branch" and conditional:
            meet = idom.get(block, exit_block)
            meets[last[block]] = starts[meet] if meet != exit_block else -1
    return meets
