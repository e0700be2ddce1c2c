"""NVIDIA's tutorial kernels on the emulator, on products of small integers, whose results are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
from tileproof.conformance.drivers import emulator
from tileproof.emulator import RunResult, Schedule
from tileproof.kernels.launch.model import LaunchFile
from tileproof.kernels.tutorials import TUTORIALS, Tutorial, kernels
from tileproof.spec.problems.gemm.inputs import Inputs

__all__ = ["TUTORIALS", "Tutorial", "expected", "launch_of", "product", "run"]


def product(tutorial: Tutorial, tiles_k: int, seed: int = 0, alpha: float = 1.0, beta: float = 0.0) -> Inputs:
    """One cluster's product over `tiles_k` tiles of 64 along K, of small integers."""
    rng = np.random.default_rng(seed)
    m, n, k = tutorial.step_m, tutorial.step_n, 64 * tiles_k
    A, B, C = (rng.integers(-4, 5, shape) for shape in ((m, k), (n, k), (m, n)))
    return Inputs(
        A.astype(np.float16), B.astype(np.float16), C.astype(np.float32), None, float(alpha), float(beta)
    )


def expected(inputs: Inputs) -> np.ndarray:
    """D in float64."""
    assert inputs.C is not None
    AB = inputs.A.astype(np.float64) @ inputs.B.astype(np.float64).T
    return np.asarray(inputs.alpha * AB + inputs.beta * inputs.C.astype(np.float64))


def launch_of(tutorial: Tutorial, inputs: Inputs, find: str = "", replace: str = "") -> LaunchFile:
    """The launch, with every `find` in the PTX replaced."""
    kernel = kernels()[tutorial.name]
    launch = kernel.launch(inputs, kernel.build(kernel.variants[0]))
    assert find in launch.ptx
    return launch.with_ptx(launch.ptx.replace(find, replace)) if find else launch


def run(
    tutorial: Tutorial,
    inputs: Inputs,
    schedule: Schedule | None = None,
    *,
    launch: LaunchFile | None = None,
    **how: Any,
) -> tuple[np.ndarray, RunResult]:
    """D and the launch's result; `how` is passed on to `Module.launch`."""
    result, buffers = emulator.launch_on(
        launch or launch_of(tutorial, inputs), schedule=schedule or Schedule(), **how
    )
    return buffers["D"].numpy(), result
