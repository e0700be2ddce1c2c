# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Tensor maps of packed 4- and 6-bit elements (PTX ISA 5.5.1.1, 9.7.9.27.1.1; CUDA driver API, cuTensorMapEncodeTiled)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tileproof.emulator import Schedule, TensorMap
from tileproof.spec.machine import tma
from tileproof.spec.machine.errors import TileproofError

from tests.kit.ptx import POLICIES, Memory, clean, init_barrier, only, run, wait

COVERS = "cp.async.bulk.tensor"

BAR, DATA, DONE = 1024, 2048, "mbarrier::complete_tx::bytes"
BITS = {"16u4_align8b": 4, "16u4_align16b": 4, "16u6_align16b": 6}


def rows_of(codes: np.ndarray, bits: int) -> np.ndarray:
    """``[rows, n]`` codes packed, lowest first, into bytes."""
    planes = np.unpackbits(codes[..., None].astype(np.uint8), axis=-1, bitorder="little")[..., :bits]
    return np.packbits(planes.reshape(codes.shape[0], -1), axis=-1, bitorder="little")


def a_map(
    memory: Memory, dtype: str, codes: np.ndarray, rows: int, swizzle: str, box: int = 128
) -> TensorMap:
    data = rows_of(codes, BITS[dtype])
    pitch = -(-data.shape[1] // 32) * 32
    wide = np.zeros((len(data), pitch), np.uint8)
    wide[:, : data.shape[1]] = data
    shape = (codes.shape[1], codes.shape[0])
    return TensorMap.tiled(
        memory.buffer(wide), shape=shape, strides=(pitch,), box=(box, rows), swizzle=swizzle, dtype=dtype
    )


def load(
    m: TensorMap,
    memory: Memory,
    at: str,
    schedule: Schedule,
    read: int = 4,
    count: int | None = None,
    **launch: Any,
):  # type: ignore[no-untyped-def]
    """A load of the box at `at`; of each 16 bytes in shared memory the first `read` words go to the array that is returned."""
    size = m.checked.pitch * int(np.prod(m.box[1:]))
    out = memory.empty(size, np.uint8) if read == 4 else memory.buffer(np.zeros(size, np.uint8))
    body = f"""
    {init_barrier(BAR)} @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [{BAR}], {m.checked.box_bytes if count is None else count}; @%p0 fence.proxy.async;
    @%p0 cp.async.bulk.tensor.2d.shared::cta.global.{DONE} [{DATA}], [%a1, {{{at}}}], [{BAR}]; {wait(BAR)}
    mov.u32 %r1, %t;
    NEXT: setp.ge.u32 %p1, %r1, {size // 4}; @%p1 bra END;
    and.b32 %r4, %r1, 3; setp.ge.u32 %p2, %r4, {read}; @%p2 bra PADDING;
    mad.lo.u32 %r2, %r1, 4, {DATA}; ld.shared.u32 %r3, [%r2]; mad.wide.u32 %rd1, %r1, 4, %a0; st.global.u32 [%rd1], %r3;
    PADDING: add.u32 %r1, %r1, 32; bra NEXT;
    END:"""
    return run(
        body, [out, m], memory=memory, shared_bytes=DATA + size, schedule=schedule, races=True, **launch
    ), out


CASES = [
    *(("16u4_align8b", s, box) for s, box in (("none", 256), ("32B", 64), ("64B", 128), ("128B", 256), ("128B_ATOM_32B_FLIP_8B", 256))),
    *((dtype, s, 128) for dtype in ("16u4_align16b", "16u6_align16b") for s in ("none", "128B", "128B_ATOM_32B", "128B_ATOM_64B")),
]  # fmt: skip


@pytest.mark.parametrize("schedule", POLICIES)
@pytest.mark.parametrize(("dtype", "swizzle", "box"), CASES)
def test_loads(dtype: str, swizzle: str, box: int, schedule: Schedule) -> None:
    """Inside, past the last row and past the last column: the spec's image, and the mbarrier counts packed bytes."""
    memory = Memory()
    codes = np.random.default_rng(4).integers(0, 1 << BITS[dtype], (20, 256), dtype=np.uint8)
    m = a_map(memory, dtype, codes, 16, swizzle, box)
    words = {"16u4_align8b": 4, "16u4_align16b": 2, "16u6_align16b": 3}[dtype]
    wide = rows_of(codes, BITS[dtype])
    for at in ((0, 3), (128, 9), (256, 0)):
        result, out = load(m, memory, f"{at[0]}, {at[1]}", schedule, words)
        clean(result)
        image = tma.tile_image(m.checked, wide.ravel(), at, DATA)
        assert (out.numpy() == image[: len(out.numpy())]).all()


@pytest.mark.parametrize("dtype", BITS)
def test_where_each_element_lies(dtype: str) -> None:
    """Without a swizzle, by hand: 16 elements in 8 bytes or, padded, in the first 8 or 12 of 16."""
    memory = Memory()
    codes = np.random.default_rng(5).integers(0, 1 << BITS[dtype], (2, 128), dtype=np.uint8)
    words = {"16u4_align8b": 4, "16u4_align16b": 2, "16u6_align16b": 3}[dtype]
    result, out = load(a_map(memory, dtype, codes, 2, "none"), memory, "0, 0", Schedule("late"), words)
    clean(result)
    room, bits = (8 if dtype == "16u4_align8b" else 16), BITS[dtype]
    for row in range(2):
        for group in range(8):
            first = (row * 8 + group) * room
            word = int.from_bytes(out.numpy()[first : first + 2 * bits].tobytes(), "little")
            assert [word >> bits * k & (1 << bits) - 1 for k in range(16)] == codes[
                row, 16 * group : 16 * group + 16
            ].tolist()


@pytest.mark.parametrize("dtype", ["16u4_align16b", "16u6_align16b"])
def test_padding_is_not_initialised(dtype: str) -> None:
    memory = Memory()
    m = a_map(memory, dtype, np.ones((4, 128), np.uint8), 4, "128B")
    result, _ = load(m, memory, "0, 0", Schedule("late"), 4)
    assert {f.code for f in result.errors} == {"shared-uninitialised"}


def test_the_mbarrier_counts_no_padding() -> None:
    memory = Memory()
    m = a_map(memory, "16u6_align16b", np.ones((4, 128), np.uint8), 4, "none")
    assert m.checked.box_bytes == 384
    result, _ = load(m, memory, "0, 0", Schedule("late"), 3, count=512)
    assert "lacks 0 of 1 arrivals and 128 bytes" in only(result, "hang").machine.waiting[0].waits_for


@pytest.mark.parametrize(
    ("dtype", "at"), [("16u4_align8b", 16), ("16u4_align16b", 32), ("16u6_align16b", 64)]
)
def test_coordinates(dtype: str, at: int) -> None:
    memory = Memory()
    m = a_map(memory, dtype, np.ones((4, 256), np.uint8), 4, "none")
    only(load(m, memory, f"{at}, 0", Schedule("late"))[0], "tma-coordinate")


def store(m: TensorMap, memory: Memory, data: np.ndarray, at: str):  # type: ignore[no-untyped-def]
    body = f"""
    mov.u32 %r1, %t;
    NEXT: setp.ge.u32 %p1, %r1, {data.size // 4}; @%p1 bra GO;
    mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, %rd1, %a0; ld.global.u32 %r3, [%rd1]; mad.lo.u32 %r2, %r1, 4, {DATA}; st.shared.u32 [%r2], %r3; add.u32 %r1, %r1, 32; bra NEXT;
    GO: fence.proxy.async; bar.sync 0; setp.eq.u32 %p0, %t, 0; @!%p0 exit;
    cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%a1, {{{at}}}], [{DATA}]; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
    return run(body, [memory.buffer(data), m], memory=memory, shared_bytes=DATA + data.size, races=True)


@pytest.mark.parametrize("swizzle", ["none", "128B"])
def test_a_store_packs_six_bits_of_each_byte(swizzle: str) -> None:
    """.b6p2x16: the two upper bits of a byte are dropped."""
    memory = Memory()
    rng = np.random.default_rng(6)
    target = memory.buffer(np.zeros((4, 192), np.uint8))
    m = TensorMap.tiled(
        target, shape=(256, 4), strides=(192,), box=(128, 4), swizzle=swizzle, dtype="16u6_align16b"
    )
    containers = rng.integers(0, 256, (4, 128), dtype=np.uint8)
    at = np.arange(512) if swizzle == "none" else tma.sw.swizzle(swizzle, np.arange(512) + DATA) - DATA  # type: ignore[attr-defined]
    shared = np.empty(512, np.uint8)
    shared[at] = containers.ravel()
    clean(store(m, memory, shared, "128, 0"))
    want = rows_of(containers & 63, 6)
    assert (target.numpy()[:, 96:] == want).all() and not target.numpy()[:, :96].any()
    assert (tma.packed_store(m.checked, containers.ravel()) == want.ravel()).all()


def test_a_store_of_packed_fours() -> None:
    memory = Memory()
    target = memory.buffer(np.zeros((4, 64), np.uint8))
    m = TensorMap.tiled(target, shape=(128, 4), strides=(64,), box=(64, 4), dtype="16u4_align8b")
    data = np.random.default_rng(7).integers(0, 256, (4, 32), dtype=np.uint8)
    clean(store(m, memory, data.ravel(), "64, 0"))
    assert (target.numpy()[:, 32:] == data).all() and not target.numpy()[:, :32].any()


def test_padded_fours_are_not_stored() -> None:
    memory = Memory()
    m = a_map(memory, "16u4_align16b", np.ones((4, 128), np.uint8), 4, "none")
    only(store(m, memory, np.zeros(512, np.uint8), "0, 0"), "tensormap-type")


@pytest.mark.parametrize(
    "wrong",
    [
        {"box": (64, 4)}, {"shape": (192, 4)}, {"strides": (144,)}, {"swizzle": "64B"}, {"swizzle": "128B_ATOM_32B_FLIP_8B"}, {"oob_fill": "nan"}, {"offset": 16},
        {"dtype": "16u4_align8b", "shape": (127, 4)}, {"dtype": "16u4_align8b", "box": (40, 4)},
    ],
)  # fmt: skip
def test_maps_that_the_driver_refuses(wrong: dict[str, Any]) -> None:
    memory = Memory()
    buffer = memory.buffer(np.zeros(4096, np.uint8))
    right: dict[str, Any] = {
        "shape": (256, 4),
        "strides": (192,),
        "box": (128, 4),
        "dtype": "16u6_align16b",
    }
    TensorMap.tiled(buffer, **right)  # type: ignore[arg-type]
    with pytest.raises(TileproofError, match="tensor map"):
        TensorMap.tiled(buffer, **(right | wrong))  # type: ignore[arg-type]


def test_the_drivers_numbers() -> None:
    memory = Memory()
    buffer = memory.buffer(np.zeros(4096, np.uint8))
    for number, name in enumerate(BITS, 13):
        made = TensorMap.of_driver(
            data_type=number,
            address=buffer.address,
            global_dim=(256, 4),
            global_strides=(192,),
            box_dim=(128, 4),
            element_strides=(1, 1),
            swizzle=3,
        )
        assert made.dtype == name


def test_replaced_extents_are_elements() -> None:
    """A map in global memory whose first extent shrinks from 256 to 128: what lies beyond is filled."""
    memory = Memory()
    codes = np.full((4, 256), 5, np.uint8)
    m = a_map(memory, "16u4_align8b", codes, 4, "none", 64)
    raw = memory.buffer(np.frombuffer(m.encode(), np.uint8).copy())
    out = memory.empty(128, np.uint8)
    body = f"""
    setp.eq.u32 %p0, %t, 0;
    @%p0 tensormap.replace.tile.global_dim.global.b1024.b32 [%a1], 0, 128; @%p0 fence.proxy.tensormap::generic.release.gpu; @%p0 fence.proxy.tensormap::generic.acquire.gpu [%a1], 128;
    {init_barrier(BAR)} @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [{BAR}], 128; @%p0 fence.proxy.async;
    @%p0 cp.async.bulk.tensor.2d.shared::cta.global.{DONE} [{DATA}], [%a1, {{96, 0}}], [{BAR}]; {wait(BAR)}
    mad.lo.u32 %r2, %t, 4, {DATA}; ld.shared.u32 %r3, [%r2]; mad.wide.u32 %rd1, %t, 4, %a0; st.global.u32 [%rd1], %r3;"""
    clean(run(body, [out, raw], memory=memory, shared_bytes=DATA + 128))
    want = np.zeros((4, 32), np.uint8)
    want[:, :16] = 0x55
    assert (out.numpy().reshape(4, 32) == want).all()
