"""What each operator proposes of an instruction, and what none does."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tileproof.conformance.beside.mutate import (
    assembled,
    values,  # noqa: F401
)
from tileproof.conformance.beside.mutate.assembled import assemble
from tileproof.conformance.beside.mutate.operators import OPERATORS
from tileproof.kernels import toolchain

from tests.kit.mutate import TEXT, code, line

WAIT = "mbarrier.try_wait"


def proposed(operator: str, opcode: str) -> dict[str, str]:
    """By what they say, the changed texts of one instruction."""
    read = code()
    return {change.what: read.changed(change.lines) for change in OPERATORS[operator](read, line(opcode))}


@pytest.mark.parametrize(
    ("operator", "opcode", "gone"),
    [
        ("remove-sync", "bar.sync", "bar.sync"),
        ("remove-sync", "fence.proxy", "fence.proxy"),
        ("remove-sync", WAIT, "try_wait"),
        ("remove-effect", "st.shared", "st.shared"),
        ("wait-once", WAIT, "bra"),
    ],
)
def test_what_is_removed_is_gone(operator, opcode, gone):
    (text,) = proposed(operator, opcode).values()
    assert text.count(gone) == TEXT.count(gone) - 1
    assert not assemble(text, "sm_100a").refused


def test_a_removed_wait_is_taken_as_over():
    (text,) = proposed("remove-sync", WAIT).values()
    assert "setp.eq.u32 complete, 0, 0;" in text


def test_synchronisation_is_no_plain_effect_and_the_other_way_round():
    assert not proposed("remove-effect", "fence.proxy") and not proposed("remove-sync", "st.shared")
    assert not proposed("remove-sync", "add.s32") and not proposed("remove-effect", "add.s32")


def test_what_is_the_same_twice_is_not_doubled():
    assert proposed("duplicate", "mbarrier.arrive") and proposed("duplicate", "bar.sync")
    for opcode in ("fence.proxy", "st.shared", WAIT, "add.s32"):
        assert not proposed("duplicate", opcode), opcode


def test_effects_change_places_with_their_asm_block():
    moved = proposed("move", "fence.proxy")
    assert len(moved) == 2
    for text in moved.values():
        lines = [text_line.strip() for text_line in text.split("\n")]
        arrive = next(n for n, text_line in enumerate(lines) if text_line.startswith("mbarrier.arrive"))
        assert lines.index("fence.proxy.async.shared::cta;") > arrive


@pytest.mark.parametrize(
    ("operator", "opcode", "says"),
    [
        ("parity", WAIT, "xor.b32 %mutated, %r1, 1;"),
        ("count", "mbarrier.init", "add.s32 %mutated, %r2, 1;"),
        ("bytes", "mbarrier.arrive", "sub.s32 %mutated, 128, 16;"),
        ("scope", "fence.proxy", "fence.proxy.async.global"),
        ("scope", WAIT, "try_wait.parity.relaxed.cta"),
        ("immediate", "mov.b32", "mov.b32 %r2, 65;"),
        ("address", "mbarrier.init", "[%r4+8]"),
        ("operand", "sub.s32", "sub.s32 %r6, %r5, %r3;"),
        ("predicate", "bra", "@!%p1 bra"),
        ("predicate", "setp.eq", "setp.ne.s32 %p1"),
        ("rounding", "fma.rn", "fma.rz.f32"),
        ("opcode", "add.s32", "sub.s32 %r3"),
    ],
)
def test_what_is_changed(operator, opcode, says):
    texts = proposed(operator, opcode).values()
    assert any(says in text for text in texts)
    assert not any(says in TEXT for _ in texts)


def test_most_of_what_is_proposed_assembles():
    """A mutant that ptxas refuses says nothing: most must pass it."""
    read = code()
    texts = [
        read.changed(change.lines)
        for propose in OPERATORS.values()
        for at in read.code
        for change in list(propose(read, at))[:2]
    ]
    refused = [text for text in texts if assemble(text, "sm_100a").refused]
    assert len(texts) > 40 and len(refused) < len(texts) / 5


def test_equal_machine_code_is_distinguished_from_other():
    exchanged = TEXT.replace("%r3, %r1, %r2", "%r3, %r2, %r1")
    moved = TEXT.replace(".loc\t1 12 0", ".loc\t1 13 0")
    base = assemble(TEXT, "sm_100a").digest
    assert assemble(exchanged, "sm_100a").digest == base == assemble(moved, "sm_100a").digest
    assert assemble(TEXT.replace("128;", "112;"), "sm_100a").digest != base
    assert "refused" not in assemble(TEXT.replace("add.s32", "add.nothing"), "sm_100a").digest
    assert assemble(TEXT.replace("add.s32", "add.nothing"), "sm_100a").refused


@pytest.mark.parametrize(
    ("does", "refused"),
    [("sleep 1.2; echo > $4", ""), ("while :; do :; done", "1 s of processor time"), ("exit 1", "refused")],
)
def test_ptxas_is_given_processor_time_and_not_the_clock(tmp_path, monkeypatch, does, refused):
    """On a busy machine it may take long: a mutant that it takes is not refused for that."""
    ptxas = tmp_path / "ptxas"
    ptxas.write_text(f"#!/bin/bash\n{does}\n")
    ptxas.chmod(0o755)
    monkeypatch.setattr(assembled, "PROCESSOR_S", 1)
    monkeypatch.setattr(toolchain, "find", lambda: SimpleNamespace(ptxas=ptxas))
    found = assemble(TEXT, "sm_100a")
    assert refused in found.refused and bool(found.refused) == bool(refused) != bool(found.digest)


def test_factors_are_not_exchanged_and_a_summand_is():
    """%f2 %f3 is %f3 %f2; with %f3 and %f4 exchanged another number is added."""
    texts = set(proposed("operand", "fma.rn.f32").values())
    assert any("%f2, %f4, %f3" in text for text in texts)
    assert not any("%f3, %f2, %f4" in text for text in texts)


def test_a_commit_is_moved_before_a_product_and_not_behind_one():
    """Behind products that were issued after it, it covers more."""
    commit = "\ttcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r4];"
    product = "\ttcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p1;"
    fence = "\tfence.proxy.async.shared::cta;"
    for first, second, some in ((commit, product, False), (product, commit, True)):
        read = code(TEXT.replace(fence, f"{first}\n{second}"))
        (at,) = (at for at in read.code if read.lines[at.number - 1] == first)
        assert bool(list(OPERATORS["move"](read, at))) == some


def test_factors_are_not_exchanged_and_a_factor_with_the_addend_is():
    said = [text for text in proposed("operand", "fma.rn") if text.startswith("operands exchanged")]
    assert len(said) == 1
    (text,) = (text for what, text in proposed("operand", "fma.rn").items() if what == said[0])
    assert "fma.rn.f32 %f1, %f2, %f4, %f3;" in text


def test_copies_and_announcements_whose_order_says_nothing_are_not_exchanged():
    """cp.async of a thread are in no order; bytes announced before an arrival keep the phase open as long."""
    fence = "\tfence.proxy.async.shared::cta;"
    copy = "\tcp.async.ca.shared.global [%r4], [%rd1], 4;"
    other = "\tcp.async.ca.shared.global [%r6], [%rd1], 4;"
    track = "\tcp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r4];"
    expect = "\tmbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r4], 64;"
    arrive = "\tmbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r4], 32;"
    for first, second, some in (
        (copy, other, False),
        (copy, track, True),
        (arrive, expect, False),
        (expect, arrive, True),
        (expect, expect.replace("64;", "96;"), False),
    ):
        read = code(TEXT.replace(fence, f"{first}\n{second}"))
        at = next(at for at in read.code if read.lines[at.number - 1] == first)
        assert bool(list(OPERATORS["move"](read, at))) == some, (first, second)


@pytest.mark.parametrize(
    ("second", "proposed"),
    [
        ("st.global.b32 [%rd2], %r2;", False),
        ("st.relaxed.gpu.global.b32 [%rd2], %r2;", False),  # in no order with the first
        ("st.release.gpu.global.b32 [%rd2], %r2;", True),
    ],
)
def test_two_stores_change_places_where_one_tells_of_the_other(second, proposed):
    first = "st.global.b32 [%rd1], %r1;"
    text = TEXT.replace("\t.loc\t1 30 5\n", f"\t.loc\t1 30 5\n\t{first}\n\t{second}\n")
    assert text != TEXT
    found = [change.what for change in OPERATORS["move"](code(text), line("st.global", text))]
    assert bool(found) == proposed
