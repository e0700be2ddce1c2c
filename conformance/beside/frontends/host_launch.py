"""A launch of a host program with the initial contents of its buffers, so that it can run again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Unpack

import numpy as np
from tileproof.conformance.beside.frontends.host_memory import ElementsOf, LaunchMemory, Pointer
from tileproof.emulator import Memory, Module, RunResult, Schedule, Stream, TensorMap
from tileproof.emulator.arguments import Argument
from tileproof.emulator.errors import LaunchError
from tileproof.emulator.options import GridKeywords, LaunchKeywords, RunKeywords

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class MapArgument:
    """A tensor map by value, over a place in a buffer."""

    map: TensorMap
    at: Pointer | None


HostArgument = Pointer | MapArgument | int | float | np.generic | None


@dataclass(frozen=True)
class CapturedBuffer:
    """A buffer: its address, and its bytes before the launch (None: uninitialised).

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
    """A launch: `kernel` is the name of its Python function, `compiler` names the compiler of the PTX.

    `arguments`: one per parameter; a `Pointer` refers to one of `buffers`, None is a null pointer.
    `programmatic`: it may start while the previous launch is in flight. `resident`: the clusters of a
    cooperative grid, which all run at once. `kept`: whether `buffers` hold the contents before the launch.
    `sources`: intermediate sources between the user's function and the PTX, by file name.
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
    buffers: tuple[CapturedBuffer, ...] = ()
    programmatic: bool = False
    resident: int | None = None
    kept: bool = False
    sources: Mapping[str, str] = field(default_factory=dict, repr=False)
    names: tuple[str, ...] = ()  # of the arguments, in the user's function

    def keeping(self, memory: LaunchMemory, limit: int) -> HostLaunch:
        """A copy with its buffers, and with their bytes if they are at limit `limit` in total."""
        small = sum(b.bytes for b in memory.buffers if not b.tracked) <= limit
        buffers = tuple(
            CapturedBuffer(
                b.name, b.address, b.bytes, of, b.numpy().copy() if small and not b.tracked else None
            )
            for b, of in zip(memory.buffers, memory.elements, strict=True)
        )
        return replace(self, buffers=buffers, kept=small)

    def done(self, result: RunResult) -> HostLaunch:
        """A copy after the run: each buffer records whether the launch wrote to it."""
        buffers = tuple(replace(buffer, stored=buffer.address in result.stored) for buffer in self.buffers)
        return replace(self, buffers=buffers)

    @property
    def bytes_kept(self) -> int:
        return sum(b.bytes for b in self.buffers if b.before is not None)

    def values(self) -> list[Argument]:
        """The arguments as `Module.launch` takes them."""

        def address(pointer: Pointer | None) -> int:
            return self.buffers[pointer.buffer].address + pointer.offset if pointer else 0

        return [
            argument.map
            if isinstance(argument, MapArgument)
            else address(argument)
            if argument is None or isinstance(argument, Pointer)
            else argument
            for argument in self.arguments
        ]

    def on(self, memory: Memory, stream: Stream | None = None, **how: Unpack[RunKeywords]) -> RunResult:
        """Run the launch on a memory with its buffers; `how` is passed to `Module.launch`."""
        whole: GridKeywords = {
            **how, "grid": self.grid, "block": self.block, "cluster": self.cluster, "args": self.values(),
            "shared_bytes": self.shared_bytes, "cooperative": self.resident is not None,
        }  # fmt: skip
        if stream is None:
            return self.module.launch(self.entry, memory=memory, **whole)
        return stream.launch(self.module, self.entry, programmatic=self.programmatic, **whole)

    def again(
        self, schedule: Schedule, **how: Unpack[LaunchKeywords]
    ) -> tuple[RunResult, Mapping[str, np.ndarray]]:
        """Run the launch on fresh buffers with the initial contents.

        Return the result and the final bytes of each host buffer. LaunchError if contents were not kept.
        """
        if not self.kept:
            raise LaunchError(
                "the contents of the tensors before the launch were not kept",
                where=self.kernel,
                do="emulate(keep=BYTES) with more bytes",
            )
        memory, outputs = Memory(), dict[str, np.ndarray]()
        for n, buffer in enumerate(self.buffers):
            if buffer.before is None:
                memory.empty(buffer.bytes, np.uint8, buffer.name, buffer.address)
            else:
                outputs[buffer.name if buffer.name not in outputs else f"{buffer.name} ({n})"] = (
                    buffer.before.copy()
                )
                memory.buffer(next(reversed(outputs.values())), buffer.name, buffer.address)
        return self.on(memory, schedule=schedule, **how), outputs
