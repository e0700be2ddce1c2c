"""A recording as a launch file: what its buffers, parameters and steps hold, and that it runs as recorded."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tileproof.conformance.beside.record import launchfile, recorder
from tileproof.conformance.beside.record.programs import build
from tileproof.conformance.launches.check import contradictions
from tileproof.conformance.launches.modules import load
from tileproof.conformance.launches.placing import PlacedLaunch
from tileproof.kernels.launch import jsonform
from tileproof.kernels.launch.arguments import BytesArgument, PointerArgument, TensorMapArgument
from tileproof.kernels.launch.contents import FileBytes, Filled, InlineBytes
from tileproof.kernels.launch.model import (
    BufferCopy,
    BufferWrite,
    KernelLaunch,
    LaunchFile,
    VariableWrite,
)

from tests.kit.paths import ROOT

IN = np.arange(512, dtype=np.float32).reshape(16, 32)


@pytest.fixture(scope="module")
def program() -> Path:
    return build(ROOT / "tests/kit/recorded/tiles.cu").path


def written(
    program: Path, folder: Path, run: bool = False, kernel: str | None = None
) -> tuple[LaunchFile, launchfile.Written]:
    done = recorder.record([str(program)], run=run, wanted=kernel, quiet=True)
    assert done.problem is None and not done.findings and not done.failed and done.exit_code == 0
    told = launchfile.write(done, folder, "tiles", kernel)
    return jsonform.read(folder / "launch.json"), told


def floats(launch: LaunchFile, name: str, folder: Path) -> np.ndarray:
    """What a buffer holds before the first step, as rows of 32 floats."""
    held = launch.buffer(name).elements(folder)
    assert held is not None
    return held.view(np.float32).reshape(-1, 32)


def test_buffers_parameters_and_steps(program: Path, tmp_path: Path) -> None:
    launch, told = written(program, tmp_path)
    held = {buffer.name: buffer for buffer in launch.buffers}
    assert [buffer.bytes for buffer in launch.buffers] == [2048, 128, 1 << 20, 2048, 128]
    assert isinstance(held["allocation 0"].content, FileBytes)
    np.testing.assert_array_equal(floats(launch, "allocation 0", tmp_path), IN)
    assert held["allocation 1"].content == Filled(0.0)
    assert (held["allocation 3"].role, held["allocation 3"].whole) == ("output", False)
    assert held["allocation 4"].known == ((0, 64),)
    addresses = [buffer.address or 0 for buffer in launch.buffers]
    assert all(after - before > 1 << 20 for before, after in itertools.pairwise([0, *addresses]))

    first, copy, fill, second, third = launch.steps
    assert isinstance(first, KernelLaunch) and isinstance(second, KernelLaunch)
    assert (first.grid, first.block, first.shared_bytes) == ((2, 1, 1), (32, 1, 1), 0)
    tensor, rest, out = first.arguments
    assert isinstance(tensor, BytesArgument) and isinstance(rest, BytesArgument)
    assert [(at.offset, at.item) for at in tensor.items] == [
        (0, TensorMapArgument("allocation 0", (32, 16), (128,), (32, 8), "float32", (1, 1)))
    ]
    assert [(at.offset, at.item) for at in rest.items] == [
        (8, PointerArgument("allocation 1")),
        (16, PointerArgument("allocation 3", 2048)),  # one past the end; the two extents are no pointer
    ]
    assert out == PointerArgument("allocation 3")
    assert len(told.taken) == 2 * 4 + 1 and told.launches == tuple(
        started.entry for started in launch.launches
    )
    assert copy == BufferCopy("allocation 0", "allocation 1", 128, 128)
    assert fill == BufferWrite("allocation 0", Filled(0x3F), 4)
    assert isinstance(third, KernelLaunch) and third.entry == first.entry
    assert second.arguments[1] == BytesArgument(np.float32(0.5).tobytes())


def _expected() -> np.ndarray:
    changed = IN.copy()
    changed.reshape(-1).view(np.uint8)[:4] = 0x3F
    return changed + IN[1]  # the last launch alone is left


def _ran(launch: LaunchFile, folder: Path) -> PlacedLaunch:
    placed = PlacedLaunch(launch, load(launch))
    for result in placed.run(lambda number, step: {"races": True}):
        assert not result.findings
    return placed


def test_it_runs_as_the_program_does(program: Path, tmp_path: Path) -> None:
    launch, _ = written(program, tmp_path)
    placed = _ran(launch, tmp_path)
    out = placed.buffers["allocation 3"].numpy().view(np.float32).reshape(16, 32)
    np.testing.assert_array_equal(out, _expected())


def test_one_kernel_with_what_memory_held_before_it(program: Path, tmp_path: Path) -> None:
    launch, _ = written(program, tmp_path, run=True, kernel="scale")
    (step,) = launch.steps
    assert isinstance(step, KernelLaunch) and "scale" in step.entry
    np.testing.assert_array_equal(floats(launch, "allocation 3", tmp_path), IN)  # what the first launch left
    placed = _ran(launch, tmp_path)
    np.testing.assert_array_equal(
        placed.buffers["allocation 3"].numpy().view(np.float32).reshape(16, 32), IN / 2
    )


def test_a_kernel_without_run_keeps_the_launches_before_it(program: Path, tmp_path: Path) -> None:
    launch, _ = written(program, tmp_path, kernel="scale")
    assert [started.entry.count("add") for started in launch.launches] == [1, 0]


def test_the_same_content_is_one_file(tmp_path: Path) -> None:
    source = tmp_path / "same.cu"
    source.write_text(
        "#include <vector>\n__global__ void k(int *a) { a[0] = 1; }\n"
        "int main() { int *a, *b, *c; std::vector<int> h(1024); for (int i = 0; i < 1024; ++i) h[i] = i;\n"
        " cudaMalloc(&a, 4096); cudaMalloc(&b, 4096); cudaMalloc(&c, 16);\n"
        " cudaMemcpy(a, h.data(), 4096, cudaMemcpyDefault);\n"
        " cudaMemcpy(b, h.data(), 4096, cudaMemcpyDefault);\n"
        " cudaMemcpy(c, h.data(), 16, cudaMemcpyDefault); k<<<1, 1>>>(a); k<<<1, 1>>>(b); return 0; }\n"
    )
    launch, _ = written(build(source).path, tmp_path / "out")
    assert len(list((tmp_path / "out/buffers").iterdir())) == 1
    assert launch.buffers[0].content == launch.buffers[1].content
    assert launch.buffers[2].content == InlineBytes(np.arange(4, dtype=np.int32).tobytes())


def test_variables_that_the_host_writes(tmp_path: Path) -> None:
    source = tmp_path / "variables.cu"
    source.write_text(
        "__constant__ int table[2]; __device__ int count = 5;\n"
        "__global__ void k(int *a) { a[0] = table[1] + count++; }\n"
        "int main() { int *a, t[2] = {10, 20}, more = 30; cudaMalloc(&a, 4);\n"
        " cudaMemcpyToSymbol(table, t, 8); k<<<1, 1>>>(a);\n"
        " cudaMemcpyToSymbol(table, &more, 4, 4); k<<<1, 1>>>(a); return 0; }\n"
    )
    launch, _ = written(build(source).path, tmp_path / "out")
    writes = [step for step in launch.steps if isinstance(step, VariableWrite)]
    assert [(write.variable, write.offset, write.bytes) for write in writes] == [
        ("table", 0, 8),
        ("table", 4, 4),
    ]
    modules = load(launch)
    assert contradictions(launch, modules) == []
    for _ in range(2):  # a second run begins as the first did: count is 5 again
        placed = PlacedLaunch(launch, modules)
        assert not [result.errors for result in placed.run(lambda number, step: {}) if result.errors]
        assert placed.buffers["allocation 0"].numpy().view(np.int32)[0] == 30 + 6
    for wrong, word in (
        (replace(writes[0], variable="none"), "no such variable"),
        (replace(writes[1], offset=8), "past"),
    ):
        assert any(
            word in str(contradiction)
            for contradiction in contradictions(replace(launch, steps=(wrong, *launch.steps)), modules)
        )


def test_a_kernel_that_is_not_launched_is_named(program: Path, tmp_path: Path) -> None:
    done = recorder.record([str(program)], quiet=True)
    with pytest.raises(Exception, match="does not launch this kernel") as error:
        launchfile.write(done, tmp_path, "tiles", "subtract")
    assert "add" in str(error.value)
