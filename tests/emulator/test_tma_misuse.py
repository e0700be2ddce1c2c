# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Tensor copies that cannot be: addresses, maps, boxes, barriers, and the fields that the driver refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tileproof.emulator import TensorMap
from tileproof.spec.machine.errors import TileproofError

from tests.emulator.test_tma import BAR, DATA, dump
from tests.kit.ptx import CLUSTER_SYNC, Memory, clean, init_barrier, only, run, wait

LOAD = "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes"


def one_load(line: str, memory: Memory, m: TensorMap, cluster: int = 1, **launch: Any) -> Any:
    body = f"{init_barrier(BAR)}\n{CLUSTER_SYNC}\n@%p0 {line}"
    return run(body, [m], memory=memory, cluster=cluster, shared_bytes=2048, **launch)


def simple_map(memory: Memory, count: int = 64) -> TensorMap:
    return TensorMap.tiled(memory.buffer(np.zeros(256, np.uint8)), shape=(256,), strides=(), box=(count,))


@pytest.mark.parametrize(
    ("line", "code", "cluster"),
    [
        (f"{LOAD} [{DATA + 64}], [%a0, {{0}}], [{BAR}];", "misaligned", 1),
        (f"{LOAD} [{DATA}], [%a0, {{0}}], [{BAR + 8}];", "mbarrier-uninitialised", 1),
        (f"{LOAD} [3072], [%a0, {{0}}], [{BAR}];", "shared-out-of-bounds", 1),
        (f"{LOAD} [{DATA}], [%a0, {{0}}], [0x1000400];", "tma-barrier-cta", 2),
        (f"{LOAD} [0x5000800], [%a0, {{0}}], [{BAR}];", "shared-no-such-cta", 2),
        (f"{LOAD}.multicast::cluster [{DATA}], [%a0, {{0}}], [{BAR}], 4;", "shared-no-such-cta", 2),
        (f"{LOAD.replace('1d', '2d')} [{DATA}], [%a0, {{0, 0}}], [{BAR}];", "tensormap-rank", 1),
        (f"{LOAD} [{DATA}], [%a0+64, {{0}}], [{BAR}];", "param-out-of-bounds", 1),
        (f"{LOAD} [{DATA}], [%a0+8, {{0}}], [{BAR}];", "misaligned", 1),
        (f"{LOAD} [{BAR}], [%a0, {{0}}], [{BAR}];", "mbarrier-overwritten", 1),
        ("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%a0, {0}], [2049];", "misaligned", 1),
        (
            "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%a0, {0}], [2048];",
            "shared-uninitialised",
            1,
        ),
        (
            "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%a0, {0}], [3072];",
            "shared-out-of-bounds",
            1,
        ),
        (
            "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_group [%a0, {0}], [2048];",
            "tensormap-type",
            1,
        ),
    ],
)
def test_misuse(line: str, code: str, cluster: int) -> None:
    memory = Memory()
    m = simple_map(memory)
    finding = only(one_load(line, memory, m, cluster), code)
    assert finding.machine.instruction == line.split()[0] and finding.machine.lane == 0


def test_gather4_needs_a_box_of_one_row() -> None:
    memory = Memory()
    m = TensorMap.tiled(memory.buffer(np.zeros((4, 64), np.uint8)), shape=(64, 4), strides=(64,), box=(64, 2))
    line = f"{LOAD.replace('1d', '2d').replace('.global.', '.global.tile::gather4.')} [{DATA}], [%a0, {{0, 0, 1, 2, 3}}], [{BAR}];"
    only(one_load(line, memory, m), "tensormap-gather4")


def test_a_box_larger_than_shared_memory() -> None:
    memory = Memory()
    at = memory.buffer(np.zeros(1 << 20, np.uint8))
    with pytest.raises(TileproofError, match="at most 232448 bytes"):  # as the driver refuses it
        TensorMap.tiled(at, shape=(256, 64, 64, 1, 1), strides=(256, 16384, 2**20, 2**20), box=(256,) * 5)
    m = TensorMap.tiled(at, shape=(256, 64, 64), strides=(256, 16384), box=(256, 64, 8))
    line = f"{LOAD.replace('1d', '3d')} [{DATA}], [%a0, {{0, 0, 0}}], [{BAR}];"
    only(one_load(line, memory, m), "shared-out-of-bounds")


def test_a_tensor_past_its_buffer_and_unwritten_memory() -> None:
    memory = Memory()
    small = TensorMap.tiled(memory.buffer(np.zeros(32, np.uint8)), shape=(64,), strides=(), box=(64,))
    line = f"{LOAD} [{DATA}], [%a0, {{0}}], [{BAR}];"
    only(one_load(line, memory, small), "global-out-of-bounds")
    unwritten = TensorMap.tiled(memory.empty(64, np.uint8), shape=(64,), strides=(), box=(64,))
    only(one_load(line, memory, unwritten), "global-uninitialised")
    constant = np.zeros(64, np.uint8)
    constant.flags.writeable = False
    fixed = TensorMap.tiled(memory.buffer(constant), shape=(64,), strides=(), box=(64,))
    line = "st.shared.v4.b32 [2048], {0, 0, 0, 0};\ncp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%a0, {48}], [2048];"
    found = one_load(line, memory, fixed)
    assert "global-read-only" in {f.code for f in found.findings}


def test_a_map_in_global_memory() -> None:
    memory = Memory()
    data = np.arange(64, dtype=np.uint8)
    encoded = np.frombuffer(
        TensorMap.tiled(memory.buffer(data), shape=(64,), strides=(), box=(64,)).encode(), np.uint8
    ).copy()
    body = f"{init_barrier(BAR)}\n@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [{BAR}], 64;\n@%p0 {LOAD} [{DATA}], [%a1, {{0}}], [{BAR}];\n{wait(BAR)}\n{dump(64)}"
    out = memory.empty(64, np.uint8)
    clean(run(body, [out, memory.buffer(encoded)], memory=memory, threads=128, shared_bytes=2048))
    assert (out.numpy() == data).all()
    encoded[20] ^= 1
    only(
        run(body, [out, memory.buffer(encoded)], memory=memory, threads=128, shared_bytes=2048),
        "tensormap-invalid",
    )
    only(
        run(
            body, [out, memory.buffer(np.zeros(64, np.uint8))], memory=memory, threads=128, shared_bytes=2048
        ),
        "global-out-of-bounds",
    )


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"shape": (0,)}, "shape"), ({"box": (257,)}, "box"), ({"box": (24,)}, "box"), ({"element_strides": (9,)}, "element_strides"),
        ({"swizzle": "256B"}, "swizzle"), ({"oob_fill": "nan"}, "oob_fill"), ({"offset": 8}, "address"), ({"strides": (64,)}, "strides"),
        ({"shape": (64, 2), "box": (64, 1), "strides": (24,)}, "strides"), ({"swizzle": "32B", "box": (64,)}, "box"), ({"dtype": np.int8}, "int8"),
        ({"shape": (1,) * 6, "box": (16,) * 6, "strides": (16,) * 5}, "rank"),
    ],
)  # fmt: skip
def test_fields_that_the_driver_refuses(change: dict[str, Any], names: str) -> None:
    good: dict[str, Any] = {"shape": (64,), "strides": (), "box": (64,)}
    memory = Memory()
    buffer = memory.buffer(np.zeros(256, np.uint8))
    TensorMap.tiled(buffer, **good)
    with pytest.raises(TileproofError) as error:
        TensorMap.tiled(buffer, **{**good, **change})
    assert names in str(error.value)
