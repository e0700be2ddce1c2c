"""Triton's host side on a machine without a GPU: kernels compile for sm_100a and launch on the emulator.

`emulated()` sets a driver active that takes the PTX in place of a cubin. A launch `kernel[grid](...)` over
CPU tensors then runs on the emulator: tensors become buffers of the launch, descriptors tensor maps by
value, the scratch areas that the compiler asks for zeroed buffers. What was launched is in the returned list.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import triton
from tileproof.emulator import Buffer, LaunchResult, Memory, Module, TensorMap
from tileproof.emulator.errors import LaunchError
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.backends.driver import GPUDriver

_SHARED_LIMIT = 232448
_SWIZZLES = {0: "none", 1: "32B", 2: "64B", 3: "128B"}  # CUtensorMapSwizzle, as the compiler writes it
_NUMPY = {torch.bfloat16: torch.uint16}  # numpy has no such type: the bits go to the kernel
_FORMATS = {"fp16": "<f2", "fp32": "<f4", "f32": "<f4", "fp64": "<f8"}


@dataclass
class Emulated:
    """The launches of one `emulated()`, each with its module and result."""

    how: dict[str, Any]
    launches: list[Launched] = field(default_factory=list)

    @property
    def last(self) -> Launched:
        return self.launches[-1]


@dataclass(frozen=True)
class Launched:
    """One launch: what it ran, with which shape, and what came of it."""

    module: Module
    ptx: str
    entry: str
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared_bytes: int
    result: LaunchResult


@contextlib.contextmanager
def emulated(**how: Any) -> Iterator[Emulated]:
    """Triton launches inside go to the emulator; `how` (schedule, races, ...) to `Module.launch`."""
    state = Emulated(how)
    before_driver, before_hook = triton.runtime.driver._active, knobs.runtime.add_stages_inspection_hook
    triton.runtime.driver.set_active(_Driver(state))
    knobs.runtime.add_stages_inspection_hook = _stop_at_ptx
    try:
        yield state
    finally:
        triton.runtime.driver._active = before_driver
        knobs.runtime.add_stages_inspection_hook = before_hook


def _stop_at_ptx(*stages: Any) -> tuple[str, str] | None:
    """Without arguments the key of this pipeline, else puts the PTX where the cubin would stand."""
    if not stages:
        return "tileproof-ptx", "tileproof-ptx"
    stages[1]["cubin"] = lambda ptx, metadata: ptx.encode()
    return None


class _Utils:
    """What Triton asks of the CUDA driver, answered for an SM100."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {
            "max_shared_mem": _SHARED_LIMIT, "max_num_regs": 65536, "multiprocessor_count": 148,
            "warpSize": 32, "sm_clock_rate": 1_800_000, "mem_clock_rate": 4_000_000, "mem_bus_width": 8192,
        }  # fmt: skip

    def load_binary(self, name: str, image: bytes, shared: int, device: int) -> tuple[Any, ...]:
        """(module, function, registers, spills, most threads)."""
        return None, (Module.from_ptx(image.decode()), image.decode(), name), 0, 0, 1024

    def unload_module(self, module: Any) -> None:
        """Nothing is held."""


class _Driver(GPUDriver):  # type: ignore[misc]
    """An sm_100a without a device: its launcher runs the emulator."""

    def __init__(self, state: Emulated) -> None:
        self.utils = _Utils()
        self.launcher_cls = lambda source, metadata: _Launcher(state_of(self), source, metadata)
        self.state = state
        self.get_device_capability = lambda device=0: (10, 0)
        self.get_current_stream = lambda device=0: 0
        self.get_current_device = lambda: 0
        self.set_current_device = lambda device: None

    @staticmethod
    def is_active() -> bool:
        return True

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 100, 32)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_benchmarker(self) -> Callable[..., Any]:
        raise LaunchError("the emulator has no clock to benchmark with")


def state_of(driver: _Driver) -> Emulated:
    """The state of the driver that is active now: kernels outlive one `emulated()` in Triton's caches."""
    active = triton.runtime.driver.active
    return active.state if isinstance(active, _Driver) else driver.state


class _Launcher:
    """One compiled kernel's launcher."""

    def __init__(self, state: Emulated, source: Any, metadata: Any) -> None:
        self.state, self.signature, self.metadata = state, tuple(source.signature.values()), metadata

    def __call__(
        self, x: int, y: int, z: int, stream: int, function: Any, packed: Any, launch_metadata: Any,
        enter: Any, leave: Any, *args: Any,
    ) -> None:  # fmt: skip
        module, ptx, entry = function
        state = triton.runtime.driver.active.state
        memory = Memory()
        packer = _Packer(memory, list(self.metadata.tensordesc_meta or ()))
        for kind, value in zip(self.signature, args, strict=True):
            packer.add(kind, value)
        ctas = self.metadata.num_ctas
        for what in ("global", "profile"):
            size = getattr(self.metadata, f"{what}_scratch_size")
            total = size * x * y * z * ctas
            packer.out.append(memory.empty(total, np.uint8, f"{what} scratch") if total else 0)
        block = (32 * _total_warps(module, entry, self.metadata.num_warps), 1, 1)
        result = module.launch(
            entry, grid=(x * ctas, y, z), block=block, cluster=(ctas, 1, 1),
            shared_bytes=self.metadata.shared,
            args=packer.out, memory=memory, **state.how,
        )  # fmt: skip
        state.launches.append(Launched(module, ptx, entry, block, (ctas, 1, 1), self.metadata.shared, result))


def _total_warps(module: Module, entry: str, warps: int) -> int:
    """Warps of a CTA: the metadata's, or with warp specialisation what `.reqntid` asks for."""
    stated = module.decode(entry).entry.directives.get("reqntid")
    return stated[0] // 32 if stated else warps


class _Packer:
    """The kernel's parameters in the order of the PTX, from the arguments of a Triton launch."""

    def __init__(self, memory: Memory, descriptors: list[dict[str, Any]]) -> None:
        self.memory, self.descriptors = memory, descriptors
        self.buffers: dict[int, Buffer] = {}
        self.out: list[Any] = []

    def add(self, kind: Any, value: Any) -> None:
        if isinstance(kind, tuple):
            for inner, one in zip(kind, value, strict=True):
                self.add(inner, one)
        elif kind == "constexpr":
            return
        elif kind.startswith("tensordesc"):
            self.out += [self.tensor_map(value), *map(int, value.shape)]
            self.out += [np.int64(stride) for stride in value.strides]
        elif kind.startswith("*"):
            self.out.append(self.address(value))
        elif kind in _FORMATS:
            self.out.append(np.asarray(value, dtype=_FORMATS[kind])[()])
        elif kind == "bf16":
            raise LaunchError("a bf16 scalar argument is not passed on", found=str(value))
        else:
            self.out.append(int(value))

    def address(self, tensor: torch.Tensor) -> int:
        """The tensor's address in the launch: one buffer a storage."""
        storage = tensor.untyped_storage()
        start = storage.data_ptr()
        if start not in self.buffers:
            whole = torch.empty(0, dtype=torch.uint8).set_(storage)
            self.buffers[start] = self.memory.buffer(whole.numpy(), f"tensor {len(self.buffers)}")
        return self.buffers[start].address + tensor.data_ptr() - start

    def tensor_map(self, descriptor: Any) -> TensorMap:
        fields = self.descriptors.pop(0)
        base, size = descriptor.base, descriptor.base.element_size()
        kind = str(base.dtype).removeprefix("torch.")
        return TensorMap.fields(
            address=self.address(base),
            dtype={"float8_e4m3fn": "uint8", "float8_e5m2": "uint8", "int8": "uint8"}.get(kind, kind),
            shape=[int(n) for n in reversed(descriptor.shape)],
            strides=[int(n) * size for n in reversed(descriptor.strides[:-1])],
            box=list(reversed(fields["block_size"])),
            swizzle=_SWIZZLES[fields["swizzle"]],
            oob_fill=descriptor.padding,
        )
