"""Launch files judged in tests: a matrix product in CUDA with one thing changed, and short verdicts."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
from tileproof.conformance.judging.judging import JudgeOptions, judge
from tileproof.conformance.judging.reference import ReferenceFunction
from tileproof.conformance.judging.runs import RunOptions
from tileproof.conformance.verdict.contract import CheckOutcome, VerdictRecord
from tileproof.kernels.launch.arguments import PointerArgument
from tileproof.kernels.launch.contents import NormalDraw
from tileproof.kernels.launch.model import (
    CudaSource,
    KernelLaunch,
    LaunchBuffer,
    LaunchFile,
    LaunchModule,
)

# d [64, 64] = a [64, 64] b [64, 64]^T, 16 of the summed axis at a time.
MATMUL = """
extern "C" __global__ void matmul(float* d, const float* a, const float* b) {
    __shared__ float ta[64][16], tb[64][16];
    float sum[4] = {};
    int row = threadIdx.x % 64, first = threadIdx.x / 64 * 4 + blockIdx.x * 16;
    for (int k = 0; k < 64; k += 16) {
        for (int i = threadIdx.x; i < 1024; i += blockDim.x) {
            ta[i / 16][i % 16] = a[i / 16 * 64 + k + i % 16];
            tb[i / 16][i % 16] = b[i / 16 * 64 + k + i % 16];
        }
        __syncthreads();
        for (int j = 0; j < 16; ++j)
            for (int c = 0; c < 4; ++c) sum[c] += ta[row][j] * tb[first + c][j];
        __syncthreads();
    }
    for (int c = 0; c < 4; ++c) d[row * 64 + first + c] = sum[c];
}
"""


def product(folder: Path, *edits: tuple[str, str]) -> LaunchFile:
    """The launch of `MATMUL`, its text edited and written into a folder."""
    text = MATMUL
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    (folder / "matmul.cu").write_text(text)
    return LaunchFile(
        "matmul",
        (LaunchModule("m", CudaSource("matmul.cu")),),
        (
            LaunchBuffer("a", "float32", (64, 64), "input", NormalDraw(1)),
            LaunchBuffer("b", "float32", (64, 64), "input", NormalDraw(2)),
            LaunchBuffer.output("d", (64, 64), np.float32),
        ),
        (KernelLaunch("matmul", (4,), (256,), tuple(map(PointerArgument, "dab"))),),
        folder=folder,
    )


def function(call: Any) -> ReferenceFunction:
    """A reference that is a function of a test."""
    return ReferenceFunction(call, "reference.py")


def times(x: Any, factor: float) -> Any:
    """The reference of `launch_files.scale`."""
    return factor * x[:100]


def judged(
    launch: LaunchFile, reference: Any = times, schedules: int = 6, seconds: float = 30.0, **how: Any
) -> VerdictRecord:
    """A short verdict."""
    run = RunOptions(**{key: how.pop(key) for key in ("races", "strict", "allow") if key in how})
    others = {key: how.pop(key) for key in ("policies", "seed", "sample") if key in how}
    options = JudgeOptions(seconds, schedules=schedules, run=run, **others)
    return judge(launch, None if reference is None else function(reference), options, **how)


def plugin_is_installed() -> bool:
    """Whether pytest finds the plugin by itself: the package is installed with its entry points."""
    return any(entry_point.name == "tileproof" for entry_point in entry_points(group="pytest11"))


def check(made: VerdictRecord, name: str) -> CheckOutcome:
    """A check of a verdict."""
    return next(check for check in made.checks if check.name == name)
