"""Module and launch: the emulator's front door."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from tileproof.emulator import _engine, isa  # noqa: F401 - importing isa fills the registry
from tileproof.emulator.arguments import Argument, pack
from tileproof.emulator.causes import Allow, accepted, divide
from tileproof.emulator.codes import strict_weights
from tileproof.emulator.decode import Decoder
from tileproof.emulator.errors import LaunchError, PtxError, UnsupportedInstruction
from tileproof.emulator.hang import Hang
from tileproof.emulator.inspect import EntryInfo, ModuleInfo, inspect_entry
from tileproof.emulator.memory import Buffer, Memory
from tileproof.emulator.program import SHARED_RESERVED, Decoded
from tileproof.emulator.ptx import PtxModule, parse_module
from tileproof.emulator.reach import ProgramView
from tileproof.emulator.registers import launch_registers, most_asked
from tileproof.emulator.request import check_limits, check_outputs, check_shape, dimensions
from tileproof.emulator.result import Counters, LaunchResult, MbarrierBytes, MbarrierInit, Tap, finding
from tileproof.emulator.schedule import POLICIES, BaseOrder, Schedule, decisions_of, held_back
from tileproof.emulator.symbols import SharedNames, given_names
from tileproof.emulator.taps import for_engine, records
from tileproof.emulator.trace import Trace

_PROCESSORS = 148  # of a B200
_GLOBALS_BASE = 0x0800_0000_0000


class Module:
    """A PTX module. Entries are decoded when first launched and kept."""

    def __init__(self, parsed: PtxModule, variables_at: int = _GLOBALS_BASE) -> None:
        self._parsed = parsed
        self._decoded: dict[str, Decoded] = {}
        self._globals: dict[str, tuple[int, np.ndarray]] = {}
        at = variables_at
        for variable in parsed.variables.values():
            if variable.space == "shared":
                continue
            data = np.zeros(max(1, variable.bytes), dtype=np.uint8)
            if variable.data:
                data[: len(variable.data)] = np.frombuffer(variable.data, dtype=np.uint8)
            self._globals[variable.name] = (at, data)
            at += -(-(variable.bytes + 65536) // 65536) * 65536
        for variable in parsed.variables.values():
            for offset, symbol in variable.addresses:
                if symbol not in self._globals:
                    raise PtxError(
                        f"the initialiser of {variable.name} names {symbol}, which is no variable here",
                        where=f"line {variable.line}",
                        expected="a .global or .const variable",
                        found=repr(symbol),
                    )
                address = np.asarray([self._globals[symbol][0]], dtype="<u8").view(np.uint8)
                self._globals[variable.name][1][offset : offset + 8] = address
        self._initial = {name: data.copy() for name, (_, data) in self._globals.items()}

    @classmethod
    def from_ptx(cls, text: str, variables_at: int = _GLOBALS_BASE) -> Module:
        """Parses PTX text; raises PtxError with line and token.

        `variables_at`: where its variables begin, for several modules whose variables have addresses of their
        own.
        """
        return cls(parse_module(text), variables_at)

    @classmethod
    def from_file(cls, path: str | Path) -> Module:
        """Parses a file of PTX text; raises PtxError, also when it cannot be read."""
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

    def directives(self, entry: str) -> dict[str, tuple[int, ...]]:
        """The performance directives of a kernel, by name without the dot; KeyError when there is none."""
        return dict(self._parsed.entries[entry].directives)

    def variable(self, name: str) -> Buffer:
        """A `.global` or `.const` variable as a buffer, as a host writes and reads it; launches see it.

        LaunchError when the module has no such variable.
        """
        if name not in self._globals:
            known = ", ".join(sorted(self._globals)[:20]) or "none"
            raise LaunchError("the module has no such variable", where=name, expected=f"one of: {known}")
        address, data = self._globals[name]
        return Buffer(data[: max(1, self._parsed.variables[name].bytes)], address, name, None, True)

    def reset(self) -> None:
        """Gives every variable what the PTX says, whatever launches or the host have written."""
        for name, first in self._initial.items():
            self._globals[name][1][...] = first

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of its `.global` and `.const` variables."""
        return tuple(self._globals)

    def inspect(self) -> ModuleInfo:
        """What every kernel holds, and each form that is not executed, without running anything."""
        entries = tuple(self.inspect_entry(name) for name in self._parsed.entries)
        return ModuleInfo(self._parsed.version, self._parsed.target, entries)

    def inspect_entry(self, entry: str) -> EntryInfo:
        """`inspect` of one kernel, which must be there."""
        addresses = {name: at for name, (at, _) in self._globals.items()}
        return inspect_entry(self._parsed, self._parsed.entries[entry], addresses)

    def decode(self, entry: str) -> Decoded:
        """The decoded entry; raises UnsupportedInstruction or PtxError for what it contains."""
        if entry not in self._parsed.entries:
            known = ", ".join(name[:60] for name in self._parsed.entries) or "none"
            raise LaunchError("the module has no such entry", where=entry, expected=f"one of: {known}")
        if entry not in self._decoded:
            addresses = {name: at for name, (at, _) in self._globals.items()}
            self._decoded[entry] = Decoder(self._parsed, self._parsed.entries[entry], addresses).run()
        return self._decoded[entry]

    def _registers(self, decoded: Decoded, threads: int) -> int:
        """Registers of each thread when the entry is launched with a block of so many threads."""
        at = decoded.entry
        if not any(opcode.startswith("setmaxnreg") for opcode in decoded.opcodes):
            return launch_registers(at.directives, threads, at.name)
        asked = most_asked(self._parsed.text[at.body_start : at.body_end])
        return launch_registers(at.directives, threads, at.name, asked)

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
        mma: Literal["fast", "exact"] = "fast",
        taps: Sequence[Tap] = (),
        livelock_limit: int = 20_000_000,
        instruction_limit: int = 10_000_000_000,
        seconds_limit: float = 0.0,
        trace: bool = False,
        trace_limit: int = 1_000_000,
        path: bool = False,
        races: bool = False,
        record: BaseOrder | None = None,
        clc: Literal["refuse", "grant"] = "refuse",
        allow: Sequence[Allow | str] = (),
        symbols: Mapping[int, str] | None = None,
        strict: bool = False,
        resident: int | None = None,
        outputs: Sequence[Buffer] = (),
        grids: tuple[_engine.GridRecord, list[tuple[_engine.GridRecord, int]]] | None = None,
    ) -> LaunchResult:
        """Runs one grid to its end or to the finding that stops it.

        Parameters
        ----------
        grid, block, cluster: (x, y, z). `cluster` defaults to the entry's `.reqnctapercluster`, else 1.
        outputs: buffers made by `Memory.empty` that the launch must write whole; what it leaves is a finding.
        resident: clusters that may run at once, at most; by default as many as have a processor for each of
            their CTAs.
        shared_bytes: dynamic shared memory.
        args: one a parameter: a Buffer (its address), a TensorMap (its 128 bytes), a number, the bytes of a
            struct, or `Fields`, a struct with items at offsets, between which a read is a finding.
        mma: "fast" computes tcgen05.mma as f32 products summed in f32; "exact" follows the published block
        arithmetic.
        taps: regions to capture when barrier phases complete.
        livelock_limit: warp instructions without any effect after which the launch counts as spinning.
        instruction_limit: warp instructions after which the launch is stopped with a finding.
        seconds_limit: seconds after which it is; 0 for none. Ctrl-C ends a launch with KeyboardInterrupt, and
            what it had found is lost.
        races: checks that conflicting accesses are ordered by happens-before (`docs/races.md`).
        trace: records events (`LaunchResult.trace`), the first `trace_limit` of them.
        path: the trace keeps branches too, from which the instructions of each warp follow in order.
        allow: findings accepted on purpose, as `Allow` or "CODE[:PLACE]"; they go to `LaunchResult.allowed`.
        symbols: names by offset in the dynamic shared memory, beside the PTX's own, for reports.
        strict: the ISA by the letter: the severities in brackets of docs/instructions.md hold.
        record: keeps `LaunchResult.decisions`, with which a replay over this base does the same; not of
        "early".
        clc: what clusterlaunchcontrol.try_cancel is told: always no, which is legal, or a cluster that has
        not started, while there are any; that cluster then does not run.
        grids: what `Stream` hands over: the record of this grid, and those that may be in flight beside it.

        Raises LaunchError, PtxError or UnsupportedInstruction; defects of the kernel are findings.
        """
        decoded = self.decode(entry)
        packed = pack(decoded, args)
        memory = memory or Memory()
        schedule = schedule or Schedule()
        grid3, block3 = dimensions(grid, "grid"), dimensions(block, "block")
        directives = decoded.entry.directives
        stated = directives.get("reqnctapercluster")
        cluster3 = dimensions(cluster if cluster is not None else stated or (1, 1, 1), "cluster")
        check_shape(entry, directives, grid3, block3, cluster3)
        if decoded.uses_pairs and cluster3[0] * cluster3[1] * cluster3[2] % 2:
            raise LaunchError(
                "the kernel uses cta_group::2 but the cluster has no CTA pairs",
                where=entry[:80],
                expected="an even number of CTAs per cluster",
                found=str(cluster3),
            )
        check_limits(
            entry, decoded.static_shared, shared_bytes, seconds_limit,
            livelock_limit=livelock_limit, instruction_limit=instruction_limit, trace_limit=trace_limit,
            resident=1 if resident is None else resident,
        )  # fmt: skip
        check_outputs(entry, outputs)
        if not isinstance(schedule, Schedule):
            raise LaunchError("the schedule is no Schedule", expected="a Schedule", found=repr(schedule))
        schedule.check()
        allowances = accepted(allow)
        if record is not None and schedule.policy == "early":
            raise LaunchError(
                'an "early" launch has no decisions', where=entry[:80], expected="another policy",
                found="record", do="replay it by its name",
            )  # fmt: skip
        if clc not in ("refuse", "grant"):
            raise LaunchError("unknown answer to claims", expected="refuse or grant", found=repr(clc))
        if mma not in ("fast", "exact"):
            raise LaunchError("unknown MMA mode", expected="fast or exact", found=repr(mma))
        table = memory.engine_table()
        table += [
            (at, data.nbytes, data.ctypes.data, 0, self._parsed.variables[name].space == "global", name)
            for name, (at, data) in self._globals.items()
        ]
        dynamic = SHARED_RESERVED + decoded.static_shared
        named = given_names(symbols, dynamic)
        raw = _engine.launch(
            program=decoded.program,
            buffers=table,
            grid=grid3,
            block=block3,
            cluster=cluster3,
            dynamic_shared=shared_bytes,
            params=packed.data,
            known_params=b"" if all(packed.known) else packed.known,
            param_names=packed.names,
            policy=POLICIES.index(schedule.policy),
            seed=schedule.seed & ((1 << 64) - 1),
            mma=int(mma == "exact"),
            livelock_limit=livelock_limit,
            instruction_limit=instruction_limit,
            taps=[for_engine(tap, dynamic) for tap in taps],
            trace_limit=trace_limit if trace else 0,
            path=path and trace,
            races=races,
            schedule=schedule.for_engine(record),
            grant_claims=clc == "grant",
            strict=strict_weights() if strict else None,
            outputs=[output.address for output in outputs],
            resident=max(resident if resident is not None else _PROCESSORS // math.prod(cluster3), 1),
            launch_registers=self._registers(decoded, block3[0] * block3[1] * block3[2]),
            seconds_limit=seconds_limit,
            grid_record=grids[0] if grids else None,
            in_flight=grids[1] if grids else [],
        )
        hang = Hang(raw["hang"], ProgramView(decoded)) if "hang" in raw else None
        names = SharedNames(decoded.shared_symbols, named)
        findings = tuple(finding(entry, f, hang, names) for f in raw["findings"])
        for f in findings:
            if f.code == "unsupported":
                raise UnsupportedInstruction(
                    f.message,
                    where=f"line {f.ptx_line}, {f.instruction}, in {entry[:80]}",
                    do="see docs/instructions.md for what is executed",
                )
        findings, allowed = divide(findings, allowances)
        return LaunchResult(
            allowed=allowed,
            printf=raw["printf"].decode("utf-8", "replace"),
            findings=findings,
            counters=Counters(**raw["counters"]),
            executed=raw["executed"],
            stored=frozenset(raw["stored"]),
            taps=tuple(records(raw["taps"], taps)),
            mbarriers=tuple(MbarrierInit(rank, at - dynamic, n) for rank, at, n in raw["mbarriers"]),
            announced=tuple(MbarrierBytes(rank, at - dynamic, n) for rank, at, n in raw["announced"]),
            trace=Trace(raw["events"], raw["events_dropped"], ProgramView(decoded), dynamic, names, cluster3)
            if trace
            else None,
            decisions=decisions_of(raw["decisions"]),
            held_back=held_back(raw["holds"], ProgramView(decoded), grid3, cluster3) if raw["holds"] else (),
        )
