"""Each rule proves what it is about, and not what differs from it in one thing that matters."""

from __future__ import annotations

import pytest
from tileproof.conformance.beside.mutate.code import PtxCode
from tileproof.conformance.beside.mutate.draw import Drawn
from tileproof.conformance.beside.mutate.operators import OPERATORS
from tileproof.conformance.beside.mutate.rules import RULES, Facts, proved

from tests.kit.mutate import TEXT, code
from tests.kit.paths import ROOT

FACTS = Facts(1, 200_000)
LINE = "\tmov.b32 \t%r2, 64;"
SHARED = ".extern .shared .align 16"


def made(*lines: str, align: int = 1024) -> PtxCode:
    """The small kernel with more instructions, its shared memory aligned."""
    text = TEXT.replace(LINE, "\n".join([LINE, *(f"\t{line}" for line in lines)]))
    return code(text.replace(SHARED, f".extern .shared .align {align}"))


def told(read: PtxCode, opcode: str, operator: str, words: str, facts: Facts = FACTS) -> str:
    """What is proved of the mutant of the last such instruction whose words begin so."""
    at = next(line for line in reversed(read.code) if line.opcode.startswith(opcode))
    (change,) = (change for change in OPERATORS[operator](read, at) if change.what.startswith(words))
    return proved(read, Drawn(0, operator, change.what, at.frames, at.opcode, dict(change.lines)), facts)


# ---- registers that differ in unread bits


@pytest.mark.parametrize(
    ("line", "operator", "words"),
    [
        ("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r4], 256;", "immediate", "256 is 512"),
        ("mbarrier.arrive.release.cta.shared::cta.b64 _, [%r4], 2;", "immediate", "2 is 3"),
        ("atom.shared.add.u32 %r50, [%r4], 1;", "immediate", "1 is 2"),
        ("shfl.sync.bfly.b32 %r50|%p7, %r1, 8, 31, -1;", "immediate", "-1 is"),
    ],
)
def test_what_has_effects_is_not_proved_by_a_result_that_nobody_reads(line, operator, words):
    read = made(line)
    at = next(code_line for code_line in read.code if read.lines[code_line.number - 1].strip() == line)
    for change in OPERATORS[operator](read, at):
        mutant = Drawn(0, operator, change.what, at.frames, at.opcode, dict(change.lines))
        assert not proved(read, mutant, FACTS), change.what
    assert any(change.what.startswith(words) for change in OPERATORS[operator](read, at))


def test_giving_up_the_right_to_allocate():
    read = made("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;")
    assert told(read, "tcgen05.relinq", "remove-effect", "removed").startswith("rule no other allocation")
    assert told(read, "tcgen05.relinq", "duplicate", "twice").startswith("rule no other allocation")
    assert not told(read, "tcgen05.relinq", "remove-effect", "removed", Facts(1, 100_000))


def test_scopes_and_windows_in_a_cluster_of_one_cta():
    arrive = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];"
    for words in (".release.cluster is .release.cta", "shared::cluster.b64 is shared::cta.b64"):
        assert told(made(arrive), "mbarrier.arrive.release.cluster", "scope", words).startswith(
            "rule a cluster"
        )
        assert not told(made(arrive), "mbarrier.arrive.release.cluster", "scope", words, Facts(2, 0))
    assert not told(made(arrive), "mbarrier.arrive.release.cluster", "scope", ".release. is .relaxed.")


AFTER, BEFORE = "tcgen05.fence::after_thread_sync;", "tcgen05.fence::before_thread_sync;"
MMA = "tcgen05.mma.cta_group::1.kind::f16 [%r9], %rd2, %rd2, %r2, %p1;"
WAIT = "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p2, [%r4], %r2;"
ARRIVE = "mbarrier.arrive.release.cta.shared::cta.b64 _, [%r4];"
LOAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r11}, [%r9];"
GUARD = "@%p1 bra $L__BB0_7;"


@pytest.mark.parametrize(
    ("lines", "holds"),
    [
        ((AFTER, MMA, "add.s32 %r9, %r9, 8;", AFTER, MMA), True),
        ((AFTER, MMA, WAIT, AFTER, MMA), False),  # what was waited for meanwhile
        ((MMA, AFTER, MMA), False),
        ((GUARD, AFTER, "$L__BB0_7:", AFTER, MMA), False),  # not on every way
        ((AFTER, GUARD, MMA, "$L__BB0_7:", AFTER, MMA), True),
        ((AFTER, MMA, "{ mov.b32 %r2, 1; mov.b32 %r5, 2; }", AFTER, MMA), False),  # not all is known
        ((f"@%p1 {AFTER}", MMA, AFTER, MMA), False),
    ],
)
def test_a_fence_behind_the_same_fence(lines, holds):
    assert told(made(*lines), "tcgen05.fence", "remove-sync", "removed").startswith("rule a fence") == holds


@pytest.mark.parametrize(
    ("lines", "holds"),
    [
        ((LOAD, BEFORE, LOAD, BEFORE, ARRIVE), True),
        ((LOAD, BEFORE, ARRIVE, LOAD, BEFORE, ARRIVE), False),  # told before the other
        ((LOAD, BEFORE, GUARD, BEFORE, "$L__BB0_7:", ARRIVE), False),
        ((LOAD, BEFORE, LOAD), False),
        ((LOAD, BEFORE, GUARD, LOAD, "$L__BB0_7:", BEFORE, ARRIVE), True),
    ],
)
def test_a_fence_before_the_same_fence(lines, holds):
    read = made(*lines)
    at = next(line for line in read.code if line.opcode.startswith("tcgen05.fence"))
    drawn = Drawn(0, "remove-sync", "removed", at.frames, at.opcode, {at.number: ""})
    assert proved(read, drawn, FACTS).startswith("rule a fence") == holds


COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%rd2];"
DEALLOC = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 512;"
BAR = "bar.sync 0;"


def fence(lines: tuple[str, ...], which: str, operator: str = "remove-sync", words: str = "removed"):
    """What is proved of the mutant of the last such fence."""
    return told(made(*lines), which.rstrip(";"), operator, words)


@pytest.mark.parametrize(
    ("lines", "holds"),
    [
        ((MMA, WAIT, BAR, AFTER, DEALLOC), True),  # which is synchronous
        ((MMA, WAIT, AFTER, LOAD), False),
        ((MMA, WAIT, AFTER, COMMIT), False),
        ((WAIT, AFTER, GUARD, LOAD, "$L__BB0_7:", DEALLOC), False),
        (("$L__BB0_7:", LOAD, WAIT, AFTER, GUARD), False),  # round a loop
        ((WAIT, AFTER, "{ mov.b32 %r2, 1; mov.b32 %r5, 2; }"), False),  # not all is known
    ],
)
def test_a_fence_that_nothing_comes_behind(lines, holds):
    assert fence(lines, AFTER).startswith("rule a fence without accesses to order") == holds
    words = "after_thread_sync is before_thread_sync"
    assert fence(lines, AFTER, "scope", words).startswith("rule a fence without accesses") == holds


@pytest.mark.parametrize(
    ("lines", "holds"),
    [
        ((WAIT, BEFORE, BAR), True),  # nothing since the beginning
        ((LOAD, BEFORE, ARRIVE, BEFORE, BAR), True),
        ((MMA, COMMIT, BEFORE, BAR), True),
        ((MMA, f"@%p1 {COMMIT}", BEFORE, BAR), False),
        ((MMA, BEFORE, BAR), False),
        ((LOAD, BEFORE, ARRIVE, LOAD, BEFORE, BAR), False),
        ((LOAD, GUARD, BEFORE, "$L__BB0_7:", BEFORE, BAR), False),  # not on every way
        (("$L__BB0_7:", BEFORE, BAR, LOAD, GUARD), False),  # round a loop
    ],
)
def test_a_fence_with_nothing_before_it(lines, holds):
    assert fence(lines, BEFORE).startswith("rule a fence without accesses to order") == holds


WARP = "bar.warp.sync -1;"
INITS, ARRIVES = "fence.mbarrier_init.release.cluster;", "barrier.cluster.arrive.aligned;"


@pytest.mark.parametrize(
    ("lines", "cluster", "holds"),
    [
        ((INITS, ARRIVES), 2, True),
        ((INITS, "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;", WARP, ARRIVES), 2, True),
        ((INITS, WARP, ARRIVE, ARRIVES), 2, False),
        ((INITS, "barrier.cluster.arrive.relaxed.aligned;"), 2, False),
        ((INITS, ARRIVE, ARRIVES), 2, False),  # somebody may know it earlier
        ((INITS, GUARD, ARRIVES, "$L__BB0_7:"), 2, False),
        ((INITS, f"@%p1 {ARRIVES}"), 2, False),
        ((INITS, BAR), 2, False),
        ((INITS, BAR), 1, True),
        ((INITS, "bar.sync 0, 64;"), 1, False),  # not of all threads
    ],
)
def test_a_fence_of_inits_before_a_barrier(lines, cluster, holds):
    read = made(*lines)
    at = next(line for line in read.code if line.opcode.startswith("fence.mbarrier_init"))
    mutant = Drawn(0, "remove-sync", "removed", at.frames, at.opcode, {at.number: ""})
    says = proved(read, mutant, Facts(cluster, 0))
    assert says.startswith("rule a fence of inits before a barrier") == holds


PROXY = "fence.proxy.async.shared::cta;"
LD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r11}, [%r9];"


@pytest.mark.parametrize(
    ("lines", "holds"),
    [
        ((LD, BEFORE, WARP, ARRIVE), True),
        ((LD, BEFORE, "add.s32 %r9, %r9, 8;", WARP, ARRIVE), True),
        ((MMA, BEFORE, WARP, ARRIVE), False),  # one lane's
        ((MMA, COMMIT, LD, BEFORE, WARP, ARRIVE), True),
        ((GUARD, MMA, "$L__BB0_7:", BEFORE, WARP, ARRIVE), False),
        ((LD, BEFORE, "bar.warp.sync %r1;", ARRIVE), False),  # of some lanes
        ((LD, f"@%p1 {BEFORE}", WARP, ARRIVE), False),
        (("st.shared.b32 [%r4], %r1;", PROXY, WARP, ARRIVE), True),
        (("st.shared.b32 [%r4], %r1;", PROXY, "bar.warp.sync %r1;", ARRIVE), False),
        (("st.shared.b32 [%r4], %r1;", PROXY, ARRIVE, WARP), False),
        ((LD, BEFORE, ARRIVE), False),
    ],
)
def test_a_fence_of_a_warp(lines, holds):
    read = made(*lines)
    at = next(line for line in read.code if line.opcode.startswith(("tcgen05.fence", "fence.proxy")))
    (change,) = (
        change for change in OPERATORS["move"](read, at) if change.what.startswith(at.opcode.split(".sh")[0])
    )
    mutant = Drawn(0, "move", change.what, at.frames, at.opcode, dict(change.lines))
    assert proved(read, mutant, FACTS).startswith("rule a fence of a warp") == holds


INIT = "mbarrier.init.shared::cta.b64 [%r4], %r2;"


@pytest.mark.parametrize(
    ("lines", "holds"),
    [
        ((INIT, INITS, ARRIVES), True),
        ((INIT, "add.s32 %r9, %r4, 8;", INITS, ARRIVES), True),
        ((INIT, "add.s32 %r4, %r4, 8;", INITS, ARRIVES), False),  # the address of the other init
        ((INIT, "ld.shared.b32 %r9, [%r4];", INITS, ARRIVES), False),
        ((INIT, INITS, ARRIVE, ARRIVES), False),
    ],
)
def test_what_changes_places_with_a_fence_that_may_be_left_out(lines, holds):
    read = made(*lines)
    at = next(line for line in read.code if line.opcode.startswith("mbarrier.init"))
    (change,) = (change for change in OPERATORS["move"](read, at) if change.what.startswith("mbarrier.init"))
    mutant = Drawn(0, "move", change.what, at.frames, at.opcode, dict(change.lines))
    assert proved(read, mutant, Facts(2, 0)).startswith("rule a fence of inits") == holds


@pytest.mark.parametrize(
    ("mask", "words", "holds"),
    [
        ("0", "0 is 16", True),
        ("0", "0 is -1", False),  # bit 39
        (f"{1 << 39}", f"{1 << 39} is 0", False),
        (f"{1 << 54}", f"{1 << 54} is {1 << 55}", True),  # a use span
        (f"{1 << 55}", f"{1 << 55} is {1 << 56}", False),  # a column shift
    ],
)
def test_a_zero_column_mask_that_is_not_used(mask, words, holds):
    product = f"tcgen05.mma.ws.cta_group::1.kind::f16 [%r9], %rd1, %rd2, %r2, %p1, {mask};"
    assert (
        told(made(product), "tcgen05.mma.ws", "immediate", words).startswith("rule an unused zero-column")
        == holds
    )
    no_ws = product.replace(".ws", "")
    assert not told(made(no_ws), "tcgen05.mma", "immediate", words)


EXPECT = "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r4], %r60;"
TMA = (
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r4], "
    "[%rd1, {%r1, %r1}], [%r4];"
)


@pytest.mark.parametrize(
    ("lines", "holds"),
    [
        ((EXPECT,), True),
        ((BAR, "ld.global.nc.b32 %r9, [%rd1];", EXPECT), True),
        ((EXPECT, TMA, EXPECT), True),
        (("st.shared.b32 [%r4], %r1;", BAR, EXPECT), True),
        (("st.shared.b32 [%r4], %r1;", EXPECT), False),
        (("st.shared.b32 [%r4], %r1;", "bar.sync 0, 64;", EXPECT), False),
        (("st.shared.b32 [%r4], %r1;", f"@%p1 {BAR}", EXPECT), False),
        ((BAR, WAIT, EXPECT), False),  # it may pass on what it learnt
        ((BAR, "ld.shared.b32 %r9, [%r4];", EXPECT), False),  # which a waiter may overwrite
        (("$L__BB0_7:", EXPECT, WAIT, GUARD), False),  # round a loop
    ],
)
def test_nothing_to_release(lines, holds):
    read = made(*lines)
    at = next(line for line in reversed(read.code) if line.operands[-1:] == ("%r60",))
    (change,) = (
        change for change in OPERATORS["scope"](read, at) if change.what.startswith(".release. is .relaxed.")
    )
    mutant = Drawn(0, "scope", change.what, at.frames, at.opcode, dict(change.lines))
    assert proved(read, mutant, FACTS).startswith("rule nothing to release") == holds


def exchanges(*masks: int, change: str = "") -> tuple[str, ...]:
    """A sum over lanes by exchanges at these distances, begun with a load."""
    lines = ["ld.shared.f32 %f20, [%r4];"]
    for n, mask in enumerate(masks, 20):
        lines += [
            f"mov.b32 %r{n + 20}, %f{n};",
            f"shfl.sync.bfly.b32 %r{n + 40}|%p{n}, %r{n + 20}, {mask}, 31, -1;",
            f"mov.b32 %f{n + 20}, %r{n + 40};",
            f"add.f32 %f{n + 1}, %f{n}, %f{n + 20};",
        ]
    old, _, new = change.partition("=>")
    return tuple(line.replace(old, new) if change else line for line in lines)


@pytest.mark.parametrize(
    ("lines", "words", "holds"),
    [
        (exchanges(16, 8, 4, 2), "2 is 18", True),
        (exchanges(16, 8, 4, 2), "2 is 3", False),  # lanes that have added nothing yet
        (exchanges(8, 4, 2), "2 is 18", False),
        (exchanges(16, 8, 4, 2, change="%f20, %f40=>%f20, %f20"), "2 is 18", False),  # twice its own
        (exchanges(16, 8, 4, 2, change=" 16, 31, -1=> 16, 15, -1"), "2 is 18", False),  # not over all lanes
        (exchanges(16, 8, 4, 2, change="add.f32 %f21=>fma.rn.f32 %f21, %f3"), "2 is 18", False),
        ((*exchanges(16, 8), "$L__BB0_7:", *exchanges(4, 2)), "2 is 18", False),  # made elsewhere
        (exchanges(16, 8, 4, 2, change="add.f32 %f22=>@%p1 add.f32 %f22"), "2 is 18", False),
    ],
)
def test_lanes_that_hold_the_same(lines, words, holds):
    read = made(*lines)
    says = told(read, "shfl.sync.bfly", "immediate", words)
    assert says.startswith("rule equal lanes") == holds


def product(idesc: int, enable: str = "%r2", swizzle: int = 2) -> PtxCode:
    return made(
        "and.b32 %r41, %r1, 1008;",
        "cvt.u64.u32 %rd1, %r41;",
        f"or.b64 %rd2, %rd1, {swizzle << 61 | 1 << 46};",
        f"mov.b32 %r42, {idesc};",
        "mov.b32 %r43, 0;",
        "// begin inline asm",
        "{",
        ".reg .pred p;",
        f"setp.ne.b32 p, {enable}, 0;",
        "tcgen05.mma.cta_group::1.kind::f16 [%r9], %rd2, %rd2, %r42, p;",
        "}",
        "// end inline asm",
    )


def test_a_product_that_clears_may_come_twice():
    assert told(product(0, "%r43"), "tcgen05.mma", "duplicate", "twice").startswith(
        "rule a product that clears"
    )
    for adds in ("%r2", "%r1"):
        assert not told(product(0, adds), "tcgen05.mma", "duplicate", "twice")


FLAGGED = "or.b32 %r43, %r1, 65536;"  # %r1 is a thread's number


AFTER_SYNC = "tcgen05.fence::after_thread_sync;"


@pytest.mark.parametrize(
    ("lines", "holds"),
    [
        ((PROXY, AFTER_SYNC), True),
        ((PROXY, "add.s32 %r41, %r1, 4;", AFTER_SYNC), True),
        (("tcgen05.fence::before_thread_sync;", PROXY), True),
        ((PROXY, "ld.shared.b32 %r41, [%r4];", AFTER_SYNC), False),
        ((PROXY, "$L__BB0_9:", AFTER_SYNC), False),
        ((PROXY, "fence.mbarrier_init.release.cluster;"), False),
        ((PROXY, "mbarrier.arrive.release.cta.shared::cta.b64 _, [%r4];"), False),
        (("@%p1 " + PROXY, AFTER_SYNC), False),
    ],
)
def test_two_fences_in_the_other_order(lines, holds):
    read = made(*lines, LD)
    first, last = (next(at for at in read.code if read.lines[at.number - 1].strip() == text)
                   for text in (lines[0], lines[-1]))  # fmt: skip
    texts = (read.lines[at.number - 1] for at in (last, first))
    mutant = Drawn(0, "move", "", first.frames, first.opcode,
                   {first.number: "\n".join(texts), last.number: ""})  # fmt: skip
    assert proved(read, mutant, FACTS).startswith("rule two fences of different kinds") == holds


@pytest.mark.parametrize(
    ("operands", "words", "holds"),
    [
        ("13, 31, -1", "31 is 30", True),
        ("13, 31, -1", "31 is 62", True),
        ("13, 31, -1", "31 is 15", True),
        ("13, 31, -1", "31 is 0", False),
        ("13, 31, -1", "31 is 32", False),
        ("13, 31, -1", "13 is 12", False),
        ("0, 31, -1", "31 is 0", True),
        ("0, 31, -1", "31 is 32", True),
        ("13, 7967, -1", "7967 is 7966", False),  # parts of the warp
        ("%r2, 31, -1", "31 is 30", False),
        ("13, 31, 15", "31 is 30", False),
    ],
)
def test_a_clamp_that_no_lane_reaches(operands, words, holds):
    read = made(f"shfl.sync.idx.b32 %r50|%p7, %r1, {operands};", "st.shared.b32 [%r4], %r50;")
    says = told(read, "shfl.sync.idx", "immediate", words)
    assert says.startswith("rule a clamp that is not reached") == holds


def test_every_rule_is_tested_and_told_in_the_page():
    page = (ROOT / "docs/mutate.md").read_text()
    for name in RULES:
        assert f"| {name} |" in page, name
