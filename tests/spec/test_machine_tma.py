"""Tensor maps, tile and gather images against element-by-element copies and the MMA operand layouts."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tileproof.spec.machine import smem_layout, swizzle
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.tma import TensorMapFields, check_tensor_map, gather4_image, tile_image

ROWS, COLS = 37, 96
MEMORY = np.arange(ROWS * COLS, dtype=np.uint16).view(np.uint8)
MAP = TensorMapFields("bfloat16", (COLS, ROWS), (COLS * 2,), (64, 8), (1, 1), "128B")


def value(x: int, y: int) -> int:
    return y * COLS + x if 0 <= x < COLS and 0 <= y < ROWS else 0


@settings(deadline=None)
@given(
    st.sampled_from(
        [("none", 64), ("128B", 64), ("64B", 32), ("32B", 16), ("128B", 32), ("128B_ATOM_32B", 64)]
    ),
    st.integers(-9, 12).map(lambda eight: 8 * eight),
    st.integers(-10, 40),
    st.integers(1, 3),
)
def test_tile_image_element_by_element(mode: tuple[str, int], x: int, y: int, step: int) -> None:
    fields = replace(MAP, swizzle=mode[0], box=(mode[1], 8), element_strides=(1, step))
    dst = 0x1080
    image = tile_image(fields, MEMORY, (x, y), dst).view(np.uint16)
    count = -(-8 // step)
    pitch = 2 * mode[1] if mode[0] == "none" else swizzle.width(mode[0])  # seen on silicon
    assert fields.box_bytes == 2 * mode[1] * count and fields.pitch == pitch
    assert image.nbytes == (pitch * count if mode[0] == "none" else -(-pitch * count // 128) * 128)
    for i, j in product(range(0, mode[1], 5), range(count)):
        at = swizzle.swizzle(mode[0], dst + 2 * i + pitch * j) - dst
        assert image[at // 2] == value(x + i, y + j * step)
    assert np.count_nonzero(image) <= mode[1] * count


def test_no_copy_starts_inside_16_bytes() -> None:
    with pytest.raises(TileproofError, match="innermost coordinate"):
        tile_image(MAP, MEMORY, (1, 0))
    with pytest.raises(TileproofError, match="innermost coordinate"):
        gather4_image(GATHER, MEMORY, 4, (0, 1, 2, 3))


def test_a_box_lands_in_the_K_major_operand_layout() -> None:
    image = tile_image(MAP, MEMORY, (16, 4), 0x4000).view(np.uint16)
    mn, k = np.arange(8)[:, None], np.arange(64)[None, :]
    at = smem_layout.address("K", "128B", 0x4000, 16, 1024, mn, k) - 0x4000
    assert (image[at // 2] == (mn + 4) * COLS + k + 16).all()
    wrong = smem_layout.address("K", "64B", 0x4000, 16, 1024, mn, k) - 0x4000
    assert (image[np.minimum(wrong, 1022) // 2] != (mn + 4) * COLS + k + 16).any()


def test_a_box_along_mn_lands_in_the_MN_major_operand_layout() -> None:
    image = tile_image(MAP, MEMORY, (0, 0), 0x4000).view(np.uint16)
    mn, k = np.arange(64)[:, None], np.arange(8)[None, :]
    at = smem_layout.address("MN", "128B", 0x4000, 8192, 1024, mn, k) - 0x4000
    assert (image[at // 2] == k * COLS + mn).all()


GATHER = replace(MAP, box=(64, 1))


def test_two_gathers_fill_one_atom() -> None:
    rows = [5, -1, 5, ROWS, 0, 36, -(2**31), 2**31 - 1]
    halves = [
        gather4_image(GATHER, MEMORY, 16, tuple(rows[i : i + 4]), 0x4000 + 128 * i)  # type: ignore[arg-type]
        for i in (0, 4)
    ]
    image = np.concatenate(halves).view(np.uint16)
    mn, k = np.arange(8)[:, None], np.arange(64)[None, :]
    at = (smem_layout.address("K", "128B", 0x4000, 16, 1024, mn, k) - 0x4000) // 2
    want = np.array([[value(16 + c, r) for c in range(64)] for r in rows])
    assert (image[at] == want).all()
    relative = gather4_image(GATHER, MEMORY, 16, tuple(rows[4:]), 0x4000)  # type: ignore[arg-type]
    assert (relative != halves[1]).any()


def test_order_of_rows_matters() -> None:
    a = gather4_image(GATHER, MEMORY, 0, (1, 2, 3, 4))
    assert (a != gather4_image(GATHER, MEMORY, 0, (1, 2, 4, 3))).any()


def test_nan_fill() -> None:
    image = gather4_image(replace(GATHER, oob_fill="nan"), MEMORY, 0, (0, 99, 1, -1), 0).view(np.uint16)
    assert (image[64:128] == 0x7FF7).all() and (image[192:] == 0x7FF7).all()
    with pytest.raises(TileproofError, match="NaN fill"):
        tile_image(replace(MAP, dtype="tfloat32", box=(32, 8), oob_fill="nan"), MEMORY, (0, 0))


def test_rank_3_and_overlapping_strides() -> None:
    fields = TensorMapFields("bfloat16", (8, 4, 3), (16, 32), (8, 2, 2), (1, 1, 1))
    image = tile_image(fields, MEMORY, (0, 1, 2)).view(np.uint16).reshape(2, 2, 8)
    assert (image[0, 1] == 2 * 8 + 2 * 16 + np.arange(8)).all()
    assert not image[1].any()


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"shape": (COLS,) * 6}, "rank"),
        ({"strides": ()}, "strides"),
        ({"strides": (COLS * 2 + 8,)}, "strides[0]"),
        ({"strides": (2**40,)}, "strides[0]"),
        ({"box": (257, 8)}, "box[0]"),
        ({"box": (12, 8)}, "box[0]"),
        ({"box": (128, 8)}, "box[0]"),
        ({"swizzle": "64B"}, "box[0]"),
        ({"box": (64, 0)}, "box[1]"),
        ({"element_strides": (1, 9)}, "element_strides[1]"),
        ({"shape": (0, 4)}, "shape[0]"),
        ({"address": 8}, "address"),
        ({"dtype": "int32", "box": (32, 8), "oob_fill": "nan"}, "oob_fill"),
        ({"dtype": "bf16"}, "dtype"),
    ],
)
def test_bad_maps_are_refused(change: dict[str, Any], where: str) -> None:
    check_tensor_map(MAP)
    with pytest.raises(TileproofError) as caught:
        check_tensor_map(replace(MAP, **change))  # type: ignore[arg-type]
    assert caught.value.where == where


def test_bad_use_is_refused() -> None:
    for broken in (
        lambda: gather4_image(MAP, MEMORY, 0, (0, 1, 2, 3)),
        lambda: tile_image(MAP, MEMORY, (0,)),
        lambda: tile_image(MAP, MEMORY, (0, 0), 0x4010),
        lambda: tile_image(MAP, MEMORY[:-64], (64, 34)),
    ):
        with pytest.raises(TileproofError):
            broken()


def test_chunks_of_32_bytes() -> None:
    """Pairs of 16-byte chunks of lines 0 to 3 change places; it repeats after 512 bytes, its own inverse."""
    mode = "128B_ATOM_32B"
    table = [[swizzle.swizzle(mode, 128 * line + 32 * c) // 32 % 4 for c in range(4)] for line in range(8)]
    assert table == [[c ^ (line % 4) for c in range(4)] for line in range(8)]
    at = np.arange(4096, dtype=np.int64)
    assert (swizzle.swizzle(mode, swizzle.swizzle(mode, at)) == at).all()
    assert (swizzle.swizzle(mode, at) % 32 == at % 32).all()
    assert swizzle.span(mode) == 512
    assert swizzle.width(mode) == 128
