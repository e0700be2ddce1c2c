"""One CUDA card through `cuda-bindings`: a launch description placed, launched and read back.

Runs inside a worker process (conformance/drivers/cuda.py): a launch that breaks the context ends the process
that made it. Sources: CUDA driver API (cuLaunchKernelEx, cuTensorMapEncodeTiled, cuModuleLoadDataEx).
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from tileproof.kernels.launch import (
    ADDRESS_BYTES,
    TENSOR_MAP_ALIGNMENT,
    TENSOR_MAP_BYTES,
    Buffer,
    Launch,
    Parameter,
    Scalar,
    Struct,
    TensorMapSpec,
)

GUARD = 4096  # bytes before and after each buffer that no kernel may touch
GUARD_BYTE = 0xA5
FILLS = (0x00, 0xC3)  # of an output that the kernel is to write: no byte is alike in both launches
MAX_DYNAMIC_DEFAULT = 48 * 1024  # above it the kernel has to allow more (CUDA programming guide)
Bytes = npt.NDArray[np.uint8]


class CardError(Exception):
    """A driver call that failed. `broken`: the context is lost, so this process cannot go on."""

    def __init__(self, call: str, code: int, text: str, broken: bool) -> None:
        super().__init__(f"{call}: {text} ({code})")
        self.call, self.code, self.text, self.broken = call, code, text, broken


class NotAssembled(Exception):
    """The driver's assembler does not take this PTX for this card; the text is its first line."""


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
    """The first CUDA device. CardError or NotAssembled from every method that talks to it."""

    def __init__(self) -> None:
        from cuda.bindings import driver  # an extra: only who has a card needs it

        self._api: Any = driver
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
        self._modules: dict[str, Any] = {}

    def run(self, launch: Launch, fill: int = FILLS[0]) -> Ran:
        """One launch, with those before and after it; outputs without an array start as `fill` bytes.
        `written` is not known after one.
        """
        functions = [
            self._call("cuModuleGetFunction", self._module(one.image), one.entry.encode())
            for one in launch.sequence
        ]
        buffers = launch.buffers()
        addresses = {name: self._place(buffer, fill) for name, buffer in buffers.items()}
        try:
            for one, function in zip(launch.sequence, functions, strict=True):
                self._launch(one, function, addresses)
            return self._read(buffers, addresses)
        finally:
            for address in addresses.values():
                self._api.cuMemFree(address - GUARD)

    def run_written(self, launch: Launch) -> Ran:
        """Two launches whose outputs start as different bytes: what differs from both was written."""
        outputs = {name: one for name, one in launch.buffers().items() if one.direction == "out"}
        first = self.run(launch, FILLS[0])
        unknown = any(one.array is None for one in outputs.values())
        second = self.run(launch, FILLS[1]) if unknown else first
        for name, buffer in outputs.items():
            # What starts as the caller's values (a sum to be added to) cannot be told apart by its bytes.
            kept = (first.outputs[name] == FILLS[0]) & (second.outputs[name] == FILLS[1])
            kept &= buffer.array is None
            first.written[name] = ~kept
        first.touched |= second.touched
        return first

    def _call(self, name: str, *args: Any) -> Any:
        code, *values = getattr(self._api, name)(*args)
        if int(code):
            _, text = self._api.cuGetErrorString(code)
            # Errors of a kernel stay in the context: every later call repeats them.
            broken = name in ("cuCtxSynchronize", "cuMemcpyDtoH")
            raise CardError(name, int(code), text.decode() if text else "", broken)
        return values[0] if len(values) == 1 else tuple(values)

    def _module(self, ptx: str) -> Any:
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

    def _place(self, buffer: Buffer, fill: int) -> int:
        whole = np.full(buffer.nbytes + 2 * GUARD, GUARD_BYTE, np.uint8)
        inside = whole[GUARD : GUARD + buffer.nbytes]
        inside[:] = fill if buffer.array is None else buffer.array.reshape(-1).view(np.uint8)
        base = int(self._call("cuMemAlloc", whole.nbytes))
        self._call("cuMemcpyHtoD", base, whole.ctypes.data, whole.nbytes)
        return base + GUARD

    def _read(self, buffers: Mapping[str, Buffer], addresses: Mapping[str, int]) -> Ran:
        ran = Ran()
        for name, buffer in buffers.items():
            whole = np.empty(buffer.nbytes + 2 * GUARD, np.uint8)
            self._call("cuMemcpyDtoH", whole.ctypes.data, addresses[name] - GUARD, whole.nbytes)
            changed = np.flatnonzero(whole != GUARD_BYTE) - GUARD
            outside = changed[(changed < 0) | (changed >= buffer.nbytes)]
            if buffer.direction == "in" and buffer.array is not None:
                given = buffer.array.reshape(-1).view(np.uint8)
                inside = np.flatnonzero(whole[GUARD : GUARD + buffer.nbytes] != given)
                outside = np.concatenate([outside, inside])
            if len(outside):
                ran.touched[name] = int(outside[0])
            if buffer.direction == "out":
                ran.outputs[name] = whole[GUARD : GUARD + buffer.nbytes].copy()
        return ran

    def _launch(self, launch: Launch, function: Any, addresses: Mapping[str, int]) -> None:
        api = self._api
        if launch.shared_bytes > MAX_DYNAMIC_DEFAULT:
            most = api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._call("cuFuncSetAttribute", function, most, launch.shared_bytes)
        config = api.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = launch.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = launch.block
        config.sharedMemBytes = launch.shared_bytes
        attribute = api.CUlaunchAttribute()
        attribute.id = api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        shape = attribute.value.clusterDim
        shape.x, shape.y, shape.z = launch.cluster
        config.attrs = [attribute]
        config.numAttrs = 1
        raw = [_aligned(self._bytes(parameter, addresses)) for parameter in launch.params]
        pointers = (ctypes.c_void_p * max(1, len(raw)))(*[one.ctypes.data for one in raw])
        self._call("cuLaunchKernelEx", config, function, ctypes.addressof(pointers), 0)
        self._call("cuCtxSynchronize")

    def _bytes(self, item: Parameter, addresses: Mapping[str, int]) -> bytes:
        """A parameter as the kernel reads it."""
        if isinstance(item, Buffer):
            return addresses[item.name].to_bytes(ADDRESS_BYTES, "little")
        if isinstance(item, Scalar):
            return item.encode()
        if isinstance(item, TensorMapSpec):
            return self._tensor_map(item, addresses[item.buffer.name])
        assert isinstance(item, Struct)
        out = bytearray(item.size)
        for offset, part in item.fields:
            data = self._bytes(part, addresses)
            out[offset : offset + len(data)] = data
        return bytes(out)

    def _tensor_map(self, item: TensorMapSpec, address: int) -> bytes:
        api = self._api
        encoded = self._call(
            "cuTensorMapEncodeTiled",
            getattr(api.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{item.dtype.upper()}"),
            len(item.shape),
            address + item.offset,
            [api.cuuint64_t(n) for n in item.shape],
            [api.cuuint64_t(n) for n in item.strides] or [api.cuuint64_t(0)],
            [api.cuuint32_t(n) for n in item.box],
            [api.cuuint32_t(n) for n in item.element_strides],
            api.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(api.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{item.swizzle.upper()}"),
            api.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
            api.CUtensorMapFloatOOBfill(int(item.oob_fill == "nan")),
        )
        return ctypes.string_at(int(encoded.getPtr()), TENSOR_MAP_BYTES)


def _aligned(data: bytes) -> Bytes:
    """The bytes at an address that is a multiple of 64, as a tensor map needs it."""
    raw = np.zeros(len(data) + TENSOR_MAP_ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % TENSOR_MAP_ALIGNMENT
    raw[start : start + len(data)] = np.frombuffer(data, np.uint8)
    return raw[start : start + len(data)]
