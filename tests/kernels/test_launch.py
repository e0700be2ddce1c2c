"""The launch description: what head128-part0 is launched with, and what a launch refuses."""

from __future__ import annotations

import dataclasses
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tileproof.kernels.compile import Built
from tileproof.kernels.launch import Buffer, Launch, Scalar, Struct, TensorMapSpec
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.plans.head128_part0 import plan
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs

from tests.kit.inputs import make_inputs

KERNEL = kernel("head128-part0")


@pytest.fixture(scope="module")
def built() -> Built:
    return KERNEL.build(KERNEL.variant(d_qk=576))


@pytest.fixture(scope="module")
def built_probe() -> Built:
    return KERNEL.build(KERNEL.variant(d_qk=576), probe=True)


def _fields(launch: Launch) -> dict[str, tuple[int, Buffer | Scalar | TensorMapSpec]]:
    (struct,) = launch.params
    assert isinstance(struct, Struct)
    return {item.name: (offset, item) for offset, item in struct.fields}


def test_launch_of_the_production_build(inputs: Inputs, built: Built) -> None:
    launch = KERNEL.launch(inputs, built)
    assert (launch.grid, launch.cluster, launch.block) == ((6, 1, 1), (2, 1, 1), (416, 1, 1))
    assert launch.shared_bytes == plan(576).smem_bytes
    assert launch.image == built.ptx and launch.entry == built.entry
    buffers = launch.buffers()
    assert {name for name, buffer in buffers.items() if buffer.direction == "out"} == {"delta"}
    assert buffers["delta"].shape == (3, 128) and buffers["delta"].dtype == np.float32
    assert set(buffers) == {"q", "kv", "dO", "o", "indices", "delta"}
    assert _fields(launch)["topk_length"][1] == Scalar("topk_length", "u64", 0)
    assert _fields(launch)["P"][1] == Scalar("P", "u64", 0)


def test_launch_of_the_probe_build(inputs: Inputs, built_probe: Built) -> None:
    lengths = np.array([0, 64, 128], dtype=np.int32)
    launch = KERNEL.launch(dataclasses.replace(inputs, topk_length=lengths), built_probe, probe=True)
    buffers = launch.buffers()
    assert buffers["P"].direction == "out" and buffers["P"].shape == (3, 128, 128)
    assert buffers["topk_length"].array is lengths


def test_the_struct_is_the_size_of_the_entrys_parameter(inputs: Inputs, built: Built) -> None:
    (struct,) = KERNEL.launch(inputs, built).params
    assert isinstance(struct, Struct)
    assert f"{built.entry}_param_0[{struct.size}]" in built.ptx


def test_tensor_maps_cover_the_inputs_and_their_boxes_are_column_tiles(inputs: Inputs, built: Built) -> None:
    fields = _fields(KERNEL.launch(inputs, built))
    p = plan(576)
    for name, rows, cols, box_rows in (
        ("q_map", 3 * 128, 576, p.smem_tile("Q").rows),
        ("dO_map", 3 * 128, 512, p.smem_tile("dO").rows),
        ("kv_map", 100, 576, 1),
    ):
        item = fields[name][1]
        assert isinstance(item, TensorMapSpec)
        assert (item.shape, item.strides, item.box) == ((cols, rows), (2 * cols,), (64, box_rows))


def test_a_wider_box_than_the_swizzle_span_is_refused(inputs: Inputs, built: Built) -> None:
    item = _fields(KERNEL.launch(inputs, built))["q_map"][1]
    assert isinstance(item, TensorMapSpec)
    with pytest.raises(TileproofError, match="tensor map q_map"):
        dataclasses.replace(item, box=(128, 64))


def test_inputs_that_the_kernel_is_not_made_for_are_refused(built: Built, inputs: Inputs) -> None:
    with pytest.raises(TileproofError, match="h_q"):
        KERNEL.launch(make_inputs(h_q=64), built)
    with pytest.raises(TileproofError, match=r"multiple of 64"):
        KERNEL.launch(make_inputs(topk=100), built)
    with pytest.raises(TileproofError, match="not the one for these inputs"):
        KERNEL.launch(make_inputs(d_qk=512), built)
    with pytest.raises(TileproofError, match="not the one for these inputs"):
        KERNEL.launch(inputs, built, probe=True)


def _launch(**changes: Any) -> Launch:
    fields: dict[str, Any] = {
        "image": "",
        "entry": "e",
        "grid": (2, 1, 1),
        "cluster": (2, 1, 1),
        "block": (128, 1, 1),
        "shared_bytes": 1024,
        "params": (),
    }
    return Launch(**(fields | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"grid": (3, 1, 1)}, "grid"),
        ({"grid": (0, 1, 1)}, "grid"),
        ({"block": (2048, 1, 1)}, "block"),
        ({"block": (0, 1, 1)}, "block"),
        ({"cluster": (16, 1, 1), "grid": (16, 1, 1)}, "cluster"),
        ({"shared_bytes": 232449}, "shared_bytes"),
    ],
)
def test_a_launch_that_does_not_fit_is_refused(changes: dict[str, Any], says: str) -> None:
    _launch()
    with pytest.raises(TileproofError, match=f"launch's {says} does not fit"):
        _launch(**changes)


def test_two_buffers_of_one_name_are_refused() -> None:
    a, b = (Buffer.output("x", (1,), np.float32) for _ in range(2))
    _launch(params=(a, a))
    with pytest.raises(TileproofError, match="share a name"):
        _launch(params=(a, b))


@pytest.mark.parametrize(
    "fields",
    [
        ((0, Scalar("a", "u64", 0)), (4, Scalar("b", "s32", 0))),
        ((2, Scalar("a", "s32", 0)),),
        ((12, Scalar("a", "u64", 0)),),
        ((16, Scalar("a", "s32", 0)),),
    ],
    ids=["overlap", "misaligned", "misaligned-address", "outside"],
)
def test_a_struct_whose_items_do_not_fit_is_refused(fields: tuple[tuple[int, Scalar], ...]) -> None:
    Struct("s", 16, ((0, Scalar("a", "u64", 0)), (8, Scalar("b", "s32", 0))))
    with pytest.raises(TileproofError, match="does not fit at offset"):
        Struct("s", 16, fields)


def test_a_buffer_must_be_contiguous() -> None:
    with pytest.raises(TileproofError, match="not contiguous"):
        Buffer.input("q", np.zeros((4, 4), dtype=ml_dtypes.bfloat16).T)


def test_a_tensor_map_has_one_rank() -> None:
    buffer = Buffer.output("x", (4, 4), np.float32)
    TensorMapSpec("m", buffer, "float32", (4, 4), (16,), (4, 4), (1, 1), "none")
    with pytest.raises(TileproofError, match="tensor map m"):
        TensorMapSpec("m", buffer, "float32", (4, 4), (16, 64), (4, 4), (1, 1), "none")
