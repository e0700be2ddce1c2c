"""One launch as a host program states it, with what its buffers held before, so that it can be run again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from tileproof.conformance.frontends.host_memory import ElementsOf, LaunchMemory, Pointer
from tileproof.emulator import LaunchResult, Memory, Module, Schedule, Stream, TensorMap
from tileproof.emulator.arguments import Argument
from tileproof.emulator.errors import LaunchError

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class MapArgument:
    """A tensor map by value, over a place in a buffer."""

    map: TensorMap
    at: Pointer | None


HostArgument = Pointer | MapArgument | int | float | np.generic | None


@dataclass(frozen=True)
class KeptBuffer:
    """One buffer: where it lies, and its bytes before the launch; None of memory that began unwritten.

    `stored`: whether the launch wrote to it.
    """

    name: str
    address: int
    bytes: int
    elements: ElementsOf
    before: np.ndarray | None = field(repr=False)
    stored: bool = False


@dataclass(frozen=True)
class HostLaunch:
    """A launch: `kernel` is the name of its Python function, `compiler` what made the PTX.

    `arguments`: one a parameter; a `Pointer` names one of `buffers`, None is a null pointer. `programmatic`:
    it may start while the launch before it is in flight. `resident`: of a cooperative grid, its
    clusters, which all run at once. `kept`: whether `buffers` hold what they had before.
    `sources`: text by file name of what a compiler made between the user's function and the PTX.
    """

    kernel: str
    compiler: str
    module: Module = field(repr=False)
    ptx: str = field(repr=False)
    entry: str
    grid: Shape
    block: Shape
    cluster: Shape | None  # None: as the PTX says
    shared_bytes: int
    arguments: tuple[HostArgument, ...]
    buffers: tuple[KeptBuffer, ...] = ()
    programmatic: bool = False
    resident: int | None = None
    kept: bool = False
    sources: Mapping[str, str] = field(default_factory=dict, repr=False)
    names: tuple[str, ...] = ()  # of the arguments, in the user's function

    def keeping(self, memory: LaunchMemory, most: int) -> HostLaunch:
        """The same with its buffers, and with their bytes if those are no more than `most` in all."""
        kept = sum(b.bytes for b in memory.buffers if not b.tracked) <= most
        buffers = tuple(
            KeptBuffer(b.name, b.address, b.bytes, of, b.numpy().copy() if kept and not b.tracked else None)
            for b, of in zip(memory.buffers, memory.elements, strict=True)
        )
        return replace(self, buffers=buffers, kept=kept)

    def done(self, result: LaunchResult) -> HostLaunch:
        """The same after it ran: each buffer knows whether it was written to."""
        buffers = tuple(replace(one, stored=one.address in result.stored) for one in self.buffers)
        return replace(self, buffers=buffers)

    @property
    def bytes_kept(self) -> int:
        return sum(b.bytes for b in self.buffers if b.before is not None)

    def values(self) -> list[Argument]:
        """The arguments as `Module.launch` takes them."""

        def address(pointer: Pointer | None) -> int:
            return self.buffers[pointer.buffer].address + pointer.offset if pointer else 0

        return [
            one.map
            if isinstance(one, MapArgument)
            else address(one)
            if one is None or isinstance(one, Pointer)
            else one
            for one in self.arguments
        ]

    def on(self, memory: Memory, stream: Stream | None = None, **how: Any) -> LaunchResult:
        """Runs it over a memory that has its buffers; `how` goes on to `Module.launch`."""
        if self.resident is not None:  # a cooperative grid starts as one
            how["schedule"] = replace(how.get("schedule") or Schedule(), together=self.resident)
        how |= {
            "grid": self.grid, "block": self.block, "cluster": self.cluster, "args": self.values(),
            "shared_bytes": self.shared_bytes, "resident": self.resident,
        }  # fmt: skip
        if stream is None:
            return self.module.launch(self.entry, memory=memory, **how)
        return stream.launch(self.module, self.entry, programmatic=self.programmatic, **how)

    def again(self, schedule: Schedule, **how: Any) -> tuple[LaunchResult, Mapping[str, np.ndarray]]:
        """Runs it on fresh buffers that hold what its own had before: the result, and the bytes of each
        buffer that is the host's.

        LaunchError when they were not kept.
        """
        if not self.kept:
            raise LaunchError(
                "what the launch's tensors held before it was not kept",
                where=self.kernel,
                do="emulate(keep=BYTES) with more bytes",
            )
        memory, outputs = Memory(), dict[str, np.ndarray]()
        for n, one in enumerate(self.buffers):
            if one.before is None:
                memory.empty(one.bytes, np.uint8, one.name, one.address)
            else:
                outputs[one.name if one.name not in outputs else f"{one.name} ({n})"] = one.before.copy()
                memory.buffer(next(reversed(outputs.values())), one.name, one.address)
        return self.on(memory, schedule=schedule, **how), outputs
