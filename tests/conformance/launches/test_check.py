"""A launch file against its PTX: a correct file has no contradiction, and each contradiction is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tileproof.conformance.launches.check import contradictions, unset_bytes
from tileproof.conformance.launches.modules import load
from tileproof.conformance.launches.placing import PlacedLaunch
from tileproof.emulator import TensorMap
from tileproof.emulator.errors import LaunchError
from tileproof.kernels.launch.arguments import (
    BytesArgument,
    EncodedMapArgument,
    PlacedItem,
    PointerArgument,
    ScalarArgument,
    StructArgument,
    TensorMapArgument,
)
from tileproof.kernels.launch.contents import Counting, Filled, InlineBytes
from tileproof.kernels.launch.model import (
    BufferCopy,
    BufferFree,
    BufferWrite,
    CudaSource,
    LaunchBuffer,
    LaunchFile,
    LaunchModule,
    NamedBarrier,
    PtxFile,
    SharedPlace,
    SharedStage,
    StageCapture,
    TmemStage,
)
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.tensor_map_bytes import DriverTensorMap, driver_bytes
from tileproof.spec.machine.tma import TensorMapFields

from tests.kit.launch_files import CTAS, SIZE, argument, scale

P, MAP = argument(scale(), 0), argument(scale(), 1)
BUFFERS = scale().buffers
NOWHERE = NamedBarrier("full", SharedPlace(symbol="no"))


def told(launch: LaunchFile) -> list[TileproofError]:
    return contradictions(launch, load(launch))


def ran(launch: LaunchFile) -> PlacedLaunch:
    placed = PlacedLaunch(launch, load(launch))
    for result in placed.run(lambda number, step: {"races": True}):
        assert not result.findings, "\n".join(map(str, result.findings))
    return placed


def test_a_right_launch_runs_and_has_none() -> None:
    launch = scale()
    assert told(launch) == []
    assert unset_bytes(launch, load(launch)) == [
        "bytes 12..15 of parameter p of scale are not set by an item",
        "bytes 20..23 of parameter p of scale are not set by an item",
    ]
    out = ran(launch).buffers["out"]
    assert out.written().all() and (out.numpy() == 2 * (1 + np.arange(SIZE))).all()


def without(item: int) -> StructArgument:
    return StructArgument(24, P.items[:item] + P.items[item + 1 :])


def with_map(**fields: Any) -> tuple[Any, Any]:
    return P, replace(MAP, **fields)


def captured(region: Any, **other: Any) -> tuple[StageCapture, ...]:
    return (StageCapture("S", region, other.pop("barrier", "full"), **other),)


def driver(bit: int | None = None) -> bytes:
    """The map over x as NVIDIA's driver writes it on a machine where x lies elsewhere."""
    fields = TensorMapFields("float32", (64 * CTAS,), (), (64,), (1,), address=0x7F0000000000)
    data = int.from_bytes(driver_bytes(DriverTensorMap(fields, l2_promotion=2)), "little")
    return (data if bit is None else data ^ 1 << bit).to_bytes(128, "little")


@pytest.mark.parametrize(
    ("launch", "words"),
    [
        (scale(entry="scales"), "no such entry.*launch scale"),
        (scale(arguments=(P,)), "the number of arguments differs"),
        (scale(arguments=(replace(P, size=32), MAP)), "does not fit its parameter.*24 bytes"),
        (scale(arguments=(P, ScalarArgument("u33", 0))), "unknown element type"),
        (scale(arguments=(without(1), MAP)), "unset bytes of a struct.*bytes 8..11"),
        (scale(arguments=(without(2), MAP)), "unset bytes of a struct.*bytes 16..19"),
        (scale(arguments=with_map(shape=(64 * CTAS + 4,))), "past its buffer"),
        (scale(arguments=with_map(box=(512,))), r"box\[0\]"),
        (scale(arguments=with_map(dtype="complex64")), "dtype"),
        (scale(arguments=(P, EncodedMapArgument(bytes(128)))), "unknown bits set"),
        (scale(arguments=(P, EncodedMapArgument(driver()))), "tensor map is outside every buffer"),
        (scale(arguments=(P, EncodedMapArgument(driver(), "x", 16))), "past its buffer"),
        (scale(arguments=(P, EncodedMapArgument(driver(bit=67), "x"))), "bits 67"),
        (scale(block=(32,)), r"the PTX.s.*\.reqntid 64"),
        (scale((".reqntid 64, 1, 1", ".maxntid 32, 1, 1")), r"exceeds.*\.maxntid 32"),
        (scale((".reqntid 64, 1, 1", ""), block=(2048,)), "block is too large"),
        (scale((".reqntid 64, 1, 1", ".reqnctapercluster 2, 1, 1"), cluster=(1,)), "cluster differs from"),
        (scale((".reqntid 64, 1, 1", ".explicitcluster")), "must be launched with a cluster"),
        (scale((".reqntid 64, 1, 1", ".maxclusterrank 1"), cluster=(2,)), "too many CTAs"),
        (scale(cluster=(4,)), "whole number of clusters"),
        (scale(grid=(0,)), "invalid extent"),
        (scale(grid=(1, 70000)), "grid is too large"),
        (scale(shared_bytes=232448), "more shared memory.*264 static"),
        (scale(steps=(BufferWrite("x", Counting(), 800), *scale().steps)), "past a buffer"),
        (scale(steps=(BufferCopy("x", "out", 512), *scale().steps)), "past a buffer"),
        (scale(buffers=(replace(BUFFERS[0], known=((0, 9999),)), BUFFERS[1])), "known range"),
        (scale(captures=captured(TmemStage(500, 20))), "outside tensor memory"),
        (scale(captures=captured(SharedStage(SharedPlace(200), (8, 8), "float32"))), "outside the CTA's"),
        (
            scale(captures=captured(SharedStage(SharedPlace(symbol="tiles"), (1, 64), "float32"))),
            "no such shared variable.*tile",
        ),
        (
            scale(captures=captured(SharedStage(SharedPlace(symbol="tile"), (4, 16), "float32", "128B"))),
            "the swizzle does not fit",
        ),
        (scale(captures=captured(TmemStage(0, 8), entry="other")), "not launched"),
        (
            scale(barriers=(NOWHERE,), captures=captured(TmemStage(0, 8))),
            "no such shared variable.*full",
        ),
    ],
)  # fmt: skip
def test_a_contradiction_is_named(launch: LaunchFile, words: str) -> None:
    import re

    found = told(launch)
    assert any(re.search(words, " ".join(str(error).split())) for error in found), list(map(str, found))
    assert all(error.where for error in found)


def test_what_is_read_through_an_address_is_found_when_it_runs() -> None:
    through = "mov.b64 %rd3, p; cvta.param.u64 %rd3, %rd3; ld.u32 %r5, [%rd3+20];"
    launch = scale(("ld.param.u32 %r5, [p+16];", through))
    assert told(launch) == []
    (result,) = PlacedLaunch(launch, load(launch)).run(lambda number, step: {})
    assert "param-unset" in {error.code for error in result.errors}


def test_a_read_past_the_struct_items_is_a_finding_when_it_runs() -> None:
    launch = scale(arguments=(without(1), MAP))
    (result,) = PlacedLaunch(launch, load(launch)).run(lambda number, step: {})
    assert [error.code for error in result.errors] == ["param-unset"]


# ---- other ways to say the same


def test_raw_bytes_with_pointers_and_encoded_maps() -> None:
    first = ran(scale())
    x = first.buffers["x"]
    encoded = TensorMap.tiled(x, shape=(64 * CTAS,), strides=(), box=(64,)).encode()
    raw = bytes(8) + np.float32(3).tobytes() + bytes(4) + SIZE.to_bytes(8, "little")
    p = BytesArgument(raw, (PlacedItem(0, PointerArgument("out")),))
    both = BytesArgument(bytes(128), (PlacedItem(0, MAP),))
    theirs = BytesArgument(bytes(128), (PlacedItem(0, EncodedMapArgument(driver(), "x")),))
    for argument_ in (MAP, EncodedMapArgument(encoded), both, EncodedMapArgument(driver(), "x"), theirs):
        launch = scale(arguments=(p, argument_))
        assert told(launch) == []
        assert (ran(launch).buffers["out"].numpy() == 3 * (1 + np.arange(SIZE))).all()


def test_a_buffer_lies_where_it_is_said_and_holds_what_is_known() -> None:
    values = np.arange(64 * CTAS, dtype=np.float32)
    x = LaunchBuffer(
        "x", "float32", values.shape, "inout", InlineBytes(values.tobytes()), ((0, 256),), 1 << 44
    )
    launch = scale(buffers=(x, BUFFERS[1]))
    placed = PlacedLaunch(launch, load(launch))
    assert placed.buffers["x"].address == 1 << 44
    assert placed.buffers["x"].written().tolist() == [True] * 64 + [False] * 64


def test_what_the_host_does_between_launches() -> None:
    step = scale().steps[0]
    more = LaunchBuffer.output("copy", (SIZE,), np.float32)
    launch = scale(
        buffers=(replace(BUFFERS[0], role="inout"), BUFFERS[1], more),
        steps=(
            step,
            BufferCopy("out", "copy", 4 * SIZE),
            BufferWrite("x", Filled(0), 512),
            step,
            BufferFree("x"),
        ),
    )
    assert told(launch) == []
    placed = ran(launch)
    assert (placed.buffers["copy"].numpy() == 2 * (1 + np.arange(SIZE))).all()
    assert (placed.buffers["out"].numpy() == 0).all()
    again = replace(launch, steps=(BufferFree("x"), step))
    (result,) = PlacedLaunch(again, load(again)).run(lambda number, launched: {})
    assert result.errors
    with pytest.raises(LaunchError, match="after freeing"):
        list(
            PlacedLaunch(replace(launch, steps=(*launch.steps, BufferFree("x"))), load(launch)).run(
                lambda n, s: {}
            )
        )


def test_a_store_into_an_input_is_a_finding() -> None:
    launch = scale(arguments=(replace(P, items=(PlacedItem(0, PointerArgument("x")), *P.items[1:])), MAP))
    (result,) = PlacedLaunch(launch, load(launch)).run(lambda number, step: {})
    assert [error.code for error in result.errors] == ["global-read-only"]


# ---- modules


def test_ptx_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for code, words in ((PtxFile("no.ptx"), "cannot be read"), (PtxFile("bad.ptx"), "bad.ptx")):
        (tmp_path / "bad.ptx").write_text("this is not PTX")
        launch = replace(scale(), modules=(LaunchModule("m", code),), folder=tmp_path)
        with pytest.raises(TileproofError, match=words):
            load(launch)


def test_source_is_compiled_here(tmp_path: Path) -> None:
    (tmp_path / "k.cuh").write_text("#define TIMES(x) ((x) * FACTOR)\n")
    (tmp_path / "k.cu").write_text(
        '#include "k.cuh"\nextern "C" __global__ void scale(float* out, const float* x)\n'
        "{ out[threadIdx.x] = TIMES(x[threadIdx.x]); }\n"
    )
    launch = scale(arguments=(PointerArgument("out"), PointerArgument("x")), grid=(1,), block=(SIZE,))
    for factor in (2, 3):
        code = CudaSource("k.cu", (f"-DFACTOR={factor}",))
        launch = replace(launch, modules=(LaunchModule("m", code),), folder=tmp_path)
        assert told(launch) == [] and load(launch)["m"].toolchain
        assert (ran(launch).buffers["out"].numpy() == factor * (1 + np.arange(SIZE))).all()
    (tmp_path / "k.cuh").write_text("#define TIMES(x) (y * x)\n")
    with pytest.raises(TileproofError, match=r'identifier "y" is undefined'):
        load(launch)
    with pytest.raises(TileproofError, match="no such file"):
        load(replace(launch, modules=(LaunchModule("m", CudaSource("no.cu")),)))


def test_maps_are_those_of_the_encoder() -> None:
    launch = scale()
    placed = PlacedLaunch(launch, load(launch))
    made = placed.item(
        TensorMapArgument("x", (64, 2), (256,), (32, 2), swizzle="128B", oob_fill="nan", offset=0)
    )
    x = placed.buffers["x"]
    expected = TensorMap.tiled(x, shape=(64, 2), strides=(256,), box=(32, 2), swizzle="128B", oob_fill="nan")
    assert isinstance(made, TensorMap) and made.encode() == expected.encode()


@pytest.mark.parametrize("content", [Filled(1.5), Counting()])
def test_buffers_that_the_machine_cannot_hold_are_refused_with_their_size(content: Any) -> None:
    """Before numpy makes an array of them, which the system may grant and then end the process."""
    huge = replace(BUFFERS[0], shape=(1 << 36,), content=content)
    launch = replace(scale(), buffers=(huge, *BUFFERS[1:]))
    with pytest.raises(LaunchError, match="the buffers of the launch would take more memory") as error:
        PlacedLaunch(launch, load(launch))
    assert "bytes" in error.value.found
