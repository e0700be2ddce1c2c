# ruff: noqa: E501 - PTX lines are kept whole
"""Stages captured without a plan: tiles in tensor and shared memory, by dtype and swizzle, and their
judgement."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tileproof.conformance.api import calls as api
from tileproof.conformance.judging.dumping import write_arrays
from tileproof.conformance.judging.stages import cells
from tileproof.kernels.launch.arguments import PointerArgument, TensorMapArgument
from tileproof.kernels.launch.contents import NormalDraw
from tileproof.kernels.launch.model import (
    KernelLaunch,
    LaunchBuffer,
    LaunchFile,
    LaunchModule,
    NamedBarrier,
    PtxText,
    SharedPlace,
    SharedStage,
    StageCapture,
    TmemStage,
)
from tileproof.spec.machine.finding_text import place
from tileproof.spec.machine.tma import TensorMapFields, tile_image

from tests.kit.judging import check, judged
from tests.kit.launch_files import scale
from tests.kit.ptx import alloc, dealloc, init_barrier, kernel_text, wait

TILE = SharedStage(SharedPlace(symbol="tile"), (4, 16), "float32")


def capture(region: Any = TILE, name: str = "S", **other: Any) -> tuple[StageCapture, ...]:
    return (StageCapture(name, region, "full", **other),)


def reference(x: Any, factor: float) -> Any:
    return {"out": factor * x[:100], "S": x.reshape(2, 4, 16)}


def test_a_tile_in_static_shared_memory() -> None:
    launch = scale(captures=capture())
    stage = api.run(launch).stages["S"]
    assert stage.value.tolist() == (1 + np.arange(128.0)).reshape(2, 4, 16).tolist() and stage.written.all()
    assert [(moment.launch, moment.cta, moment.phase) for moment in stage.moments] == [
        (0, (0, 0, 0), 0),
        (0, (1, 0, 0), 0),
    ]
    made = judged(launch, reference)
    assert made.verdict == "clean" and check(made, "stages").details == {"captures": {"S": 2}}


def test_a_wrong_stage_is_reported_before_the_output_that_follows() -> None:
    launch = scale(
        ("{%r4}], [full]", "{0}], [full]"), captures=capture()
    )  # the second CTA loads the first tile
    made = judged(launch, reference)
    first, second = made.findings
    assert (first.check, first.problem.stage, second.check) == ("stages", "S", "values")
    assert "launch 0, CTA (1, 0, 0), phase 0" in place(first) and first.wrong == 64
    assert check(made, "stages").outcome == "failed" and made.verdict == "defect"


def test_a_stage_may_have_one_reference_for_all_captures() -> None:
    made = judged(
        scale(captures=capture()), lambda x, factor: {"out": factor * x[:100], "S": np.zeros((4, 16))}
    )
    assert {finding.check for finding in made.findings} == {"stages"}
    made = judged(
        scale(captures=capture()), lambda x, factor: {"out": factor * x[:100], "S": np.zeros((3, 4, 16))}
    )
    assert made.verdict == "error" and "number of captures" in " ".join(made.why)


def test_captures_without_a_reference_or_that_never_come_are_reported() -> None:
    made = judged(scale(captures=capture()))
    assert made.verdict == "clean" and "no reference for S" in check(made, "stages").reason
    made = judged(scale(captures=capture(phases=(1,))), reference)
    assert made.verdict == "incomplete" and "completed no such phase" in check(made, "stages").reason


def test_captured_arrays_are_written(tmp_path: Path) -> None:
    write_arrays(api.run(scale(captures=capture())), tmp_path)
    index = json.loads((tmp_path / "index.json").read_text())
    assert index["S"] == {
        "file": "S.npy", "dtype": "float32", "shape": [2, 4, 16],
        "captures": [{"launch": 0, "cta": [n, 0, 0], "phase": 0} for n in range(2)],
    }  # fmt: skip
    assert np.load(tmp_path / "S.npy").shape == (2, 4, 16) and np.load(tmp_path / "out.npy").shape == (100,)


# ---- swizzled tiles, against the image of a tensor map

LOAD = f"""{init_barrier(1024)} mov.u32 %r1, %ctaid.x;
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [1024], BYTES;
LOADS
{wait(1024)} mad.wide.u32 %rd1, %t, 4, %a0; st.global.u32 [%rd1], %t;"""


def loaded(swizzle: str, dtype: str, columns: int, panels: int) -> LaunchFile:
    """8 rows loaded by TMA as `panels` boxes of `columns` columns each, from shared offset 1024 on."""
    size = np.dtype(getattr(ml_dtypes, dtype, dtype)).itemsize
    loads = "\n".join(
        f"@%p0 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [{2048 + p * 8 * columns * size}], [%a1, {{{p * columns}, 0}}], [1024];"
        for p in range(panels)
    )
    body = LOAD.replace("BYTES", str(8 * columns * panels * size)).replace("LOADS", loads)
    text = kernel_text(body.replace("%r1, %ctaid.x", "%r1, 0"), [False, True])
    shape = (8, columns * panels)
    map_ = TensorMapArgument("x", shape[::-1], (shape[1] * size,), (columns, 8), swizzle=swizzle)
    tile = SharedStage(SharedPlace(1024), shape, dtype, swizzle)
    return LaunchFile(
        "loaded",
        (LaunchModule("m", PtxText(text)),),
        (
            LaunchBuffer("x", dtype, shape, "input", NormalDraw(5)),
            LaunchBuffer.output("out", (32,), np.uint32),
        ),
        (KernelLaunch("k", (1,), (32,), (PointerArgument("out"), map_), shared_bytes=8192),),
        (NamedBarrier("full", SharedPlace(0)),),
        capture(tile, "T"),
    )


@pytest.mark.parametrize(
    ("swizzle", "dtype", "columns", "panels"),
    [("none", "float32", 16, 1), ("128B", "bfloat16", 64, 2), ("64B", "float16", 32, 2), ("32B", "float8_e4m3fn", 32, 1)],
)  # fmt: skip
def test_swizzled_tiles(swizzle: str, dtype: str, columns: int, panels: int) -> None:
    launch = loaded(swizzle, dtype, columns, panels)
    run = api.run(launch)
    assert not run.errors, run.errors
    x = launch.buffers[0].elements(Path())
    assert x is not None
    assert (run.stages["T"].value[0].view(np.uint8) == x.view(np.uint8)).all()
    assert judged(launch, lambda x: {"out": np.arange(32), "T": x}, 3).verdict == "clean"
    if swizzle != "none":  # read as another swizzle it is something else
        plain = SharedStage(SharedPlace(1024), (8, columns * panels), dtype)
        other = api.run(replace(launch, captures=capture(plain, "T")))
        assert (other.stages["T"].value[0].view(np.uint8) != x.view(np.uint8)).any()


@pytest.mark.parametrize("swizzle", ["32B", "64B", "128B"])
def test_cells_are_where_a_tensor_map_puts_them(swizzle: str) -> None:
    columns = {"32B": 16, "64B": 32, "128B": 64}[swizzle]
    fields = TensorMapFields("uint16", (columns, 16), (2 * columns,), (columns, 16), (1, 1), swizzle)
    values = np.arange(16 * columns, dtype=np.uint16)
    image = tile_image(fields, values.view(np.uint8), (0, 0), 1024)
    at = cells(SharedStage(SharedPlace(0), (16, columns), "uint16", swizzle), 1024)
    assert (image.view(np.uint16)[at // 2].ravel() == values).all()


# ---- tensor memory

STORED = f"""{init_barrier(1024)} {alloc(64)}
and.b32 %r50, %r101, 3; shl.b32 %r50, %r50, 21; add.u32 %r51, %r100, %r50;
mul.lo.u32 %r1, %t, 65537; add.u32 %r1, %r1, 0x00070003; mov.b32 %r2, %r1;
tcgen05.st.sync.aligned.32x32b.x2.b32 [%r51+4], {{%r1, %r2}}; tcgen05.wait::st.sync.aligned;
tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
@%p0 mbarrier.arrive.shared::cta.b64 _, [1024];
{wait(1024)} mad.wide.u32 %rd1, %t, 4, %a0; st.global.u32 [%rd1], %t; {dealloc(64)}"""


def stored(region: TmemStage) -> LaunchFile:
    """Columns 4 and 5 hold (lane + 7) << 16 | (lane + 3)."""
    return LaunchFile(
        "stored",
        (LaunchModule("m", PtxText(kernel_text(STORED, [False]))),),
        (LaunchBuffer.output("out", (128,), np.uint32),),
        (KernelLaunch("k", (1,), (128,), (PointerArgument("out"),), shared_bytes=4096),),
        (NamedBarrier("full", SharedPlace(0)),),
        capture(region, "T"),
    )


def test_tiles_in_tensor_memory() -> None:
    lane = np.arange(128)
    run = api.run(stored(TmemStage(4, 2, "uint32")))
    assert not run.errors, run.errors
    whole = run.stages["T"]
    assert (whole.value[0] == ((lane + 7) << 16 | (lane + 3))[:, None]).all() and whole.written.all()
    halves = api.run(stored(TmemStage(3, 2, "uint16", 32, 8))).stages["T"]
    assert halves.value.shape == (1, 8, 4)
    assert halves.written[0].tolist() == [[False, False, True, True]] * 8
    assert (halves.value[0, :, 2:] == np.stack([lane + 3, lane + 7], axis=1)[32:40]).all()
    bytes_ = api.run(stored(TmemStage(4, 1, "uint8"))).stages["T"]
    assert (bytes_.value[0, :, 0] == lane + 3).all() and (bytes_.value[0, :, 2] == (lane + 7) % 256).all()
    told = judged(stored(TmemStage(3, 2, "uint16", 32, 8)), lambda: {"out": lane, "T": np.zeros((8, 4))}, 3)
    assert told.verdict == "defect" and "S" not in told.findings[0].problem.stage
