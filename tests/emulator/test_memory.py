# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""ld and st in every space and width, generic addresses of the own and the peer CTA, cvta, mapa, module variables."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import PtxError, UnsupportedInstruction

from tests.kit.ptx import CLUSTER_SYNC, Memory, clean, kernel_text, only, outputs, parsed, run, store

COVERS = (
    "ld st cvta mapa prefetch prefetchu applypriority discard fence membar nanosleep pmevent griddepcontrol"
)

WIDTHS = [("b8", 1, 1), ("b16", 2, 1), ("b32", 4, 1), ("b64", 8, 1), ("b16", 2, 2), ("b16", 2, 4), ("b32", 4, 2), ("b32", 4, 4),
          ("b64", 8, 2), ("b32", 4, 8), ("b64", 8, 4), ("b8", 1, 4), ("f32", 4, 4), ("b128", 16, 1)]  # fmt: skip
PREFIX = {1: "%h", 2: "%h", 4: "%r", 8: "%rd", 16: "%q"}


def copy_through(space: str, type_: str, size: int, count: int, window: str = "") -> np.ndarray:
    """Each thread moves `count` elements: global -> registers -> `space` -> registers -> global."""
    registers = [f"{PREFIX[size]}{10 + i}" if size < 16 else f"%q{i}" for i in range(count)]
    other = [f"{PREFIX[size]}{20 + i}" if size < 16 else f"%q{2 + i}" for i in range(count)]
    operands = ", ".join(registers) if count == 1 else "{" + ", ".join(registers) + "}"
    stored = ", ".join(other) if count == 1 else "{" + ", ".join(other) + "}"
    vector = f".v{count}" if count > 1 else ""
    total = size * count
    at = {"global": "%rd3", "shared": "%r4", "shared::cta": "%r4", "local": "%r5", "": "%rd4"}[space]
    body = f"""
    .local .align 32 .b8 spill[64];
    .shared .align 32 .b8 tile[1024];
    mad.wide.u32 %rd1, %t, {total}, %a1;
    mad.wide.u32 %rd2, %t, {total}, %a0;
    mad.wide.u32 %rd3, %t, {total}, %a2;
    mov.u32 %r4, tile; mad.lo.u32 %r4, %t, {total}, %r4;
    mov.u32 %r5, spill; add.u32 %r5, %r5, 32;
    mov.u64 %rd4, tile; {window} mad.wide.u32 %rd4, %t, {total}, %rd4;
    ld.global{vector}.{type_} {operands}, [%rd1];
    st{"." + space if space else ""}{vector}.{type_} [{at}], {operands};
    ld{"." + space if space else ""}{vector}.{type_} {stored}, [{at}];
    st.global{vector}.{type_} [%rd2], {stored};"""
    data = np.random.default_rng(size * count).integers(0, 256, 32 * total, dtype=np.uint8)
    memory = Memory()
    out, scratch = memory.empty(data.shape, np.uint8), memory.empty(data.shape, np.uint8)
    clean(run(body, [out, memory.buffer(data), scratch], memory=memory))
    assert (out.numpy() == data).all()
    return out.numpy()


@pytest.mark.parametrize(("type_", "size", "count"), WIDTHS)
@pytest.mark.parametrize("space", ["global", "shared", "shared::cta", "local"])
def test_spaces_and_widths(space: str, type_: str, size: int, count: int) -> None:
    if size * count == 32 and space != "global":  # as ptxas: 32 bytes per thread are for global memory
        with pytest.raises(UnsupportedInstruction, match="no known spelling"):
            copy_through(space, type_, size, count)
        return
    copy_through(space, type_, size, count)


def test_generic_access_of_shared_memory() -> None:
    copy_through("", "b32", 4, 4, "cvta.shared.u64 %rd4, %rd4;")


def test_extension_into_wider_registers() -> None:
    data = np.array([0x80, 0x7F, 0xFF, 0x01] * 8, np.uint8)
    body = """
    cvt.u64.u32 %rd1, %t; add.u64 %rd1, %rd1, %a1;
    ld.global.s8 %r1, [%rd1]; ld.global.u8 %r2, [%rd1]; ld.global.s8 %rd5, [%rd1]; ld.global.b8 %h1, [%rd1];
    cvt.u32.u64 %r3, %rd5; cvt.u32.u16 %r4, %h1;
    xor.b32 %r5, %r1, %r3; add.u32 %r5, %r5, %r2; add.u32 %r5, %r5, %r4; sub.u32 %r5, %r5, %r1;
    """
    got = outputs(body + store("%r5"), extra=[data])
    signed = data.view(np.int8).astype(np.int64)
    assert (got == (2 * data.astype(np.int64) - signed) % 2**32).all()


def test_st_narrows_and_sinks_skip() -> None:
    data = np.arange(64, dtype=np.uint32)
    body = """
    mad.wide.u32 %rd1, %t, 8, %a1; ld.global.v2.b32 {_, %r2}, [%rd1];
    mov.u32 %r3, 0xABCD00; add.u32 %r2, %r2, %r3;
    cvt.u64.u32 %rd2, %t; add.u64 %rd2, %rd2, %a0; st.global.u8 [%rd2], %r2;"""
    assert (outputs(body, dtype=np.uint8, extra=[data]) == data[1::2]).all()


def test_literals_and_displacements() -> None:
    body = """
    .shared .align 16 .b32 words[8];
    st.shared.v4.b32 [words+16], {1, 2, 3, 4}; st.shared.f32 [words], 0f3F800000; st.shared.b32 [words+4], -1;
    mov.u32 %r9, words; ld.shared.v2.b32 {%r1, %r2}, [%r9+24]; ld.shared.b32 %r3, [%r9]; ld.shared.b32 %r4, [words+4];
    add.u32 %r1, %r1, %r2; xor.b32 %r1, %r1, %r3; xor.b32 %r1, %r1, %r4;"""
    assert (outputs(body + store("%r1")) == 7 ^ 0x3F800000 ^ 0xFFFFFFFF).all()


def test_parameters_by_value() -> None:
    text = kernel_text("", [False]).replace(
        ".param .u64 p0", ".param .u64 p0, .param .align 8 .b8 s[24], .param .u16 h, .param .f32 f"
    )
    body = """
    ld.param.v2.u32 {%r1, %r2}, [s+8]; ld.param.u64 %rd1, [s+16]; ld.param.u16 %h1, [h]; ld.param.f32 %f1, [f];
    mov.b64 %rd2, s; cvta.param.u64 %rd2, %rd2; ld.u32 %r3, [%rd2];
    st.global.v2.b32 [%a0], {%r1, %r2}; st.global.u64 [%a0+8], %rd1; st.global.u16 [%a0+16], %h1; st.global.f32 [%a0+20], %f1;
    st.global.u32 [%a0+24], %r3;"""
    memory = Memory()
    out = memory.empty(28, np.uint8)
    struct = np.arange(24, dtype=np.uint8)
    clean(
        parsed(text.replace("mov.u32 %t, %tid.x;\n", "mov.u32 %t, %tid.x;\n" + body)).launch(
            "k", grid=(1,), block=(1,), args=[out, struct.tobytes(), 0xBEEF, 1.5], memory=memory
        )
    )
    got = out.numpy()
    assert (
        (got[:16] == struct[8:24]).all()
        and got[16:18].tobytes() == b"\xef\xbe"
        and got[20:24].view(np.float32)[0] == 1.5
    )
    assert (got[24:] == struct[:4]).all()


def test_module_variables() -> None:
    module = """
    .const .align 4 .b32 table[4] = {10, 20, 0x1E, 40};
    .global .align 4 .f32 half = 0.5;
    .global .align 8 .u64 pointer[2] = {table, generic(half)};
    .global .align 1 .b8 text[4] = {104, 105, 33, 0};
    .shared .align 128 .b8 tile[256];
    .extern .shared .align 1024 .b8 dynamic[];
    """
    body = f"""
    and.b32 %r1, %t, 3; mad.wide.u32 %rd1, %r1, 4, 0; mov.u64 %rd2, table; add.u64 %rd2, %rd2, %rd1; ld.const.u32 %r2, [%rd2];
    ld.global.f32 %r3, [half]; ld.global.u64 %rd3, [pointer+8]; ld.f32 %r4, [%rd3]; xor.b32 %r4, %r3, %r4; sub.u32 %r3, %r3, 0x3F000000; add.u32 %r3, %r3, %r4;
    ld.global.u8 %r5, [text+1]; add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r5;
    mov.u32 %r6, dynamic; and.b32 %r7, %r6, 1023; add.u32 %r2, %r2, %r7;
    mov.u32 %r8, tile; and.b32 %r7, %r8, 127; add.u32 %r2, %r2, %r7;
    {store("%r2")}"""
    got = outputs(body, module=module, shared_bytes=2048)
    assert (got == np.array([10, 20, 30, 40])[np.arange(32) % 4] + 105).all()


def test_an_initialiser_that_is_no_symbol_is_an_error() -> None:
    with pytest.raises(PtxError, match="nowhere"):
        run("", module=".global .u64 pointer = nowhere;")


def test_globals_live_as_long_as_the_module() -> None:
    text = kernel_text("ld.global.u32 %r1, [n]; add.u32 %r1, %r1, 1; st.global.u32 [n], %r1; st.global.u32 [%a0], %r1;", [False],
                       ".global .u32 n = 5;")  # fmt: skip
    from tileproof.emulator import Module

    module = Module.from_ptx(text)
    for want in (6, 7):
        memory = Memory()
        out = memory.empty(1, np.uint32)
        clean(module.launch("k", grid=(1,), block=(1,), args=[out], memory=memory))
        assert out.numpy()[0] == want


@pytest.mark.parametrize("how", ["mapa32", "mapa64", "generic", "bit24"])
def test_the_peer_s_shared_memory(how: str) -> None:
    """Each CTA of 4 writes its rank; it reads its peer's (rank ^ 1) word through one of the ways to name it."""
    ways = {
        "mapa32": "mapa.shared::cluster.u32 %r5, %r1, %r3; ld.shared::cluster.u32 %r6, [%r5];",
        "mapa64": "mov.u64 %rd1, word; cvta.shared.u64 %rd1, %rd1; mapa.u64 %rd2, %rd1, %r3; ld.u32 %r6, [%rd2];",
        "generic": "mov.u64 %rd1, word; cvta.shared.u64 %rd1, %rd1; xor.b64 %rd2, %rd1, 0x1000000; ld.u32 %r6, [%rd2];",
        "bit24": "xor.b32 %r5, %r1, 0x1000000; ld.shared::cluster.u32 %r6, [%r5];",
    }
    body = f"""
    .shared .b32 word;
    mov.u32 %r1, word; mov.u32 %r2, %cluster_ctarank; xor.b32 %r3, %r2, 1; add.u32 %r4, %r2, 100;
    st.shared.u32 [word], %r4;
    {CLUSTER_SYNC}
    {ways[how]}
    {CLUSTER_SYNC}
    {store("%r6", "%r2")}
    mad.lo.u32 %r7, %r2, 1, 4; {store("%r1", "%r7")}"""
    got = outputs(body, 8, cluster=4, threads=1)
    assert got[:4].tolist() == [101, 100, 103, 102]
    assert got[4:].tolist() == [
        0x400,
        0x1000400,
        0x2000400,
        0x3000400,
    ]  # as seen on silicon (facts, section 14)


def test_writing_the_peer_s_shared_memory() -> None:
    body = f"""
    .shared .b32 word;
    mov.u32 %r1, word; mov.u32 %r2, %cluster_ctarank; xor.b32 %r3, %r2, 1;
    {CLUSTER_SYNC}
    mapa.shared::cluster.u32 %r5, %r1, %r3; add.u32 %r4, %r2, 50; st.shared::cluster.u32 [%r5], %r4;
    {CLUSTER_SYNC}
    ld.shared.u32 %r6, [word];
    {store("%r6", "%r2")}"""
    assert outputs(body, 2, cluster=2, threads=1).tolist() == [51, 50]


def test_cvta_both_ways_and_bit_24_of_the_even_cta() -> None:
    """Clearing bit 24 of a shared::cluster address names the even CTA of the pair (CUTLASS Sm100MmaPeerBitMask)."""
    body = f"""
    .shared .b32 word;
    mov.u64 %rd1, word; cvta.shared.u64 %rd2, %rd1; cvta.to.shared.u64 %rd3, %rd2; sub.u64 %rd4, %rd3, %rd1; cvt.u32.u64 %r7, %rd4;
    cvta.to.global.u64 %rd5, %a0; sub.u64 %rd5, %rd5, %a0; cvt.u32.u64 %r8, %rd5; or.b32 %r7, %r7, %r8;
    mov.u32 %r2, %cluster_ctarank; st.shared.u32 [word], %r2;
    {CLUSTER_SYNC}
    mov.u32 %r1, word; and.b32 %r5, %r1, 0xFEFFFFFF; ld.shared::cluster.u32 %r6, [%r5];
    {CLUSTER_SYNC}
    add.u32 %r6, %r6, %r7; {store("%r6", "%r2")}"""
    assert outputs(body, 4, cluster=4, threads=1).tolist() == [0, 0, 2, 2]


def test_local_memory_is_private_and_generic() -> None:
    body = f"""
    .local .align 8 .b8 mine[16];
    mov.u64 %rd1, mine; cvta.local.u64 %rd1, %rd1;
    st.u32 [%rd1+4], %t;
    ld.local.u32 %r1, [mine+4];
    {store("%r1")}"""
    assert (outputs(body) == np.arange(32)).all()


def test_orderings_and_hints_change_no_value() -> None:
    body = """
    mad.wide.u32 %rd1, %t, 4, %a1;
    ld.global.nc.L1::no_allocate.L2::128B.u32 %r1, [%rd1]; ld.relaxed.gpu.global.u32 %r2, [%rd1]; ld.volatile.global.u32 %r3, [%rd1];
    ld.acquire.sys.global.u32 %r4, [%rd1]; ld.weak.global.ca.u32 %r5, [%rd1];
    prefetch.global.L2 [%rd1]; prefetchu.L1 [%rd1]; applypriority.global.L2::evict_normal [%rd1], 128; discard.global.L2 [%a1], 128;
    fence.proxy.async.shared::cta; fence.acq_rel.cluster; fence.mbarrier_init.release.cluster; membar.gl; nanosleep.u32 20;
    griddepcontrol.wait; griddepcontrol.launch_dependents; pmevent 1;
    prefetch.global.L2::evict_last [%rd1]; prefetch.L2::evict_normal [%rd1]; fence.proxy.alias; membar.proxy.alias;
    fence.acquire.sync_restrict::shared::cluster.cluster; fence.release.sync_restrict::shared::cta.cluster;
    fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster; fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;
    add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3; add.u32 %r1, %r1, %r4; add.u32 %r1, %r1, %r5;
    mad.wide.u32 %rd39, %t, 4, %a0; st.release.gpu.global.u32 [%rd39], %r1;"""
    assert (outputs(body, extra=[np.arange(32, dtype=np.uint32)]) == 5 * np.arange(32)).all()


@pytest.mark.parametrize("line", ["ld.global.v8.b64 {%rd1, %rd2, %rd3, %rd4, %rd5, %rd6, %rd7, %rd8}, [%a0];", "ld.texture.b32 %r1, [%a0];",
                                  "ld.global.v3.b32 {%r1, %r2, %r3}, [%a0];", "st.param.u32 [p0], %r1;", "cvta.shared.u32 %r1, %r2;",
                                  "ld.global.v2.b128 {%q0, %q1}, [%a0];", "st.async.weak.shared::cluster.b32 [%r1], %r2, [%r3];"])  # fmt: skip
def test_other_forms_are_refused(line: str) -> None:
    with pytest.raises(UnsupportedInstruction):
        outputs(line)


@pytest.mark.parametrize("line", ["ld.global.v2.b32 {%r1, %rd2}, [%a0];", "ld.global.v2.b32 {%rd1, %r2}, [%a0];", "ld.global.b64 %r1, [%a0];",
                                  "st.global.v2.b32 [%a0], {%rd1, %r2};", "st.global.b64 [%a0], %r1;", "ld.global.b64 %q1, [%a0];",
                                  "ld.global.b32 %r1, [%h1];", "ld.global.b32 %r1, [%a0, {%r1}];"])  # fmt: skip
def test_registers_that_do_not_fit(line: str) -> None:
    with pytest.raises(PtxError):
        outputs(line)


@pytest.mark.parametrize(
    ("line", "code"),
    [("ld.param.u64 %rd2, [%rd1];", "param-out-of-bounds"), ("ld.local.u64 %rd2, [%rd1];", "local-out-of-bounds"),
     ("st.local.u64 [%rd1], %rd1;", "local-out-of-bounds"), ("ld.shared.u64 %rd2, [%rd1];", "shared-wrong-window"),
     ("ld.u64 %rd2, [%rd1];", "global-out-of-bounds")],
)  # fmt: skip
def test_addresses_near_2_to_the_64_wrap_nowhere(line: str, code: str) -> None:
    only(run(f".local .b8 x[8];\nmov.u64 %rd1, 0xFFFFFFFFFFFFFFF8;\n{line}", [1]), code)
