"""Random kernels to PTX and machine code, by the compiler of this environment or of a card's machine."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tileproof.kernels import toolchain
from tileproof.spec.machine.errors import TileproofError
from tileproof.tools.silicon.fuzz.program import PRELUDE, RandomKernel

ARCH = "sm_90"


def ptx_of(programs: Sequence[RandomKernel]) -> str:
    """One PTX module with every kernel; TileproofError with what nvcc says when it refuses.

    Products and sums stay apart (-fmad=false): the emulator executes PTX as written.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "kernels.cu", Path(folder) / "kernels.ptx"
        source.write_text(f'#include "{PRELUDE}"\n' + "\n".join(p.text() for p in programs))
        command = [toolchain.find().nvcc, f"-arch={ARCH}", "-std=c++17", "-fmad=false", "-w", "-ptx"]
        _run([*map(str, command), str(source), "-o", str(out)])
        return out.read_text()


def cubin_of(ptx: str, level: int, ptxas: Path | str | None = None, arch: str = ARCH) -> bytes:
    """The module's machine code at an optimisation level of ptxas; TileproofError when it refuses."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "kernels.ptx", Path(folder) / "kernels.cubin"
        source.write_text(ptx)
        tool = str(ptxas or toolchain.find().ptxas)
        _run([tool, f"-O{level}", f"-arch={arch}", str(source), "-o", str(out)])
        return out.read_bytes()


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TileproofError(
            "the kernels do not compile", where=command[0], found=(done.stderr or done.stdout).strip()[:2000]
        )
