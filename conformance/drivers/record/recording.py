"""What a recorded program did with its device, and its replay on the emulator.

The stub libraries (`runtime/`) tell allocations, copies and launches in order. `Replay` does the same to an
emulator's memory, buffers at the recorded addresses, so that pointers inside parameter blocks hold.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tileproof.conformance.drivers.record.device import RecordedDevice, RecordedLaunch
from tileproof.emulator import Buffer, LaunchResult, Memory, Module
from tileproof.emulator.errors import LaunchError


@dataclass(frozen=True)
class Recording:
    """The events of a program in order; those with bytes have `at` and `payload`, their place in `data`."""

    events: tuple[dict[str, Any], ...]
    data: bytes

    @classmethod
    def load(cls, folder: Path) -> Recording:
        """Reads events.jsonl and data.bin; LaunchError when they are not there or cut off."""
        try:
            lines = (folder / "events.jsonl").read_text().splitlines()
            return cls(tuple(json.loads(line) for line in lines), (folder / "data.bin").read_bytes())
        except (OSError, json.JSONDecodeError) as error:
            raise LaunchError("the recording cannot be read", where=str(folder), found=str(error)) from None

    def save(self, folder: Path) -> None:
        """Writes both files."""
        (folder / "events.jsonl").write_text("".join(json.dumps(one) + "\n" for one in self.events))
        (folder / "data.bin").write_bytes(self.data)

    def bytes(self, event: dict[str, Any]) -> bytes:
        """The bytes that came with an event."""
        return self.data[event["at"] : event["at"] + event["payload"]]

    def launch(self, event: dict[str, Any]) -> RecordedLaunch:
        """A launch from its event."""
        return launch_of(event, self.bytes(event))

    @property
    def launches(self) -> list[RecordedLaunch]:
        """All, in order."""
        return [self.launch(event) for event in self.events if event["event"] == "launch"]

    def ptx(self) -> dict[int, str]:
        """The PTX of each module that was loaded, by number."""
        return {
            event["number"]: self.bytes(event).decode() for event in self.events if event["event"] == "module"
        }


def launch_of(event: dict[str, Any], block: bytes) -> RecordedLaunch:
    """A launch from its event and the bytes of its parameters, one behind another."""
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
    """The recorded device on the emulator: `to` goes on to a launch, `run` runs it.

    `module`: in the place of the PTX that was recorded, for all modules.
    """

    def __init__(self, recording: Recording, module: Module | None = None) -> None:
        self.recording = recording
        self.device = RecordedDevice(module)
        self._events: Iterator[dict[str, Any]] = iter(recording.events)

    @property
    def memory(self) -> Memory:
        """The device's memory as it is now."""
        return self.device.memory

    def to(self, wanted: Callable[[RecordedLaunch], bool]) -> RecordedLaunch:
        """The next launch that is wanted; what the host did before it is done, launches before it are left
        out.

        LaunchError when there is none.
        """
        for event in self._events:
            data = self.recording.bytes(event)
            if event["event"] == "launch":
                launch = launch_of(event, data)
                if wanted(launch):
                    return launch
            else:
                self.device.host(event, data)
        raise LaunchError("the recording has no such launch (any more)")

    def buffer(self, address: int) -> Buffer:
        """The allocation that holds `address`."""
        return self.device.buffer(address)

    def run(self, launch: RecordedLaunch, **how: Any) -> LaunchResult:
        """Runs it on the memory as it is; `how` goes on to `Module.launch`."""
        return self.device.launch(launch, **how)
