"""What a recorded program did with its device, and its replay on the emulator.

The recording runtime (`cudart.cpp`) writes allocations, copies, tensor maps and launches in order. `Replay`
does the same
to an emulator's memory, buffers at the recorded addresses, so that pointers inside parameter blocks hold. Its
limits: one stream, no managed memory, no results during recording (a program's reads give what it had
written).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tileproof.emulator import Buffer, LaunchResult, Memory, Module, TensorMap
from tileproof.emulator.errors import LaunchError

_TAG = b"TPRECMAP"
# CUtensorMapDataType, CUtensorMapSwizzle and CUtensorMapFloatOOBfill of the CUDA driver API, by number.
_TYPES = (
    "uint8", "uint16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64", "bfloat16",
    "float32_ftz", "tfloat32", "tfloat32_ftz", "16u4_align8b", "16u4_align16b", "16u6_align16b",
)  # fmt: skip
_SWIZZLES = ("none", "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B")
_FILLS = ("zero", "nan")


@dataclass(frozen=True)
class RecordedLaunch:
    """One recorded launch; `parameters` are the bytes of each, recorded tensor maps still in them."""

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared_bytes: int
    overlaps: bool  # it may start before the launch before it has ended (programmatic dependent launch)
    parameters: tuple[bytes, ...]


@dataclass(frozen=True)
class Recording:
    """The folder that a recorded program left."""

    events: tuple[dict[str, Any], ...]
    data: bytes

    @classmethod
    def load(cls, folder: Path) -> Recording:
        """Reads record.jsonl and data.bin; LaunchError when they are not there or cut off."""
        try:
            lines = (folder / "record.jsonl").read_text().splitlines()
            return cls(tuple(json.loads(line) for line in lines), (folder / "data.bin").read_bytes())
        except (OSError, json.JSONDecodeError) as error:
            raise LaunchError("the recording cannot be read", where=str(folder), found=str(error)) from None

    def bytes(self, where: dict[str, Any]) -> bytes:
        """The bytes that an event names by `at` and `bytes`."""
        return self.data[where["at"] : where["at"] + where["bytes"]]

    def launch(self, event: dict[str, Any]) -> RecordedLaunch:
        return RecordedLaunch(
            event["entry"],
            tuple(event["grid"]),
            tuple(event["block"]),
            tuple(event["cluster"]),
            event["shared"],
            event["overlaps"],
            tuple(self.bytes(one) for one in event["parameters"]),
        )

    @property
    def launches(self) -> list[RecordedLaunch]:
        return [self.launch(event) for event in self.events if event["event"] == "launch"]


class Replay:
    """The recorded device on the emulator: `to` goes on to a launch, `run` runs it."""

    def __init__(self, recording: Recording, module: Module) -> None:
        self.recording, self.module = recording, module
        self.memory = Memory()
        self.maps: dict[int, bytes] = {}
        self._events: Iterator[dict[str, Any]] = iter(recording.events)

    def to(self, wanted: Callable[[RecordedLaunch], bool]) -> RecordedLaunch:
        """The next launch that is wanted; what the host did before it is done, launches before it are left
        out.

        LaunchError when there is none.
        """
        for event in self._events:
            if event["event"] == "launch":
                launch = self.recording.launch(event)
                if wanted(launch):
                    return launch
            else:
                self._host(event)
        raise LaunchError("the recording has no such launch (any more)")

    def buffer(self, address: int) -> Buffer:
        """The allocation that holds `address`."""
        for buffer in self.memory.buffers:
            if buffer.address <= address < buffer.address + buffer.bytes:
                return buffer
        raise LaunchError("no allocation of the recording holds this address", found=hex(address))

    def run(self, launch: RecordedLaunch, **how: Any) -> LaunchResult:
        """Runs it on the memory as it is; `how` goes on to `Module.launch`."""
        return self.module.launch(
            launch.entry,
            grid=launch.grid,
            block=launch.block,
            cluster=launch.cluster,
            shared_bytes=launch.shared_bytes,
            args=[self._with_maps(parameter) for parameter in launch.parameters],
            memory=self.memory,
            **how,
        )

    def _host(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "malloc":
            name = f"allocation {len(self.memory.buffers)}"
            self.memory.empty(event["bytes"], np.uint8, name, event["address"])
        elif kind == "free":
            self.memory.free(self.buffer(event["address"]))
        elif kind == "write":
            buffer = self.buffer(event["address"])
            data = self._with_maps(self.recording.bytes(event))
            buffer.write(np.frombuffer(data, dtype=np.uint8), event["address"] - buffer.address)
        elif kind == "copy":
            source, target = self.buffer(event["source"]), self.buffer(event["address"])
            start = event["source"] - source.address
            moved = source.numpy()[start : start + event["bytes"]].copy()
            target.write(moved, event["address"] - target.address)
        elif kind == "map":
            self.maps[event["number"]] = _tensor_map(event)

    def _with_maps(self, data: bytes) -> bytes:
        """The bytes with each recorded tensor map replaced by the emulator's."""
        out, at = bytearray(data), data.find(_TAG)
        while at >= 0:
            number = int.from_bytes(data[at + 8 : at + 16], "little")
            if number in self.maps and at + 128 <= len(data):
                out[at : at + 128] = self.maps[number]
            at = data.find(_TAG, at + 1)
        return bytes(out)


def _tensor_map(event: dict[str, Any]) -> bytes:
    if event["interleave"]:
        raise LaunchError("a recorded tensor map is interleaved", found=f"{event['interleave']=}")
    im2col = event["kind"] == "im2col"
    return TensorMap.fields(
        address=event["address"],
        dtype=_TYPES[event["type"]],
        shape=event["shape"],
        strides=event["strides"],
        box=(event["channels"], event["pixels"]) if im2col else event["box"],
        element_strides=event["element_strides"],
        swizzle=_SWIZZLES[event["swizzle"]],
        oob_fill=_FILLS[event["fill"]],
        lower=event["lower"] if im2col else (),
        upper=event["upper"] if im2col else (),
    ).encode()
