"""The engine's result of a launch as a `RunResult`."""

from __future__ import annotations

from collections.abc import Sequence

from tileproof.emulator._engine import GridRecord
from tileproof.emulator.causes import divide
from tileproof.emulator.certificate import certificate
from tileproof.emulator.engine_types import RawRun
from tileproof.emulator.errors import UnsupportedInstruction
from tileproof.emulator.hang import Hang
from tileproof.emulator.prepared import PreparedLaunch
from tileproof.emulator.reach import ProgramView
from tileproof.emulator.register_record import recorded
from tileproof.emulator.result import Counters, MbarrierBytes, MbarrierInit, RunResult, finding
from tileproof.emulator.schedule import decisions_of, held_back
from tileproof.emulator.symbols import SharedNames
from tileproof.emulator.taps import records
from tileproof.emulator.trace import Trace
from tileproof.spec.machine.finding import Finding


def run_result(
    raw: RawRun, launch: PreparedLaunch, body: str, overlaps: Sequence[GridRecord] = ()
) -> RunResult:
    """Return the result; UnsupportedInstruction if the launch reached something that is not executed.

    `body`: the PTX of the entry. `overlaps`: grids of earlier launches that may still run.
    """
    decoded, how, shape, dynamic = launch.decoded, launch.how, launch.shape, launch.dynamic
    view = ProgramView(decoded)
    hang = Hang(raw["hang"], view) if "hang" in raw else None
    everything = _findings(raw, decoded.entry.name, hang, launch.names)
    findings, allowed = divide(everything, launch.allowances)
    certified = trace = None
    if how.races:
        certified = certificate(raw, decoded, body, everything, launch.clusters, overlaps)
    if how.trace:
        trace = Trace(raw["events"], raw["events_dropped"], view, dynamic, launch.names, shape.cluster)
    return RunResult(
        allowed=allowed,
        certificate=certified,
        printf=raw["printf"].decode("utf-8", "replace"),
        findings=findings,
        counters=Counters(**raw["counters"]),
        executed=raw["executed"],
        host_threads=raw["host_threads"],
        stored=frozenset(raw["stored"]),
        captures=tuple(records(raw["taps"], how.taps)),
        registers=recorded(decoded, launch.instructions, raw["recorded"]),
        mbarriers=tuple(MbarrierInit(rank, at - dynamic, n) for rank, at, n in raw["mbarriers"]),
        announced=tuple(MbarrierBytes(rank, at - dynamic, n) for rank, at, n in raw["announced"]),
        trace=trace,
        hang=hang,
        limited=tuple(f"{what}: {count}" for what, count in raw["limited"]),
        decisions=decisions_of(raw["decisions"]),
        held_back=held_back(raw["holds"], view, shape.grid, shape.cluster) if raw["holds"] else (),
    )


def _findings(raw: RawRun, entry: str, hang: Hang | None, names: SharedNames) -> tuple[Finding, ...]:
    """Convert the findings of the engine; UnsupportedInstruction if it reached something that it does not
    execute.
    """
    findings = tuple(finding(entry, data, hang, names) for data in raw["findings"])
    for found in findings:
        if found.code == "unsupported":
            raise UnsupportedInstruction(
                found.message,
                where=f"line {found.machine.ptx_line}, {found.machine.instruction}, in {entry[:80]}",
                do="see docs/instructions.md for the supported instructions",
            )
    return findings
