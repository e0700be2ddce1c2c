"""A CUTLASS program recorded and judged by nobody's hand: its launch file, a reference, a planted mistake."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tileproof.conformance.beside.record import launchfile, recorder
from tileproof.conformance.judging.judging import JudgeOptions, judge
from tileproof.emulator.errors import LaunchError
from tileproof.kernels.launch.contents import IntegerDraw
from tileproof.kernels.launch.model import LaunchFile, LaunchModule, PtxText
from tileproof.kernels.launch.reading import read

from tests.kit.judging import check, function
from tests.kit.outside.cutlass_cases import EXAMPLES
from tests.kit.outside.cutlass_example import curand

try:
    curand()
except LaunchError as error:
    pytest.skip(str(error), allow_module_level=True)

M, N, K = 512, 256, 256
DESCRIBED: dict[str, dict[str, Any]] = {
    "allocation 0": {"dtype": "float16", "shape": (M, K), "role": "input", "content": IntegerDraw(1)},
    "allocation 1": {"dtype": "float16", "shape": (N, K), "role": "input", "content": IntegerDraw(2)},
    "allocation 2": {"dtype": "float32", "shape": (N, M), "role": "input", "content": IntegerDraw(3)},
    "allocation 3": {"dtype": "float32", "shape": (N, M), "role": "output", "whole": True},
}
REFERENCE = replace(
    function(lambda a, b: {"d": b @ a.T}),  # column-major
    buffers={f"allocation {at}": {"name": name} for at, name in enumerate("abcd")},
)


@pytest.fixture(scope="module")
def launch(tmp_path_factory: pytest.TempPathFactory) -> LaunchFile:
    """The product of example 70 alone, over small integers."""
    example = next(example for example in EXAMPLES if example.name == "70-fp16")
    done = recorder.record([str(example.program.path), *example.arguments], quiet=True)
    assert done.problem is None, done.problem
    folder = tmp_path_factory.mktemp("recorded")
    launchfile.write(done, folder, "example 70", "device_kernel")
    file = read(folder)
    buffers = tuple(
        replace(buffer, **DESCRIBED.get(buffer.name, {"role": "scratch"})) for buffer in file.buffers
    )
    return replace(file, buffers=buffers, steps=file.launches[-1:])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_recorded_product_is_right_within_its_time(launch: LaunchFile) -> None:
    began = time.monotonic()
    made = judge(launch, REFERENCE, JudgeOptions(60))
    assert time.monotonic() - began < 60
    assert not made.findings and check(made, "values").outcome == "passed"
    # What this size and beta = 0 do not reach: copies of the remainder, and of C.
    assert made.verdict == "incomplete" and all("copy at" in why for why in made.why)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_product_without_one_mma_is_found(launch: LaunchFile, tmp_path: Path) -> None:
    (module,) = launch.modules
    text = (launch.folder / module.code.path).read_text()  # type: ignore[union-attr]
    line = re.findall(r"^\s*tcgen05\.mma\..*;", text, re.M)[0]
    broken = LaunchModule(module.name, PtxText(text.replace(line, "", 1)))
    made = judge(replace(launch, modules=(broken,)), REFERENCE, JudgeOptions(60, policies=("early",)))
    assert made.verdict == "defect" and "value" in {finding.code for finding in made.findings}
