"""The example's host code as a shared library: what it would launch on a problem, with which parameters.

`params.cpp` is compiled by g++ with the example's headers, of which one, the launcher, is replaced by
host/fmha.hpp. It is cached as kernels are; nothing of CUDA is loaded.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tileproof.kernels import toolchain
from tileproof.kernels.compile import TIMEOUT_S, compile_error
from tileproof.kernels.sm100.cutlass_fmha_bwd.image import HERE, files
from tileproof.spec.machine.cache_folder import cache_root
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import UncheckedObject
from tileproof.spec.plan import KernelPlan

OWN = ("kernel.cuh", "params.cpp", "host/device_functions.h")
LAUNCHER = "device/fmha.hpp"
# -fpermissive: device code names functions that the CUDA compiler alone declares.
# -Bsymbolic: the library's own functions of the CUDA runtime are called, not those of another in the process.
FLAGS = ("-std=c++17", "-O0", "-w", "-fpermissive", "-DNDEBUG", "-fPIC", "-shared", "-Wl,-Bsymbolic")
ADDRESS_STEP = 1 << 40  # between the addresses that stand for buffers
POINTERS = (
    "q",
    "k",
    "v",
    "o",
    "lse",
    "dO",
    "dQ",
    "dK",
    "dV",
    "delta",
    "scaled_lse",
    "dQ_acc",
    "cu_q",
    "cu_k",
)


SIZES = ("queries", "keys", "columns", "values", "group", "heads", "batches", "all_queries", "all_keys")


class _Sizes(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int) for name in SIZES),
        ("scale", ctypes.c_float),
    ]


class _Strides(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in ("row", "group", "head", "batch")]


class _Pointers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in POINTERS]


@dataclass(frozen=True)
class Sizes:
    """A problem as the example counts it: heads of q and k have `columns`, of v `values`; `group` query heads
    share each of `heads` key heads. Of packed sequences `queries` and `keys` are the longest, `batches` how
    many, `all_queries` and `all_keys` the sums.
    """

    queries: int
    keys: int
    columns: int
    values: int
    group: int
    heads: int
    batches: int
    all_queries: int
    all_keys: int
    scale: float


@dataclass(frozen=True)
class TensorStrides:
    """Elements between rows, between the query heads of a group, between key heads, between batches."""

    row: int
    group: int
    head: int
    batch: int


def address_of(name: str) -> int:
    """The address that stands for a buffer."""
    return ADDRESS_STEP * (1 + POINTERS.index(name))


def events(
    plan: KernelPlan,
    sizes: Sizes,
    strides: Sequence[TensorStrides],
) -> list[UncheckedObject]:
    """What the example's host code does, in order: tensor maps, fills and launches. `strides`: of q, of
    o and dO, of k, of v, of lse, of dQ, of dK, of dV.

    TileproofError when the example says that it cannot compute the problem.
    """
    library = _load(build(plan))
    said = library.tileproof_backward(
        *map(
            ctypes.byref,
            (
                _Sizes(*vars(sizes).values()),
                _Pointers(*map(address_of, POINTERS)),
                *(_Strides(*vars(stride).values()) for stride in strides),
            ),
        )
    )
    if said is None:
        raise TileproofError(
            f"{plan.name} cannot compute a problem of these sizes",
            where="can_implement of the example",
            found=", ".join(f"{name} {value}" for name, value in vars(sizes).items()),
        )
    found: list[UncheckedObject] = json.loads(said)
    return found


@cache
def _load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    library.tileproof_backward.restype = ctypes.c_char_p
    return library


def build(plan: KernelPlan) -> Path:
    """The library of a build, compiled when it is not cached. Its masks do not matter to the host."""
    return _build(_texts(plan))


def _texts(plan: KernelPlan) -> tuple[tuple[str, str], ...]:
    texts: Mapping[str, str] = files(plan, OWN) | {LAUNCHER: (HERE / "host/fmha.hpp").read_text()}
    return tuple(sorted(texts.items()))


@cache
def _build(texts: tuple[tuple[str, str], ...]) -> Path:
    tools = toolchain.find()
    cuda = tools.nvcc.parents[1] / "include"
    stated = "\0".join((tools.version, *FLAGS, *(f"{path}\0{text}" for path, text in texts)))
    target = cache_root() / "kernels" / f"host-{hashlib.sha256(stated.encode()).hexdigest()[:24]}.so"
    if target.exists():
        return target
    print(
        "cutlass-fmha-bwd: compiling the example's host code, about ten seconds of one core", file=sys.stderr
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="building-") as folder:
        for path, text in texts:
            file = Path(folder) / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        fresh = Path(folder) / "library.so"
        includes = [f"-I{folder}", f"-I{tools.cutlass_include}", f"-I{cuda}", f"-I{cuda / 'cccl'}"]
        command = ["g++", *FLAGS, *includes, str(Path(folder) / "params.cpp"), "-o", str(fresh)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise TileproofError(
                "g++ did not compile the example's host code", where="g++", found=str(error), do="install g++"
            ) from error
        if done.returncode:
            raise compile_error("g++", done.stderr.replace(f"{folder}/", ""))
        os.replace(fresh, target)
    return target
