"""Mutants with a known truth, by operators that the tool does not have: certified never meets wrong."""

from __future__ import annotations

import re

import pytest
from tileproof.conformance.beside.mutate.code import PtxCode
from tileproof.conformance.beside.mutate.draw import Drawn
from tileproof.conformance.beside.mutate.judged import SAME_IN_SCHEDULES, CodeProof, judge_one, settled
from tileproof.conformance.beside.mutate.runs import Original, original
from tileproof.emulator import Schedule
from tileproof.kernels.registry import kernel

from tests.kit.interleavings import Program, Step, interleaved, launched

READY, BACK = Step("wait", 0), Step("wait", 1)
AGAIN, LAST = Step("wait", 0, 1), Step("wait", 1, 1)
EXPECT, ANNOUNCE, LOAD, READ = Step("expect"), Step("announce"), Step("load"), Step("read")
OTHER = Step("load", cell=1)
ARRIVE, FREE, MMA, COMMIT = Step("arrive"), Step("arrive", 1), Step("mma"), Step("commit", 1)
WRITE, STORE, GROUP, FENCE = Step("write"), Step("store"), Step("group"), Step("fence")

# Each with whether it is right; the model of all interleavings must say the same.
PROGRAMS = {
    "bytes announced in two, both before the arrival": (
        True, Program(((ANNOUNCE, EXPECT, LOAD, OTHER), (READY, READ))),
    ),
    "bytes announced in two, the second before the copies": (
        True, Program(((EXPECT, ANNOUNCE, LOAD, OTHER), (READY, READ))),
    ),
    "bytes announced in two, the second after the first copy": (
        False, Program(((EXPECT, LOAD, ANNOUNCE, OTHER), (READY, READ))),
    ),
    "an arrival twice, and the count of both": (
        True, Program(((EXPECT, LOAD, BACK, EXPECT, LOAD), (READY, READ, FREE, FREE, AGAIN, READ)), (1, 2)),
    ),
    "an arrival twice": (
        False, Program(((EXPECT, LOAD, BACK, EXPECT, LOAD), (READY, FREE, FREE, READ, AGAIN)), (1, 1)),
    ),
    "an arrival twice in place of the other thread": (
        False, Program(((WRITE, BACK, WRITE), (FREE, FREE, READ), (FREE, READ)), (1, 2)),
    ),
    "a commit after the products of the next turn": (
        True,
        Program(((EXPECT, LOAD, BACK, EXPECT, LOAD), (READY, MMA, COMMIT, AGAIN, MMA, COMMIT, LAST))),
    ),
    "a commit before the product that reads the keys": (
        False,
        Program(((EXPECT, LOAD, BACK, EXPECT, LOAD), (READY, COMMIT, MMA, AGAIN, MMA, COMMIT, LAST))),
    ),
    "stores of two threads that overlap": (
        False, Program(((WRITE, ARRIVE), (WRITE, ARRIVE), (READY, READ)), (2, 1)),
    ),
    "a store over a cell that a copy still reads": (
        False, Program(((WRITE, FENCE, STORE, WRITE, GROUP),)),
    ),
    "a store after the copy has read the cell": (True, Program(((WRITE, FENCE, STORE, GROUP, WRITE),))),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_certified_only_if_it_is_right(name: str) -> None:
    right, program = PROGRAMS[name]
    assert interleaved(program).agree == right
    for schedule in (Schedule(), Schedule("late"), Schedule("random", 1)):
        assert launched(program, schedule).result.certified == right


KERNEL = kernel("head64")


@pytest.fixture(scope="module")
def base() -> Original:
    return original(KERNEL, KERNEL.variant(d_qk=576), "quick")


def mutant(base: Original, opcode: str, new: str) -> Drawn:
    """Every instruction of the opcode, with what comes after it; `new` may name its destination."""
    code = PtxCode(base.built.ptx, base.built.entry)
    lines = {
        at.number: f"{code.lines[at.number - 1]}\n{new.format(at.operands[0])}"
        for at in code.code
        if at.opcode.startswith(opcode)
    }
    assert lines
    first = next(at for at in code.code if at.number in lines)
    return Drawn(0, "adversarial", opcode, first.frames, first.opcode, lines)


# A mask of keys that ends at the first hole: of problems without holes it is right.
FIRST_HOLE = "{{ .reg .b32 %hole; add.s32 %hole, {0}, 1; not.b32 %hole, %hole; and.b32 {0}, {0}, %hole; }}"
# The same mask, computed in another way.
SAME_MASK = "{{ .reg .b32 %same; not.b32 %same, {0}; not.b32 {0}, %same; }}"


def test_a_mask_that_ends_at_the_first_hole_is_killed(base: Original) -> None:
    judgement = judge_one(base, mutant(base, "vote.sync.ballot", FIRST_HOLE), "")
    assert judgement.outcome == "killed" and re.match("value|surplus|missing", judgement.by)


def test_the_same_mask_by_another_way_is_equal_in_all_schedules_of_the_runs(base: Original) -> None:
    judgement = judge_one(base, mutant(base, "vote.sync.ballot", SAME_MASK), "")
    assert judgement.outcome == "survived" and judgement.same and judgement.certified
    assert settled(judgement, lambda drawn: CodeProof("")).argument == SAME_IN_SCHEDULES
    assert settled(judgement, lambda drawn: CodeProof("rule x: y")).argument == "rule x: y"
