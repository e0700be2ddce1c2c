"""Fences and waits beside barriers of all threads: what may be left out, and what may not."""

from __future__ import annotations

import pytest
from tileproof.conformance.beside.mutate.code import PtxCode
from tileproof.conformance.beside.mutate.draw import Drawn
from tileproof.conformance.beside.mutate.operators import OPERATORS
from tileproof.conformance.beside.mutate.rules import Facts, proved

from tests.conformance.beside.mutate.test_rules import AFTER, ARRIVE, BEFORE, GUARD, LOAD, MMA, WAIT
from tests.kit.mutate import TEXT, code

ALL, NAMED, WARP = "bar.sync 0;", "bar.sync 1, 64;", "bar.warp.sync -1;"
LABEL = "$L__BB0_7:"
LOADED, STORE = "tcgen05.wait::ld.sync.aligned;", "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r9], {%r11};"
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r4];"
FREE = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 64;"


def entry(*lines: str) -> PtxCode:
    """An entry of these lines alone."""
    head, _, tail = TEXT.partition("\t.loc\t1 10 0\n")
    end = tail[tail.index("\tret;") :]
    return code(head + "".join(f"{line if line.endswith(':') else chr(9) + line}\n" for line in lines) + end)


def told(
    lines: tuple[str, ...],
    which: str,
    nth: int = 0,
    operator: str = "remove-sync",
    words: str = "",
    cta: int = 1,
) -> list[str]:
    """What is proved of each mutant of the nth line that reads so."""
    read = entry(*lines)
    found = [line for line in read.code if read.lines[line.number - 1].strip() == which]
    at = found[nth]
    mutants = [change for change in OPERATORS[operator](read, at) if words in change.what]
    assert mutants
    return [
        proved(
            read,
            Drawn(0, operator, mutant.what, at.frames, at.opcode, dict(mutant.lines)),
            Facts(cta, 200_000),
        )
        for mutant in mutants
    ]


def holds(says: list[str], rule: str) -> bool:
    """Whether every one of them is proved by the rule."""
    return all(say.startswith(f"rule {rule}") for say in says)


ROLES = (GUARD, COMMIT, WAIT, AFTER, MMA, COMMIT, LABEL)


@pytest.mark.parametrize(
    ("lines", "nth", "cta", "right"),
    [
        ((BEFORE, ALL, AFTER, *ROLES, BEFORE, ALL, AFTER, FREE), 0, 1, True),
        ((BEFORE, ALL, AFTER, *ROLES), 0, 2, False),  # the peer's products
        ((MMA, COMMIT, BEFORE, ALL, AFTER, *ROLES), 0, 1, False),
        ((GUARD, MMA, LABEL, ALL, AFTER, LOAD), 0, 1, False),  # of one of them
        ((ALL, WAIT, AFTER, LOAD), 0, 1, False),  # it has learnt of something since
        ((ALL, NAMED, AFTER, LOAD), 0, 1, False),  # where others may have met
        ((ALL, MMA, ALL, AFTER, LOAD), 0, 1, False),  # not the first
        ((GUARD, ALL, LABEL, AFTER, LOAD), 0, 1, False),  # not on every way
        ((ALL, "{ mov.b32 %r2, 1; mov.b32 %r5, 2; }", AFTER, LOAD), 0, 1, False),
    ],
)
def test_a_fence_behind_the_first_barrier(lines, nth, cta, right):
    assert holds(told(lines, AFTER, nth, cta=cta), "a fence after a barrier") == right


@pytest.mark.parametrize(
    ("lines", "cta", "right"),
    [
        ((ALL, *ROLES, LOAD, LOADED, BEFORE, ALL, AFTER, FREE), 1, True),
        ((ALL, *ROLES, LOAD, LOADED, BEFORE, ALL, AFTER, FREE), 2, False),
        ((ALL, *ROLES, BEFORE, ALL, AFTER, LOAD), 1, False),  # what it orders them with
        ((ALL, *ROLES, BEFORE, ALL, GUARD.replace("7", "8"), LOAD, "$L__BB0_8:", FREE), 1, False),
        ((ALL, *ROLES, BEFORE, ARRIVE, ALL, FREE), 1, False),  # it tells before
        ((ALL, *ROLES, BEFORE, GUARD.replace("7", "8"), ALL, "$L__BB0_8:", FREE), 1, False),
        ((ALL, *ROLES, BEFORE, ALL, ALL, LOAD), 1, False),
        ((GUARD, ALL, LOAD, "ret;", LABEL, LOAD, BEFORE, ALL), 1, False),  # who meets it at the other
    ],
)
def test_a_fence_in_front_of_the_last_barrier(lines, cta, right):
    assert holds(told(lines, BEFORE, cta=cta), "a fence after a barrier") == right


def test_such_a_fence_on_the_other_side_of_its_barrier():
    lines = (ALL, *ROLES, LOAD, LOADED, BEFORE, ALL, FREE)
    assert holds(told(lines, BEFORE, operator="move"), "a fence after a barrier")
    assert not any(told((*lines, LOAD), BEFORE, operator="move"))


@pytest.mark.parametrize(
    ("between", "right"),
    [
        ((), True),
        ((BEFORE,), True),
        (("add.s32 %r20, %r1, 1;",), True),
        (("st.shared.b32 [%r4], %r1;",), False),
        (("fence.proxy.async.shared::cta;",), False),
        ((GUARD, BEFORE, LABEL), False),
        ((f"@%p1 {BEFORE}",), False),
        (("elect.sync %r20|%p2, -1;",), False),
        ((ARRIVE,), False),
        ((NAMED,), False),
    ],
)
def test_a_barrier_of_a_warp_before_one_of_all(between, right):
    lines = ("st.shared.b32 [%r4], %r1;", WARP, *between, ALL)
    assert holds(told(lines, WARP), "a barrier of a warp") == right
    assert not any(told(("st.shared.b32 [%r4], %r1;", WARP, *between), WARP))


def test_a_barrier_of_a_warp_behind_a_fence():
    assert holds(told((LOAD, WARP, BEFORE, ALL, MMA), WARP, operator="move"), "a barrier of a warp")
    assert not any(told((WARP, ALL), WARP, operator="move"))
    assert not any(told(("bar.warp.sync 15;", ALL), "bar.warp.sync 15;"))


@pytest.mark.parametrize(
    ("between", "right"),
    [
        ((LOAD,), True),
        (("st.global.b32 [%rd3], %r11;", LOAD), True),
        ((ARRIVE,), False),
        ((STORE,), False),
        ((BEFORE, ALL), False),
        ((MMA,), False),
        ((GUARD.replace("7", "8"), ARRIVE, "$L__BB0_8:"), False),
        (("tcgen05.wait::st.sync.aligned;",), False),
    ],
)
def test_loads_covered_by_a_later_wait(between, right):
    lines = (LOAD, LOADED, *between, LOADED, ARRIVE)
    assert holds(told(lines, LOADED), "loads covered by a later wait") == right
    assert not any(told((LOAD, LOADED, *between, ARRIVE), LOADED))
    assert not any(told((LOAD, LOADED, *between, f"@%p1 {LOADED}", ARRIVE), LOADED))


@pytest.mark.parametrize(
    ("behind", "right"), [((LOAD, LOADED), True), ((LOADED, ARRIVE), True), ((ARRIVE, LOADED), False)]
)
def test_a_wait_for_loads_before_its_load_where_a_later_one_waits_for_it(behind, right):
    """And one that became a wait for stores."""
    lines = (LOAD, LOADED, *behind, ARRIVE)
    for operator, words in (
        ("move", "tcgen05.wait::ld.sync.aligned  before"),
        ("scope", "wait::ld is wait::st"),
    ):
        which = LOAD if operator == "move" else LOADED
        says = told(lines, which, operator=operator, words=words)
        assert holds(says, "loads covered by a later wait") == right


@pytest.mark.parametrize(
    ("lines", "nth", "right"),
    [
        ((GUARD, MMA, LABEL, ALL), 0, True),
        ((ALL, GUARD, MMA, LABEL, ALL), 1, True),
        ((GUARD, ALL, "bra $L__BB0_9;", LABEL, ALL, "$L__BB0_9:"), 0, False),  # others stand at the other one
        ((NAMED, ALL), 0, False),  # which may have that number
        (("$L__BB0_8:", ALL, GUARD.replace("7", "8")), 0, False),
        ((ALL, "{ mov.b32 %r2, 1; bar.sync 0; }"), 0, False),
    ],
)
def test_a_barrier_of_all_threads_by_another_number(lines, nth, right):
    says = told(lines, ALL, nth, operator="immediate", words="0 is 1:")
    assert holds(says, "a barrier of all threads by another number") == right
    assert not any(told(lines, ALL, nth, operator="immediate", words="0 is 16"))


def test_giving_up_the_right_to_allocate_twice():
    """Whatever other threads do."""
    line = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"
    read = entry(line)
    (change,) = OPERATORS["duplicate"](read, read.code[0])
    drawn = Drawn(0, "duplicate", change.what, (), read.code[0].opcode, dict(change.lines))
    assert proved(read, drawn, Facts(1, 1000)).startswith("rule no other allocation")


@pytest.mark.parametrize(
    ("lines", "nth", "right"),
    [
        ((GUARD, MMA, LABEL, ALL), 0, True),
        ((ALL, GUARD, MMA, LABEL, ALL), 1, True),
        ((GUARD, ALL, MMA, LABEL, ALL), 1, False),  # some meet there in their first
        ((GUARD, ALL, MMA, "ret;", LABEL, ALL), 0, False),
        (("$L__BB0_8:", ALL, GUARD.replace("7", "8")), 0, False),  # the number of turns may differ
        ((GUARD, "ret;", LABEL, ALL), 0, False),
        ((NAMED, ALL), 0, False),
        ((ALL, "{ mov.b32 %r2, 1; bar.sync 0; }"), 0, False),
    ],
)
def test_a_barrier_of_all_threads_twice(lines, nth, right):
    assert holds(told(lines, ALL, nth, operator="duplicate"), "a barrier of all threads twice") == right


PROXY = "fence.proxy.async.shared::cta;"


@pytest.mark.parametrize(
    ("lines", "fence", "right"),
    [
        (("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r4];",), PROXY, True),
        (("st.global.b32 [%rd1], %r1;",), PROXY, True),
        (("st.shared.b32 [%r4], %r1;",), PROXY, False),
        (("st.b32 [%rd1], %r1;",), PROXY, False),  # may be shared memory
        (("atom.shared.add.u32 %r20, [%r4], 1;",), PROXY, False),
        (("cp.async.ca.shared.global [%r4], [%rd1], 4;",), PROXY, False),
        (("{ mov.b32 %r2, 1; st.shared.b32 [%r4], %r1; }",), PROXY, False),
        (("ld.shared.b32 %r20, [%r4];",), "fence.proxy.async.global;", False),
    ],
)
def test_a_proxy_fence_behind_reads_alone(lines, fence, right):
    assert holds(told((*lines, fence, "bar.sync 0;"), fence), "a proxy fence after reads") == right


NARROW = "cvt.rn.bf16x2.f32 %r20, %f10, %f11;"


@pytest.mark.parametrize(
    ("lines", "words", "right"),
    [
        ((NARROW,), ".rn is .rp", True),
        ((NARROW,), ".rn is .rz", True),
        (("cvt.rn.f16.f32 %h1, %f10;",), ".rn is .rp", True),
        (("mov.f32 %f12, %f10;", NARROW.replace("%f10", "%f12")), ".rn is .rp", True),
        ((NARROW, "st.global.f32 [%rd1], %f10;"), ".rn is .rp", False),  # it is stored itself too
        ((NARROW, "add.f32 %f13, %f10, %f11;"), ".rn is .rp", False),
        ((NARROW.replace("rn", "rz"),), ".rn is .rp", False),  # cut off: any difference may show
        (("cvt.rn.e4m3x2.f32 %h1, %f10, %f11;",), ".rn is .rp", False),
        ((NARROW, "{ mov.b32 %r2, %f10; mov.b32 %r3, %f10; }"), ".rn is .rp", False),
        ((), ".rn is .rp", False),
        ((NARROW, "$L__BB0_7:", "mov.f32 %f10, %f11;"), ".rn is .rp", False),
    ],
)
def test_a_rounding_that_another_follows(lines, words, right):
    at = "fma.rn.f32 %f10, %f2, %f3, %f4;"
    assert holds(told((at, *lines), at, operator="rounding", words=words), "a rounding before") == right


def test_a_product_of_which_less_is_kept_is_no_other_rounding():
    at = "mul.ftz.f32 %f10, %f2, %f3;"
    assert not any(told((at, NARROW, "st.global.b32 [%rd1], %r20;"), at, operator="rounding"))
