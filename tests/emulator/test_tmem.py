# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Tensor memory: allocation, ld and st of all shapes, against spec.machine.tmem."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import Schedule, UnsupportedInstruction, _engine
from tileproof.spec.machine import tmem

from tests.kit.ptx import (
    CLUSTER_SYNC,
    POLICIES,
    Memory,
    alloc,
    clean,
    codes,
    dealloc,
    only,
    run,
    used,
)

COVERS = (
    "tcgen05.alloc tcgen05.dealloc tcgen05.relinquish_alloc_permit tcgen05.ld tcgen05.st "
    "tcgen05.wait::ld tcgen05.wait::st tcgen05.commit tcgen05.fence::before_thread_sync "
    "tcgen05.fence::after_thread_sync"
)

SHAPES = ["32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"]
COUNTS = [(s, n) for s in SHAPES for n in (1, 2, 4, 8, 16, 32, 64, 128) if n <= tmem._REGISTERS[s][1]]
WIDE = "{" + ", ".join(f"%v{i}" for i in range(128)) + "}"
# A warp's quarter of a 512-column TMEM, 128 columns at a time: cell (lane, column) <-> word lane * 512 + column of %a1.
SLOT = 1024 + 64


def registers(count: int, name: str = "%v") -> str:
    return "{" + ", ".join(f"{name}{i}" for i in range(count)) + "}"


def fill(columns: int = 512) -> str:
    """Every cell gets lane << 16 | column."""
    lines = [
        ".reg .b32 %v<128>; and.b32 %r50, %r101, 3; shl.b32 %r50, %r50, 21; add.u32 %r51, %r100, %r50; and.b32 %r52, %t, 127; shl.b32 %r52, %r52, 16;"
    ]
    for first in range(0, columns, 128):
        lines += [f"add.u32 %v{i}, %r52, {first + i};" for i in range(min(128, columns))]
        lines.append(
            f"tcgen05.st.sync.aligned.32x32b.x{min(128, columns)}.b32 [%r51+{first}], {registers(min(128, columns))};"
        )
    return "\n".join([*lines, "tcgen05.wait::st.sync.aligned;"])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("second", [0, 5])
def test_the_engine_s_map_is_the_specification_s(shape: str, second: int) -> None:
    code = SHAPES.index(shape)
    second = second if shape == "16x32bx2" else 0
    num = tmem._REGISTERS[shape][1]
    for i in range(tmem.registers(shape, num)):
        for t in range(32):
            lane, column = tmem.register_cell(shape, num, t, i, second)
            assert _engine.tmem_place(code, t, i, second) == (int(lane), int(column))


@pytest.mark.parametrize(("shape", "num"), COUNTS)
def test_ld(shape: str, num: int) -> None:
    """4 warps read their quarters (the 16-lane shapes also the upper half) of coordinates."""
    count = tmem.registers(shape, num)
    second = f", {max(40, num)}" if shape == "16x32bx2" else ""
    memory = Memory()
    halves = (0,) if shape == "32x32b" else (0, 16)
    out = memory.empty((len(halves), 128, count), np.uint32)
    reads = []
    for h, half in enumerate(halves):
        reads.append(f"""
        add.u32 %r53, %r51, {half << 16 | 3};
        tcgen05.ld.sync.aligned.{shape}.x{num}.b32 {registers(count)}, [%r53]{second};
        tcgen05.wait::ld.sync.aligned;
        mad.wide.u32 %rd1, %t, {4 * count}, %a0; add.u64 %rd1, %rd1, {h * 512 * count};""")
        reads += [f"st.global.u32 [%rd1+{4 * i}], %v{i};" for i in range(count)]
    body = f"{alloc(512)}\n{fill()}\n{''.join(reads)}\n{dealloc(512)}"
    for schedule in POLICIES[:2]:
        clean(run(body, [out], memory=memory, threads=128, shared_bytes=256, schedule=schedule))
        t, i = np.arange(32)[:, None], np.arange(count)[None, :]
        lane, column = tmem.register_cell(shape, num, t, i, max(40, num) if second else 0)
        for h, half in enumerate(halves):
            for warp in range(4):
                want = (32 * warp + half + lane) << 16 | (column + 3)
                assert (out.numpy()[h, 32 * warp : 32 * warp + 32] == want).all()


@pytest.mark.parametrize(("shape", "num"), COUNTS)
def test_st(shape: str, num: int) -> None:
    """One warp stores its register numbers over coordinates; a 32x32b read shows which cells changed, and how."""
    count = tmem.registers(shape, num)
    second = f", {max(40, num)}" if shape == "16x32bx2" else ""
    memory = Memory()
    out = memory.empty((32, 384), np.uint32)
    reads = []
    for first in range(0, 384, 128):
        reads.append(
            f"tcgen05.ld.sync.aligned.32x32b.x128.b32 {WIDE}, [%r51+{first}]; tcgen05.wait::ld.sync.aligned; mad.wide.u32 %rd1, %t, 1536, %a0;"
        )
        reads += [f"st.global.u32 [%rd1+{4 * (first + i)}], %v{i};" for i in range(128)]
    values = "\n".join(f"mad.lo.u32 %v{i}, %t, 1000, {i + 0x1000000};" for i in range(count))
    body = f"""{alloc(512)}\n{fill()}\n{values}
    tcgen05.st.sync.aligned.{shape}.x{num}.b32 [%r51+2]{second}, {registers(count)};
    tcgen05.wait::st.sync.aligned;
    {" ".join(reads)}
    {dealloc(512)}"""
    for schedule in (POLICIES[0], POLICIES[1]):
        clean(run(body, [out], memory=memory, threads=32, shared_bytes=256, schedule=schedule))
        want = np.arange(32, dtype=np.uint32)[:, None] << 16 | np.arange(384, dtype=np.uint32)[None, :]
        t, i = np.arange(32)[:, None], np.arange(count)[None, :]
        lane, column = tmem.register_cell(shape, num, t, i, max(40, num) if second else 0)
        want[lane, column + 2] = 1000 * t + i + 0x1000000
        assert (out.numpy() == want).all()


PACKED = [(s, n) for s, n in COUNTS if tmem.registers(s, n) <= 64 and n in (1, 2, 8, 32)]


@pytest.mark.parametrize(("shape", "num"), PACKED)
def test_ld_pack_16b(shape: str, num: int) -> None:
    """Twice the columns: a register is the low halves of two neighbouring cells."""
    count, split = tmem.registers(shape, num), 2 * num + 6
    second = f", {split}" if shape == "16x32bx2" else ""
    memory = Memory()
    out = memory.empty((32, count), np.uint32)
    body = f"""{alloc(512)}\n{fill()}
    tcgen05.ld.sync.aligned.{shape}.x{num}.pack::16b.b32 {registers(count)}, [%r51+4]{second}; tcgen05.wait::ld.sync.aligned;
    mad.wide.u32 %rd1, %t, {4 * count}, %a0;
    {" ".join(f"st.global.u32 [%rd1+{4 * i}], %v{i};" for i in range(count))}
    {dealloc(512)}"""
    # A cell's low half is its column: the lane shows in the upper half, so it is moved there for this test.
    body = body.replace("shl.b32 %r52, %r52, 16;", "shl.b32 %r52, %r52, 9;")
    for schedule in POLICIES[:2]:
        clean(run(body, [out], memory=memory, shared_bytes=256, schedule=schedule))
        lane, first = tmem.packed_cell(shape, num, np.arange(32)[:, None], np.arange(count)[None, :], split)
        assert (out.numpy() == (lane * 512 + first + 4 | (lane * 512 + first + 5) << 16)).all()


@pytest.mark.parametrize(("shape", "num"), PACKED)
def test_st_unpack_16b(shape: str, num: int) -> None:
    """Each register's halves go to the low halves of two neighbouring cells; other cells keep what they hold."""
    count, split = tmem.registers(shape, num), 2 * num + 6
    second = f", {split}" if shape == "16x32bx2" else ""
    memory = Memory()
    out = memory.empty((32, 512), np.uint32)
    values = "\n".join(f"mad.lo.u32 %v{i}, %t, 70000, {i * 0x10003 + 0x12345}; " for i in range(count))
    reads = []
    for first in range(0, 512, 128):
        reads.append(
            f"tcgen05.ld.sync.aligned.32x32b.x128.b32 {WIDE}, [%r51+{first}]; tcgen05.wait::ld.sync.aligned; mad.wide.u32 %rd1, %t, 2048, %a0;"
        )
        reads += [f"st.global.u32 [%rd1+{4 * (first + i)}], %v{i};" for i in range(128)]
    body = f"""{alloc(512)}\n{fill()}\n{values}
    tcgen05.st.sync.aligned.{shape}.x{num}.unpack::16b.b32 [%r51+2]{second}, {registers(count)};
    tcgen05.wait::st.sync.aligned;
    {" ".join(reads)}
    {dealloc(512)}"""
    for schedule in POLICIES[:2]:
        clean(run(body, [out], memory=memory, threads=32, shared_bytes=256, schedule=schedule))
        want = np.arange(32, dtype=np.int64)[:, None] << 16 | np.arange(512)[None, :]
        t, i = np.arange(32)[:, None], np.arange(count)[None, :]
        value = 70000 * t + i * 0x10003 + 0x12345
        at, column = tmem.packed_cell(shape, num, t, i, split)
        touched = np.zeros((32, 512), bool)
        for half in range(2):
            want[at, column + 2 + half] = value >> 16 * half & 0xFFFF
            touched[at, column + 2 + half] = True
        mask = np.where(touched, 0xFFFF, 0xFFFFFFFF)  # what stands above the halves is not defined
        assert (out.numpy() & mask == want & mask).all()


def test_an_unpacking_store_without_its_wait() -> None:
    """Every cell that it writes is pending, also the second of a register."""
    body = f"{alloc(64)}\ntcgen05.st.sync.aligned.32x32b.x1.unpack::16b.b32 [%r100+4], {{%r1}};\n@@{LD1}, [%r100+5];\ntcgen05.wait::ld.sync.aligned;\nadd.u32 %r2, %r1, 1;\n{dealloc(64)}"
    only(run(body.replace("@@", ""), shared_bytes=256, schedule=POLICIES[1]), "tmem-pending")
    right = body.replace("@@", "tcgen05.wait::st.sync.aligned;\n")
    for schedule in POLICIES:
        clean(run(right, shared_bytes=256, schedule=schedule))


@pytest.mark.parametrize("schedule", POLICIES)
def test_allocation_in_pieces(schedule: Schedule) -> None:
    """Pieces do not overlap, a blocked alloc goes on after a dealloc, and after relinquish none is legal."""
    memory = Memory()
    out = memory.empty(4, np.uint32)
    body = f"""
    setp.ge.u32 %p1, %t, 32; @%p1 bra OTHER;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [{SLOT}], 256;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [{SLOT + 4}], 256;
    bar.sync 1, 64; ld.shared.u32 %r1, [{SLOT}]; ld.shared.u32 %r2, [{SLOT + 4}];
    st.global.u32 [%a0], %r1; st.global.u32 [%a0+4], %r2;
    mov.u32 %r9, 0; SPIN: add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 100; @%p2 bra SPIN;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 256; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 256; bra.uni END;
    OTHER: bar.sync 1, 64;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [{SLOT + 8}], 128;
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
    ld.shared.u32 %r3, [{SLOT + 8}]; st.global.u32 [%a0+8], %r3; st.global.u32 [%a0+12], 0;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 128;
    END:"""
    clean(run(body, [out], memory=memory, threads=64, shared_bytes=256, schedule=schedule))
    assert sorted(out.numpy()[:2].tolist()) == [0, 256] and out.numpy()[2] % 32 == 0


def test_random_schedules_give_non_zero_bases() -> None:
    bases = set()
    memory = Memory()
    out = memory.empty(1, np.uint32)
    for seed in range(12):
        clean(
            run(
                f"{alloc(64)}\nst.global.u32 [%a0], %r100;\n{dealloc(64)}",
                [out],
                memory=memory,
                shared_bytes=256,
                schedule=Schedule("random", seed),
            )
        )
        bases.add(int(out.numpy()[0]))
    assert len(bases) > 3 and all(b % 32 == 0 and b <= 448 for b in bases)


@pytest.mark.parametrize("schedule", POLICIES)
def test_pairs_allocate_together(schedule: Schedule) -> None:
    memory = Memory()
    out = memory.empty(2, np.uint32)
    body = f"""
    mov.u32 %r20, %cluster_ctarank; setp.eq.u32 %p1, %r20, 0; @%p1 bra FAST;
    mov.u32 %r9, 0; SLOW: add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 30000; @%p2 bra SLOW;
    FAST: {alloc(128, group=2)}
    tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
    mad.wide.u32 %rd1, %r20, 4, %a0; st.global.u32 [%rd1], %r100;
    {CLUSTER_SYNC} {dealloc(128, group=2)}"""
    clean(run(body, [out], memory=memory, cluster=2, shared_bytes=256, schedule=schedule))
    assert out.numpy()[0] == out.numpy()[1]


def test_a_pair_whose_second_allocation_never_fits_hangs() -> None:
    body = f"{alloc(512, group=2)}\n{alloc(512, group=2)}"
    finding = only(run(body, cluster=2, shared_bytes=256), "hang")
    assert {w.waits_for for w in finding.machine.waiting} == {"free TMEM columns"}


ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"
LD1 = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (f"{ALLOC} [{SLOT}], 48;", "tmem-alloc"), (f"{ALLOC} [{SLOT}], 16;", "tmem-alloc"), (f"{ALLOC} [{SLOT}], 1024;", "tmem-alloc"),
        (f"{alloc(32)}\n{ALLOC} [{SLOT}], 64;", "tmem-alloc"),
        (f"{alloc(32)}\ntcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n{ALLOC} [{SLOT}], 32;", "tmem-alloc"),
        (f"{ALLOC} [{SLOT + 1}], 32;", "misaligned"),
        (f"{alloc(64)}\ntcgen05.dealloc.cta_group::1.sync.aligned.b32 %r100, 32;", "tmem-dealloc"),
        (f"{alloc(64)}\ntcgen05.dealloc.cta_group::1.sync.aligned.b32 32, 64;", "tmem-dealloc"),
        (alloc(64), "tmem-leak"),
        (f"{alloc(64)}\n{LD1}, [64];", "tmem-not-allocated"),
        (f"{alloc(64)}\ntcgen05.ld.sync.aligned.16x32bx2.x1.b32 {{%r1}}, [0], 64;", "tmem-not-allocated"),
        (f"{LD1}, [0];", "tmem-not-allocated"),
        (f"{alloc(64)}\ntcgen05.st.sync.aligned.32x32b.x1.b32 [63], {{%r1}};\n{LD1}, [600];", "tmem-not-allocated"),
        (f"{alloc(64)}\n{LD1}, [%t];", "tmem-address-uniform"),
        (f"{alloc(64)}\ntcgen05.st.sync.aligned.32x32b.x1.b32 [%t], {{%r1}};", "tmem-address-uniform"),
        (f"{alloc(64)}\n{LD1}, [3];\ntcgen05.wait::ld.sync.aligned;\n{used('%r1')}", "tmem-uninitialised"),
        ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [4096], 32;", "shared-out-of-bounds"),
    ],
)  # fmt: skip
def test_misuse(body: str, code: str) -> None:
    only(run(body, shared_bytes=256), code)


def test_another_warp_frees_what_one_has_allocated() -> None:
    for by in (0, 1):
        body = f"{alloc(64, warp=1)}\n{dealloc(64, warp=by)}"
        assert not run(body, shared_bytes=256, threads=64).findings
        result = run(body, shared_bytes=256, threads=64, strict=True)
        assert codes(result) == (set() if by else {"tmem-dealloc-warp"})
        assert all(f.severity == "error" and "warp 0 frees" in f.message for f in result.findings)


def test_the_clean_twin() -> None:
    body = f"{alloc(64)}\ntcgen05.st.sync.aligned.32x32b.x1.b32 [%r100+63], {{%r1}};\ntcgen05.wait::st.sync.aligned;\n{LD1}, [%r100+63];\ntcgen05.wait::ld.sync.aligned;\n{dealloc(64)}"
    for schedule in POLICIES:
        clean(run(body, shared_bytes=256, schedule=schedule))


@pytest.mark.parametrize(
    ("shape", "lane", "code", "severity"),
    [
        ("32x32b", 32, "tmem-lane-quarter", "warning"), ("16x64b", 48, "tmem-lane-quarter", "warning"), ("32x32b", 5, "tmem-lane-offset", "note"),
        ("32x32b", 16, "tmem-lane-offset", "note"), ("16x64b", 17, "tmem-lane-offset", "note"),
    ],
)  # fmt: skip
def test_an_address_at_another_lane(shape: str, lane: int, code: str, severity: str) -> None:
    """Warp 0 reaches lanes 0 to 31; a shape of 16 lanes may start at lane 16."""
    body = f"{alloc(64)}\ntcgen05.st.sync.aligned.{shape}.x1.b32 [{lane << 16:#x}], {{%r1}};\ntcgen05.wait::st.sync.aligned;\n{dealloc(64)}"
    assert only(run(body, shared_bytes=256), code).severity == severity
    strict = "error" if code == "tmem-lane-quarter" else severity
    assert only(run(body, shared_bytes=256, strict=True), code).severity == strict
    clean(
        run(
            body.replace(f"[{lane << 16:#x}]", "[0x100000]" if shape == "16x64b" else "[0]"), shared_bytes=256
        )
    )


def test_a_tmem_read_at_the_wrong_cell_says_which() -> None:
    body = f"{alloc(64)}\ntcgen05.st.sync.aligned.32x32b.x4.b32 [0], {registers(4, '%r')};\ntcgen05.wait::st.sync.aligned;\ntcgen05.ld.sync.aligned.32x32b.x2.b32 {{%r1, %r2}}, [3];\ntcgen05.wait::ld.sync.aligned;\nadd.u32 %r3, %r1, %r2;\n{used('%r3')}\n{dealloc(64)}"
    finding = only(run(body, shared_bytes=256), "tmem-uninitialised")
    assert finding.machine.address == 4 and "lane 0 column 4" in finding.message and finding.count == 32


def test_an_unequal_pair() -> None:
    body = f"mov.u32 %r20, %cluster_ctarank; setp.eq.u32 %p1, %r20, 0; @%p1 bra A;\ntcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned; exit;\nA: {alloc(32, group=2)}"
    only(run(body, cluster=2, shared_bytes=256), "cta-pair")


@pytest.mark.parametrize("line", ["tcgen05.cp.cta_group::1.64x128b [%r1], %rd1;",
                                  "tcgen05.shift.cta_group::1.down [%r1];",
                                  "tcgen05.ld.sync.aligned.16x256b.x64.b32 {%r1}, [%r2];", "tcgen05.ld.sync.aligned.8x32b.x1.b32 {%r1}, [%r2];"])  # fmt: skip
def test_other_forms_are_refused(line: str) -> None:
    with pytest.raises(UnsupportedInstruction, match="tcgen05"):
        run(line)
