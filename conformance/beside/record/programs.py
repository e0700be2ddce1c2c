"""Builds a single-file CUDA host program as its users do, and records it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tileproof.conformance.beside.record import recorder
from tileproof.conformance.beside.record.recording import Recording
from tileproof.emulator import Module
from tileproof.emulator.errors import LaunchError
from tileproof.kernels import toolchain
from tileproof.kernels.compile import compile_error
from tileproof.spec.machine.cache_folder import cache_root
from tileproof.spec.machine.limits import PROCESSORS

# Embed PTX only, uncompressed: the kernels do not run natively, and the PTX is kept beside the program.
FLAGS = (
    "-c", "-std=c++17", "--expt-relaxed-constexpr",
    "-DNDEBUG", "-lineinfo", "-cudart", "shared", "--keep",
)  # fmt: skip
COMPILE_S = 1800
RUN_S = 120


@dataclass(frozen=True)
class HostProgram:
    """An executable linked for recording, and the PTX of its kernels."""

    path: Path
    ptx: Path
    hopper: bool = False

    @property
    def module(self) -> Module:
        return _module(self.ptx)


@lru_cache
def _module(ptx: Path) -> Module:
    return Module.from_file(ptx)


def build(
    source: Path, defines: Sequence[str] = (), includes: Sequence[Path] = (), hopper: bool = False
) -> HostProgram:
    """Compile a single-file CUDA program with the CUTLASS headers for sm_100a, or with `hopper` for sm_90a.

    It is linked with the shared runtime of the open package, as its users do; the driver that it is linked
    with is the stub.
    """
    architecture = "90a" if hopper else "100a"
    flags = ("-gencode", f"arch=compute_{architecture},code=compute_{architecture}", *FLAGS)
    tools = toolchain.find()
    root = tools.cutlass_include.parent
    folders = [tools.cutlass_include, root / "tools/util/include", source.parent, *includes]
    arguments = [*flags, *(f"-D{define}" for define in defines), *(f"-I{folder}" for folder in folders)]
    stated = " ".join((tools.version, *flags, *defines)).encode()
    headers = (header.read_bytes() for header in sorted(source.parent.glob("*.h*")))
    key = hashlib.sha256(b"".join((source.read_bytes(), stated, *headers))).hexdigest()[:24]
    target = cache_root() / "record" / f"{source.stem}-{key}"
    compiled, ptx = target / "program.o", target / "kernels.ptx"
    program = HostProgram(target / "program", ptx, hopper)
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target) as folder, (target / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # concurrent tests compile a program once
        work = Path(folder)
        if not compiled.exists():
            _run([str(tools.nvcc), *arguments, str(source), "-o", str(work / "out.o")], "nvcc", work)
            (fresh,) = work.glob("*.ptx")
            os.replace(fresh, ptx)
            os.replace(work / "out.o", compiled)
        if not program.path.exists():
            driver, _ = recorder.libraries()
            runtime = tools.nvcc.parents[1] / "lib/libcudart.so.13"
            link = ["g++", str(compiled), str(runtime), "-Wl,--as-needed", str(driver)]
            _run([*link, "-o", str(work / "program")], "g++", work)
            os.replace(work / "program", program.path)
    return program


def record(program: HostProgram, arguments: Sequence[str], processors: int = PROCESSORS) -> Recording:
    """Run it with these arguments on a device of `processors` multiprocessors, and return the recording.

    LaunchError if the recording is incomplete.
    """
    command = [str(program.path), *arguments]
    done = recorder.record(command, processors=processors, seconds=RUN_S, quiet=True, hopper=program.hopper)
    if done.problem is not None:
        raise done.problem
    return done.recording


def _run(command: list[str], tool: str, folder: Path | None = None) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=COMPILE_S, check=False, cwd=folder
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LaunchError(f"{tool} did not finish", where=command[-1], found=str(error)) from error
    if done.returncode:
        raise compile_error(tool, done.stderr)
