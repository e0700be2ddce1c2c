"""Mutants that differ only in synchronisation without effect, and mutants that differ in more."""

from __future__ import annotations

import pytest
from tileproof.conformance.beside.mutate.code import PtxCode
from tileproof.conformance.beside.mutate.draw import Drawn
from tileproof.conformance.beside.mutate.operators import OPERATORS
from tileproof.conformance.beside.mutate.rules import Facts, proved
from tileproof.conformance.beside.mutate.silent import loops

from tests.conformance.beside.mutate.test_rules import made
from tests.kit.mutate import TEXT, code, line

ARRIVE = "mbarrier.arrive.release.cta.shared::cta.b64 _, [%r41];"
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r41];"
ADDRESS = "add.s32 %r41, %r4, 64;"
STORE = "st.shared.b32 [%r41], %r1;"
OVER = ("setp.eq.s32 %p2, %r1, 0;", "@%p2 bra $L__BB0_9;")
HERE = "$L__BB0_9:"
RULE = "rule synchronisation without effect"


def says(read: PtxCode, at: str, operator: str, words: str, silent: str, there: str | None = None) -> str:
    """What is proved of a mutant of the instruction `at`, where those that begin with `silent` are silent in
    the original, and those with `there` in the mutant.
    """
    where = next(one for one in reversed(read.code) if read.lines[one.number - 1].strip().startswith(at))
    one = next(one for one in OPERATORS[operator](read, where) if one.what.startswith(words))
    drawn = Drawn(0, operator, one.what, where.frames, where.opcode, dict(one.lines))
    mutant = PtxCode(read.changed(drawn.lines), read.entry)
    lines = [
        frozenset(one.number for one in text.code if one.opcode.startswith(opcode))
        for text, opcode in ((read, silent), (mutant, silent if there is None else there))
    ]
    return proved(read, drawn, Facts(1, 200_000, silent=lines[0], there=lines[1]))


@pytest.mark.parametrize(
    ("operator", "words"),
    [("duplicate", "twice"), ("address", "16 past"), ("remove-sync", "removed"), ("scope", ".release. is")],
)
def test_an_arrival_of_which_nobody_learns(operator, words):
    read = made(ADDRESS, ARRIVE)
    for silent, there, holds in (
        ("mbarrier.arrive.rel", None, True),
        ("none", None, False),
        ("mbarrier.arrive.rel", "none", operator == "remove-sync"),  # there it is no more
        ("none", "mbarrier.arrive.rel", False),
    ):
        assert says(read, ARRIVE, operator, words, silent, there).startswith(RULE) == holds


@pytest.mark.parametrize(
    ("lines", "at", "words", "holds"),
    [
        ((ADDRESS, ARRIVE), ADDRESS, "64 is 65", True),
        ((ADDRESS, ARRIVE, STORE), ADDRESS, "64 is 65", False),  # its address is another's too
        ((ADDRESS, *OVER, ARRIVE, HERE), OVER[0], "0 is 1", True),  # who arrives
        ((ADDRESS, *OVER, ARRIVE, STORE, HERE), OVER[0], "0 is 1", False),
        ((ADDRESS, *OVER, ARRIVE, "bra $L__BB0_8;", HERE, "$L__BB0_8:"), OVER[0], "0 is 1", True),
        ((ADDRESS, *OVER, ARRIVE, "{ mov.b32 %r50, %r51; mov.b32 %r52, %r41; }"), ADDRESS, "64 is 65", False),
        ((ADDRESS, "atom.shared.add.u32 %r50, [%r41], 1;", ARRIVE), ADDRESS, "64 is 65", False),
        (
            (
                ADDRESS,
                "add.cc.u32 %r50, %r41, 1;",
                "addc.u32 %r51, %r1, %r1;",
                STORE.replace("%r41", "%r51"),
                ARRIVE,
            ),
            ADDRESS,
            "64 is 65",
            False,
        ),
        (
            (
                ADDRESS,
                "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r41}, %rd1, %rd2, 1, 1, 1, 0, 0;",
                ARRIVE,
            ),
            ADDRESS,
            "64 is 65",
            False,
        ),
    ],
)
def test_what_only_such_an_arrival_uses(lines, at, words, holds):
    if HERE not in lines and OVER[0] in lines:
        lines = (*lines, HERE)
    told = says(made(*lines), at, "immediate", words, "mbarrier.arrive.release")
    assert told.startswith(RULE) == holds


@pytest.mark.parametrize(
    ("operator", "tail", "holds"),
    [
        ("duplicate", ("bar.sync 0;",), True),
        ("remove-sync", (), True),
        ("remove-sync", ("bar.sync 0;",), False),  # its fence orders what comes before it and the barrier
        ("remove-sync", (ARRIVE,), True),  # that nobody learns of either
        ("remove-sync", ("{ mov.b32 %r50, 1; bar.sync 0; }",), False),
    ],
)
def test_the_fence_in_a_commit_of_which_nobody_learns(operator, tail, holds):
    """The wait of the text stands behind it; its thread comes to `ret` without one here."""
    read = made(ADDRESS, COMMIT, *tail, "ret;", HERE)
    numbers = {
        one.number for one in read.code if one.opcode.startswith(("tcgen05.commit", "mbarrier.arrive."))
    }
    where = next(one for one in read.code if one.opcode.startswith("tcgen05.commit"))
    words = {"duplicate": "twice", "remove-sync": "removed"}[operator]
    (one,) = (one for one in OPERATORS[operator](read, where) if one.what.startswith(words))
    drawn = Drawn(0, operator, one.what, where.frames, where.opcode, dict(one.lines))
    mutant = PtxCode(read.changed(drawn.lines), read.entry)
    there = frozenset(
        one.number for one in mutant.code if one.opcode.startswith(("tcgen05.commit", "mbarrier.arrive."))
    )
    facts = Facts(1, 200_000, silent=frozenset(numbers), there=there)
    assert proved(read, drawn, facts).startswith(RULE) == holds


@pytest.mark.parametrize(
    ("operator", "words"),
    [("parity", "the other parity"), ("address", "16 past"), ("move", "mbarrier.arrive.expect_tx")],
)
def test_a_wait_that_tells_nothing_in_either(operator, words):
    read = code()
    at = "mbarrier.arrive.expect_tx" if operator == "move" else "mbarrier.try_wait"
    if operator == "move":
        text = TEXT.replace("$L__BB0_1:\n", "").replace("\t@%p1 bra \t$L__BB0_1;\n", "")
        read, words = code(text), "mbarrier.try_wait.parity.acquire [%r4]"
        where = line(at, text)
        words = next(one.what for one in OPERATORS[operator](read, where) if " before " in one.what)
    for there, holds in ((None, True), ("none", False)):
        told = says(read, at, operator, words, "mbarrier.try_wait", there)
        assert told.startswith(RULE) == holds
    assert not says(read, at, operator, words, "none", "mbarrier.try_wait")


@pytest.mark.parametrize(
    ("was", "becomes", "holds"),
    [
        ("", "", True),
        ("@%p1 bra", "@!%p1 bra", False),  # goes on when it fails
        ("\t@%p1 bra \t$L__BB0_1;\n", "", False),
        ("selp.b32 %r5, 1, 0, complete", "selp.b32 %r5, 0, 1, complete", False),
        ("setp.eq.s32", "setp.ne.s32", False),
        ("\tsetp.eq.s32 \t%p1", "\tst.shared.b32 [%r4+64], %r3;\n\tsetp.eq.s32 \t%p1", False),
        ("%r5, 0;", "%r3, 0;", False),
    ],
)
def test_waits_that_are_tried_until_they_succeed(was, becomes, holds):
    """Where one is not, of which arrivals nobody learns is not told by those that succeed."""
    text = TEXT.replace(was, becomes) if was else TEXT
    assert was == "" or text != TEXT
    read = code(text.replace("\tret;", f"\t{ADDRESS}\n\t{ARRIVE}\n\tret;"))
    assert loops(read, line("mbarrier.try_wait", read.text)) == holds
    told = says(read, ARRIVE, "duplicate", "twice", "mbarrier.arrive.release")
    assert told.startswith(RULE) == holds
