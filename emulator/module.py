"""Module and launch: the main interface of the emulator."""

from __future__ import annotations

import contextlib
import gc
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Unpack

import numpy as np
from tileproof.emulator import _engine, decoded_store, isa  # noqa: F401 - isa fills the registry
from tileproof.emulator.arguments import Argument, pack
from tileproof.emulator.budget import check_room
from tileproof.emulator.errors import LaunchError, PtxError
from tileproof.emulator.inspect import EntryInfo, ModuleInfo, inspect_entry
from tileproof.emulator.launch_result import run_result
from tileproof.emulator.memory import MAX_ADDRESS, Buffer, Memory
from tileproof.emulator.misuse import instance, sequence, whole, wrong
from tileproof.emulator.options import LaunchKeywords, LaunchOptions
from tileproof.emulator.prepared import launch_shape, prepare, request
from tileproof.emulator.program import Decoded
from tileproof.emulator.ptx import PtxModule, parse_module
from tileproof.emulator.registers import largest_request, launch_registers
from tileproof.emulator.request import check_shared
from tileproof.emulator.result import RunResult
from tileproof.emulator.spelling import Target
from tileproof.spec.machine.limits import (
    MAX_SHARED_BYTES,
    SM120_MAX_SHARED_BYTES,
)
from tileproof.spec.machine.schedule import Schedule

_GLOBALS_BASE = 0x0800_0000_0000
# The record of a grid, and the records of grids in flight beside it, each with its kind of overlap.
InFlight = tuple[_engine.GridRecord, list[tuple[_engine.GridRecord, int]]]


class Module:
    """A PTX module. An entry is decoded at its first launch and cached."""

    def __init__(self, parsed: PtxModule, variables_at: int = _GLOBALS_BASE) -> None:
        self._parsed = parsed
        self._decoded: dict[tuple[str, bool], Decoded] = {}
        self._texts: dict[str, str] = {}  # what an entry may execute
        self._globals: dict[str, tuple[int, np.ndarray]] = {}
        # Each is kept with its first value.
        check_room(2 * sum(v.bytes for v in parsed.variables.values()), "the variables of the module")
        at = whole(variables_at, "variables_at", maximum=MAX_ADDRESS)
        for variable in parsed.variables.values():
            if variable.space == "shared":
                continue
            data = np.zeros(max(1, variable.bytes), dtype=np.uint8)
            if variable.data:
                data[: len(variable.data)] = np.frombuffer(variable.data, dtype=np.uint8)
            self._globals[variable.name] = (at, data)
            at += -(-(variable.bytes + 65536) // 65536) * 65536
        addresses = parsed.function_addresses | {name: first for name, (first, _) in self._globals.items()}
        for variable in parsed.variables.values():
            for offset, symbol in variable.addresses:
                if symbol not in addresses:
                    raise PtxError(
                        f"the initialiser of {variable.name} names {symbol}, which is not defined",
                        where=f"line {variable.line}",
                        expected="a .global or .const variable, or a .func with a body",
                        found=repr(symbol),
                    )
                address = np.asarray([addresses[symbol]], dtype="<u8").view(np.uint8)
                self._globals[variable.name][1][offset : offset + 8] = address
        # The struct grid_workspace of CUDA's cooperative groups (driver_abi.h): its bytes, a barrier.
        self._workspace = at, np.zeros(2, np.uint32)
        self._initial = {name: data.copy() for name, (_, data) in self._globals.items()}

    @classmethod
    def from_ptx(cls, text: str, variables_at: int = _GLOBALS_BASE) -> Module:
        """Parse PTX text; raises PtxError with line and token.

        `variables_at`: the address of its first variable, so that several modules can be loaded at distinct
        addresses.
        """
        return cls(parse_module(text), variables_at)

    @classmethod
    def from_file(cls, path: str | Path) -> Module:
        """Parse a file of PTX text; raises PtxError if it cannot be read or parsed."""
        try:
            return cls.from_ptx(Path(path).read_text())
        except (OSError, UnicodeDecodeError, TypeError) as error:
            raise PtxError("the file cannot be read as PTX", where=str(path), found=str(error)) from None

    @property
    def entries(self) -> dict[str, list[tuple[str, int, int]]]:
        """Kernels: name -> [(parameter name, bytes, alignment), ...]."""
        return {
            entry.name: [(p.name, p.bytes, p.align) for p in entry.parameters]
            for entry in self._parsed.entries.values()
        }

    @property
    def text(self) -> str:
        """Its PTX, comments blanked out."""
        return self._parsed.text

    @property
    def target(self) -> Target:
        """The architecture and the PTX version of its directives."""
        return Target.of(self._parsed.target, self._parsed.version)

    def directives(self, entry: str) -> dict[str, tuple[int, ...]]:
        """Return the performance directives of a kernel, by name without the dot; KeyError for an unknown
        kernel.
        """
        return dict(self._parsed.entries[instance(entry, str, "entry")].directives)

    def variable(self, name: str) -> Buffer:
        """Return a `.global` or `.const` variable as a buffer that the host can read and write; launches use
        it.

        LaunchError if the module has no such variable.
        """
        if instance(name, str, "name") not in self._globals:
            known = ", ".join(sorted(self._globals)[:20]) or "none"
            raise LaunchError("the module has no such variable", where=name, expected=f"one of: {known}")
        address, data = self._globals[name]
        return Buffer(data[: max(1, self._parsed.variables[name].bytes)], address, name, None, True)

    def reset(self) -> None:
        """Restore the initial value of every variable, as the PTX declares it."""
        for name, first in self._initial.items():
            self._globals[name][1][...] = first

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of its `.global` and `.const` variables."""
        return tuple(self._globals)

    def inspect(self) -> ModuleInfo:
        """Return the contents of every kernel, with each form that is not executed; runs nothing."""
        entries = tuple(self.inspect_entry(name) for name in self._parsed.entries)
        return ModuleInfo(self._parsed.version, self._parsed.target, entries)

    def inspect_entry(self, entry: str) -> EntryInfo:
        """Inspect one kernel; KeyError for an unknown kernel."""
        instance(entry, str, "entry")
        addresses = {name: at for name, (at, _) in self._globals.items()}
        return inspect_entry(self._parsed, self._parsed.entries[entry], addresses)

    def decode(self, entry: str, cooperative: bool = False) -> Decoded:
        """Return the decoded entry, for a cooperative grid or another.

        Raises LaunchError for an unknown entry, UnsupportedInstruction or PtxError for its instructions.
        """
        if instance(entry, str, "entry") not in self._parsed.entries:
            known = ", ".join(name[:60] for name in self._parsed.entries) or "none"
            raise LaunchError("the module has no such entry", where=entry, expected=f"one of: {known}")
        key = entry, cooperative and "%envreg" in self._parsed.text
        if key not in self._decoded:
            addresses = {name: at for name, (at, _) in self._globals.items()}
            found = self._parsed.entries[entry]
            workspace = self._workspace[0] if key[1] else 0
            with _collector_paused():
                parts = decoded_store.parts(self._parsed, found, addresses, workspace)
                self._decoded[key] = parts.decoded(found)
        return self._decoded[key]

    def _registers(self, decoded: Decoded, threads: int) -> int:
        """Return the registers per thread for a block of `threads` threads."""
        at = decoded.entry
        if not any(opcode.startswith("setmaxnreg") for opcode in decoded.opcodes):
            return launch_registers(at.directives, threads, at.name)
        asked = largest_request(self._parsed.text[at.body_start : at.body_end])
        return launch_registers(at.directives, threads, at.name, asked)

    def _shared_limit(self) -> int:
        """Return the most bytes of shared memory that a CTA of the module's target can have."""
        return SM120_MAX_SHARED_BYTES if self.target.is_sm120 else MAX_SHARED_BYTES

    def launch(
        self,
        entry: str,
        *,
        grid: Sequence[int],
        block: Sequence[int],
        cluster: Sequence[int] | None = None,
        shared_bytes: int = 0,
        args: Sequence[Argument] = (),
        memory: Memory | None = None,
        schedule: Schedule | None = None,
        grids: InFlight | None = None,
        **options: Unpack[LaunchKeywords],
    ) -> RunResult:
        """Run one grid to its end or to the finding that stops it.

        Parameters
        ----------
        grid, block, cluster: (x, y, z). `cluster` defaults to the entry's `.reqnctapercluster`, else 1.
        shared_bytes: dynamic shared memory.
        args: a value per parameter: a Buffer (its address), a TensorMap (its 128 bytes), a number, the bytes
            of a struct, or `Fields`, a struct with items at offsets. Reading its unset bytes is a finding.
        grids: passed by `Stream`: the record of this grid, and the records of grids in flight beside it.
        options: the fields of `LaunchOptions`, by name.

        Raises LaunchError, PtxError or UnsupportedInstruction. Defects of the kernel are findings, not
        errors.
        """
        memory = Memory() if memory is None else instance(memory, Memory, "memory")
        schedule = Schedule() if schedule is None else schedule
        how = LaunchOptions(**options)
        how.check(instance(entry, str, "entry"), schedule)
        decoded = self.decode(entry, how.cooperative)
        packed = pack(decoded, args)
        shape = launch_shape(decoded, grid, block, cluster)
        check_shared(entry, decoded.static_shared, shared_bytes, self._shared_limit())
        prepared = prepare(decoded, shape, shared_bytes, how, schedule)
        if how.cooperative:
            self._workspace[1][...] = self._workspace[1].nbytes, 0
        record, in_flight = _records(grids)
        with memory.in_use() as buffers, _ended(entry):
            raw = _engine.launch(
                program=decoded.program,
                buffers=buffers + self._table(),
                params=packed.data,
                known_params=b"" if all(packed.known) else packed.known,
                param_names=packed.names,
                launch_registers=self._registers(decoded, math.prod(shape.block)),
                grid_record=record,
                in_flight=in_flight,
                **request(prepared),
            )
        return run_result(raw, prepared, self._text_of(entry), [grid for grid, _ in in_flight])

    def _text_of(self, entry: str) -> str:
        """Return the PTX of the module without the bodies of its other entries: functions may be called."""
        if entry not in self._texts:
            parts, at = [], 0
            for other in sorted(self._parsed.entries.values(), key=lambda each: each.body_start):
                if other is not self._parsed.entries[entry]:
                    parts.append(self._parsed.text[at : other.body_start])
                    at = other.body_end
            self._texts[entry] = "".join([*parts, self._parsed.text[at:]])
        return self._texts[entry]

    def _table(self) -> list[tuple[int, int, int, int, int, bool, str]]:
        """Return the variables of the module in the format of `Memory.engine_table`."""
        return [
            (at, data.nbytes, data.ctypes.data, 0, 0, self._parsed.variables[name].space == "global", name)
            for name, (at, data) in self._globals.items()
        ] + [(self._workspace[0], 8, self._workspace[1].ctypes.data, 0, 0, True, "workspace of the grid")]


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """The garbage collector does not run: decoding makes many objects, none of them in a cycle, and each
    collection would visit all that exist.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextlib.contextmanager
def _ended(entry: str) -> Iterator[None]:
    """LaunchError when the interpreter ends while the launch runs in another thread, or before it."""
    try:
        yield
    except _engine.Ending:
        raise LaunchError(
            "the launch was stopped: the interpreter ends",
            where=entry[:80],
            do="join the thread first",
        ) from None


def _records(grids: InFlight | None) -> InFlight | tuple[None, list[tuple[_engine.GridRecord, int]]]:
    """The records of a launch in a stream; LaunchError for what is none."""
    if grids is None:
        return None, []
    parts: tuple[object, ...] = sequence(grids, (_engine.GridRecord, list), "grids")
    if len(parts) != 2:
        raise wrong("grids", "a record and the records in flight", grids)
    record, in_flight = grids
    instance(record, _engine.GridRecord, "grids[0]")
    for earlier, _ in sequence(in_flight, tuple, "grids"):
        instance(earlier, _engine.GridRecord, "a grid in flight")
    return record, in_flight
