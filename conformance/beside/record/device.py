"""The device of a recorded program: applies the host's operations on memory and modules to the emulator."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np
from tileproof.emulator import Buffer, Memory, Module, RunResult, TensorMap
from tileproof.emulator.errors import LaunchError
from tileproof.emulator.options import RunKeywords
from tileproof.spec.machine.types import UncheckedObject

# CUtensorMapDataType, CUtensorMapSwizzle and CUtensorMapFloatOOBfill of the CUDA driver API, by number.
_TYPES = (
    "uint8", "uint16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64", "bfloat16",
    "float32_ftz", "tfloat32", "tfloat32_ftz", "16u4_align8b", "16u4_align16b", "16u6_align16b",
)  # fmt: skip
_SWIZZLES = ("none", "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B")
_FILLS = ("zero", "nan")
# The address of module 0's variables, and the distance to the next module's (range: runtime/device.cpp).
_VARIABLES, _VARIABLES_STEP = 0x0800_0000_0000, 1 << 32
_MODULES = 256
Extent = tuple[int, int, int]


@dataclass(frozen=True)
class RecordedLaunch:
    """A recorded launch; `parameters`: the bytes of each, tensor maps in the emulator's encoding."""

    entry: str
    grid: Extent
    block: Extent
    cluster: Extent
    shared_bytes: int
    overlaps: bool  # it may start before the previous launch ends (programmatic dependent launch)
    parameters: tuple[bytes, ...]
    module: int = 0
    stream: int = 0
    cooperative: bool = False


class RecordedDevice:
    """`module`: replaces every module that the program loads."""

    def __init__(self, module: Module | None = None) -> None:
        self.memory = Memory()
        self.modules: dict[int, Module] = {}
        self.shared: dict[int, Buffer] = {}  # host memory that the device can access, by address
        self._instead = module
        self._made = 0

    def host(self, event: UncheckedObject, data: bytes) -> None:
        """Apply an event of the host; ignore events that do not concern the device.

        LaunchError or PtxError if it cannot be applied.
        """
        kind = event["event"]
        if kind == "malloc":
            self._allocate(event)
        elif kind == "free":
            buffer = self.buffer(event["address"])
            self.shared.pop(buffer.address, None)
            self.memory.free(buffer)
        elif kind == "write":
            self._write(event["address"], np.frombuffer(data, np.uint8))
        elif kind == "fill":
            self._write(event["address"], np.tile(np.frombuffer(data, np.uint8), event["count"]))
        elif kind == "copy":
            moved = np.frombuffer(self.read(event["source"], event["bytes"]), np.uint8)
            self._write(event["address"], moved)
        elif kind == "module":
            self.load(event["number"], data.decode())

    def load(self, number: int, ptx: str) -> None:
        """A module by its number."""
        if number >= _MODULES:
            raise LaunchError("the program loads too many modules", expected=str(_MODULES), found=str(number))
        at = _VARIABLES + number * _VARIABLES_STEP
        self.modules[number] = self._instead or Module.from_ptx(ptx, at)

    def read(self, address: int, count: int) -> bytes:
        """The bytes that begin at `address`."""
        buffer = self.buffer(address)
        start = address - buffer.address
        if start + count > buffer.bytes:
            raise LaunchError(
                "a read beyond the end of its buffer", where=repr(buffer), found=f"{count} at {start}"
            )
        flat = buffer.numpy().reshape(-1).view(np.uint8)
        return bytes(flat[start : start + count].tobytes())

    def buffer(self, address: int) -> Buffer:
        """The allocation, or the variable of a module, that holds `address`."""
        for buffer in self.memory.buffers:
            if buffer.address <= address < buffer.address + buffer.bytes:
                return buffer
        number = variable_module(address)
        if number in self.modules:
            for name in self.modules[number].variables:
                variable = self.modules[number].variable(name)
                if variable.address <= address < variable.address + variable.bytes:
                    return variable
        raise LaunchError("no recorded allocation contains this address", found=hex(address))

    def tensor_map(self, event: UncheckedObject) -> bytes:
        """The 128 bytes of an encoder call's tensor map; LaunchError for unsupported or invalid fields."""
        if event["interleave"]:
            raise LaunchError("interleaved tensor maps are not supported", found=f"{event['interleave']=}")
        for name, names in (("type", _TYPES), ("swizzle", _SWIZZLES), ("fill", _FILLS)):
            if not 0 <= event[name] < len(names):
                raise LaunchError(f"a tensor map has an unknown {name}", found=str(event[name]))
        im2col = event["kind"] == "im2col"
        return TensorMap.fields(
            address=event["address"],
            dtype=_TYPES[event["type"]],
            shape=event["shape"],
            strides=event["strides"],
            box=event["box"],
            element_strides=event["element_strides"],
            swizzle=_SWIZZLES[event["swizzle"]],
            oob_fill=_FILLS[event["fill"]],
            lower=event["lower"] if im2col else (),
            upper=event["upper"] if im2col else (),
        ).encode()

    def moved_map(self, data: bytes, address: int) -> bytes:
        """The 128 bytes of a tensor map with another address; LaunchError if they are not a tensor map."""
        return replace(TensorMap.decode(data), address=address).encode()

    def entry(self, number: int, name: str) -> str:
        """The stub's data of a kernel: threads per block, cluster, offset and bytes of each parameter.

        KeyError if the module has no such kernel.
        """
        module = self.modules[number]
        directives = module.directives(name)
        threads = int(np.prod(directives.get("reqntid") or directives.get("maxntid") or (1024,)))
        cluster = (*directives.get("reqnctapercluster", ()), 1, 1)[:3]
        if "reqnctapercluster" not in directives:
            cluster = (0, 0, 0)
        words, at = [threads, *cluster], 0
        for _, size, align in module.entries[name]:
            at = -(-at // align) * align
            words += [at, size]
            at += size
        return " ".join(map(str, words))

    def launch(self, launch: RecordedLaunch, **how: Unpack[RunKeywords]) -> RunResult:
        """Run a launch on the current memory; `how` is passed to `Module.launch`."""
        how["cooperative"] = launch.cooperative
        return self.modules[launch.module].launch(
            launch.entry,
            grid=launch.grid,
            block=launch.block,
            cluster=launch.cluster,
            shared_bytes=launch.shared_bytes,
            args=list(launch.parameters),
            memory=self.memory,
            **how,
        )

    def _allocate(self, event: UncheckedObject) -> None:
        name, at, count = f"allocation {self._made}", event["address"], event["bytes"]
        if event.get("file"):
            array = _mapped(event["file"], count)
            self.shared[at] = self.memory.buffer(array, name, at)
        else:
            made = self.memory.empty(count, np.uint8, name, at)
            if event.get("place") in ("managed", "pinned"):
                self.shared[at] = made
        self._made += 1

    def _write(self, address: int, data: np.ndarray) -> None:
        buffer = self.buffer(address)
        buffer.write(data, address - buffer.address)


def is_variable(address: int) -> bool:
    """Whether the address is in the range of module variables."""
    return _VARIABLES <= address < _VARIABLES + _MODULES * _VARIABLES_STEP


def variable_module(address: int) -> int:
    """The number of the module whose variables are at this address."""
    return (address - _VARIABLES) // _VARIABLES_STEP


def _mapped(path: str, count: int) -> np.ndarray:
    """Map the first bytes of another process's file, shared with that process."""
    file = os.open(path, os.O_RDWR)
    try:
        return np.frombuffer(mmap.mmap(file, count), np.uint8)
    except ValueError as error:
        raise LaunchError("shared memory of the program cannot be mapped", found=str(error)) from None
    finally:
        os.close(file)
