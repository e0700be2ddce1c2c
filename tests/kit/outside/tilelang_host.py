"""TileLang's host side on a machine without a GPU: a kernel is lowered to CUDA source, nvcc makes its PTX.

The lowered host function states the whole launch: which tensor maps it makes of which tensors, the grid, the
block, the
shared memory. It is read, not run.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tilelang
from tilelang import tvm
from tileproof.emulator import LaunchResult, Memory, Module, TensorMap
from tileproof.emulator.errors import LaunchError
from tileproof.kernels import toolchain
from tileproof.kernels.compile import cache_root, compile_error

FLAGS = ("-ptx", "-arch=sm_100a", "-std=c++17", "--expt-relaxed-constexpr", "-lineinfo", "-O3", "-DNDEBUG")
# Numbers of CUtensorMapDataType and CUtensorMapSwizzle (CUDA driver API).
_TYPES = {0: "uint8", 6: "float16", 7: "float32", 9: "bfloat16"}
_SWIZZLES = ("none", "32B", "64B", "128B")


@dataclass(frozen=True)
class Lowered:
    """One kernel: its module and the launch that its host function states."""

    module: Module
    source: str
    entry: str
    parameters: tuple[str, ...]  # of the PTX: names of tensors, or of maps
    maps: dict[str, tuple[Any, ...]]  # name -> what the host function passes to cuTensorMapEncodeTiled
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int

    def launch(self, tensors: dict[str, np.ndarray], **how: Any) -> LaunchResult:
        """Runs it over these arrays, by the names of the kernel's parameters."""
        memory = Memory()
        buffers = {name: memory.buffer(array, name) for name, array in tensors.items()}

        def argument(name: str) -> Any:
            if name not in self.maps:
                return buffers[name]
            type_, rank, base, *rest = self.maps[name]
            shape, rest = rest[:rank], rest[rank:]
            strides, rest = rest[1:rank], rest[rank:]
            box, rest = rest[:rank], rest[rank:]
            steps, (_interleave, swizzle, _promotion, fill) = rest[:rank], rest[rank:]
            return TensorMap.fields(
                address=buffers[base].address, dtype=_TYPES[type_], shape=shape, strides=strides, box=box,
                element_strides=steps, swizzle=_SWIZZLES[swizzle], oob_fill="nan" if fill else "zero",
            )  # fmt: skip

        return self.module.launch(
            self.entry, grid=self.grid, block=self.block, shared_bytes=self.shared_bytes,
            args=[argument(name) for name in self.parameters], memory=memory, **how,
        )  # fmt: skip


def lower(function: Any, **passes: Any) -> Lowered:
    """Lowers a TileLang function for sm_100a and compiles its one kernel; raises what the compilers raise.

    `passes`: settings of TileLang's passes by name, without their "tl." in front.
    """
    tools = toolchain.find()
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_100a"}, host="c")
    path = os.environ.get("PATH", "")
    os.environ["PATH"] = f"{tools.nvcc.parent}{os.pathsep}{path}"  # TileLang asks nvcc for its version
    try:
        with tvm.transform.PassContext(config={f"tl.{k}": v for k, v in passes.items()}), target:
            artifact = tilelang.lower(function, target=target, enable_device_compile=False)
    finally:
        os.environ["PATH"] = path
    ((variable, device),) = artifact.device_mod.functions.items()
    calls = _packed_calls(artifact.host_mod)
    maps = {str(c[0]): tuple(c[1:]) for c in calls["__tvm_tensormap_create_tiled"]}
    ((*arguments,),) = calls[variable.name_hint]
    extent = device.attrs["thread_extent"]
    count = len(device.params)
    shape = {
        axis: int(extent.get(axis, 1)) for axis in (f"{w}Idx.{a}" for w in ("block", "thread") for a in "xyz")
    }
    dims = [shape[axis] for axis in shape]
    return Lowered(
        Module.from_file(_ptx_of(artifact.kernel_source)),
        artifact.kernel_source,
        variable.name_hint,
        tuple(map(str, arguments[:count])),
        maps,
        (dims[0], dims[1], dims[2]),
        (dims[3], dims[4], dims[5]),
        int(device.attrs.get("dyn_shared_memory_buf", 0)),
    )


def _packed_calls(host: Any) -> dict[str, list[list[Any]]]:
    """The calls that the host function makes by name, with variables as names and numbers as such."""
    found: dict[str, list[list[Any]]] = {}

    def plain(value: Any) -> Any:
        if isinstance(value, tvm.tirx.IntImm):
            return int(value)
        return value.name if isinstance(value, tvm.tirx.Var) else value

    def visit(node: Any) -> None:
        if isinstance(node, tvm.tirx.Call) and node.args and isinstance(node.args[0], tvm.tirx.StringImm):
            found.setdefault(node.args[0].value, []).append([plain(a) for a in node.args[1:]])

    for function in host.functions.values():
        tvm.tirx.stmt_functor.post_order_visit(function.body, visit)
    return found


def _ptx_of(source: str) -> Path:
    tools = toolchain.find()
    package = Path(tilelang.__file__).parent
    key = hashlib.sha256(" ".join((tilelang.__version__, tools.version, *FLAGS, source)).encode()).hexdigest()
    target = cache_root() / "outside" / f"tilelang-{key[:24]}.ptx"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        file, ptx = Path(folder) / "kernel.cu", Path(folder) / "kernel.ptx"
        file.write_text(source)
        includes = [f"-I{package / 'src'}", f"-I{tools.cutlass_include}"]
        done = subprocess.run(
            [tools.nvcc, *FLAGS, *includes, str(file), "-o", str(ptx)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise compile_error("nvcc", done.stderr)
        if not ptx.exists():
            raise LaunchError("nvcc left no PTX", where="TileLang kernel")
        os.replace(ptx, target)
    return target
