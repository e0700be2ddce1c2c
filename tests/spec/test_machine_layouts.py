"""Swizzles, operand layouts, descriptors and TMEM maps against worked values and pycute."""

from __future__ import annotations

from typing import cast

import numpy as np
import pycute
import pytest
from tileproof.spec.machine import descriptors, mma, smem_layout, swizzle, tmem
from tileproof.spec.machine.descriptors import InstructionDescriptor, SmemDescriptor
from tileproof.spec.machine.errors import TileproofError

MODES = ("none", "32B", "64B", "128B")


@pytest.mark.parametrize("mode", MODES)
def test_swizzle_equals_pycute_and_the_chunk_tables(mode: str) -> None:
    cute = pycute.Swizzle(swizzle.bits(mode), 4, 3)
    for address in range(0, 4096, 7):
        moved = swizzle.swizzle(mode, address)
        assert moved == cute(address)
        assert swizzle.swizzle(mode, moved) == address
        line, chunk = address // 128, address % 128 // 16
        assert moved == 128 * line + 16 * swizzle.chunk(mode, line, chunk) + address % 16
    assert (swizzle.swizzle(mode, np.arange(4096)) == [cute(x) for x in range(4096)]).all()


def test_swizzles_differ_from_each_other() -> None:
    images = [tuple(swizzle.swizzle(mode, x) for x in range(0, 1024, 16)) for mode in MODES]
    assert len(set(images)) == 4
    with pytest.raises(TileproofError):
        swizzle.bits("256B")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("major", ["K", "MN"])
def test_operand_layout_equals_pycute(major: smem_layout.Major, mode: str) -> None:
    start, lbo, sbo, w = 0x4000, 4096, 2048, swizzle.width(mode)
    half, l2, s2 = w // 2, lbo // 2, sbo // 2
    if major == "K":
        layout = pycute.Layout(((8, 4), (8, 2)), ((half, s2), (1, 8 if mode != "none" else l2)))
        coordinate = lambda mn, k: ((mn % 8, mn // 8), (k % 8, k // 8))  # noqa: E731
    elif mode == "none":
        layout = pycute.Layout(((8, 4), (8, 2)), ((1, s2), (8, l2)))
        coordinate = lambda mn, k: ((mn % 8, mn // 8), (k % 8, k // 8))  # noqa: E731
    else:
        layout = pycute.Layout(((half, 4), (8, 2)), ((1, l2), (half, s2)))
        coordinate = lambda mn, k: ((mn % half, mn // half), (k % 8, k // 8))  # noqa: E731
    cute = pycute.Swizzle(swizzle.bits(mode), 4, 3)
    rows = 32 if major == "K" or mode == "none" else 4 * half
    want = [[cute(start + 2 * layout(*coordinate(mn, k))) for k in range(16)] for mn in range(rows)]
    mn, k = np.arange(rows)[:, None], np.arange(16)[None, :]
    assert (smem_layout.address(major, mode, start, lbo, sbo, mn, k) == want).all()
    swapped = smem_layout.address(major, mode, start, sbo, lbo, mn, k)
    assert (swapped != want).any()


@pytest.mark.parametrize(
    ("major", "mode", "lbo", "sbo", "values"),
    [
        (
            "K",
            "128B",
            16,
            1024,
            {(0, 0): 0x4000, (1, 0): 0x4090, (1, 8): 0x4080, (3, 20): 0x4198, (9, 15): 0x448E},
        ),
        ("K", "64B", 16, 512, {(1, 0): 0x4040, (2, 0): 0x4090, (3, 9): 0x40C2, (9, 15): 0x425E}),
        ("K", "32B", 16, 256, {(1, 0): 0x4020, (4, 0): 0x4090, (5, 9): 0x40A2, (9, 15): 0x413E}),
        ("K", "none", 2048, 128, {(1, 0): 0x4010, (8, 0): 0x4080, (0, 8): 0x4800, (9, 15): 0x489E}),
        ("MN", "128B", 8192, 1024, {(0, 1): 0x4090, (8, 1): 0x4080, (64, 0): 0x6000, (20, 11): 0x4598}),
    ],
)
def test_worked_addresses(
    major: smem_layout.Major, mode: str, lbo: int, sbo: int, values: dict[tuple[int, int], int]
) -> None:
    for (mn, k), want in values.items():
        assert int(smem_layout.address(major, mode, 0x4000, lbo, sbo, mn, k)) == want


@pytest.mark.parametrize(("mode", "slices"), [("32B", 1), ("64B", 2), ("128B", 4)])
def test_advancing_the_start_advances_k(mode: str, slices: int) -> None:
    step = smem_layout.advance_k("K", mode, 16, 8 * swizzle.width(mode))
    mn, k = np.arange(64)[:, None], np.arange(16)[None, :]
    for j in range(slices):
        moved = smem_layout.address("K", mode, 0x4000 + step * j, 16, 1024, mn, k)
        assert (moved == smem_layout.address("K", mode, 0x4000, 16, 1024, mn, k + 16 * j)).all()
    # a further step leaves the atom: it is not the next slice of k
    beyond = smem_layout.address("K", mode, 0x4000 + step * slices, 16, 1024, mn, k)
    assert (beyond // 128 != smem_layout.address("K", mode, 0x4000, 16, 1024, mn, k) // 128).any()


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        (InstructionDescriptor(128, 128), 0x08200490),
        (InstructionDescriptor(128, 256), 0x08400490),
        (InstructionDescriptor(256, 256), 0x10400490),
        (InstructionDescriptor(64, 64), 0x04100490),
        (InstructionDescriptor(64, 256), 0x04400490),
        (InstructionDescriptor(128, 128, a_mn_major=True, b_mn_major=True), 0x08218490),
        (InstructionDescriptor(128, 64, b_mn_major=True), 0x08110490),
    ],
)
def test_worked_instruction_descriptors(fields: InstructionDescriptor, word: int) -> None:
    assert fields.encode() == word
    assert InstructionDescriptor.decode(word) == fields
    assert InstructionDescriptor(fields.n, fields.m).encode() != word or fields.m == fields.n


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        (SmemDescriptor(0x4000, 16, 1024, "128B"), 0x4000404000010400),
        (SmemDescriptor(0x4020, 16, 1024, "128B"), 0x4000404000010402),
        (SmemDescriptor(0x4000, 8192, 1024, "128B"), 0x4000404002000400),
    ],
)
def test_worked_matrix_descriptors(fields: SmemDescriptor, word: int) -> None:
    assert fields.encode() == word
    assert SmemDescriptor.decode(word) == fields
    assert SmemDescriptor(fields.start, fields.sbo, fields.lbo, fields.swizzle).encode() != word


def test_matrix_descriptor_drops_the_rank() -> None:
    assert SmemDescriptor(0x01004000, 16, 1024, "128B").encode() == 0x4000404000010400
    assert descriptors.base_offset(0x4080) == 1


@pytest.mark.parametrize(
    "broken",
    [
        lambda: InstructionDescriptor(100, 64).encode(),
        lambda: InstructionDescriptor(128, 12).encode(),
        lambda: InstructionDescriptor(128, 64, a_type="e4m3").encode(),
        lambda: InstructionDescriptor.decode(0x08200490 | 1 << 23),
        lambda: InstructionDescriptor.decode(0x08200490 | 3 << 4),
        lambda: SmemDescriptor(0x4008, 16, 1024, "128B").encode(),
        lambda: SmemDescriptor(0x4000, 16, 1 << 18, "128B").encode(),
        lambda: SmemDescriptor(0x4000, 16, 1024, "96B").encode(),
        lambda: SmemDescriptor.decode(0x4000404000010400 & ~(1 << 46)),
        lambda: SmemDescriptor.decode(3 << 61 | 1 << 46),
        lambda: SmemDescriptor.decode(0x4000404000010400 | 1 << 55),
    ],
)
def test_what_cannot_be_encoded_is_refused(broken: object) -> None:
    with pytest.raises(TileproofError):
        broken()  # type: ignore[operator]


def test_mma_shapes() -> None:
    mma.check_shape(128, 64, 2)
    mma.check_shape(128, 8, 1)
    for bad in ((64, 64, 2), (128, 24, 2), (128, 12, 1), (96, 64, 1), (128, 272, 1)):
        with pytest.raises(TileproofError):
            mma.check_shape(*bad)
    with pytest.raises(TileproofError):
        mma.check_shape(128, 16, 2, a_in_tmem=True)
    with pytest.raises(TileproofError):
        mma.check_shape(128, 24, 1, a_in_tmem=True)
    with pytest.raises(TileproofError):
        mma.check_shape(64, 32, 1, ws=True)
    assert mma.a_rows(128, 2, 1) == range(64, 128) and mma.b_rows(64, 2, 0) == range(32)
    assert [mma.layout_of(*f) for f in ((256, 2), (128, 2), (128, 1), (64, 1))] == ["A", "B", "D", "F"]
    assert mma.layout_of(64, 1, ws=True) == "E" and mma.layout_of(32, 1, ws=True) == "G"


# layout -> CuTe (shape, stride) of (row in CTA, n), lane stride 1 and column stride 128, for each N
VIRTUAL = {
    "A": lambda n: ((128, n), (1, 128)),
    "B": lambda n: ((64, (n // 2, 2)), (1, (128, 64))),
    "D": lambda n: ((128, n), (1, 128)),
    "E": lambda n: ((64, (n // 2, 2)), (1, (128, 64))),
    "F": lambda n: (((16, 4), n), ((1, 32), 128)),
    "G": lambda n: ((32, (n // 4, 4)), (1, (128, 32))),
}


@pytest.mark.parametrize("name", VIRTUAL)
@pytest.mark.parametrize("n", [64, 128, 256])
def test_tmem_layout_equals_pycute(name: str, n: int) -> None:
    cute = pycute.Layout(*VIRTUAL[name](n))
    lane, column = tmem.cells_of_cta(name, n)
    want = np.array([[cute(r, c) for c in range(n)] for r in range(lane.shape[0])])
    assert (lane + 128 * column == want).all()
    others = [x for x in VIRTUAL if x != name and tmem.layout(x).rows == tmem.layout(name).rows]
    for other in others:
        if {name, other} not in ({"A", "D"}, {"B", "E"}):
            wrong_lane, wrong_column = tmem.cells_of_cta(other, n)
            assert (wrong_lane + 128 * wrong_column != want).any()


@pytest.mark.parametrize("name", tmem.LAYOUTS)
@pytest.mark.parametrize("offset", [0, 16])
def test_tmem_element_inverts_cell(name: str, offset: int) -> None:
    path, n = tmem.layout(name), 64
    if offset and not path.interleaved:
        with pytest.raises(TileproofError):
            tmem.cell(name, n, 0, 0, offset)
        return
    m, col = np.arange(path.m)[:, None], np.arange(n)[None, :]
    cta, lane, column = tmem.cell(name, n, m, col, offset)
    back = tmem.element(name, n, cta, lane, column, offset)
    assert (back[0] == m).all() and (back[1] == col).all()
    used = np.zeros((2, 128, 64), bool)
    used[cta, lane, column] = True
    c, row, k = np.ogrid[:2, :128, :64]
    assert ((tmem.element(name, n, c, row, k, offset)[0] >= 0) == used).all()
    assert used.sum() == path.m * n


def test_worked_tmem_cells() -> None:
    def cell(*a: object) -> tuple[int, ...]:
        return tuple(int(x) for x in tmem.cell(*a))  # type: ignore[arg-type]

    assert cell("B", 128, 40, 70) == (0, 104, 6) and cell("B", 128, 31, 100) == (0, 95, 36)
    assert cell("E", 256, 63, 127) == (0, 63, 127) and cell("E", 256, 0, 128) == (0, 64, 0)
    assert cell("F", 128, 17, 5)[1:] == (33, 5) and cell("F", 128, 40, 70)[1:] == (72, 70)
    assert cell("F", 128, 63, 127)[1:] == (111, 127)
    assert cell("G", 128, 17, 5)[1:] == (17, 5) and cell("G", 128, 31, 100)[1:] == (127, 4)


@pytest.mark.parametrize("name", tmem.LAYOUTS)
def test_capture_and_tile(name: str) -> None:
    tile = np.arange(tmem.layout(name).rows * 64).reshape(-1, 64)
    capture = tmem.capture_of(tile, name)
    assert capture.shape == (128, tmem.columns(name, 64))
    assert (tmem.tile_of(capture, name, 64) == tile).all()
    swapped = np.roll(capture, 32, axis=0)
    assert (tmem.tile_of(swapped, name, 64) != tile).any()
    with pytest.raises(TileproofError):
        tmem.tile_of(capture[:, :3], name, 64)


def test_a_operand_in_tmem() -> None:
    assert tmem.a_lanes(128, 2, 70) == [(1, 6), (1, 70)]
    assert tmem.a_lanes(64, 1, 17, lane_offset=16) == [(0, 49)]
    assert tmem.a_lanes(64, 1, 3, ws=True) == [(0, 3), (0, 67)]
    assert tmem.a_column(5) == (2, 1)
    with pytest.raises(TileproofError):
        tmem.a_lanes(256, 1, 0)


# shape -> CuTe layout of (thread, register) to lane + 128 * column, as a function of the registers per thread
REGISTERS = {
    "32x32b": lambda n: ((32, n), (1, 128)),
    "16x64b": lambda n: (((2, 2, 8), n), ((8, 128, 1), 256)),
    "16x128b": lambda n: (((4, 8), (2, n // 2)), ((128, 1), (8, 512))),
    "16x256b": lambda n: (((4, 8), (2, 2, n // 4)), ((256, 1), (128, 8, 1024))),
    "16x32bx2": lambda n: (((16, 2), n), ((1, 128 * n), 128)),
}


@pytest.mark.parametrize("shape", REGISTERS)
@pytest.mark.parametrize("num", [1, 2, 4, 16])
def test_register_maps_equal_pycute(shape: str, num: int) -> None:
    count = tmem.registers(shape, num)
    cute = pycute.Layout(*REGISTERS[shape](count))
    t, i = np.arange(32)[:, None], np.arange(count)[None, :]
    lane, column = tmem.register_cell(shape, num, t, i, split=num)
    assert (lane + 128 * column == [[cute(a, b) for b in range(count)] for a in range(32)]).all()
    cells = set(zip(lane.ravel().tolist(), column.ravel().tolist(), strict=True))
    assert len(cells) == 32 * count


def test_worked_register_and_limits() -> None:
    lane, column = tmem.register_cell("32x32b", 4, 5, 3)
    assert (tmem.warp_lanes(2).start + int(lane), 0x10 + int(column)) == (69, 0x13)
    assert tmem.registers("16x256b", 32) == 128 and tmem.registers("32x32b", 128) == 128
    for bad in (("16x256b", 64), ("16x128b", 128), ("32x32b", 3), ("8x32b", 1)):
        with pytest.raises(TileproofError):
            tmem.registers(*bad)
    with pytest.raises(TileproofError):
        tmem.register_cell("32x32b", 2, 0, 2)


def test_cp_lanes() -> None:
    assert tmem.cp_lanes("64x128b.warpx2::02_13", 40) == (40, 104)
    assert tmem.cp_lanes("64x128b.warpx2::01_23", 40) == (72, 104)
    assert tmem.cp_lanes("32x128b.warpx4", 3) == (3, 35, 67, 99)
    assert tmem.cp_columns("128x256b") == 8 and tmem.cp_columns("32x128b.warpx4") == 4
    for shape, rows in (
        ("128x256b", 128),
        ("64x128b.warpx2::02_13", 64),
        ("64x128b.warpx2::01_23", 64),
        ("32x128b.warpx4", 32),
    ):
        assert sorted(lane for r in range(rows) for lane in tmem.cp_lanes(shape, r)) == list(range(128))
    assert [tmem.cp_lanes("4x256b", row) for row in range(4)] == [(0,), (32,), (64,), (96,)]
    for shape, row in (("4x256b", 4), ("64x128b", 0)):
        with pytest.raises(TileproofError):
            tmem.cp_lanes(shape, row)


# --- block scales and narrow operands ----------------------------------------------------------


def test_scale_factor_cells_equal_pycute() -> None:
    """tmem_sf_frg of CUTLASS 4.2: in bytes, 128 of them per lane step, four copies 32 lanes apart."""
    for rows in (64, 128, 256):
        cute = pycute.Layout(((32, rows // 32), 4), ((1, 512), 32))
        for row in range(rows):
            for copy in range(4):
                at = cute(row + rows * copy)
                want = at % 128, at // 128
                assert tmem.scale_cell("A", 256, row, copy, of_b=False) == want
                assert rows != 256 or tmem.scale_cell("A", 256, row, copy, of_b=True) == want
    # Layout B cuts N over the lanes (ScaleFactorDuplicated2by2): 64 lanes between the halves of N.
    cute = pycute.Layout(((32, 128 // 2 // 32), 2, 2), ((1, 512), 64, 32))
    for n in range(128):
        places = {(at % 128, at // 128) for at in (cute(n + 128 * copy) for copy in range(2))}
        cells = {tmem.scale_cell("B", 128, n, copy, of_b=True) for copy in range(4)}
        assert places == cells - {(-1, 0)}


def test_swizzle_with_32_byte_atoms_equals_pycute() -> None:
    cute = pycute.Swizzle(2, 5, 2)
    assert [swizzle.swizzle("128B_ATOM_32B", x) for x in range(2048)] == [cute(x) for x in range(2048)]
    # MN-major tf32: ((T,8,m),(4,k)):((1,T,LBO),(8T,SBO)) with T = 4.
    lbo, sbo, start = 4096, 512, 0x4000
    layout = pycute.Layout(((32, 4), (4, 2)), ((1, lbo // 4), (32, sbo // 4)))
    for mn in range(128):
        for k in range(8):
            got = smem_layout.address("MN", "128B_ATOM_32B", start, lbo, sbo, mn, k, bits=32)
            assert got == cute(start + 4 * layout(mn + 128 * k))


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_operands_of_other_widths_equal_pycute(bits: int) -> None:
    t, start, lbo, sbo = 128 // bits, 0x4000, 4096, 2048
    size = bits // 8
    for mode in MODES:
        cute, w = pycute.Swizzle(swizzle.bits(mode), 4, 3), swizzle.width(mode) // size
        step = lbo // size if mode == "none" else t
        k_major = pycute.Layout(((8, 4), (t, 2)), ((t if mode == "none" else w, sbo // size), (1, step)))
        mn_major = pycute.Layout(((w, 2), (8, 2)), ((1, lbo // size), (w, sbo // size)))
        if mode == "none":
            mn_major = pycute.Layout(((t, 2), (8, 2)), ((1, sbo // size), (t, lbo // size)))
        for name, layout, ks in (("K", k_major, 2 * t), ("MN", mn_major, 16)):
            rows = pycute.size(layout) // ks
            for mn in range(0, rows, 3):
                for k in range(ks):
                    got = smem_layout.address(
                        cast(smem_layout.Major, name), mode, start, lbo, sbo, mn, k, bits=bits
                    )
                    assert got == cute(start + size * layout(mn + rows * k)), (name, mode, mn, k)


def test_a_base_offset_counts_lines_from_the_start_of_the_pattern() -> None:
    """A pattern that starts off its boundary looks, counted from there, as one that starts on it."""
    for mode in ("32B", "64B", "128B"):
        start = 0x4000 + 3 * 128
        offset = descriptors.base_offset(start)
        for x in range(0, 1024, 16):
            assert (
                swizzle.swizzle(mode, start + x, offset) - start == swizzle.swizzle(mode, 0x4000 + x) - 0x4000
            )
