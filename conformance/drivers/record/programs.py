"""Builds a CUDA host program against the recording runtime, and records what it does."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tileproof.conformance.drivers.record.recording import Recording
from tileproof.emulator import Module
from tileproof.emulator.errors import LaunchError
from tileproof.kernels import toolchain
from tileproof.kernels.compile import cache_root, compile_error

SOURCE = Path(__file__).parent / "cudart.cpp"
# PTX alone goes into the program, uncompressed: the kernels are not run, and the PTX is kept beside it.
FLAGS = (
    "-c", "-gencode", "arch=compute_100a,code=compute_100a", "-std=c++17", "--expt-relaxed-constexpr",
    "-DNDEBUG", "-lineinfo", "-cudart", "shared", "--keep",
)  # fmt: skip
COMPILE_S = 1800
RUN_S = 120


@dataclass(frozen=True)
class HostProgram:
    """An executable that records, and the PTX of its kernels."""

    path: Path
    ptx: Path

    @property
    def module(self) -> Module:
        return _module(self.ptx)


@lru_cache
def _module(ptx: Path) -> Module:
    return Module.from_file(ptx)


@lru_cache
def runtime() -> Path:
    """The recording runtime as a shared library, compiled when it is not cached."""
    include = toolchain.find().nvcc.parents[1] / "include"
    command = ["g++", "-std=c++20", "-O1", "-fPIC", "-shared", f"-I{include}", str(SOURCE)]
    key = hashlib.sha256(SOURCE.read_bytes() + " ".join(command[:5]).encode()).hexdigest()[:24]
    target = cache_root() / "record" / key / "libcudart.so.13"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as work:
            fresh = Path(work) / target.name
            _run([*command, "-o", str(fresh)], "g++")
            os.replace(fresh, target)
    return target


def build(source: Path, defines: Sequence[str] = (), includes: Sequence[Path] = ()) -> HostProgram:
    """Compiles a CUDA program of one file, with the CUTLASS headers, and links it with the recording
    runtime.
    """
    tools = toolchain.find()
    library = runtime()
    root = tools.cutlass_include.parent
    folders = [tools.cutlass_include, root / "tools/util/include", source.parent, *includes]
    arguments = [*FLAGS, *(f"-D{one}" for one in defines), *(f"-I{folder}" for folder in folders)]
    stated = " ".join((tools.version, *FLAGS, *defines)).encode()
    key = hashlib.sha256(source.read_bytes() + stated).hexdigest()[:24]
    target = cache_root() / "record" / f"{source.stem}-{key}"
    compiled, ptx = target / "program.o", target / "kernels.ptx"
    program = HostProgram(target / f"program-{library.parent.name}", ptx)
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target) as folder:
        work = Path(folder)
        if not compiled.exists():
            _run([str(tools.nvcc), *arguments, str(source), "-o", str(work / "out.o")], "nvcc", work)
            (fresh,) = work.glob("*.ptx")
            os.replace(fresh, ptx)
            os.replace(work / "out.o", compiled)
        if not program.path.exists():
            link = ["g++", str(compiled), str(library), f"-Wl,-rpath,{library.parent}"]
            _run([*link, "-o", str(work / "program")], "g++", work)
            os.replace(work / "program", program.path)
    return program


def record(program: HostProgram, arguments: Sequence[str], processors: int = 148) -> Recording:
    """Runs it with these arguments on a device of `processors` multiprocessors, and returns what it did.

    LaunchError when the program fails or asks for what the runtime does not have.
    """
    with tempfile.TemporaryDirectory() as folder:
        entries = Path(folder) / "entries.txt"
        sizes = {name: [size for _, size, _ in ps] for name, ps in program.module.entries.items()}
        entries.write_text("".join(f"{name} {' '.join(map(str, s))}\n" for name, s in sizes.items()))
        environment = {
            "TILEPROOF_RECORD": folder,
            "TILEPROOF_RECORD_ENTRIES": str(entries),
            "TILEPROOF_RECORD_SMS": str(processors),
        }
        try:
            done = subprocess.run(
                [str(program.path), *arguments], env={**os.environ, **environment}, capture_output=True,
                text=True, timeout=RUN_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise LaunchError(f"the program did not end in {RUN_S} s", where=str(program.path)) from None
        touched = (Path(folder) / "record.jsonl").exists()
        recording = Recording.load(Path(folder)) if touched else Recording((), b"")
    if not touched or done.returncode == 2 or (done.returncode and not recording.launches):
        raise LaunchError(
            "the program could not be recorded",
            where=program.path.parent.name,
            found=(done.stderr or done.stdout).strip()[-600:]
            or f"exit code {done.returncode}, device untouched: {not touched}",
        )
    return recording


def _run(command: list[str], tool: str, folder: Path | None = None) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=COMPILE_S, check=False, cwd=folder
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LaunchError(f"{tool} did not finish", where=command[-1], found=str(error)) from error
    if done.returncode:
        raise compile_error(tool, done.stderr)
