"""Reduces a kernel whose results differ to the few statements that cause the difference.

Delta debugging over statements: every candidate of a round (one output, a statement replaced by one of its
operands or by an input, a loop or branch made plain) is compiled with the others in one module, and the
smallest that still differs is the next kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tileproof.spec.machine.errors import TileproofError
from tileproof.tools.silicon.fuzz.program import RandomKernel, Statement, Value

Differing = Callable[[Sequence[RandomKernel]], list[bool]]


def candidates(program: RandomKernel) -> Iterator[RandomKernel]:
    """Kernels with less in them."""
    if len(program.outputs) > 1:
        for output in program.outputs:
            yield replace(program, outputs=(output,)).needed()
    for n, step in enumerate(program.steps):
        if step.form != "plain":
            plain = replace(step, form="plain", condition=None, otherwise=None)
            yield replace(program, steps=(*program.steps[:n], plain, *program.steps[n + 1 :])).needed()
        same = [v for v in step.used if v.type == step.type]
        for value in [*dict.fromkeys(same), Value(step.type, f"in_{step.type}_0")]:
            yield _without(program, n, value)
        for k, operand in enumerate(step.operands):
            if operand.name and not operand.name.startswith("in_"):
                fewer = replace(
                    step, operands=_put(step.operands, k, Value(operand.type, f"in_{operand.type}_1"))
                )
                yield replace(program, steps=(*program.steps[:n], fewer, *program.steps[n + 1 :])).needed()


def _put(values: tuple[Value, ...], k: int, value: Value) -> tuple[Value, ...]:
    return (*values[:k], value, *values[k + 1 :])


def _without(program: RandomKernel, n: int, value: Value) -> RandomKernel:
    name = program.steps[n].name

    def swapped(old: Value | None) -> Value | None:
        return value if old is not None and old.name == name else old

    def after(step: Statement) -> Statement:
        operands = tuple(value if v.name == name else v for v in step.operands)
        return replace(
            step, operands=operands, condition=swapped(step.condition), otherwise=swapped(step.otherwise)
        )

    steps = (*program.steps[:n], *(after(s) for s in program.steps[n + 1 :]))
    outputs = tuple(value if v.name == name else v for v in program.outputs)
    return replace(program, steps=steps, outputs=outputs).needed()


def size(program: RandomKernel) -> tuple[int, int, int]:
    """What reduction makes smaller."""
    variables = sum(bool(v.name) and not v.name.startswith("in_") for s in program.steps for v in s.used)
    forms = sum(step.form != "plain" for step in program.steps)
    return len(program.outputs), len(program.steps) + forms, variables


def reduced(program: RandomKernel, differing: Differing, rounds: int = 30) -> RandomKernel:
    """The smallest kernel found that still differs. `differing` is asked once a round."""
    for _ in range(rounds):
        smaller = [c for c in candidates(program) if size(c) < size(program) and c.steps]
        named = [replace(c, name=f"{program.name}_{n}") for n, c in enumerate(dict.fromkeys(smaller))]
        if not named:
            break
        try:
            found = [c for c, differs in zip(named, differing(named), strict=True) if differs]
        except TileproofError:
            break
        if not found:
            break
        program = replace(min(found, key=size), name=program.name)
    return program
