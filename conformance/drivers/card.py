"""One CUDA card through `cuda-bindings`: a launch description placed, launched and read back.

Runs inside a worker process (conformance/drivers/cuda.py): a launch that breaks the context ends the process
that made it. Source: CUDA driver API (cuModuleLoadDataEx).
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from tileproof.kernels.launch.arguments import (
    POINTER_BYTES,
    BytesArgument,
    LaunchArgument,
    PlacedItem,
    PointerArgument,
    ScalarArgument,
    StructArgument,
    TensorMapArgument,
)
from tileproof.kernels.launch.builder import MAP_ALIGNMENT
from tileproof.kernels.launch.driver_calls import launch_config, map_bytes, tiled_map
from tileproof.kernels.launch.model import KernelLaunch, LaunchBuffer, LaunchFile, PtxText
from tileproof.spec.machine.tma import TensorMapFields

if TYPE_CHECKING:
    from types import ModuleType

    from cuda.bindings.driver import CUfunction, CUmodule

GUARD = 4096  # bytes before and after each buffer that no kernel may touch
GUARD_BYTE = 0xA5
FILLS = (0x00, 0xC3)  # of an output that the kernel is to write: no byte is alike in both launches
MAX_DYNAMIC_DEFAULT = 48 * 1024  # above it the kernel has to allow more (CUDA programming guide)
Bytes = npt.NDArray[np.uint8]


class CardError(Exception):
    """A driver call that failed. `broken`: the context is lost, so this process cannot continue."""

    def __init__(self, call: str, code: int, text: str, broken: bool) -> None:
        super().__init__(f"{call}: {text} ({code})")
        self.call, self.code, self.text, self.broken = call, code, text, broken


class NotAssembled(Exception):
    """The driver's assembler does not take this PTX for this card; the text is its first line."""


class NotOnCard(Exception):
    """The launch file has a step or an argument that this driver does not execute; the text names it."""


@dataclass(frozen=True)
class CardFacts:
    """Which card, and which driver: name, architecture such as `sm_90`, CUDA driver API version."""

    name: str
    arch: str
    driver: int


@dataclass
class Ran:
    """Outputs by name and, byte by byte, whether the launch wrote them; `touched`: buffers whose guards
    changed, with the first changed byte (below 0: before the buffer).
    """

    outputs: dict[str, Bytes] = field(default_factory=dict)
    written: dict[str, npt.NDArray[np.bool_]] = field(default_factory=dict)
    touched: dict[str, int] = field(default_factory=dict)


def retarget(ptx: str, arch: str) -> str:
    """PTX for the card's own architecture: `.target sm_100a` becomes that of the card, with its `a`."""
    return re.sub(r"(?m)^(\s*\.target\s+)sm_\d+[af]?\b", rf"\g<1>{arch}a", ptx, count=1)


class Card:
    """The first CUDA device. CardError, NotAssembled or NotOnCard from every method that talks to it."""

    def __init__(self) -> None:
        from cuda.bindings import driver  # an extra: only who has a card needs it

        self._api: ModuleType = driver
        self._call("cuInit", 0)
        device = self._call("cuDeviceGet", 0)
        self._call("cuCtxSetCurrent", self._call("cuDevicePrimaryCtxRetain", device))
        name = self._call("cuDeviceGetName", 100, device).split(b"\0")[0].decode()
        attribute = driver.CUdevice_attribute
        major = self._call(
            "cuDeviceGetAttribute", attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device
        )
        minor = self._call(
            "cuDeviceGetAttribute", attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device
        )
        self.facts = CardFacts(name, f"sm_{major}{minor}", self._call("cuDriverGetVersion"))
        self._modules: dict[str, CUmodule] = {}

    def run(self, launch: LaunchFile, fill: int = FILLS[0]) -> Ran:
        """The launches in order, one after another; buffers without a content start as `fill` bytes.
        `written` is unknown after a single run.
        """
        require_launches(launch)
        functions = [
            self._call(
                "cuModuleGetFunction", self._module(_ptx(launch, kernel_launch)), kernel_launch.entry.encode()
            )
            for kernel_launch in launch.launches
        ]
        addresses = {buffer.name: self._allocate(buffer.bytes) for buffer in launch.buffers}
        try:
            first = {
                buffer.name: placed(
                    _first_bytes(launch, buffer),
                    buffer.items,
                    lambda item: self._bytes(item, launch, addresses),
                )
                for buffer in launch.buffers
            }
            first = {name: moved(data, launch.buffers, addresses) for name, data in first.items()}
            for buffer in launch.buffers:
                self._fill(addresses[buffer.name], buffer.bytes, first[buffer.name], fill)
            for kernel_launch, function in zip(launch.launches, functions, strict=True):
                self._launch(launch, kernel_launch, function, addresses)
            return self._read(launch, first, addresses)
        finally:
            for address in addresses.values():
                self._api.cuMemFree(address - GUARD)

    def run_written(self, launch: LaunchFile) -> Ran:
        """Two runs whose outputs start as different bytes: what differs from both was written."""
        first = self.run(launch, FILLS[0])
        unknown = any(outcome.role == "output" for outcome in launch.outcomes)
        second = self.run(launch, FILLS[1]) if unknown else first
        for outcome in launch.outcomes:
            # What starts as the caller's values (a sum to be added to) cannot be recognised by its bytes.
            untouched = (first.outputs[outcome.name] == FILLS[0]) & (second.outputs[outcome.name] == FILLS[1])
            untouched &= outcome.role == "output"
            first.written[outcome.name] = ~untouched
        first.touched |= second.touched
        return first

    def _call(self, name: str, *args: object) -> Any:
        code, *values = getattr(self._api, name)(*args)
        if int(code):
            _, text = self._api.cuGetErrorString(code)
            # Errors of a kernel stay in the context: every later call repeats them.
            broken = name in ("cuCtxSynchronize", "cuMemcpyDtoH")
            raise CardError(name, int(code), text.decode() if text else "", broken)
        return values[0] if len(values) == 1 else tuple(values)

    def _module(self, ptx: str) -> CUmodule:
        if ptx not in self._modules:
            option = self._api.CUjit_option
            log = bytearray(8192)
            image = retarget(ptx, self.facts.arch).encode() + b"\0"
            code, module = self._api.cuModuleLoadDataEx(
                image,
                2,
                [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES],
                [log, len(log)],
            )
            if int(code):
                text = bytes(log).split(b"\0")[0].decode().strip()
                raise NotAssembled(text.split("\n")[0][:200] if text else f"error {int(code)}")
            self._modules[ptx] = module
        return self._modules[ptx]

    def _allocate(self, size: int) -> int:
        return int(self._call("cuMemAlloc", size + 2 * GUARD)) + GUARD

    def _fill(self, address: int, size: int, first: Bytes | None, fill: int) -> None:
        whole = np.full(size + 2 * GUARD, GUARD_BYTE, np.uint8)
        whole[GUARD : GUARD + size] = fill if first is None else first
        self._call("cuMemcpyHtoD", address - GUARD, whole.ctypes.data, whole.nbytes)

    def _read(
        self, launch: LaunchFile, first: Mapping[str, Bytes | None], addresses: Mapping[str, int]
    ) -> Ran:
        ran = Ran()
        for buffer in launch.buffers:
            whole = np.empty(buffer.bytes + 2 * GUARD, np.uint8)
            self._call("cuMemcpyDtoH", whole.ctypes.data, addresses[buffer.name] - GUARD, whole.nbytes)
            changed = np.flatnonzero(whole != GUARD_BYTE) - GUARD
            outside = changed[(changed < 0) | (changed >= buffer.bytes)]
            given = first[buffer.name]
            if buffer.role == "input" and given is not None:
                inside = np.flatnonzero(whole[GUARD : GUARD + buffer.bytes] != given)
                outside = np.concatenate([outside, inside])
            if len(outside):
                ran.touched[buffer.name] = int(outside[0])
            if buffer.judged:
                ran.outputs[buffer.name] = whole[GUARD : GUARD + buffer.bytes].copy()
        return ran

    def _launch(
        self, file: LaunchFile, launch: KernelLaunch, function: CUfunction, addresses: Mapping[str, int]
    ) -> None:
        api = self._api
        if launch.shared_bytes > MAX_DYNAMIC_DEFAULT:
            attribute = api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._call("cuFuncSetAttribute", function, attribute, launch.shared_bytes)
        cluster = _three(launch.cluster) if launch.cluster else None
        # Each launch is waited for below: a programmatic launch finds the launch before it complete.
        config = launch_config(
            api,
            _three(launch.grid),
            _three(launch.block),
            launch.shared_bytes,
            cluster,
            launch.programmatic,
        )
        raw = [_aligned(self._bytes(argument, file, addresses)) for argument in launch.arguments]
        pointers = (ctypes.c_void_p * max(1, len(raw)))(*[value.ctypes.data for value in raw])
        self._call("cuLaunchKernelEx", config, function, ctypes.addressof(pointers), 0)
        self._call("cuCtxSynchronize")

    def _bytes(self, item: LaunchArgument, file: LaunchFile, addresses: Mapping[str, int]) -> bytes:
        """An argument as the kernel reads it; what no item of a struct sets is zero."""
        if isinstance(item, PointerArgument):
            return (addresses[item.buffer] + item.offset).to_bytes(POINTER_BYTES, "little")
        if isinstance(item, ScalarArgument):
            return item.encode()
        if isinstance(item, TensorMapArgument) and not item.lower:
            dtype = item.dtype or file.buffer(item.buffer).dtype
            return self._tensor_map(item, dtype, addresses[item.buffer])
        if not isinstance(item, StructArgument | BytesArgument):
            raise NotOnCard(f"an argument of kind {item.kind}")
        blank = (
            np.zeros(item.size, np.uint8)
            if isinstance(item, StructArgument)
            else np.frombuffer(item.data, np.uint8)
        )
        out = placed(blank, item.items, lambda item: self._bytes(item, file, addresses))
        assert out is not None
        return out.tobytes()

    def _tensor_map(self, item: TensorMapArgument, dtype: str, address: int) -> bytes:
        steps = item.element_strides or (1,) * len(item.shape)
        fill: Literal["zero", "nan"] = "nan" if item.oob_fill == "nan" else "zero"
        fields = TensorMapFields(
            dtype, item.shape, item.strides, item.box, steps, item.swizzle, fill, address + item.offset
        )
        return map_bytes(self._call("cuTensorMapEncodeTiled", *tiled_map(self._api, fields)))


def placed(
    content: Bytes | None, items: Sequence[PlacedItem], encode: Callable[[LaunchArgument], bytes]
) -> Bytes | None:
    """A copy of the content with its pointers and tensor maps, which `encode` gives, written over it."""
    if content is None:
        return None
    out = content.copy()
    for placed_item in items:
        data = np.frombuffer(encode(placed_item.item), np.uint8)
        out[placed_item.offset : placed_item.offset + len(data)] = data
    return out


def moved(
    content: Bytes | None, buffers: Sequence[LaunchBuffer], addresses: Mapping[str, int]
) -> Bytes | None:
    """The content with its pointers into buffers of recorded addresses, which a card does not keep, moved to
    `addresses`: aligned words that are an address in a buffer or its end, as `tileproof record` has it.
    """
    if content is None or not pointers(content, buffers).any():
        return content
    out = content.copy()
    words = out[: len(out) // POINTER_BYTES * POINTER_BYTES].view(np.uint64)
    old = words.copy()
    for buffer in buffers:
        if buffer.address is not None:
            inside = (old >= buffer.address) & (old <= buffer.address + buffer.bytes)
            words[inside] = old[inside] - np.uint64(buffer.address) + np.uint64(addresses[buffer.name])
    return out


def pointers(content: Bytes, buffers: Sequence[LaunchBuffer]) -> npt.NDArray[np.bool_]:
    """For each aligned word of the content, whether it is an address in a buffer of a recorded address."""
    words = content[: len(content) // POINTER_BYTES * POINTER_BYTES].view(np.uint64)
    found = np.zeros(len(words), bool)
    for buffer in buffers:
        if buffer.address is not None:
            found |= (words >= buffer.address) & (words <= buffer.address + buffer.bytes)
    return found


def require_launches(launch: LaunchFile) -> None:
    """NotOnCard for anything but launches of PTX text in the default stream."""
    for step in launch.steps:
        if not isinstance(step, KernelLaunch):
            raise NotOnCard(f"a step of kind {step.kind}")
        for name, given in (
            ("stream", step.stream), ("cooperative", step.cooperative), ("clusters", step.clusters),
        ):  # fmt: skip
            if given:
                raise NotOnCard(f"a launch with {name} {given}")
        _ptx(launch, step)


def _ptx(launch: LaunchFile, step: KernelLaunch) -> str:
    code = launch.module_of(step).code
    if not isinstance(code, PtxText):
        raise NotOnCard(f"a module of kind {code.kind}")
    return code.text


def _first_bytes(launch: LaunchFile, buffer: LaunchBuffer) -> Bytes | None:
    found = buffer.elements(launch.folder)
    return None if found is None else found.reshape(-1).view(np.uint8)


def _three(extents: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*extents, 1, 1)[:3]
    return x, y, z


def _aligned(data: bytes) -> Bytes:
    """The bytes at an address that is a multiple of 64, as a tensor map needs it."""
    raw = np.zeros(len(data) + MAP_ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % MAP_ALIGNMENT
    raw[start : start + len(data)] = np.frombuffer(data, np.uint8)
    return raw[start : start + len(data)]
