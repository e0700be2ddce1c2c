"""A TileLang function lowered for sm_100a: its PTX, and the launches and tensor maps of its host function.

The lowered host function is parsed, not run: its packed calls name the function that encodes a tensor map or
launches a kernel.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tilelang
from tilelang import tvm
from tilelang.transform.pass_config import normalize_pass_configs
from tileproof.emulator import Module
from tileproof.emulator.errors import LaunchError
from tileproof.kernels import toolchain
from tileproof.kernels.compile import compile_error
from tileproof.kernels.compile import flags as compile_flags
from tileproof.spec.machine.cache_folder import cache_root

if TYPE_CHECKING:
    from tvm.ir import IRModule
    from tvm.tirx import PrimExpr, PrimFunc, Stmt, Var

# The value of a host function's expression: a number, a tensor of the caller, a tensor map.
TirValue = Any

_SIZES = {f"{where}Idx.{axis}": (where, "xyz".index(axis)) for where in ("block", "thread") for axis in "xyz"}
_DYNAMIC, _PROGRAMMATIC, _COOPERATIVE = (
    "tirx.use_dyn_shared_memory", "tirx.use_programtic_dependent_launch", "tirx.use_cooperative_launch",
)  # fmt: skip
_MAP = "__tvm_tensormap_create_tiled"
# About the device and its cache: they change no value.
_WITHOUT_EFFECT = {
    "__tvm_set_device",
    "__tvm_cuda_stream_set_access_policy_window",
    "__tvm_cuda_stream_reset_access_policy_window",
}


@dataclass(frozen=True)
class StatedCall:
    """A call in the host function: the callee and its arguments, numbers or TIR expressions."""

    name: str
    arguments: tuple[TirValue, ...]


@dataclass(frozen=True)
class StatedKernel:
    """A kernel of the device module: its parameters, and the launch arguments that follow them."""

    entry: str
    parameters: tuple[str, ...]
    sizes: tuple[str, ...]


@dataclass(frozen=True)
class LoweredFunction:
    """A function's PTX, its kernels by name, and the calls of its host function in order."""

    name: str
    source: str = field(repr=False)
    ptx: str = field(repr=False)
    module: Module = field(repr=False)
    kernels: Mapping[str, StatedKernel]
    calls: tuple[StatedCall, ...]


@dataclass(frozen=True)
class StatedLaunch:
    """A launch with numbers in place of expressions; `arguments` as returned by `evaluated`."""

    entry: str
    arguments: tuple[TirValue, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    programmatic: bool
    cooperative: bool

    @classmethod
    def of(cls, kernel: StatedKernel, values: tuple[TirValue, ...]) -> StatedLaunch:
        """The launch that these arguments of the host's call make."""
        sizes = dict(
            zip(
                (n for n in kernel.sizes if n in (*_SIZES, _DYNAMIC)),
                values[len(kernel.parameters) :],
                strict=True,
            )
        )
        shape = {"block": [1, 1, 1], "thread": [1, 1, 1]}
        for name, (where, axis) in _SIZES.items():
            shape[where][axis] = int(sizes.get(name, 1))
        (bx, by, bz), (tx, ty, tz) = shape["block"], shape["thread"]
        return cls(
            kernel.entry, values[: len(kernel.parameters)], (bx, by, bz), (tx, ty, tz),
            int(sizes.get(_DYNAMIC, 0)), _PROGRAMMATIC in kernel.sizes, _COOPERATIVE in kernel.sizes,
        )  # fmt: skip


def lower(
    function: PrimFunc,
    passes: Mapping[str, object] | None = None,
    flags: tuple[str, ...] = (),
    hopper: bool = False,
) -> LoweredFunction:
    """Lower a TileLang function for sm_100a and compile it; exceptions of the compilers propagate.

    `passes`: settings of TileLang's passes by name; `flags`: nvcc flags, appended to the defaults; `hopper`:
    for sm_90a.
    """
    arch = "sm_90a" if hopper else "sm_100a"
    target = tvm.target.Target({"kind": "cuda", "arch": arch}, host="c")
    config = normalize_pass_configs(dict(passes or {}))
    with _nvcc_on_the_path(), tvm.transform.PassContext(opt_level=3, config=config), target:
        made = tilelang.lower(function, target=target, enable_device_compile=False)
    kernels = {}
    for variable, device in made.device_mod.functions.items():
        kernels[variable.name_hint] = StatedKernel(
            variable.name_hint,
            tuple(param.name for param in device.params),
            tuple(map(str, device.attrs["tirx.kernel_launch_params"])),
        )
    name = str(function.attrs["global_symbol"])
    calls = tuple(_calls(made.host_mod, name, kernels))
    if not any(call.name in kernels for call in calls):
        raise LaunchError("the lowered host function launches nothing", where=name)
    ptx = _ptx_of(made.kernel_source, name, arch, flags)
    return LoweredFunction(name, made.kernel_source, ptx, Module.from_ptx(ptx), kernels, calls)


@contextmanager
def _nvcc_on_the_path() -> Iterator[None]:
    """Put nvcc on the path: TileLang queries its version."""
    path = os.environ.get("PATH", "")
    os.environ["PATH"] = f"{toolchain.find().nvcc.parent}{os.pathsep}{path}"
    try:
        yield
    finally:
        os.environ["PATH"] = path


def _calls(host: IRModule, name: str, kernels: Mapping[str, StatedKernel]) -> list[StatedCall]:
    """The host function's calls by name, in order; LaunchError for an unknown call, and for a launch that
    depends on a condition.
    """
    found: list[StatedCall] = []
    errors: list[tuple[str, str]] = []  # an exception inside a visitor would lose its type

    def called(node: Stmt | PrimExpr) -> str:
        """The callee's name of a packed call."""
        if not isinstance(node, tvm.tirx.Call) or not str(getattr(node.op, "name", "")).endswith(
            "call_packed"
        ):
            return ""
        return node.args[0].value if isinstance(node.args[0], tvm.tirx.StringImm) else str(node.args[0])

    def visit(node: Stmt | PrimExpr) -> None:
        if isinstance(node, tvm.tirx.IfThenElse | tvm.tirx.For | tvm.tirx.While):
            inside: list[str] = []
            tvm.tirx.stmt_functor.post_order_visit(node, lambda inner: inside.append(called(inner)))
            if launched := set(inside) & {*kernels, _MAP}:
                what = "a launch that depends on a condition or a loop of the host function is not followed"
                errors.append((what, ", ".join(sorted(launched))))
        if what := called(node):
            if what in kernels or what == _MAP:
                found.append(StatedCall(what, tuple(node.args[1:])))
            elif what not in _WITHOUT_EFFECT:
                errors.append(("the lowered host function makes an unknown call", what))

    for function in host.functions.values():
        tvm.tirx.stmt_functor.post_order_visit(function.body, visit)
    for what, names in errors:
        raise LaunchError(what, where=name, found=names)
    return found


def evaluated(expression: PrimExpr, known: Mapping[str, TirValue], where: str) -> TirValue:
    """The value of an argument: a number, or the entry of `known` for a variable.

    LaunchError for an unknown variable.
    """
    if isinstance(expression, tvm.tirx.Var) and expression.name in known:
        return known[expression.name]
    values: dict[Var, PrimExpr] = {}

    def visit(node: Stmt | PrimExpr) -> None:
        if isinstance(node, tvm.tirx.Var) and isinstance(known.get(node.name), int | float):
            values[node] = tvm.tirx.const(known[node.name], node.dtype)

    tvm.tirx.stmt_functor.post_order_visit(expression, visit)
    plain = tvm.arith.Analyzer().simplify(tvm.tirx.stmt_functor.substitute(expression, values))
    if not isinstance(plain, tvm.tirx.IntImm | tvm.tirx.FloatImm):
        raise LaunchError(
            "an argument of a launch depends on an unknown value", where=where, found=str(expression)
        )
    return plain.value


def _ptx_of(source: str, name: str, arch: str, extra: tuple[str, ...]) -> str:
    flags = (*compile_flags(arch), *extra)
    tools, package = toolchain.find(), Path(tilelang.__file__).parent
    words = (tilelang.__version__, tools.version, *flags, source)
    key = hashlib.sha256(" ".join(words).encode()).hexdigest()
    target = cache_root() / "tilelang" / f"{key[:24]}.ptx"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            file, ptx = Path(folder) / f"{name}.cu", Path(folder) / "kernel.ptx"
            file.write_text(source)
            includes = [f"-I{package / 'src'}", f"-I{tools.cutlass_include}"]
            done = subprocess.run(
                [tools.nvcc, *flags, *includes, str(file), "-o", str(ptx)],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode:
                raise compile_error("nvcc", done.stderr)
            if not ptx.exists():
                raise LaunchError("nvcc wrote no PTX", where=name)
            os.replace(ptx, target)
    return target.read_text()
