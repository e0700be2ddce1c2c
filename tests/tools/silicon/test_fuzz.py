"""Random kernels: drawn from a seed, run from PTX and from machine code read back, reduced."""

from __future__ import annotations

import numpy as np
from tileproof.tools.silicon.fuzz import compare, program, read_back
from tileproof.tools.silicon.fuzz.build import ptx_of
from tileproof.tools.silicon.fuzz.emulated import results
from tileproof.tools.silicon.fuzz.operations import operations
from tileproof.tools.silicon.fuzz.program import RandomKernel, Statement, Value
from tileproof.tools.silicon.fuzz.reduce import reduced


def step(name: str, template: str, *operands: Value) -> Statement:
    (operation,) = [o for o in operations() if o.template == template]
    return Statement(name, operation, operands)


def wrong_kernel() -> RandomKernel:
    """A statement whose code is wrong beside a statement whose code is right."""
    first = step(
        "v0", "(unsigned)((unsigned){u32} + (unsigned){u32})", Value("u32", "in_u32_0"), Value("u32", bits=3)
    )
    second = step("v1", "({f32}<-0.0f?-0.0f:1.0f)", Value("f32", "in_f32_0"))
    return RandomKernel("planted", (first, second), (Value("u32", "v0"), Value("f32", "v1")))


def test_a_seed_is_a_kernel_and_every_family_runs_on_the_emulator() -> None:
    assert program.program("3/1", "k").text() == program.program("3/1", "k").text()
    assert program.program("3/1", "k").text() != program.program("3/2", "k").text()
    kernels = [program.program(f"3/{n}", f"k{n}") for n in range(40)]
    families = {s.operation.family for k in kernels for s in k.steps}
    assert families == set(program.FAMILIES)
    ran = results(ptx_of(kernels), [k.name for k in kernels])
    assert [why for why in ran.values() if isinstance(why, str)] == []


def test_machine_code_without_optimisation_gives_what_ptx_gives() -> None:
    kernels = [program.program(f"5/{n}", f"k{n}", ("integer", "packed")) for n in range(12)]
    pairs = compare.words_at(kernels, 0)
    read = [(want, got) for want, got in pairs if not isinstance(want, str) and not isinstance(got, str)]
    assert len(read) >= 8 and all((want == got).all() for want, got in read)


def test_wrong_code_is_found_and_reduced_to_its_statement() -> None:
    kernel = wrong_kernel()
    assert [compare.differ(*pair) for level in (0, 3) for pair in compare.words_at([kernel], level)] == [
        False,
        True,
    ]
    small = reduced(kernel, lambda all_: [compare.differ(*pair) for pair in compare.words_at(all_, 3)])
    assert [s.operation.template for s in small.steps] == ["({f32}<-0.0f?-0.0f:1.0f)"]


def test_bits_of_a_nan_are_distinguished_from_values() -> None:
    quiet, other, value = (np.array([w], np.uint64) for w in (0x7FFFFFFF, 0xFFC00000, 0x3F800000))
    assert compare.only_nan("f32", quiet, other) and not compare.only_nan("f32", quiet, value)
    assert not compare.only_nan("u32", quiet, other)


def test_an_instruction_without_a_reading_is_refused() -> None:
    line = read_back.SassLine("", "MUFU.RCP", ("R1", "R2"), 0)
    assert compare.read_words("k", [line]) == "not read: MUFU.RCP"


def test_the_carry_of_a_negated_operand_is_read() -> None:
    """0 - x has a carry where x is 0: the upper half of a 64-bit negation depends on it."""
    low = read_back.SassLine("", "IADD3", ("R6", "P0", "RZ", "-R2", "RZ"), 0)
    high = read_back.SassLine("", "IADD3.X", ("R7", "RZ", "~R3", "RZ", "P0", "!PT"), 0)
    text = read_back.ptx_of("k", [low, high])
    assert "setp.ge.u64 %q1, %d1, 0x100000000" in text and "add.u64 %d1, %d1, 1" in text
