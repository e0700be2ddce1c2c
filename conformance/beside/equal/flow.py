"""The control flow of two entries: which of their blocks have the same text, and which dominate others."""

from __future__ import annotations

from collections.abc import Sequence

from tileproof.conformance.beside.equal.entry import CodeBlock
from tileproof.emulator.ptx import Instruction


def leaving_kind(block: CodeBlock) -> str:
    assert block.leaves is not None
    name = block.leaves.opcode.split(".")[0]
    return "exit" if name == "ret" else name


def unlike(first: CodeBlock, second: CodeBlock) -> bool:
    """Whether two blocks are not the same text."""
    if (first.targets, first.behind, len(first.steps)) != (second.targets, second.behind, len(second.steps)):
        return True
    pairs = [*zip(first.steps, second.steps, strict=True)]
    if first.leaves is not None and second.leaves is not None:
        pairs.append((first.leaves, second.leaves))
    return (first.leaves is None) != (second.leaves is None) or any(_text(a) != _text(b) for a, b in pairs)


def _text(step: Instruction) -> tuple[object, ...]:
    named = step.opcode.startswith(("bra", "brx"))  # of branches the targets are compared
    operands = step.operands[:-1] if named else step.operands
    return step.guard, step.guard_negated, step.opcode, operands


def dominators(successors: Sequence[tuple[int, ...]], before: Sequence[list[int]]) -> list[frozenset[int]]:
    """The blocks on every path from the first to each block, itself among them."""
    every = (1 << len(successors)) - 1
    found = [1 if n == 0 else every for n in range(len(successors))]
    changed = True
    while changed:
        changed = False
        for block in range(1, len(successors)):
            mask = every
            for way in before[block]:
                mask &= found[way]
            mask |= 1 << block
            changed |= mask != found[block]
            found[block] = mask
    return [frozenset(n for n in range(mask.bit_length()) if mask >> n & 1) for mask in found]
