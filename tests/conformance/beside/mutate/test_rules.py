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

SWIZZLED = 2 << 61 | 1 << 46
CONVERTED = "cvt.u64.u32 %rd1, %r42;"


def one_operand(
    flag: int = 1 << 16, idesc: int = 0, high: int = SWIZZLED, middle: str = "", end: str = ""
) -> PtxCode:
    """A descriptor whose lower word is %r42, that is %r41 with a bit set."""
    return made(
        "and.b32 %r41, %r1, 1008;",
        f"or.b32 %r42, %r41, {flag};",
        *([middle] if middle else []),
        CONVERTED,
        f"or.b64 %rd2, %rd1, {high};",
        f"mov.b32 %r43, {idesc};",
        "// begin inline asm",
        "{",
        ".reg .pred p;",
        "setp.ne.b32 p, %r2, 0;",
        "tcgen05.mma.cta_group::1.kind::f16 [%r9], %rd2, %rd3, %r43, p;",
        "}",
        "// end inline asm",
        *([end] if end else []),
    )


@pytest.mark.parametrize(
    ("changes", "holds"),
    [
        ({}, True),
        ({"high": 4 << 61 | 1 << 46}, True),  # 64 bytes
        ({"high": 1 << 46}, False),  # no swizzle
        ({"high": SWIZZLED | 1 << 52}, False),  # an absolute address
        ({"idesc": 1 << 15 | 8 << 24}, False),  # M-major, two columns of atoms
        ({"flag": 1 << 12}, False),  # the start address
        ({"flag": 1 << 14}, False),  # reserved: nothing is known
        ({"end": "st.shared.b64 [%r4], %rd2;"}, False),
        ({"end": "st.shared.b32 [%r4], %r42;"}, True),  # another use of the register that is not exchanged
        ({"middle": "and.b32 %r41, %r1, 992;"}, False),  # it holds something else by then
        ({"middle": "$L__BB0_9:"}, False),
    ],
)
def test_a_register_that_differs_in_bits_that_are_not_used(changes, holds):
    says = told(one_operand(**changes), "cvt.u64.u32", "operand", "%r41 instead of %r42")
    assert says.startswith("rule unread bits") == holds


@pytest.mark.parametrize(
    ("make", "use", "holds"),
    [
        ("or.b32 %r42, %r41, 7;", "and.b32 %r43, %r42, 1016;", True),
        ("or.b32 %r42, %r41, 7;", "and.b32 %r43, %r42, 1020;", False),
        ("add.s32 %r42, %r41, 7;", "and.b32 %r43, %r42, 1016;", True),
        ("add.s32 %r42, %r41, 8;", "and.b32 %r43, %r42, 1008;", True),  # nothing to carry over
        ("add.s32 %r42, %r41, 24;", "and.b32 %r43, %r42, 7;", True),
        ("add.s32 %r42, %r41, 24;", "and.b32 %r43, %r42, 1024;", False),  # carries
        ("sub.s32 %r42, %r41, 16;", "and.b32 %r43, %r42, 15;", True),
        ("sub.s32 %r42, 16, %r41;", "and.b32 %r43, %r42, 15;", True),  # 0 in both
        ("sub.s32 %r42, 16, %r41;", "and.b32 %r43, %r42, 31;", False),
        ("and.b32 %r42, %r41, 1016;", "add.s32 %r43, %r42, 4;", True),  # what is masked away is 0
        ("and.b32 %r42, %r41, 992;", "add.s32 %r43, %r42, 4;", False),
        ("xor.b32 %r42, %r41, 7;", "and.b32 %r43, %r42, 1016;", True),
        ("mov.u32 %r42, %r41;", "add.s32 %r43, %r42, 4;", True),
        ("shl.b32 %r42, %r41, 1;", "and.b32 %r43, %r42, 31;", False),  # not known
    ],
)
def test_a_register_that_is_made_of_the_other(make, use, holds):
    read = made("and.b32 %r41, %r1, 1008;", make, use, "st.shared.b32 [%r4], %r43;")
    at = next(line for line in read.code if line.operands[:1] == ("%r43",))
    (change,) = (
        change for change in OPERATORS["operand"](read, at) if change.what.startswith("%r41 instead of %r42")
    )
    says = proved(read, Drawn(0, "operand", change.what, at.frames, at.opcode, dict(change.lines)), FACTS)
    assert says.startswith("rule unread bits") == holds


@pytest.mark.parametrize(
    ("line", "operator", "words", "holds"),
    [
        ("shl.b32 %r42, %r40, 6;", "immediate", "6 is 7", True),
        ("shl.b32 %r42, %r40, 6;", "opcode", "shr instead of shl", True),
        ("add.u32 %r42, %r1, %r41;", "opcode", "sub instead of add", True),
        ("add.u32 %r42, %r41, %r1;", "opcode", "sub instead of add", False),
        ("and.b32 %r42, %r40, %r1;", "opcode", "or instead of and", False),
    ],
)
def test_what_is_made_of_the_rank_in_a_cluster_of_one(line, operator, words, holds):
    read = made(
        "mov.u32 %r40, %cluster_ctarank;", "shl.b32 %r41, %r40, 5;", line, "st.shared.b32 [%r4], %r42;"
    )
    assert not told(read, line.split()[0], operator, words)
    alone = PtxCode(read.text.replace(")\n{", ")\n.reqnctapercluster 1, 1, 1\n{"), read.entry)
    assert told(alone, line.split()[0], operator, words).startswith("rule unread bits") == holds


FIELD = ("mov.u32 %r40, smem;", "add.s32 %r41, %r40, 4096;", "shr.u32 %r42, %r41, 4;")


@pytest.mark.parametrize(
    ("last", "align", "words", "holds"),
    [
        ("and.b32 %r43, %r42, 16320;", 1024, "4096 is 4112", True),  # the mask takes 16 away
        ("and.b32 %r43, %r42, 16320;", 1024, "4096 is 4097", True),
        ("and.b32 %r43, %r42, 16320;", 1024, "4096 is 4095", False),  # borrows
        ("and.b32 %r43, %r42, 16320;", 1024, "4096 is 8192", False),
        ("and.b32 %r43, %r42, 16321;", 1024, "4096 is 4112", False),  # the bit is read
        ("and.b32 %r43, %r42, 16320;", 8, "4096 is 4112", False),  # it may carry
        ("st.shared.b32 [%r42], %r1;", 1024, "4096 is 4112", False),
    ],
)
def test_bits_that_a_mask_takes_away(last, align, words, holds):
    read = made(*FIELD, last, "st.shared.b32 [%r4], %r43;", align=align)
    at = next(line for line in read.code if line.operands[:1] == ("%r41",))
    (change,) = (change for change in OPERATORS["immediate"](read, at) if change.what.startswith(words))
    says = proved(read, Drawn(0, "immediate", change.what, at.frames, at.opcode, dict(change.lines)), FACTS)
    assert says.startswith("rule unread bits") == holds


def test_a_register_that_something_unread_mentions_is_read():
    """Of instructions that do not stand alone on their line nothing is known."""
    lines = (*FIELD, "and.b32 %r43, %r42, 16320;", "{ .reg .b32 x; mov.b32 x, %r41; }")
    read = made(*lines)
    at = next(line for line in read.code if line.operands[:1] == ("%r41",))
    (change,) = (
        change for change in OPERATORS["immediate"](read, at) if change.what.startswith("4096 is 4112")
    )
    assert not proved(
        read, Drawn(0, "immediate", change.what, at.frames, at.opcode, dict(change.lines)), FACTS
    )


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


def test_masks_of_bits_that_are_never_set():
    read = made(*FIELD, "and.b32 %r43, %r42, 16383;", "st.shared.b32 [%r4], %r43;")
    assert told(read, "and.b32", "immediate", "16383 is 16382").startswith("rule unread")
    assert not told(read, "and.b32", "immediate", "16383 is 8191")


@pytest.mark.parametrize(("mask", "holds"), [(7, True), (15, False)])
def test_a_difference_for_a_sum_modulo_twice_its_number(mask, holds):
    """Round a loop: x + 4 and x - 4 are the same modulo 8."""
    used = (f"and.b32 %r42, %r41, {mask};", "st.shared.b32 [%r4], %r42;")
    lines = ("mov.b32 %r41, 0;", "add.s32 %r41, %r41, 4;", *used)
    read = made(*lines)
    at = next(line for line in read.code if line.opcode == "add.s32" and line.operands[0] == "%r41")
    (change,) = (
        change for change in OPERATORS["opcode"](read, at) if change.what.startswith("sub instead of add")
    )
    says = proved(read, Drawn(0, "opcode", change.what, at.frames, at.opcode, dict(change.lines)), FACTS)
    assert says.startswith("rule unread bits") == holds


def test_what_only_a_prefetch_uses_is_a_hint():
    lines = ("mov.b64 %rd1, small_param_0;", "add.s64 %rd2, %rd1, 128;", "prefetch.param.tensormap [%rd2];")
    for more, holds in (((), True), (("st.global.b64 [%rd3], %rd2;",), False)):
        says = told(made(*lines, *more), "add.s64", "opcode", "sub instead of add")
        assert says.startswith("rule a hint") == holds


COPY = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"


@pytest.mark.parametrize(
    ("line", "holds"),
    [
        (f"{COPY}.L2::cache_hint [%r4], [%rd8], 256, [%r5], %rd9;", True),
        (f"{COPY}.L2::cache_hint [%r4], [%rd9], 256, [%r5], %rd9;", False),  # an address, too
        (f"{COPY}.L2::cache_hint [%r4], [%rd8], %rd9, [%r5], %rd8;", False),
        ("st.global.b64 [%rd8], %rd9;", False),
    ],
)
def test_the_policy_of_a_cache_is_a_hint(line, holds):
    says = told(
        made("mov.b64 %rd9, 1508705875169116160;", line), "mov.b64", "immediate", "1508705875169116160 is 0"
    )
    assert says.startswith("rule a hint") == holds


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


@pytest.mark.parametrize(
    ("idesc", "operand", "holds"),
    [
        (0, "A", True),  # K-major
        (1 << 15 | 8 << 24, "A", False),  # M-major, M = 128: two columns of atoms
        (1 << 15 | 4 << 24, "A", True),  # M = 64
        (1 << 15 | 8 << 24, "B", True),  # B is K-major
        (1 << 16 | 8 << 17, "B", True),  # N = 64
        (1 << 16 | 16 << 17, "B", False),  # N = 128
    ],
)
def test_the_leading_dimension_of_a_swizzled_operand(idesc, operand, holds):
    words = f"{operand} descriptor, leading dimension"
    assert (
        told(product(idesc), "tcgen05.mma", "descriptor", words).startswith("rule an unused leading") == holds
    )
    assert not told(product(idesc), "tcgen05.mma", "descriptor", f"{operand} descriptor, stride")


@pytest.mark.parametrize(
    ("swizzle", "wide", "holds"),
    [(4, 32, True), (4, 64, False), (6, 16, True), (6, 32, False), (0, 16, False)],
)
def test_a_column_of_atoms_is_as_wide_as_the_swizzle(swizzle, wide, holds):
    """64 bytes hold 32 elements, 32 bytes 16."""
    found = told(
        product(1 << 16 | wide // 8 << 17, swizzle=swizzle), "tcgen05.mma", "descriptor",
        "B descriptor, leading dimension",
    )  # fmt: skip
    assert found.startswith("rule an unused leading") == holds


@pytest.mark.parametrize(
    ("user", "words", "holds"),
    [
        ("", "1 is 2:", True),
        ("", "1 is 17:", True),
        ("", "1 is 0:", False),
        ("", "0 is 1:", False),  # the wait is tried once
        ("setp.ne.b32 %p2, %r5, 0;", "1 is 2:", True),
        ("setp.ne.b32 %p2, %r5, 1;", "1 is 2:", False),
        ("setp.lt.s32 %p2, %r5, 0;", "1 is 2:", False),
        ("sub.s32 %r6, %r3, %r5;", "1 is 2:", False),
        ("{ setp.ne.b32 %p2, %r5, 0; mov.b32 %r6, %r5; }", "1 is 2:", False),
    ],
)
def test_a_number_that_is_only_asked_whether_it_is_0(user, words, holds):
    """Of a wait that is tried again where it is not over."""
    read = code(TEXT.replace("sub.s32 \t%r6, %r3, %r5;", user))
    assert told(read, "selp", "immediate", words).startswith("rule a value") == holds


@pytest.mark.parametrize(
    ("number", "user", "words", "holds"),
    [
        ("1", "setp.ne.b32 %p2, %r41, 0;", "1 is 2", True),
        ("1", "setp.ne.b32 %p2, %r41, 0;", "1 is 0", False),
        ("1", "add.s32 %r42, %r41, %r1;", "1 is 2", False),
        ("1", "st.shared.b32 [%r4], %r41;", "1 is 2", False),
    ],
)
def test_a_number_that_is_moved_and_only_asked_whether_it_is_0(number, user, words, holds):
    read = made(f"mov.u32 %r41, {number};", user)
    at = next(line for line in read.code if line.operands[:1] == ("%r41",))
    (change,) = (change for change in OPERATORS["immediate"](read, at) if change.what.startswith(words))
    mutant = Drawn(0, "immediate", change.what, at.frames, at.opcode, dict(change.lines))
    assert proved(read, mutant, FACTS).startswith("rule a value") == holds


FLAGGED = "or.b32 %r43, %r1, 65536;"  # %r1 is a thread's number


@pytest.mark.parametrize(
    ("lines", "becomes", "holds"),
    [
        (("mov.b32 %r41, 1;",), "setp.ne.b32 %p2, %r41, 16;", True),
        (("mov.b32 %r41, 1;",), "setp.ne.b32 %p2, %r41, -1;", True),
        (("mov.b32 %r41, 1;",), "setp.ne.b32 %p2, %r41, 1;", False),
        (("mov.b32 %r41, 0;",), "setp.ne.b32 %p2, %r41, 1;", False),
        (("and.b32 %r41, %r1, 7;",), "setp.ne.b32 %p2, %r41, 8;", False),  # may be 0
        (("or.b32 %r41, %r1, 4;",), "setp.ne.b32 %p2, %r41, 8;", True),
        (("mov.b32 %r41, 1;", "mov.b32 %r42, 5;"), "setp.ne.b32 %p2, %r42, 0;", True),
        (("mov.b32 %r41, 1;", "mov.b32 %r42, 0;"), "setp.ne.b32 %p2, %r42, 0;", False),
        (("mov.b32 %r41, 1;", "and.b32 %r42, %r1, 5;"), "setp.ne.b32 %p2, %r42, 0;", False),
        (("mov.b32 %r41, 1;", "@%p1 mov.b32 %r42, 5;"), "setp.ne.b32 %p2, %r42, 0;", False),
        (("mov.b32 %r42, 5;", "$L__BB0_9:", "mov.b32 %r41, 1;"), "setp.ne.b32 %p2, %r42, 0;", False),
        (("mov.b32 %r41, 1;", "mov.b32 %r42, 5;"), "setp.eq.b32 %p2, %r42, 0;", False),
        (("mov.b32 %r41, 1;", FLAGGED, "add.s32 %r42, %r43, 600;"), "setp.ne.b32 %p2, %r42, 0;", True),
        (("mov.b32 %r41, 1;", FLAGGED, "add.s32 %r42, %r43, -600;"), "setp.ne.b32 %p2, %r42, 0;", False),
        (
            ("mov.b32 %r41, 1;", "or.b32 %r43, %r1, 512;", "add.s32 %r42, %r43, %r43;"),
            "setp.ne.b32 %p2, %r42, 0;",
            True,
        ),
        (
            ("mov.b32 %r41, 1;", "or.b32 %r43, %r2, 512;", "add.s32 %r42, %r43, %r15;"),
            "setp.ne.b32 %p2, %r42, 0;",
            False,
        ),
        (("mov.b32 %r41, 1;",), "setp.ne.b32 %p2, %r41, 4294967297;", False),
    ],
)
def test_a_comparison_that_comes_out_the_same(lines, becomes, holds):
    """Of a register that is made, here with 0, with another number or of another register."""
    read = made(*lines, "setp.ne.b32 %p2, %r41, 0;")
    at = next(line for line in read.code if line.opcode == "setp.ne.b32")
    mutant = Drawn(0, "immediate", "", at.frames, at.opcode, {at.number: f"\t{becomes}"})
    assert proved(read, mutant, FACTS).startswith("rule a comparison") == holds


def test_what_is_0_in_the_bits_of_a_word_is_0():
    read = code(TEXT.replace("sub.s32 \t%r6, %r3, %r5;", "").replace("%r5, 1, 0", "%r5, 2147483648, 0"))
    assert told(read, "selp", "immediate", "2147483648 is 2147483649")
    assert not told(read, "selp", "immediate", "2147483648 is 4294967296")


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
