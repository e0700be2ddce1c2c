"""Steps of a host other than launches and copies: events, waits, and reads of device memory.

Streams are numbers. 0 is the legacy default stream: what is issued into it comes after everything that was
issued into other streams before, and before everything issued into them later, but for those that
`LaunchFile.non_blocking` names (CUDA programming guide, default stream; cudaStreamNonBlocking).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class EventRecord:
    """An event is recorded: it stands for what its stream was given until here (cudaEventRecord)."""

    kind: ClassVar[str] = "event record"
    event: str
    stream: int = 0


@dataclass(frozen=True)
class EventWait:
    """A stream waits for what an event stands for (cudaStreamWaitEvent); nothing for one not yet recorded."""

    kind: ClassVar[str] = "event wait"
    event: str
    stream: int


@dataclass(frozen=True)
class HostWait:
    """The host waits: for a stream, for an event, or without either for everything (cudaDeviceSynchronize).
    What it issues later comes after it.
    """

    kind: ClassVar[str] = "host wait"
    stream: int | None = None
    event: str = ""


@dataclass(frozen=True)
class BufferRead:
    """Bytes of a buffer are copied to the host. `stream`: as of `BufferWrite`."""

    kind: ClassVar[str] = "read"
    buffer: str
    bytes: int
    offset: int = 0
    stream: int | None = None
