# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Tensor maps that a kernel was handed as plain bytes: every field is checked where a copy uses the map."""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tileproof.emulator import RunResult, TensorMap, _engine
from tileproof.emulator.errors import LaunchError
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.tma import check_tensor_map

from tests.emulator.test_tma import BAR, DATA, dump
from tests.kit.ptx import Memory, clean, init_barrier, kernel_text, only, parsed, run, wait

# Fields of the 128 bytes (TensorMap's docstring): name -> offset, struct code.
FIELDS = {"address": (8, "Q"), "rank": (16, "B"), "element_size": (17, "B"), "dtype": (18, "B"), "swizzle": (19, "B"), "fill": (20, "B"), "atoms": (21, "B"),
          "mode": (22, "B"), "reserved0": (23, "B"), "shape0": (24, "I"), "shape1": (28, "I"), "reserved1": (44, "I"), "stride0": (48, "Q"), "stride1": (56, "Q"),
          "box0": (80, "H"), "box1": (82, "H"), "step0": (90, "B"), "step1": (91, "B"), "reserved2": (95, "B"), "lower0": (96, "h"), "upper0": (102, "h"),
          "reserved3": (108, "B"), "reserved4": (124, "I")}  # fmt: skip


def forged(data: bytes, **values: int) -> bytes:
    """The map with other values in its fields, and the sum that belongs to them."""
    out = bytearray(data)
    for name, value in values.items():
        at, code = FIELDS[name]
        struct.pack_into("<" + code, out, at, value)
    total = 2166136261
    for byte in out[:120]:
        total = (total ^ byte) * 16777619 & 0xFFFFFFFF
    struct.pack_into("<I", out, 120, total)
    return bytes(out)


def plain(memory: Memory, dtype: str = "uint16", **fields: Any) -> TensorMap:
    """A legal map of 8 rows of 64 elements of 2 bytes, box 64 x 4."""
    made = TensorMap.tiled(
        memory.buffer(np.zeros((8, 64), np.uint16)), shape=(64, 8), strides=(128,), box=(64, 4), dtype=dtype
    )
    return replace(made, **fields)


WRONG = [
    ({"element_size": 0}, "the element size"), ({"element_size": 1}, "the element size"), ({"element_size": 255}, "the element size"),
    ({"dtype": 16}, "tensorDataType"), ({"dtype": 255}, "tensorDataType"), ({"dtype": 8, "element_size": 8, "fill": 1, "box0": 16}, "oobFill"),
    ({"fill": 1}, "oobFill"), ({"fill": 2}, "oobFill"), ({"rank": 0}, "tensorRank"), ({"rank": 6}, "tensorRank"), ({"rank": 255}, "tensorRank"),
    ({"mode": 1}, "tensorRank"), ({"mode": 2}, "the mode"), ({"swizzle": 4}, "swizzle"), ({"swizzle": 255}, "swizzle"), ({"atoms": 4}, "the atoms"),
    ({"swizzle": 1}, "boxDim[0]"), ({"swizzle": 2}, "boxDim[0]"), ({"address": 8}, "globalAddress"), ({"address": 1 << 57}, "globalAddress"),
    ({"stride0": 24}, "globalStrides[0]"), ({"stride0": 1 << 40}, "globalStrides[0]"), ({"box0": 0}, "boxDim[0]"), ({"box1": 0}, "boxDim[1]"), ({"box0": 257}, "boxDim[0]"),
    ({"box1": 0xFFFF}, "boxDim[1]"), ({"box0": 7}, "boxDim[0]"), ({"step0": 0}, "elementStrides[0]"), ({"step1": 0}, "elementStrides[1]"), ({"step1": 9}, "elementStrides[1]"),
    ({"reserved0": 1}, "a reserved byte"), ({"reserved1": 1}, "a reserved byte"), ({"reserved2": 1}, "a reserved byte"), ({"reserved3": 1}, "a reserved byte"),
    ({"reserved4": 1}, "a reserved byte"), ({"dtype": 14, "element_size": 1, "box0": 96}, "boxDim[0]"), ({"dtype": 15, "element_size": 1, "box0": 64}, "globalDim[0]"),
]  # fmt: skip


def load(memory: Memory, data: bytes, where: str) -> tuple[RunResult, Any]:
    """A tile load through these bytes, in global memory or as a parameter; and what the kernel wrote out."""
    out = memory.empty(512, np.uint8)
    own = memory.buffer(np.frombuffer(data, np.uint8).copy())
    m = plain(memory)
    body = f"""{init_barrier(BAR)}
    @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [{BAR}], 512;
    @%p0 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [{DATA}], [{"%a1" if where == "global" else "%a2"}, {{0, 0}}], [{BAR}];
    {wait(BAR)}
    {dump(512)}"""
    if where == "parameter":  # the same bytes as the argument of a tensor map parameter
        args: list[Any] = [out, own, data]
        launched = parsed(kernel_text(body, [False, False, True]))
        return launched.launch("k", grid=(1,), block=(128,), args=args, memory=memory, shared_bytes=4096), out
    return run(body, [out, own, m], memory=memory, threads=128, shared_bytes=4096), out


@pytest.mark.parametrize("where", ["global", "parameter"])
def test_a_plain_map_is_copied(where: str) -> None:
    memory = Memory()
    result, out = load(memory, forged(plain(memory).encode()), where)
    clean(result)
    assert not out.numpy().any()


@pytest.mark.parametrize("where", ["global", "parameter"])
@pytest.mark.parametrize(
    ("values", "field"), WRONG, ids=[" ".join(f"{k}={v}" for k, v in w.items()) for w, _ in WRONG]
)
def test_a_forged_field_is_a_finding_and_nothing_is_copied(
    values: dict[str, int], field: str, where: str
) -> None:
    memory = Memory()
    result, out = load(memory, forged(plain(memory).encode(), **values), where)
    finding = only(result, "tensormap-field")
    assert f": {field}" in finding.message and finding.severity == "error"
    assert result.counters.tma_load_bytes == 0 and not out.written().any()


def test_stores_and_prefetches_check_the_map_too() -> None:
    memory = Memory()
    bad = memory.buffer(np.frombuffer(forged(plain(memory).encode(), element_size=64), np.uint8).copy())
    for line in ("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%a0, {0, 0}], [2048];", "cp.async.bulk.prefetch.tensor.2d.L2.global [%a0, {0, 0}];",
                 "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%a0, {0, 0}], [2048];"):  # fmt: skip
        only(run(line, [bad], memory=memory, threads=1, shared_bytes=4096), "tensormap-field")


def test_a_short_row_is_not_swizzled_out_of_shared_memory() -> None:
    """A row of 16 bytes at an odd line of 128 goes to bytes 16 to 31 of its line."""
    memory = Memory()
    small = TensorMap.tiled(
        memory.buffer(np.zeros((8, 64), np.uint16)), shape=(64, 8), strides=(128,), box=(8, 1), swizzle="32B"
    )
    line = f"cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [{DATA + 128}], [%a0, {{0, 0}}], [{BAR}];"
    body = f"{init_barrier(BAR)} @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [{BAR}], 16; @%p0 {line} {wait(BAR)}"
    ends = DATA + 128 - 1024
    clean(run(body, [small], memory=memory, shared_bytes=ends + 32))
    only(run(body, [small], memory=memory, shared_bytes=ends + 16), "shared-out-of-bounds")


def _taken(m: TensorMap) -> bool:
    try:
        check_tensor_map(m.checked)
    except TileproofError:
        return False
    return m.oob_fill == "zero" or m.dtype in ("float16", "float32", "bfloat16")


_TYPES = ("uint8", "uint16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64", "bfloat16", "float32_ftz", "tfloat32",
          "tfloat32_ftz", "16u4_align8b", "16u4_align16b", "16u6_align16b")  # fmt: skip
_SWIZZLES = ("none", "none", "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B")


def _any_map(rng: random.Random) -> TensorMap:
    """Fields of every type, each at or beside its limits."""
    im2col = rng.random() < 0.3
    rank = rng.randint(3 if im2col else 1, 5)

    def some(count: int, *values: int) -> tuple[int, ...]:
        beside = (0,) * 14 + (-1, 1)
        return tuple(max(0, rng.choice(values) + rng.choice(beside)) for _ in range(count))

    def corner() -> tuple[int, ...]:
        limit = {3: 1 << 15, 4: 1 << 7, 5: 1 << 4}[rank]
        values = (0, 0, 0, limit - 1, -limit, min(limit, 2**15 - 1), max(-limit - 1, -(2**15)))
        return tuple(rng.choices(values, k=rank - 2))

    dtype = rng.choice(_TYPES)
    packed = dtype.startswith("16u")
    inner = rng.choice((128, 128, 64, 256, 32)) if packed else some(1, 16, 64, 128, 256)[0]
    return TensorMap(
        address=rng.choice((0, 32, 1 << 44, 1 << 57)) + rng.choice((0, 0, 0, 0, 16, 8)),
        dtype=dtype,
        shape=(
            128 * rng.randint(1, 4) if packed else rng.choice((1, 64, 1 << 20, 1 << 32)),
            *rng.choices((1, 7, 1 << 31, 1 << 32), k=rank - 1),
        ),
        strides=tuple(
            rng.choice((0, 32, 128, 1 << 39, 1 << 40)) + rng.choice((0,) * 10 + (16, 8))
            for _ in range(rank - 1)
        ),
        box=(inner, *(some(1, 1, 256, 1024) if im2col else some(rank - 1, 1, 1, 8, 256))),
        element_strides=some(rank, 1, 1, 1, 8),
        swizzle=rng.choice(_SWIZZLES),
        oob_fill=rng.choice(("zero", "zero", "nan")),
        lower=corner() if im2col else (),
        upper=corner() if im2col else (),
    )


def test_the_engine_refuses_what_the_driver_refuses() -> None:
    """Both against `spec.machine.tma`, over maps with fields at and beside their limits."""
    rng = random.Random(7)
    taken = refused = 0
    for _ in range(8000):
        m = _any_map(rng)
        wrong = _engine.wrong_tensor_map(m.encode())
        assert (not wrong) == _taken(m), (m, wrong)
        taken, refused = taken + (not wrong), refused + bool(wrong)
    assert taken > 300 and refused > 300


def test_bytes_of_a_forged_map_are_refused_when_they_are_read() -> None:
    memory = Memory()
    good = plain(memory).encode()
    assert TensorMap.decode(forged(good)) == plain(memory, address=TensorMap.decode(good).address)
    for values, field in WRONG:
        with pytest.raises(LaunchError, match="field that the driver rejects") as error:
            TensorMap.decode(forged(good, **values))
        assert field in str(error.value)
