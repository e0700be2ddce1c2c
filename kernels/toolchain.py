"""The CUDA compiler and the CuTe headers, as the PyPI packages of this Python environment install them."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tileproof.spec.machine.errors import TileproofError

INSTALL = "pip install 'tileproof[kernels]' (in a checkout: make setup)"


@dataclass(frozen=True)
class Toolchain:
    """Paths of nvcc, ptxas and the CuTe headers; `version` names the compiler and the headers."""

    nvcc: Path
    ptxas: Path
    cutlass_include: Path
    version: str


@functools.cache
def find() -> Toolchain:
    """The toolchain of this environment; TileproofError when a part of it is not installed."""
    nvcc = _in_package("nvidia", "cu13/bin/nvcc", "nvcc", "nvidia-cuda-nvcc")
    ptxas = _in_package("nvidia", "cu13/bin/ptxas", "ptxas", "nvidia-cuda-nvcc")
    _in_package("nvidia", "cu13/nvvm/bin/cicc", "cicc", "nvidia-nvvm")
    _in_package("nvidia", "cu13/include/cuda.h", "cuda.h", "nvidia-cuda-runtime")
    _in_package("nvidia", "cu13/include/cccl", "the CCCL headers", "nvidia-cuda-cccl")
    include = _in_package("cutlass_library", "source/include", "the CuTe headers", "nvidia-cutlass")
    release = _nvcc_release(nvcc)
    cutlass = importlib.metadata.version("nvidia-cutlass")
    return Toolchain(nvcc, ptxas, include, f"{release}; nvidia-cutlass {cutlass}")


def _in_package(package: str, relative: str, what: str, distribution: str) -> Path:
    spec = importlib.util.find_spec(package)
    roots = list(spec.submodule_search_locations or ()) if spec else []
    for root in roots:
        path = Path(root) / relative
        if path.exists():
            return path
    raise TileproofError(
        f"{what} is not installed",
        where=f"package {package}",
        expected=f"{relative} from the PyPI package {distribution}",
        found=f"nothing under {', '.join(roots)}" if roots else f"no package {package}",
        do=INSTALL,
    )


def _nvcc_release(nvcc: Path) -> str:
    try:
        done = subprocess.run([nvcc, "--version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise TileproofError("nvcc does not run", where=str(nvcc), found=str(error), do=INSTALL) from error
    return done.stdout.strip().splitlines()[-1]


@functools.cache
def nvdisasm() -> Path:
    """The disassembler; TileproofError when it is not installed."""
    return _in_package("nvidia", "cu13/bin/nvdisasm", "nvdisasm", "nvidia-cuda-nvdisasm")
