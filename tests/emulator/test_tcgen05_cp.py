# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""tcgen05.cp in all shapes, for one CTA and for pairs, with decompression, against spec.machine."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import RunResult, Schedule
from tileproof.spec.machine import kinds, smem_layout, tmem
from tileproof.spec.machine.descriptors import SmemDescriptor

from tests.emulator.test_tmem import fill, registers
from tests.kit.ptx import (
    CLUSTER_SYNC,
    POLICIES,
    Memory,
    alloc,
    clean,
    codes,
    dealloc,
    init_barrier,
    only,
    run,
    wait,
)

COVERS = "tcgen05.cp"

CP = ["128x256b", "4x256b", "128x128b", "64x128b.warpx2::02_13", "64x128b.warpx2::01_23", "32x128b.warpx4"]


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("shape", CP)
@pytest.mark.parametrize("schedule", POLICIES[:2])
def test_cp(shape: str, swizzle: str, schedule: Schedule) -> None:
    """Shared memory holds its own word numbers; TMEM must hold what the layout of the descriptor puts there."""
    rows, columns = int(shape.split("x")[0]), tmem.cp_columns(shape)
    width = {"none": 16, "32B": 32, "64B": 64, "128B": 128}[swizzle]
    sbo, lbo = (128, 4096) if swizzle == "none" else (8 * width, 16)
    start = 4096
    descriptor = SmemDescriptor(start, lbo, sbo, swizzle).encode()
    memory = Memory()
    out = memory.empty((128, 8), np.uint32)
    body = f"""{alloc(32)} {init_barrier(1024)} {fill(8).replace("%v<128>", "%v<8>")}
    mov.u32 %r60, %t; LOOP: mad.lo.u32 %r61, %r60, 4, 2048; st.shared.u32 [%r61], %r60; add.u32 %r60, %r60, 128; setp.lt.u32 %p1, %r60, 5120; @%p1 bra LOOP;
    fence.proxy.async; bar.sync 0; @!%p0 bra WAITING;
    tcgen05.cp.cta_group::1.{shape} [%r100], {descriptor}; tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [1024];
    WAITING: {wait(1024)}
    tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x8.b32 {registers(8)}, [%r51]; tcgen05.wait::ld.sync.aligned; mad.wide.u32 %rd1, %t, 32, %a0;
    {" ".join(f"st.global.u32 [%rd1+{4 * i}], %v{i};" for i in range(8))}
    tcgen05.fence::before_thread_sync; {dealloc(32)}"""
    clean(run(body, [out], memory=memory, threads=128, shared_bytes=24 * 1024, schedule=schedule))
    want = np.arange(128, dtype=np.int64)[:, None] << 16 | np.arange(8)[None, :]
    for row in range(rows):
        for column in range(columns):
            address = int(smem_layout.address("K", swizzle, start, lbo, sbo, row, 2 * column))
            for lane in tmem.cp_lanes(shape, row):
                want[lane, column] = (address - 2048) // 4
    assert (out.numpy() == want).all()


@pytest.mark.parametrize(
    ("descriptor", "code"),
    [
        (1 << 61 | 1 << 46, "mma-operands"),
        (0, "mma-operands"),
        (1 << 46 | 0x80, "uninitialised-unused"),
        (1 << 46 | 0x3FFF, "shared-out-of-bounds"),
    ],
)
def test_bad_descriptors_of_cp(descriptor: int, code: str) -> None:
    body = (
        f"{alloc(32)}\nsetp.eq.u32 %p0, %t, 0;\n@%p0 tcgen05.cp.cta_group::1.128x256b [%r100], {descriptor};"
    )
    assert code in codes(run(body, shared_bytes=16384))
    only(run(body.replace("[%r100]", "[0x100000]"), shared_bytes=16384), "mma-operands")
    outside = body.replace(f"[%r100], {descriptor};", f"[32], {1 << 46};")
    only(run(outside, shared_bytes=16384), "tmem-not-allocated")


def copied(
    shape: str, image: np.ndarray, descriptor: int, *, group: int = 1, lane: int = 0, packed: str = "",
    schedule: Schedule | None = None, races: bool = False, waits: bool = True, late: str = "",
) -> tuple[RunResult, np.ndarray]:  # fmt: skip
    """Bytes `image` [ctas, 4096] stand in shared memory from 4096 on; TMEM after the copy, [ctas, 128, 8].

    `late`: lines behind the issue.
    """
    memory = Memory()
    out = memory.empty((group, 128, 8), np.uint32)
    source = memory.buffer(image.view(np.uint32))
    commit = "[1024];" if group == 1 else "[1024], %h1;"
    multicast = ".multicast::cluster" if group == 2 else ""
    body = f"""mov.u32 %r20, %cluster_ctarank; mov.b16 %h1, 3;
    {init_barrier(1024)} {CLUSTER_SYNC if group == 2 else ""} {alloc(32, group=group)} {fill(8).replace("%v<128>", "%v<8>")}
    mad.wide.u32 %rd2, %r20, 4096, %a1; mul.wide.u32 %rd3, %t, 4; add.u64 %rd2, %rd2, %rd3; mad.lo.u32 %r61, %t, 4, 4096; add.u32 %r61, %r61, %own; mov.u32 %r60, 0;
    LOOP: ld.global.u32 %r62, [%rd2]; st.shared.u32 [%r61], %r62; add.u64 %rd2, %rd2, 512; add.u32 %r61, %r61, 512; add.u32 %r60, %r60, 1; setp.lt.u32 %p1, %r60, 8; @%p1 bra LOOP;
    fence.proxy.async; tcgen05.fence::before_thread_sync; bar.sync 0; {CLUSTER_SYNC} tcgen05.fence::after_thread_sync;
    setp.eq.u32 %p2, %r20, 0; and.pred %p2, %p2, %p0; add.u32 %r63, %r100, {lane << 16};
    @!%p2 bra WAITING;
    tcgen05.cp.cta_group::{group}.{shape}{packed} [%r63], {descriptor}; tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster{multicast}.b64 {commit}
    WAITING: {late}
    {wait(1024) if waits else ""}
    tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x8.b32 {registers(8)}, [%r51]; tcgen05.wait::ld.sync.aligned;
    mad.lo.u32 %r62, %r20, 128, %t; mad.wide.u32 %rd1, %r62, 32, %a0;
    {" ".join(f"st.global.u32 [%rd1+{4 * i}], %v{i};" for i in range(8))}
    tcgen05.fence::before_thread_sync; {CLUSTER_SYNC} {dealloc(32, group=group)}"""
    result = run(
        body, [out, source], memory=memory, threads=128, cluster=group, shared_bytes=8192, schedule=schedule,
        races=races,
    )  # fmt: skip
    return result, out.numpy()


def expected(shape: str, image: np.ndarray, swizzle: str, lane: int = 0, bits: int = 0) -> np.ndarray:
    """[128, 8] cells of one CTA, from the layout of the descriptor (LBO 2048 without a swizzle)."""
    width = {"none": 16, "32B": 32, "64B": 64, "128B": 128}[swizzle]
    sbo = 128 if swizzle == "none" else 8 * width
    cells = (np.arange(128)[:, None] << 16 | np.arange(8)[None, :]).astype(np.uint32)
    for row in range(int(shape.split("x")[0])):
        for chunk in range(tmem.cp_columns(shape) // 4):
            at = int(smem_layout.address("K", swizzle, 4096, 2048, sbo, row, 8 * chunk)) - 4096
            data = image[at : at + 16].tobytes()
            words = np.frombuffer(kinds.decompressed(data, bits) if bits else data, np.uint32)
            for to in tmem.cp_lanes(shape, row):
                cells[lane + to, 4 * chunk : 4 * chunk + 4] = words
    return cells


def described(swizzle: str) -> int:
    width = {"none": 16, "32B": 32, "64B": 64, "128B": 128}[swizzle]
    return SmemDescriptor(
        4096, 2048 if swizzle == "none" else 16, 128 if swizzle == "none" else 8 * width, swizzle
    ).encode()


@pytest.mark.parametrize("shape", CP)
@pytest.mark.parametrize(("packed", "bits"), [("", 0), (".b8x16.b6x16_p32", 6), (".b8x16.b4x16_p64", 4)])
@pytest.mark.parametrize("group", [1, 2])
def test_cp_of_pairs_and_decompression(shape: str, packed: str, bits: int, group: int) -> None:
    """Each CTA of a pair copies from its own shared memory into its own tensor memory."""
    image = np.random.default_rng(bits).integers(0, 256, (group, 4096)).astype(np.uint8)
    for swizzle, schedule in (("none", POLICIES[1]), ("32B", POLICIES[2])):
        result, out = copied(
            shape, image, described(swizzle), group=group, packed=packed, schedule=schedule, races=True
        )
        clean(result)
        for cta in range(group):
            assert (out[cta] == expected(shape, image[cta], swizzle, bits=bits)).all()


def test_decompression_by_hand() -> None:
    """Elements 0 .. 15 in 6 and in 4 bits; what stands in the padding is dropped."""
    six = sum((k + 40) << 6 * k for k in range(16)).to_bytes(12, "little") + b"\xee" * 4
    four = sum(k << 4 * k for k in range(16)).to_bytes(8, "little") + b"\xee" * 8
    assert kinds.decompressed(six, 6) == bytes(range(40, 56))
    assert kinds.decompressed(four, 4) == bytes(range(0, 64, 4))


@pytest.mark.parametrize("lane", [0, 31])
def test_4x256b_starts_at_the_lane_of_its_address(lane: int) -> None:
    image = np.random.default_rng(5).integers(0, 256, (1, 4096)).astype(np.uint8)
    result, out = copied("4x256b", image, described("none"), lane=lane)
    clean(result)
    assert (out[0] == expected("4x256b", image[0], "none", lane)).all()


@pytest.mark.parametrize("shape", ["4x256b", "32x128b.warpx4"])
def test_a_lane_that_cp_cannot_start_at(shape: str) -> None:
    image = np.zeros((1, 4096), np.uint8)
    result, _ = copied(shape, image, described("none"), lane=32)
    assert "TMEM lane 32" in only(result, "mma-operands").message


@pytest.mark.parametrize("shape", ["4x256b", "128x128b"])
def test_the_wait_on_the_commit_is_missing(shape: str) -> None:
    """The cells are pending, and with the race checker the load is not after the copy."""
    image = np.zeros((1, 4096), np.uint8)
    result, _ = copied(shape, image, described("none"), waits=False, schedule=POLICIES[1])
    assert "tmem-pending" in codes(result)
    found = codes(copied(shape, image, described("none"), waits=False, schedule=POLICIES[0], races=True)[0])
    assert any(code.startswith("race") for code in found), found


def test_the_source_overwritten_before_the_copy_is_over() -> None:
    """A thread writes the copy's source behind its issue: a race; behind the wait on its commit: none."""
    image = np.zeros((1, 4096), np.uint8)
    write = "@%p2 st.shared.u32 [4096], 7;"
    found = codes(copied("4x256b", image, described("none"), late=write, schedule=POLICIES[0], races=True)[0])
    assert any(code.startswith("race") for code in found), found
    clean(
        copied(
            "4x256b", image, described("none"), late=f"{wait(1024)} {write}", schedule=POLICIES[0], races=True
        )[0]
    )


@pytest.mark.parametrize(("packed", "read"), [("", 16), (".b8x16.b6x16_p32", 12), (".b8x16.b4x16_p64", 8)])
def test_the_padding_of_packed_elements_is_not_read(packed: str, read: int) -> None:
    """Only the first bytes of each 16 are written: enough where the others are padding."""
    stores = "".join(f"st.shared.u32 [%r61+{4 * k}], %t;" for k in range(read // 4 - (not packed)))
    body = f"""{init_barrier(1024)} {alloc(32)}
    mad.lo.u32 %r61, %t, 16, 2048; {stores} fence.proxy.async; bar.sync 0;
    @%p0 tcgen05.cp.cta_group::1.128x128b{packed} [%r100], {SmemDescriptor(2048, 16, 128, "none").encode()};
    @%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [1024]; {wait(1024)} {dealloc(32)}"""
    result = run(body, threads=128, shared_bytes=4096)
    if packed:
        clean(result)
    else:
        only(result, "uninitialised-unused")
