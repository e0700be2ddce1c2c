"""Every function of CUDA that the recorder knows, called by host programs that check what comes back; every
other one is refused by its name.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tileproof.conformance.beside.record import recorder
from tileproof.conformance.beside.record.programs import build
from tileproof.kernels import toolchain

from tests.kit.paths import ROOT

PROGRAMS = ROOT / "tests/kit/recorded"
RUNTIME = ROOT / "conformance/beside/record/runtime"
CUDA = toolchain.find().nvcc.parents[1]
_OTHER_STREAM = re.compile(r"_pt[sd][sz]$")


@pytest.fixture(scope="module")
def runtime_calls() -> Path:
    return build(PROGRAMS / "runtime_calls.cu").path


@pytest.fixture(scope="module")
def driver_calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("record") / "driver_calls"
    driver, _ = recorder.libraries()
    sources = [str(PROGRAMS / "driver_calls.cpp"), str(driver), "-o", str(program)]
    subprocess.run(["g++", "-std=c++17", "-w", f"-I{CUDA}/include", *sources], check=True)
    return program


_FAILED = {
    "devices": ["cudaSetDevice"],
    "graphs": [
        "cudaStreamBeginCapture", "cudaStreamBeginCapture", "cudaStreamSynchronize", "cudaEventSynchronize",
        "cudaStreamEndCapture", "cudaStreamEndCapture", "cudaStreamEndCapture", "cudaGraphAddEmptyNode",
        "cudaGraphInstantiate",
    ],
}  # fmt: skip


@pytest.mark.parametrize("what", ["memory", "host", "symbols", "streams", "graphs", "launches", "devices"])
def test_calls_of_the_runtime(runtime_calls: Path, what: str, capfd: pytest.CaptureFixture[str]) -> None:
    done = recorder.record([str(runtime_calls), what], run=True)
    assert (done.exit_code, done.problem, done.findings) == (0, None, {}), capfd.readouterr().out
    assert [call.call for call in done.failed] == _FAILED.get(what, [])


def test_without_run_the_program_reads_no_results(runtime_calls: Path) -> None:
    done = recorder.record([str(runtime_calls), "launches"], quiet=True)
    assert done.exit_code == 1 and done.problem is None and len(done.recording.launches) == 1


def test_calls_of_the_driver(driver_calls: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    done = recorder.record([str(driver_calls), str(tmp_path / "kernel.ptx")], run=True)
    assert (done.exit_code, done.problem, done.findings) == (0, None, {}), capfd.readouterr().out
    assert [call.call for call in done.failed] == [
        "cuDeviceGet",
        "cuTensorMapEncodeTiled",
        "cuModuleGetFunction",
    ]
    assert "multiple of 16" in done.failed[1].why
    assert done.unknown == ["cuGetProcAddress: cuNoSuchFunction"]


def exported(library: Path) -> set[str]:
    """The functions that a shared library offers."""
    done = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True
    )
    names = (line.split()[-1].split("@")[0] for line in done.stdout.splitlines())
    return {name for name in names if re.match(r"(__)?cu", name)}


def refused(api: str) -> set[str]:
    """The functions that end the program by their name."""
    return set(re.findall(r"X\((\w+)\)", (RUNTIME / f"refused_{api}.inc").read_text()))


def test_each_function_of_the_runtime_is_there() -> None:
    _, runtime = recorder.libraries()
    assert exported(CUDA / "lib/libcudart.so.13") <= exported(runtime)
    assert refused("runtime") < exported(runtime)


def test_each_function_of_the_driver_is_there() -> None:
    """Those of cuda.h, by the names that programs are compiled with, per-thread default streams too."""
    driver, _ = recorder.libraries()
    declared: set[str] = set()
    for define in ((), ("-DCUDA_API_PER_THREAD_DEFAULT_STREAM",)):
        header = ["-include", f"{CUDA}/include/cuda.h", "-x", "c++", "/dev/null"]
        done = subprocess.run(
            ["g++", "-E", "-P", *define, *header], capture_output=True, text=True, check=True
        )
        declared |= set(re.findall(r"\b(cu[A-Z]\w*) ?\(", done.stdout))
    assert len(declared) > 400
    assert declared <= exported(driver)


def test_each_function_that_is_recorded_is_called() -> None:
    text = "".join((PROGRAMS / name).read_text() for name in ("runtime_calls.cu", "driver_calls.cpp"))
    called = set(re.findall(r"\b(cu\w+)\(", text))
    by_nvcc = {name for name in exported(recorder.libraries()[1]) if name.startswith("__cuda")}
    for library, api in zip(recorder.libraries(), ("driver", "runtime"), strict=True):
        caught = (
            {name for name in exported(library) if not _OTHER_STREAM.search(name)} - refused(api) - by_nvcc
        )
        # A header calls a function by the name that it has since a version of CUDA.
        missing = {name for name in caught if name not in called and re.sub(r"_v\d$", "", name) not in called}
        assert missing <= {"cuGetExportTable"}


def test_layouts_are_those_of_the_headers() -> None:
    options = ["-std=c++20", "-fsyntax-only", f"-I{RUNTIME}", "-isystem", f"{CUDA}/include"]
    subprocess.run(["g++", *options, str(PROGRAMS / "layouts.cpp")], check=True)


def _python(code: str) -> list[str]:
    import sys

    return [sys.executable, "-c", "import ctypes\n" + code]


@pytest.mark.parametrize(
    ("library", "name", "instead"),
    [
        ("libcudart.so.13", "cudaGraphClone", "capture the work from streams"),
        ("libcudart.so.13", "cudaMallocArray", "linear memory"),
        ("libcudart.so.13", "cudaIpcGetMemHandle", "other processes"),
        ("libcuda.so.1", "cuGraphAddMemAllocNode", "capture the work from streams"),
        ("libcuda.so.1", "cuLinkCreate_v2", "load PTX"),
        ("libcuda.so.1", "cuMemAddressReserve", "not recorded"),
        ("libcuda.so.1", "cuGetExportTable", "-cudart shared"),
    ],
)
def test_what_is_not_recorded_is_named(library: str, name: str, instead: str) -> None:
    done = recorder.record(_python(f"ctypes.CDLL('{library}').{name}()"), quiet=True)
    assert done.problem is not None and done.exit_code == 2
    assert done.problem.where == name and instead in done.problem.found


BODY = " .reg .b32 a;\n" + "".join(f" mov.b32 a, {n};\n" for n in range(200)) + " ret;\n"
PTX = ".version 9.0\n.target {}\n.address_size 64\n.visible .entry k()\n{{\n" + BODY + "}}\n"


@pytest.mark.parametrize("mode", ["none", "speed", "balance", "size", "default"])
def test_ptx_is_read_from_every_packing(mode: str, tmp_path: Path) -> None:
    text = PTX.format("sm_100a")
    (tmp_path / "new.ptx").write_text(text)
    (tmp_path / "old.ptx").write_text(PTX.format("sm_80"))
    images = [
        f"--image3=kind=ptx,sm={sm},file={tmp_path}/{name}.ptx" for sm, name in ((80, "old"), ("100a", "new"))
    ]
    packed = [f"--compress-mode={mode}", f"--create={tmp_path}/k.fatbin"]
    subprocess.run([str(CUDA / "bin/fatbinary"), "-64", *packed, *images], check=True)
    load = (
        f"ctypes.CDLL('libcuda.so.1').cuModuleLoad(ctypes.byref(ctypes.c_void_p()), b'{tmp_path}/k.fatbin')"
    )
    done = recorder.record(_python(f"raise SystemExit({load})"), quiet=True)
    assert done.exit_code == 0 and done.recording.ptx()[0].split() == text.split()


@pytest.mark.parametrize(("target", "code"), [("sm_90", 0), ("sm_100f", 0), ("sm_90a", 200), ("sm_120", 200)])
def test_ptx_of_other_architectures(target: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(PTX.format(target))
    load = f"ctypes.CDLL('libcuda.so.1').cuModuleLoad(ctypes.byref(ctypes.c_void_p()), b'{tmp_path}/k.ptx')"
    done = recorder.record(_python(f"raise SystemExit({load})"), quiet=True)
    assert done.exit_code == code
