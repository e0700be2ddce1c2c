# ruff: noqa: E501 - case tables are kept whole
"""The grammar of spellings, and what a module's target and version allow."""

from __future__ import annotations

import pytest
from tileproof.emulator import LaunchError, Module, PtxError, UnsupportedInstruction, isa, registry
from tileproof.emulator.spelling import Forms, Target

from tests.kit.ptx import HEADER, kernel_text

assert isa
SM100A = Target.of("sm_100a", "9.0")


def spellings(text: str) -> set[str]:
    return {spelling for spelling, _ in Forms(text).sample(10**6)}


def test_choices_options_and_nesting() -> None:
    assert spellings("[.ftz].f32; .{s,u}{16,32}") == {".f32", ".ftz.f32", ".s16", ".s32", ".u16", ".u32"}
    assert spellings("[.a[.b]]{.c,.{d,e}}") == {p + q for p in ("", ".a", ".a.b") for q in (".c", ".d", ".e")}
    assert spellings("") == {""}


@pytest.mark.parametrize(
    "text",
    ["[.a", ".{a,b", ".a]", "[.a,.b]", ".a @sm", ".a @sm_100b", ".a @ptx8", "id, mask", "(.a)", ".a @"],
)
def test_what_breaks_the_grammar(text: str) -> None:
    with pytest.raises(ValueError, match=r"forms|requirement"):
        Forms(text)


def test_a_bad_row_names_itself() -> None:
    row = registry.Row("frob", "logic", "[.a,.b]", "modelled", "9.7", "", None)
    with pytest.raises(ValueError, match="the row of frob"):
        row.spellings  # noqa: B018 - the row is parsed when its spellings are asked for


@pytest.mark.parametrize("row", registry.ROWS, ids=lambda row: row.base)
def test_every_row_parses(row: registry.Row) -> None:
    assert row.spellings.any or row.spellings.patterns


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("mul.lo.u32", "mul.lo.u32"), ("mul.u32.lo", None), ("add.f32.ftz.rn", "add.rn.ftz.f32"), ("red.global.v4.f32.add", "red.global.add.v4.f32"),
        ("cvt.f32.f16.rn", None), ("cvt.bf16.rn.f32", "cvt.rn.bf16.f32"), ("cp.async.bulk.bulk_group.global.shared::cta", "cp.async.bulk.global.shared::cta.bulk_group"),
        ("cp.async.bulk.shared::cta.global.bulk_group", None), ("mbarrier.arrive.release.expect_tx.cta.b64", None), ("fence.async.proxy", None),
        ("add.ftz.ftz.f32", None), ("ld.gpu.u32", None), ("ld.relaxed.u32", None), ("ld.volatile.gpu.u32", None), ("tcgen05.alloc.sync.aligned.cta_group::1.b32", "tcgen05.alloc.cta_group::1.sync.aligned.b32"),
    ],
)  # fmt: skip
def test_the_order_of_words(written: str, read: str | None) -> None:
    """As ptxas: modifiers in any order, but the words of the name, types and state spaces keep theirs."""
    found = registry.spell(written, SM100A)
    assert (found.opcode if found else None) == read


@pytest.mark.parametrize(
    ("opcode", "near"),
    [
        ("mul.u32.lo", "mul.lo.u32"), ("add.f32.rnn", "add.f32"), ("mbarrier.arive.b64", "mbarrier.arrive.b64"), ("tcgen05.alloc.sync.aligned.b32", "tcgen05.alloc.cta_group::1.sync.aligned.b32"),
        ("cvt.f32.f16.rn", "cvt.rn.f16.f32"), ("shl.u32", "shl.b32"), ("frobnicate", ""),
    ],
)  # fmt: skip
def test_the_nearest_spelling(opcode: str, near: str) -> None:
    assert registry.nearest(opcode) == near
    if near:
        assert registry.spell(near, SM100A)


def test_an_unknown_spelling_is_refused_with_the_nearest() -> None:
    module = Module.from_ptx(kernel_text("mul.u32.lo %r1, %r2, %r3;"))
    with pytest.raises(UnsupportedInstruction, match=r"mul\.u32\.lo.*mul\.lo\.u32"):
        module.decode("k")


@pytest.mark.parametrize(
    ("target", "requirement", "met"),
    [
        ("sm_100a 8.6", "sm_100a", True), ("sm_100f 8.8", "sm_100a", True), ("sm_103a 8.8", "sm_100a", True), ("sm_100 8.6", "sm_100a", False), ("sm_120a 8.8", "sm_100a", False),
        ("sm_90a 8.0", "sm_100a", False), ("sm_90a 8.0", "sm_90", True), ("sm_80 8.0", "sm_90", False), ("sm_90a 8.0", "sm_90a|sm_100a", True), ("sm_100a 8.6", "sm_90a|sm_100a", True),
        ("sm_100 9.0", "sm_90a|sm_100a", False), ("sm_103a 8.8", "=sm_100a", False), ("sm_100a 8.8", "=sm_100a", True), ("sm_100a 8.6", "ptx8.7", False), ("sm_100a 10.1", "ptx8.7", True),
        ("sm_100a, debug 8.6", "sm_100a", True),
    ],
)  # fmt: skip
def test_requirements(target: str, requirement: str, met: bool) -> None:
    name, version = target.rsplit(" ", 1)
    assert Target.of(name, version).meets(requirement) is met


def decode(target: str, version: str, line: str) -> None:
    text = kernel_text(line).replace(HEADER, f".version {version}\n.target {target}\n.address_size 64\n")
    Module.from_ptx(text).decode("k")


@pytest.mark.parametrize(
    ("target", "version", "line", "says"),
    [
        ("sm_90a", "8.6", "tcgen05.wait::ld.sync.aligned;", ("sm_100a", "sm_90a")), ("sm_100", "8.6", "tcgen05.wait::ld.sync.aligned;", ("sm_100a", "a module for sm_100,")),
        ("sm_80", "8.0", "barrier.cluster.arrive;", ("sm_90", "sm_80")), ("sm_90", "7.8", "elect.sync %r1|%p1, -1;", ("PTX 8.0", "PTX 7.8")),
        ("sm_89a", "8.6", "add.u32 %r1, %r2, %r3;", ("another target", "sm_89a")), ("sm_107a", "9.4", "add.u32 %r1, %r2, %r3;", ("another target", "sm_107a")),
        ("sm_120a", "8.8", "tcgen05.wait::ld.sync.aligned;", ("sm_100a", "sm_120a")), ("sm_107a", "9.3", "add.u32 %r1, %r2, %r3;", ("no target sm_107a", "9.4")),
        ("sm_100a", "9.4", "mbarrier.arrive.expect_tx.shared::cluster.multicast::cluster::32b.b64 _, [%r1], 4, %r2;", ("sm_107a", "a module for sm_100a")),
        ("sm_100a", "9.4", "mbarrier.arrive.release.cluster.shared::cluster.multicast::cluster::32b.b64 _, [%r1], %r2;", ("sm_107a", "a module for sm_100a")),
        ("sm_100a", "9.4", "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster::32b [%r1], [%rd1, {%r2}], [%r1], %r3;", ("sm_107a", "a module for sm_100a")),
        ("sm_100a", "8.0", "add.u32 %r1, %r2, %r3;", ("no target sm_100a", "8.6")), ("sm_100f", "8.7", "add.u32 %r1, %r2, %r3;", ("no target sm_100f", "8.8")),
        ("sm_x", "8.7", "add.u32 %r1, %r2, %r3;", (".target", "sm_x")), ("100a", "8.7", "add.u32 %r1, %r2, %r3;", (".target", "100a")), ("sm_100a", "eight", "ret;", (".version", "eight")),
    ],
)  # fmt: skip
def test_a_module_for_another_target_says_which(
    target: str, version: str, line: str, says: tuple[str, ...]
) -> None:
    with pytest.raises(PtxError) as error:
        decode(target, version, line)
    assert all(word in str(error.value) for word in says)


@pytest.mark.parametrize(
    ("target", "version"),
    [
        ("sm_100a", "8.6"),
        ("sm_100f", "8.8"),
        ("sm_103a", "9.1"),
        ("sm_103f", "9.0"),
        ("sm_100a, debug", "8.6"),
    ],
)
def test_the_family_of_sm100_decodes(target: str, version: str) -> None:
    decode(target, version, "tcgen05.wait::ld.sync.aligned;")


@pytest.mark.parametrize("target", ["sm_120", "sm_120a", "sm_120f", "sm_121a"])
def test_modules_for_sm120_decode_and_have_its_shared_memory(target: str) -> None:
    text = f".version 9.5\n.target {target}\n.address_size 64\n.visible .entry k()\n{{\nret;\n}}\n"
    module = Module.from_ptx(text)
    module.launch("k", grid=(1,), block=(1,), shared_bytes=99 * 1024)
    with pytest.raises(LaunchError, match="at most 101376 bytes"):
        module.launch("k", grid=(1,), block=(1,), shared_bytes=99 * 1024 + 1)
    if target.endswith("a"):
        decode(target, "9.5", "setmaxnreg.inc.sync.aligned.u32 232;")


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100", "sm_103"])
def test_generic_targets_decode(target: str) -> None:
    decode(target, "9.0", "add.u32 %r1, %r2, %r3;")


def test_a_module_without_a_target_is_refused_as_ptxas_does() -> None:
    with pytest.raises(PtxError, match=r"no \.target"):
        Module.from_ptx(".version 8.8\n.visible .entry k()\n{\nret;\n}\n")
    Module.from_ptx(".version 8.8 .target sm_100a .address_size 64 .visible .entry k() { ret; }").decode("k")
