"""Random kernels to PTX and machine code, by the compiler of this environment or of a card's machine."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tileproof.kernels import toolchain
from tileproof.spec.machine.errors import TileproofError
from tileproof.tools.silicon.fuzz.program import PRELUDE, RandomKernel

ARCH = "sm_90a"  # the target of Hopper itself, with the features that no later GPU has


def ptx_of(programs: Sequence[RandomKernel]) -> str:
    """One PTX module with every kernel; TileproofError with what nvcc says when it refuses.

    Products and sums stay apart (-fmad=false): the emulator executes PTX as written.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "kernels.cu", Path(folder) / "kernels.ptx"
        source.write_text(f'#include "{PRELUDE}"\n' + "\n".join(p.text() for p in programs))
        options = [f"-arch={ARCH}", "-std=c++17", "-fmad=false", "-w", "-ptx"]
        _run([tool("nvcc"), *options, str(source), "-o", str(out)])
        return out.read_text()


def cubin_of(ptx: str, level: int, ptxas: Path | str | None = None, arch: str = ARCH) -> bytes:
    """The module's machine code at an optimisation level of ptxas; TileproofError when it refuses."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "kernels.ptx", Path(folder) / "kernels.cubin"
        source.write_text(ptx)
        _run([str(ptxas or tool("ptxas")), f"-O{level}", f"-arch={arch}", str(source), "-o", str(out)])
        return out.read_bytes()


def fatbin_of(ptx: str, cubin: bytes) -> bytes:
    """A fat binary with the machine code for the card and the PTX for the emulator."""
    with tempfile.TemporaryDirectory() as folder:
        text, code, out = (Path(folder) / f"kernels.{end}" for end in ("ptx", "cubin", "fatbin"))
        text.write_text(ptx)
        code.write_bytes(cubin)
        number = ARCH.removeprefix("sm_")
        images = [f"--image3=kind=elf,sm={number},file={code}", f"--image3=kind=ptx,sm={number},file={text}"]
        _run([tool("fatbinary"), "-64", f"--create={out}", *images])
        return out.read_bytes()


@cache
def tool(name: str) -> str:
    """The path of a program of the CUDA compiler: of this environment, else of the machine."""
    try:
        return str(toolchain.find().nvcc.with_name(name))
    except TileproofError:
        if found := shutil.which(name):
            return found
        raise


def disassembler() -> str:
    """The path of nvdisasm, likewise."""
    try:
        return str(toolchain.nvdisasm())
    except TileproofError:
        if found := shutil.which("nvdisasm"):
            return found
        raise


def version() -> str:
    """What ptxas says of itself."""
    done = subprocess.run([tool("ptxas"), "--version"], capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()[-1]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TileproofError(
            "the kernels do not compile", where=command[0], found=(done.stderr or done.stdout).strip()[:2000]
        )
