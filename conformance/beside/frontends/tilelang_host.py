"""`emulate()` for TileLang: inside the block, its kernels run on the emulator over CPU tensors.

Functions compiled in the block (`@tilelang.jit`, `tilelang.compile`) target sm_100a; nvcc comes with the
extra `tileproof[kernels]`. `@tilelang.autotune` takes its first configuration. Rejected with an error:
kernels compiled outside the block, and arguments that do not fit the function.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tileproof.conformance.beside.frontends.block import Emulate, patched
from tileproof.conformance.beside.frontends.host_launch import HostArgument, HostLaunch, MapArgument
from tileproof.conformance.beside.frontends.host_memory import LaunchMemory, Pointer
from tileproof.conformance.beside.frontends.run import EmulatedRun
from tileproof.emulator import TensorMap
from tileproof.emulator.errors import LaunchError
from tileproof.spec.machine.errors import TileproofError

if TYPE_CHECKING:
    import torch
    from tilelang.autotuner.tuner import AutoTuneImpl
    from tilelang.jit import JITImpl
    from tilelang.jit.kernel import JITKernel
    from tileproof.conformance.beside.frontends.tilelang_lowered import StatedCall, TirValue
    from tvm.tirx import Buffer, PrimFunc

OutputNumbers = int | Sequence[int] | None


@contextlib.contextmanager
def _active(run: EmulatedRun, version: str) -> Iterator[None]:
    """Make TileLang compile for the emulator, and restore its kernel caches afterwards."""
    import tilelang.autotuner.tuner as tuner
    from tilelang.jit.kernel import JITKernel

    jit = importlib.import_module("tilelang.jit")  # the package has a function of this name
    caches: dict[int, tuple[JITImpl, dict[str, object]]] = {}

    def cached(_: object) -> Callable[..., object]:
        def compiled(
            func: PrimFunc, out_idx: OutputNumbers = None, *_: object,
            pass_configs: Mapping[str, object] | None = None,
            compile_flags: str | Sequence[str] | None = None, **others: object,
        ) -> EmulatedKernel:  # fmt: skip
            flags = [compile_flags] if isinstance(compile_flags, str) else list(compile_flags or ())
            return EmulatedKernel(run, f"TileLang {version}", func, out_idx, pass_configs, tuple(flags))

        return compiled

    def fresh(call: Callable[..., object]) -> Callable[..., object]:
        """Empty a function's own caches for the block, and restore them afterwards."""

        def made(self: JITImpl, *args: object, **named: object) -> object:
            if id(self) not in caches:
                caches[id(self)] = (self, dict(self.__dict__))
                self._kernel_cache, self._call_form_cache = {}, type(self._call_form_cache)()
            return call(self, *args, **named)

        return made

    def first(_: object) -> Callable[..., object]:
        def made(self: AutoTuneImpl, *args: object, **named: object) -> object:
            compiles = named.pop("__return_kernel", False)
            configurations = list(self.configs(*args, **named) if callable(self.configs) else self.configs)
            chosen = {k: v for k, v in configurations[0].items() if k not in tuner._RESERVED_CONFIG_KEYS}
            name = getattr(self.jit_impl.func, "__name__", "a function")
            run.note(f"{name}: autotuning took the first of {len(configurations)} configurations: {chosen}")
            return (self.jit_impl.compile if compiles else self.jit_impl)(*args, **{**named, **chosen})

        return made

    def refused(_: object) -> Callable[..., object]:
        def made(self: JITKernel, *args: object, **named: object) -> object:
            raise LaunchError(
                "a TileLang kernel compiled outside the block is launched inside it",
                where=str(self.prim_func.attrs["global_symbol"]),
                do="compile it inside `with emulate()`",
            )

        return made

    with contextlib.ExitStack() as stack:
        stack.enter_context(patched(jit, "cached", cached))
        stack.enter_context(patched(jit.JITImpl, "__call__", fresh))
        stack.enter_context(patched(tuner.AutoTuneImpl, "__call__", first))
        stack.enter_context(patched(JITKernel, "__call__", refused))
        try:
            yield
        finally:
            for function, state in caches.values():
                function.__dict__.update(state)


class EmulatedKernel:
    """A compiled TileLang function, callable like `JITKernel` with the tensors that are not outputs."""

    def __init__(
        self, run: EmulatedRun, compiler: str, function: PrimFunc, outputs: OutputNumbers,
        passes: Mapping[str, object] | None,
        flags: tuple[str, ...],
    ) -> None:  # fmt: skip
        from tileproof.conformance.beside.frontends.tilelang_lowered import lower

        self.prim_func, self._run, self._compiler = function, run, compiler
        self.lowered = lower(function, passes, flags, run.hopper)
        count = len(function.params)
        chosen = [outputs] if isinstance(outputs, int) else list(outputs or ())
        if any(not -count <= n < count for n in chosen):
            raise LaunchError(
                "out_idx is not a parameter of the function",
                where=self.lowered.name, expected=f"{count} parameters", found=str(outputs),
            )  # fmt: skip
        self.outputs = [n % count for n in chosen]

    def get_kernel_source(self, kernel_only: bool = True) -> str:
        """The CUDA source, in TileLang's form."""
        return self.lowered.source

    def __call__(self, *inputs: TirValue) -> TirValue | list[TirValue] | None:
        """Launch; return the output or list of outputs of `out_idx`, allocated on the CPU."""
        name = self.lowered.name
        self._run.check_usable(name)
        parameters = self.prim_func.params
        if len(inputs) != len(parameters) - len(self.outputs):
            raise LaunchError(
                "the function is called with the wrong number of arguments", where=name,
                expected=str(len(parameters) - len(self.outputs)), found=str(len(inputs)),
            )  # fmt: skip
        remaining = iter(inputs)
        values: list[TirValue] = [
            None if n in self.outputs else next(remaining) for n in range(len(parameters))
        ]
        known = self._bound(values)
        for n in self.outputs:
            values[n] = self._made(n, known)
        made: dict[str, TirValue] = {}
        for call in self.lowered.calls:
            self._step(call, self._names(values, known), made)
        outputs = [values[n] for n in self.outputs]
        return outputs[0] if len(outputs) == 1 else outputs or None

    # ---- arguments

    def _buffer(self, number: int) -> Buffer:
        """The function's declaration of a parameter's tensor; None for a scalar."""
        return self.prim_func.buffer_map.get(self.prim_func.params[number], None)

    def _bound(self, values: Sequence[TirValue]) -> dict[str, TirValue]:
        """Values of scalars and symbolic extents by name; LaunchError for a tensor that does not fit."""
        from tilelang import tvm

        known: dict[str, TirValue] = {}
        for number, value in enumerate(values):
            buffer = self._buffer(number)
            if number in self.outputs:
                continue
            if buffer is None:
                known[self.prim_func.params[number].name] = value
                continue
            where = f"{self.lowered.name}, argument {buffer.name}"
            dtype, shape, strides = _described(value, where)
            if dtype != str(buffer.dtype) and (dtype, str(buffer.dtype)) not in _SAME:
                raise LaunchError(
                    "the element type of a tensor does not match",
                    where=where,
                    expected=str(buffer.dtype),
                    found=dtype,
                )
            if len(shape) != len(buffer.shape):
                raise LaunchError(
                    "the rank of a tensor does not match", where=where,
                    expected=f"{len(buffer.shape)} dimensions", found=str(shape),
                )  # fmt: skip
            for extent, stated in zip(shape, buffer.shape, strict=True):
                wanted = known.setdefault(stated.name, extent) if isinstance(stated, tvm.tirx.Var) else None
                if wanted is None and isinstance(stated, tvm.tirx.IntImm):
                    wanted = int(stated)
                if wanted is not None and wanted != extent:
                    raise LaunchError(
                        "the shape of a tensor does not match",
                        where=where,
                        expected=str(list(buffer.shape)),
                        found=str(shape),
                    )
            self._check_strides(buffer, shape, strides, known, where)
        return known

    def _check_strides(
        self,
        buffer: Buffer,
        shape: Sequence[int],
        strides: Sequence[int],
        known: dict[str, TirValue],
        where: str,
    ) -> None:
        from tilelang import tvm
        from tileproof.conformance.beside.frontends.tilelang_lowered import evaluated

        step = 1
        wanted: list[int] = []
        for extent in reversed(shape):
            wanted.insert(0, step)
            step *= extent
        if buffer.strides:
            for stated, stride in zip(buffer.strides, strides, strict=True):
                if isinstance(stated, tvm.tirx.Var):
                    known.setdefault(stated.name, stride)
            wanted = [evaluated(stated, known, where) for stated in buffer.strides]
        if any(
            n > 1 and stride != wanted_stride
            for n, stride, wanted_stride in zip(shape, wanted, strides, strict=True)
        ):
            raise LaunchError(
                "the strides of a tensor do not match", where=where, expected=str(wanted),
                found=str(list(strides)), do="pass tensor.contiguous()",
            )  # fmt: skip

    def _made(self, number: int, known: Mapping[str, TirValue]) -> torch.Tensor:
        import torch
        from tileproof.conformance.beside.frontends.tilelang_lowered import evaluated

        buffer = self._buffer(number)
        shape = [evaluated(n, known, f"{self.lowered.name}, output {buffer.name}") for n in buffer.shape]
        return torch.empty(shape, dtype=getattr(torch, str(buffer.dtype)))

    def _names(self, values: Sequence[TirValue], known: Mapping[str, TirValue]) -> dict[str, TirValue]:
        """The values of the host function's variables: tensors and numbers by name."""
        out = dict(known)
        for number, value in enumerate(values):
            buffer = self._buffer(number)
            if buffer is not None:
                out[buffer.data.name] = out[buffer.name] = value
        return out

    # ---- calls

    def _step(self, call: StatedCall, names: Mapping[str, TirValue], maps: dict[str, TirValue]) -> None:
        """Keep a tensor map or run a launch."""
        from tileproof.conformance.beside.frontends.tilelang_lowered import StatedLaunch, evaluated

        name = self.lowered.name
        known = {**names, **maps}
        if call.name not in self.lowered.kernels:
            target, *rest = call.arguments
            maps[target.name] = _Map(target.name, tuple(evaluated(word, known, name) for word in rest))
            return
        stated = StatedLaunch.of(
            self.lowered.kernels[call.name],
            tuple(evaluated(argument, known, name) for argument in call.arguments),
        )
        memory = LaunchMemory(self._run.addresses, name)
        tensors = {id(value): key for key, value in names.items() if hasattr(value, "untyped_storage")}
        arguments = tuple(_argument(argument, memory, tensors) for argument in stated.arguments)
        launch = HostLaunch(
            stated.entry, self._compiler, self.lowered.module, self.lowered.ptx, stated.entry,
            stated.grid, stated.block, None, stated.shared_bytes, arguments,
            programmatic=stated.programmatic, sources={f"{name}.cu": self.lowered.source},
            resident=stated.grid[0] * stated.grid[1] * stated.grid[2] if stated.cooperative else None,
            names=self.lowered.kernels[call.name].parameters,
        )  # fmt: skip
        self._run.run(launch, memory)


# torch's name of a type, TileLang's name of the type that it passes as such.
_SAME = {("float8_e4m3fn", "float8_e4m3"), ("int8", "float4_e2m1fn"), ("uint8", "float4_e2m1fn")}


class _Map:
    """A tensor map of the host function: its arguments of cuTensorMapEncodeTiled."""

    def __init__(self, name: str, values: tuple[TirValue, ...]) -> None:
        self.name = name
        self.type, rank, self.tensor, *rest = values
        self.shape, rest = rest[:rank], rest[rank:]
        self.strides, rest = rest[1:rank], rest[rank:]
        self.box, rest = rest[:rank], rest[rank:]
        self.steps, (self.interleave, self.swizzle, self.promotion, self.fill) = rest[:rank], rest[rank:]


def _argument(value: TirValue, memory: LaunchMemory, names: Mapping[int, str]) -> HostArgument:
    """A parameter of the kernel: a map, a tensor's address or a number."""

    def pointer(tensor: TirValue) -> Pointer | None:
        return memory.pointer(tensor, names.get(id(tensor), "a tensor"))

    if isinstance(value, _Map):
        at = pointer(value.tensor)
        try:
            made = TensorMap.of_driver(
                data_type=value.type, address=memory.address(at), global_dim=value.shape,
                global_strides=value.strides, box_dim=value.box, element_strides=value.steps,
                interleave=value.interleave, swizzle=value.swizzle, l2_promotion=value.promotion,
                oob_fill=value.fill,
            )  # fmt: skip
        except TileproofError as error:
            raise LaunchError(
                error.what, where=f"tensor map {value.name}: {error.where}", expected=error.expected,
                found=error.found, do=error.do,
            ) from None  # fmt: skip
        return MapArgument(made, at)
    return pointer(value) if hasattr(value, "untyped_storage") else value


def _described(value: TirValue, where: str) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """(element type, shape, strides) of a tensor."""
    if not hasattr(value, "untyped_storage"):
        raise LaunchError(
            "an argument is not a tensor",
            where=where,
            expected="a torch tensor on the CPU",
            found=type(value).__name__,
        )
    return str(value.dtype).removeprefix("torch."), tuple(value.shape), tuple(value.stride())


emulate = Emulate("tilelang", _active)
