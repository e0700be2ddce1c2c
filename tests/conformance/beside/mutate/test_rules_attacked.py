"""Wrong programs that a rule took for equivalent once: each is told from its neighbour, which it proves."""

from __future__ import annotations

import pytest
from tileproof.conformance.beside.mutate.bits import EVERY, may_be_set
from tileproof.conformance.beside.mutate.draw import Drawn
from tileproof.conformance.beside.mutate.operators import OPERATORS
from tileproof.conformance.beside.mutate.rules import Facts, proved

from tests.conformance.beside.mutate.test_barriers import ALL, BEFORE, FREE, LABEL, LOAD, LOADED, holds, told
from tests.conformance.beside.mutate.test_rules import AFTER, BAR, EXPECT, GUARD, made
from tests.conformance.beside.mutate.test_rules import told as of_made
from tests.kit.mutate import code

STORE = "st.shared.b32 [%r4], %r60;"


@pytest.mark.parametrize(
    ("lines", "may"),
    [
        (("and.b32 %r50, %r9, 0xf0;", "and.b32 %r51, %r8, 0xf00;", "add.s32 %r60, %r50, %r51;"), 0xFF0),
        (("and.b32 %r50, %r9, -4;", "and.b32 %r51, %r8, -4;", "add.sat.s32 %r60, %r50, %r51;"), EVERY),
        (("shl.b32 %r50, %r9, 16;", "shl.b32 %r51, %r8, 16;", "add.f32 %r60, %r50, %r51;"), EVERY),
        (("or.b32 %r50, %r2, 1;", "or.b32 %r51, 0, 128;", "add.f32 %r60, %r50, %r51;"), EVERY),
        # Halves of 16 bits; four parts; names in a list.
        (("and.b16 %h1, %h0, 255;", "and.b16 %h2, %h0, 15;", "mov.b32 %r60, {%h1, %h2};"), EVERY),
        (("mov.b16 %h1, 3;", "mov.b16 %h2, 15;", "mov.b32 %r60, {%h1, %h2};"), EVERY),
        (("mov.b64 %rd1, 0xffff0000;", "mov.b64 {%r61, %r60, %r62, %r63}, %rd1;"), EVERY),
        (("mov.b32 %r60, 3;", "redux.sync.add.s32 %r60, %r1, -1;"), EVERY),
        (("mov.b32 %r60, 3;", "barrier.cta.red.popc.u32 %r60, 0, %p1;"), EVERY),
    ],
)
def test_what_bits_an_instruction_may_set(lines: tuple[str, ...], may: int) -> None:
    found = made(*lines)
    assert may_be_set(found, "%r60") == may


def test_a_name_of_inline_assembly_in_a_list_is_another_definition() -> None:
    first = ("{", ".reg .b32 low, high;", "mov.b64 {low, high}, %rd1;", "and.b32 %r60, low, 1;", "}")
    second = ("{", ".reg .b32 low;", "mov.b32 low, 2;", "st.shared.b32 [%r4], low;", "}")
    assert may_be_set(made(*first, *second), "low") == EVERY
    assert may_be_set(made(*second), "low") == 2


def test_a_shared_variable_of_two_alignments() -> None:
    text = made().text.replace(".visible .entry", ".shared .align 4 .b8 smem[16];\n.visible .entry", 1)
    assert may_be_set(code(text), "smem") == EVERY & -4


SUM = (
    "shfl.sync.bfly.b32 %r41|%p2, %r40, 16, 31, -1;",
    "add.f32 %r42, %r40, %r41;",
    "shfl.sync.bfly.b32 %r43|%p3, %r42, 2, 31, -1;",
    "st.shared.b32 [%r4], %r43;",
)


@pytest.mark.parametrize(
    ("lines", "right"),
    [
        (("ld.shared.b32 %r40, [%r4];", *SUM), True),
        (("ld.shared.b32 %r40, [%r4];", "$L__BB0_7:", *SUM), True),
        # Another value is added than was exchanged.
        (("ld.shared.b32 %r40, [%r4];", SUM[0], "ld.shared.b32 %r40, [%r4+64];", *SUM[1:]), False),
        (("ld.shared.b32 %r40, [%r4];", "$L__BB0_7:", SUM[0], "add.f32 %r40, %r40, %r9;", *SUM[1:]), False),
        # Round a loop: what was exchanged in the turn before.
        (("ld.shared.b32 %r40, [%r4];", SUM[1], SUM[0], *SUM[2:]), False),
    ],
)
def test_an_exchange_of_another_value(lines: tuple[str, ...], right: bool) -> None:
    says = of_made(made(*lines), "shfl.sync.bfly", "immediate", "2 is 18")
    assert says.startswith("rule equal lanes") == right


@pytest.mark.parametrize(
    ("lines", "right"),
    [
        ((GUARD, LOAD, LOADED, BEFORE, ALL, "ret;", LABEL, ALL, FREE), True),
        # Threads on the other path read behind the same barrier, and meet others once more.
        ((GUARD, LOAD, LOADED, BEFORE, ALL, "ret;", LABEL, ALL, AFTER, LOAD, ALL, FREE), False),
        # How often is not known.
        (("$L__BB0_9:", ALL, GUARD.replace("7", "9"), LOAD, LOADED, BEFORE, ALL, FREE), False),
    ],
)
def test_what_others_do_behind_the_same_barrier(lines: tuple[str, ...], right: bool) -> None:
    """A thread that has left is waited for by no barrier."""
    assert holds(told(lines, BEFORE), "a fence after a barrier") == right


@pytest.mark.parametrize(
    ("arrival", "before", "cluster", "right"),
    [
        (EXPECT, ("st.shared.b32 [%r4], %r1;", BAR), 2, True),
        # Who waits in the other CTA has not met at this one's barrier.
        (
            EXPECT.replace("cta.shared::cta", "cluster.shared::cluster"),
            ("st.shared.b32 [%r4], %r1;", BAR),
            2,
            False,
        ),
        (
            EXPECT.replace("cta.shared::cta", "cluster.shared::cluster"),
            ("st.shared.b32 [%r4], %r1;", BAR),
            1,
            True,
        ),
        # It tells that this has arrived elsewhere.
        (EXPECT, ("mbarrier.arrive.release.cta.shared::cta.b64 _, [%r4+8];",), 1, False),
        (EXPECT, ("mbarrier.inval.shared::cta.b64 [%r4+8];",), 1, False),
        (EXPECT, ("multimem.st.global.u32 [%rd1], %r1;",), 1, False),
    ],
)
def test_what_an_arrival_releases(arrival: str, before: tuple[str, ...], cluster: int, right: bool) -> None:
    facts = Facts(cluster, 200_000)
    found = made(*before, arrival)
    at = next(line for line in found.code if line.operands[-1:] == ("%r60",))
    (change,) = (
        change for change in OPERATORS["scope"](found, at) if change.what.startswith(".release. is .relaxed.")
    )
    says = proved(found, Drawn(0, "scope", change.what, at.frames, at.opcode, dict(change.lines)), facts)
    assert says.startswith("rule nothing to release") == right


@pytest.mark.parametrize(
    ("compares", "more", "right"),
    [
        ("setp.ne.b32 p, %r43, 0;", "", True),
        ("setp.ne.b32 p, %r43, 0;", ".collector::a::fill", True),
        ("setp.ne.b32 p, %r43, 0;", ".collector::a::lastuse", False),  # the second has nothing to use
        ("@%p1 setp.ne.b32 p, %r43, 0;", "", False),  # else it is what it was
        ("setp.ne.or.b32 p, %r43, 0, %p1;", "", False),
    ],
)
def test_a_product_of_which_it_is_not_certain_that_it_clears(compares: str, more: str, right: bool) -> None:
    lines = (
        "mov.b32 %r43, 0;",
        "// begin inline asm",
        "{",
        ".reg .pred p;",
        compares,
        f"tcgen05.mma.cta_group::1.kind::f16{more} [%r9], %rd2, %rd2, %r42, p;",
        "}",
        "// end inline asm",
    )
    says = of_made(made(*lines), "tcgen05.mma", "duplicate", "twice")
    assert says.startswith("rule a product that clears") == right


@pytest.mark.parametrize(
    "tells",
    ["multimem.st.relaxed.sys.global.u32 [%rd1], %r1;", "st.mmio.relaxed.sys.global.u32 [%rd1], %r1;"],
)
def test_what_else_tells(tells: str) -> None:
    assert holds(told((LOAD, LOADED, BEFORE, BEFORE, ALL), BEFORE), "a fence next to the same fence")
    assert not any(told((LOAD, LOADED, BEFORE, tells, BEFORE, ALL), BEFORE))
