"""The launch description: what head128-part0 is launched with, and what a launch refuses."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from tileproof.conformance.drivers.emulator import launch_on
from tileproof.kernels.compile import Built
from tileproof.kernels.launch import jsonform
from tileproof.kernels.launch.arguments import Item, ScalarArgument, TensorMapArgument
from tileproof.kernels.launch.builder import LaunchBuilder, struct, tensor_map
from tileproof.kernels.launch.contents import ArrayContent
from tileproof.kernels.launch.model import HostCall, LaunchBuffer, LaunchFile
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.plans.head128_part0 import plan
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs

from tests.kit.inputs import make_inputs
from tests.kit.launches import struct_of

KERNEL = kernel("head128-part0")


@pytest.fixture(scope="module")
def built() -> Built:
    return KERNEL.build(KERNEL.variant(d_qk=576))


@pytest.fixture(scope="module")
def built_probe() -> Built:
    return KERNEL.build(KERNEL.variant(d_qk=576), probe=True)


def _fields(launch: LaunchFile) -> dict[int, Item]:
    return {item.offset: item.item for item in struct_of(launch).items}


def test_launch_of_the_production_build(inputs: Inputs, built: Built) -> None:
    launch = KERNEL.launch(inputs, built)
    (own,) = launch.launches
    assert (own.grid, own.cluster, own.block) == ((6, 1, 1), (2, 1, 1), (416, 1, 1))
    assert own.shared_bytes == plan(576).smem_bytes
    assert launch.ptx == built.ptx and own.entry == built.entry
    (delta,) = launch.outcomes
    assert (delta.name, delta.shape, delta.dtype) == ("delta", (3, 128), "float32")
    assert {buffer.name for buffer in launch.buffers} == {"q", "kv", "dO", "o", "indices", "delta"}
    null = ScalarArgument("u64", 0)
    assert (_fields(launch)[400], _fields(launch)[416]) == (null, null)  # topk_length, P


def test_launch_of_the_probe_build(inputs: Inputs, built_probe: Built) -> None:
    lengths = np.array([0, 64, 128], dtype=np.int32)
    launch = KERNEL.launch(dataclasses.replace(inputs, topk_length=lengths), built_probe, probe=True)
    assert launch.buffer("P").judged and launch.buffer("P").shape == (3, 128, 128)
    content = launch.buffer("topk_length").content
    assert isinstance(content, ArrayContent) and content.data is lengths


def test_the_struct_is_the_size_of_the_entrys_parameter(inputs: Inputs, built: Built) -> None:
    struct = struct_of(KERNEL.launch(inputs, built))
    assert f"{built.entry}_param_0[{struct.size}]" in built.ptx


def test_tensor_maps_cover_the_inputs_and_their_boxes_are_column_tiles(inputs: Inputs, built: Built) -> None:
    fields = _fields(KERNEL.launch(inputs, built))
    p = plan(576)
    for at, name, rows, cols, box_rows in (
        (0, "q", 3 * 128, 576, p.smem_tile("Q").rows),
        (128, "dO", 3 * 128, 512, p.smem_tile("dO").rows),
        (256, "kv", 100, 576, 1),
    ):
        item = fields[at]
        assert isinstance(item, TensorMapArgument) and item.buffer == name
        assert (item.shape, item.strides, item.box) == ((cols, rows), (2 * cols,), (64, box_rows))


def test_a_wider_box_than_the_swizzle_span_is_refused() -> None:
    buffer = LaunchBuffer.output("q", (64, 576), ml_dtypes.bfloat16)
    tensor_map(buffer, (576, 64), (64, 64), "128B")
    with pytest.raises(TileproofError, match="tensor map of q"):
        tensor_map(buffer, (576, 64), (128, 64), "128B")


def test_inputs_that_the_kernel_is_not_made_for_are_refused(built: Built, inputs: Inputs) -> None:
    with pytest.raises(TileproofError, match="h_q"):
        KERNEL.launch(make_inputs(h_q=64), built)
    with pytest.raises(TileproofError, match=r"multiple of 64"):
        KERNEL.launch(make_inputs(topk=100), built)
    with pytest.raises(TileproofError, match="for other inputs"):
        KERNEL.launch(make_inputs(d_qk=512), built)
    with pytest.raises(TileproofError, match="for other inputs"):
        KERNEL.launch(inputs, built, probe=True)


def test_two_buffers_of_one_name_are_refused() -> None:
    made = LaunchBuilder("k", ".version 8.8")
    a = made.output("x", (1,), np.float32)
    made.launch("k", grid=(1,), block=(32,), arguments=[a, a])
    made.file()
    made.output("x", (1,), np.float32)
    with pytest.raises(TileproofError, match="share a name"):
        made.file()


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (((0, "u64"), (4, "s32")), "does not fit"),
        (((2, "s32"),), "not aligned"),
        (((12, "u64"),), "not aligned"),
        (((16, "s32"),), "does not fit"),
    ],
    ids=["overlap", "misaligned", "misaligned-address", "outside"],
)
def test_a_struct_whose_items_do_not_fit_is_refused(fields: tuple[tuple[int, str], ...], says: str) -> None:
    struct(16, ((0, ScalarArgument("u64", 0)), (8, ScalarArgument("s32", 0))))
    with pytest.raises(TileproofError, match=says):
        struct(16, [(at, ScalarArgument(kind, 0)) for at, kind in fields])


def test_a_buffer_must_be_contiguous_and_of_its_shape() -> None:
    array = np.zeros((4, 4), dtype=ml_dtypes.bfloat16)
    with pytest.raises(TileproofError, match="not contiguous"):
        LaunchBuilder("k", "").input("q", array.T[:, :2])
    with pytest.raises(TileproofError, match="not the buffer's"):
        LaunchBuffer("q", "bfloat16", (4, 5), "input", ArrayContent(array))


def test_a_tensor_map_has_one_rank() -> None:
    buffer = LaunchBuffer.output("x", (4, 4), np.float32)
    tensor_map(buffer, (4, 4), (4, 4), "none")
    with pytest.raises(TileproofError, match="tensor map of x"):
        tensor_map(buffer, (4, 4), (4, 4), "none", (16, 64))


def test_a_launch_of_a_kernel_is_a_launch_file(inputs: Inputs, built: Built, tmp_path: Path) -> None:
    """Written, read and run, it gives the same bits."""
    changes = {name: np.ones_like(getattr(inputs, name)) for name in ("o", "dO")}
    launch = KERNEL.launch(dataclasses.replace(inputs, **changes), built)
    jsonform.write(launch, tmp_path / "launch.json")
    again = jsonform.read(tmp_path / "launch.json")
    assert again.launches == launch.launches and again.modules == launch.modules
    first, second = (launch_on(file)[1] for file in (launch, again))
    assert {buffer.name for buffer in launch.buffers} == first.keys() == second.keys()
    for name, buffer in first.items():
        assert buffer.numpy().tobytes() == second[name].numpy().tobytes()
    assert first["delta"].numpy().any()


def test_a_python_function_has_no_json(tmp_path: Path) -> None:
    of_function = LaunchFile("f", (), (), (HostCall(lambda outputs: None),))
    with pytest.raises(TileproofError, match="Python function"):
        jsonform.write(of_function, tmp_path / "launch.json")
