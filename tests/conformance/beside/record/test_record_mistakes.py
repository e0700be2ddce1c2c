"""Host programs with a mistake, and programs that cannot be recorded: each is named."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tileproof.conformance.beside.record import recorder
from tileproof.conformance.beside.record.programs import build
from tileproof.conformance.cli.app import main
from tileproof.emulator.errors import LaunchError
from tileproof.kernels import toolchain

from tests.kit.paths import ROOT

CUDA = toolchain.find().nvcc.parents[1]
SOURCE = ROOT / "tests/kit/recorded/mistakes.cu"


@pytest.fixture(scope="module")
def program() -> Path:
    return build(SOURCE).path


@pytest.mark.parametrize(
    ("what", "call", "why"),
    [
        ("past-the-end", "cudaMemcpy", "no allocation holds the target, 260 bytes"),
        ("wrong-direction", "cudaMemcpy", "the target is on the device, and it is not"),
        ("freed", "cudaMemset", "no allocation holds the target"),
        ("freed-twice", "cudaFree", "it was freed"),
        ("host-freed", "cudaFreeHost", "that memory is device"),
        ("pitch", "cudaMemcpy2D", "wider than its pitch"),
        ("device-1", "cudaSetDevice", "there is one device"),
        ("no-opt-in", "<<<...>>>", "cudaFuncAttributeMaxDynamicSharedMemorySize"),
        ("too-much-shared", "cudaFuncSetAttribute", "more than a CTA has"),
        ("large-block", "<<<...>>>", "128 x 1 x 1 threads, where 64 are allowed"),
        ("empty-grid", "<<<...>>>", "the grid or the block is empty"),
        ("no-kernel", "cudaLaunchKernel", "no kernel of this handle"),
        ("no-symbol", "cudaMemcpyToSymbol", "no such variable"),
        ("cluster-16", "cudaLaunchKernelExC", "a cluster of 16"),
        ("cluster-3", "cudaLaunchKernelExC", "no multiple of the cluster"),
        ("not-recorded", "cudaEventElapsedTime", "never recorded"),
    ],
)
def test_a_call_that_cuda_would_fail(program: Path, what: str, call: str, why: str) -> None:
    done = recorder.record([str(program), what], quiet=True)
    (failed,) = done.failed
    assert call in failed.call and why in failed.why and failed.code
    assert done.problem is None and len(done.recording.launches) == 1


@pytest.mark.parametrize(
    ("what", "where", "why"),
    [
        ("graph", "cudaGraphClone", "part of graphs"),
        ("array", "cudaMallocArray", "linear memory"),
        ("attribute", "cudaDeviceGetAttribute", "21"),
        ("stream", "cudaStreamSynchronize", "destroyed"),
        ("launch-event", "cudaLaunchKernelExC", "attribute 7"),
    ],
)
def test_what_ends_the_program(program: Path, what: str, where: str, why: str) -> None:
    done = recorder.record([str(program), what], quiet=True)
    assert done.problem is not None and done.problem.where == where and why in done.problem.found
    assert len(done.recording.launches) == 1  # what was recorded until then is kept


def test_a_clean_program(program: Path) -> None:
    done = recorder.record([str(program), "nothing"], run=True, quiet=True)
    assert (done.problem, done.failed, done.findings, done.unknown, done.exit_code) == (None, [], {}, [], 0)


def test_a_crash_keeps_what_was_recorded(program: Path, tmp_path: Path) -> None:
    result = _cli("record", "--json", "-o", str(tmp_path), "--", str(program), "crash")
    assert result.exit_code == 2
    found = json.loads(result.stdout)
    assert "crashed" in found["problem"]["what"] and "SIGSEGV" in found["problem"]["found"]
    assert found["launches"] == ["_Z5storePii"] and Path(found["launch_file"]).exists()


def test_a_program_that_does_not_end(program: Path) -> None:
    done = recorder.record([str(program), "hang"], seconds=2, quiet=True)
    assert done.problem is not None and "did not finish within 2 s" in done.problem.what
    assert len(done.recording.launches) == 1


def test_a_finding_stops_the_program_and_is_reported(program: Path, tmp_path: Path) -> None:
    result = _cli("record", "--run", "--json", "-o", str(tmp_path), "--", str(program), "out-of-bounds")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert [(load["launch"], load["code"]) for load in found["findings"]] == [(1, "global-out-of-bounds")]
    assert found["failed_calls"][0]["code"] == 719 and found["program_exit_code"] == 1
    # Without --run nobody sees it.
    assert _cli("record", "-o", str(tmp_path), "--", str(program), "out-of-bounds").exit_code == 0


def test_an_exit_code_of_the_program(program: Path, tmp_path: Path) -> None:
    words = ["-o", str(tmp_path), "--", str(program), "exit"]
    assert _cli("record", *words).exit_code == 0
    assert _cli("record", "--run", *words).exit_code == 1


def test_a_static_runtime_is_named(program: Path, tmp_path: Path) -> None:
    static = tmp_path / "static"
    objects = [str(program.parent / "program.o"), str(CUDA / "lib/libcudart_static.a")]
    subprocess.run(["g++", *objects, "-ldl", "-lrt", "-lpthread", "-o", str(static)], check=True)
    with pytest.raises(LaunchError, match="linked with the static CUDA runtime") as error:
        recorder.record([str(static), "nothing"])
    assert "-cudart shared" in error.value.do
    # Started by a script, it is seen when it asks the driver for what only NVIDIA's runtime asks.
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\nexec {static} nothing\n")
    script.chmod(0o755)
    done = recorder.record([str(script)], quiet=True)
    assert done.problem is not None and "-cudart" in str(done.problem)


def test_a_script_that_starts_the_program(program: Path, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\n{program} nothing && echo done\n")
    script.chmod(0o755)
    done = recorder.record([str(script)], quiet=True)
    assert done.problem is None and len(done.recording.launches) == 1


def test_sass_alone_is_named(tmp_path: Path) -> None:
    source = tmp_path / "sass.cu"
    source.write_text("__global__ void k() {}\nint main() { k<<<1, 1>>>(); return 0; }\n")
    options = ["-gencode", "arch=compute_100a,code=sm_100a", "-cudart", "shared", "-c"]
    subprocess.run(
        [str(CUDA / "bin/nvcc"), *options, str(source), "-o", str(tmp_path / "sass.o")], check=True
    )
    _link(tmp_path / "sass.o", CUDA / "lib/libcudart.so.13", tmp_path / "sass")
    done = recorder.record([str(tmp_path / "sass")], quiet=True)
    assert done.problem is not None
    assert "SASS but no PTX" in done.problem.found and "code=compute_100a" in done.problem.found


def _link(compiled: Path, library: Path, program: Path) -> None:
    subprocess.run(["g++", str(compiled), str(library), "-o", str(program)], check=True)


def _library(folder: Path, name: str, function: str) -> Path:
    """A shared library of this name with one function."""
    (folder / "one.c").write_text(f"int {function}(void) {{ return 0; }}\n")
    (folder / "main.c").write_text(f"int {function}(void);\nint main(void) {{ return {function}(); }}\n")
    options = ["-shared", "-fPIC", f"-Wl,-soname,{name}", str(folder / "one.c"), "-o", str(folder / name)]
    subprocess.run(["gcc", *options], check=True)
    subprocess.run(["gcc", "-c", str(folder / "main.c"), "-o", str(folder / "main.o")], check=True)
    return folder / name


def test_another_runtime_is_named(tmp_path: Path) -> None:
    _link_ = tmp_path / "program"
    library = _library(tmp_path, "libcudart.so.12", "cudaGetSomething")
    subprocess.run(["gcc", str(tmp_path / "main.o"), str(library), "-o", str(_link_)], check=True)
    with pytest.raises(LaunchError, match="another CUDA runtime"):
        recorder.record([str(_link_)])


def test_a_function_of_a_later_cuda_is_named(tmp_path: Path) -> None:
    library = _library(tmp_path, "libcudart.so.13", "cudaOfTomorrow")
    program = tmp_path / "program"
    subprocess.run(["gcc", str(tmp_path / "main.o"), str(library), "-o", str(program)], check=True)
    done = recorder.record([str(program)], quiet=True)
    assert done.problem is not None and "cudaOfTomorrow" in done.problem.found


def test_what_is_no_program_is_named(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("nothing")
    for word in ("no-such-program", str(tmp_path / "text")):
        with pytest.raises(LaunchError, match="no such program"):
            recorder.record([word])
    static = tmp_path / "static"
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-static", str(tmp_path / "main.c"), "-o", str(static)], check=True)
    with pytest.raises(LaunchError, match="linked statically"):
        recorder.record([str(static)])
    done = recorder.record([shutil.which("true") or "true"], quiet=True)
    assert done.problem is not None and "did not use CUDA" in done.problem.what


TWO = """
import ctypes, os, subprocess, sys
ctypes.CDLL("libcuda.so.1").cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(4))
{}
"""


@pytest.mark.parametrize(
    ("second", "why"),
    [
        ("subprocess.run([sys.executable, '-c', sys.argv[1], sys.argv[1]])", "two processes"),
        (
            "if os.fork() == 0: ctypes.CDLL('libcuda.so.1').cuMemAlloc_v2("
            "ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(4))\nos.wait()",
            "launched no kernel",
        ),
    ],
)
def test_two_processes_are_named(second: str, why: str) -> None:
    code = TWO.format(second)
    done = recorder.record([sys.executable, "-c", code, TWO.format("")], quiet=True)
    assert done.problem is not None and why in done.problem.what
    if "fork" in second:
        assert "forked" in done.stderr


def _cli(*words: str):  # type: ignore[no-untyped-def]
    return CliRunner().invoke(main, list(words))


def test_help() -> None:
    result = _cli("record", "--help")
    assert result.exit_code == 0 and "-cudart shared" in result.output


def test_a_program_beside_is_found(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(program.parent)
    done = recorder.record([f"./{program.name}", "freed"], quiet=True)
    assert done.problem is None and len(done.recording.launches) == 1
