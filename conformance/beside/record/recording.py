"""The recorded device operations of a program, and their replay on the emulator.

The stub libraries (`runtime/`) report allocations, copies and launches in order. `Replay` applies them to an
emulator's memory with buffers at the recorded addresses, so that pointers inside parameter blocks stay valid.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from tileproof.conformance.beside.record.device import RecordedDevice, RecordedLaunch
from tileproof.emulator import Buffer, Memory, Module, RunResult
from tileproof.emulator.errors import LaunchError
from tileproof.emulator.options import RunKeywords
from tileproof.spec.machine.types import UncheckedObject


@dataclass(frozen=True)
class Recording:
    """The events of a program in order; events with bytes have `at` and `payload`, their place in `data`."""

    events: tuple[UncheckedObject, ...]
    data: bytes

    @classmethod
    def load(cls, folder: Path) -> Recording:
        """Read events.jsonl and data.bin; LaunchError if they are missing or truncated."""
        try:
            lines = (folder / "events.jsonl").read_text().splitlines()
            return cls(tuple(json.loads(line) for line in lines), (folder / "data.bin").read_bytes())
        except (OSError, json.JSONDecodeError) as error:
            raise LaunchError("the recording cannot be read", where=str(folder), found=str(error)) from None

    def save(self, folder: Path) -> None:
        """Write both files."""
        (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in self.events))
        (folder / "data.bin").write_bytes(self.data)

    def bytes(self, event: UncheckedObject) -> bytes:
        """The bytes of an event."""
        return self.data[event["at"] : event["at"] + event["payload"]]

    def launch(self, event: UncheckedObject) -> RecordedLaunch:
        """A launch from its event."""
        return launch_of(event, self.bytes(event))

    @property
    def launches(self) -> list[RecordedLaunch]:
        """All launches in order."""
        return [self.launch(event) for event in self.events if event["event"] == "launch"]

    def ptx(self) -> dict[int, str]:
        """The PTX of each loaded module, by number."""
        return {
            event["number"]: self.bytes(event).decode() for event in self.events if event["event"] == "module"
        }


def launch_of(event: UncheckedObject, block: bytes) -> RecordedLaunch:
    """A launch from its event and the concatenated bytes of its parameters."""
    parameters, at = [], 0
    for size in event["parameters"]:
        parameters.append(block[at : at + size])
        at += size
    return RecordedLaunch(
        event["entry"],
        tuple(event["grid"]),
        tuple(event["block"]),
        tuple(event["cluster"]),
        event["shared"],
        bool(event["overlaps"]),
        tuple(parameters),
        event["module"],
        event["stream"],
        bool(event["cooperative"]),
    )


class Replay:
    """The recorded device on the emulator: `to` continues up to a launch, `run` executes the launch.

    `module`: replaces the recorded PTX of all modules.
    """

    def __init__(self, recording: Recording, module: Module | None = None) -> None:
        self.recording = recording
        self.device = RecordedDevice(module)
        self._events: Iterator[UncheckedObject] = iter(recording.events)

    @property
    def memory(self) -> Memory:
        """The current device memory."""
        return self.device.memory

    def to(self, wanted: Callable[[RecordedLaunch], bool]) -> RecordedLaunch:
        """Apply the host's operations up to the next wanted launch, skip other launches, and return it.

        LaunchError if there is none.
        """
        for event in self._events:
            data = self.recording.bytes(event)
            if event["event"] == "launch":
                launch = launch_of(event, data)
                if wanted(launch):
                    return launch
            else:
                self.device.host(event, data)
        raise LaunchError("the recording has no such launch")

    def buffer(self, address: int) -> Buffer:
        """The allocation that holds `address`."""
        return self.device.buffer(address)

    def run(self, launch: RecordedLaunch, **how: Unpack[RunKeywords]) -> RunResult:
        """Run it on the current memory; `how` is passed to `Module.launch`."""
        return self.device.launch(launch, **how)
