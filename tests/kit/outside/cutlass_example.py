"""One instance of a CUTLASS example: built as shipped on the recording runtime, its launches replayed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from tileproof.conformance.beside.record.programs import HostProgram, build, record
from tileproof.conformance.beside.record.recording import Replay
from tileproof.emulator import Buffer, RunResult
from tileproof.emulator.errors import LaunchError
from tileproof.kernels import toolchain


@dataclass(frozen=True)
class Ran:
    """The results of the launches that ran, each output with its expected value and the bound of their
    difference.
    """

    results: tuple[RunResult, ...]
    outputs: dict[str, tuple[np.ndarray, np.ndarray, Any]]

    @property
    def right(self) -> bool:
        with np.errstate(invalid="ignore"):
            return all(
                bool(((found == want) | (np.abs(found - want) <= most)).all())  # equal infinities are right
                for found, want, most in self.outputs.values()
            )


Check = Callable[[Replay, dict[str, Any]], Ran]


@dataclass(frozen=True)
class Example:
    """One instance of an example: its program and options, and what is run and expected of it."""

    name: str
    source: str  # below examples/
    arguments: tuple[str, ...]
    check: Check
    defines: tuple[str, ...] = ()
    processors: int = 148
    hopper: bool = False

    @property
    def program(self) -> HostProgram:
        return _program(self.source, self.defines, self.hopper)

    def run(self, **how: Any) -> Ran:
        """Records the program and runs its kernels; `how` is passed on to `Module.launch`."""
        program = self.program
        return self.check(Replay(record(program, self.arguments, self.processors), program.module), how)


@lru_cache
def _program(source: str, defines: Sequence[str], hopper: bool) -> HostProgram:
    examples = toolchain.find().cutlass_include.parent / "examples"
    return build(examples / source, defines, [examples / "common", curand()], hopper)


def curand() -> Path:
    """The folder of curand_kernel.h, which the examples include; LaunchError when it is not installed."""
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(root) / "cu13/include/curand_kernel.h").exists():
            return Path(root) / "cu13/include"
    raise LaunchError("the headers of cuRAND are not installed", do="pip install -r requirements-outside.txt")


def kernel(replay: Replay, name: str = "device_kernel") -> Any:
    return replay.to(lambda launch: name in launch.entry)


def of(replay: Replay, *dtypes: Any) -> list[tuple[Buffer, np.ndarray]]:
    """The first allocations in order, each seen as its type."""
    return [(b, b.numpy().view(d)) for b, d in zip(replay.memory.buffers, dtypes, strict=False)]


def put(buffer: Buffer, values: np.ndarray) -> None:
    if buffer.bytes != values.nbytes:
        raise LaunchError(
            "an example's allocation has another size", expected=str(values.nbytes), found=repr(buffer)
        )
    buffer.write(values)
