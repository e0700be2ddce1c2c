"""A verdict's record of the program: its identity, its coverage, and forms executed for order only."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from tileproof import __version__
from tileproof.conformance.verdict.contract import (
    EXIT_CODES,
    INTERRUPTED,
    CheckOutcome,
    JudgedProgram,
    NotCovered,
    OrderOnly,
    PlantedControl,
    ProgramCoverage,
    SchedulesRun,
    ToolIdentity,
    VerdictRecord,
    decided,
)
from tileproof.emulator import coverage
from tileproof.emulator.program import Decoded
from tileproof.kernels.foreign import isolation, shared
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.finding_text import hang_first
from tileproof.spec.machine.types import JsonObject, JsonValue

ROOT = Path(__file__).resolve().parents[2]


@cache
def tool_identity() -> ToolIdentity:
    """This Tileproof; the commit only of a checkout with git."""
    commit = _git("rev-parse", "HEAD") if (ROOT / ".git").exists() else ""
    return ToolIdentity(__version__, commit, bool(commit and _git("status", "--porcelain", "-uno")))


def _git(*words: str) -> str:
    try:
        done = subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def program(
    kernel: str, variant: Mapping[str, int], entry: str, ptx: str, toolchain: str = ""
) -> JudgedProgram:
    """The identity of a PTX text and its entry."""
    return JudgedProgram(kernel, dict(variant), entry, hashlib.sha256(ptx.encode()).hexdigest(), toolchain)


def trust() -> JsonObject:
    """Whether the process that judges runs foreign code: "separate" where that runs, if at all, in processes
    of its own; "shared" where this process imported it. `isolated`: what `judge --isolate` denies to both.
    """
    places, held = list(shared.places()), list(isolation.held())
    code: JsonObject = {"processes": "shared", "shared_with": places} if places else {"processes": "separate"}
    return {**code, "isolated": held} if held else code


def record(
    judged: JudgedProgram,
    seed: int,
    checks: Sequence[CheckOutcome],
    *,
    findings: Sequence[Finding] = (),
    coverage: ProgramCoverage | None = None,
    order_only: Sequence[OrderOnly] = (),
    controls: Sequence[PlantedControl] = (),
    schedules: Sequence[SchedulesRun] = (),
    sections: Mapping[str, JsonValue] | None = None,
    interrupted: bool = False,
    runs_code: bool = True,
) -> VerdictRecord:
    """The record of what is known of a program, with the verdict that it makes (`decided`)."""
    findings = hang_first(findings)
    word, why = decided(
        checks=checks,
        findings=findings,
        coverage=coverage,
        controls=controls,
        interrupted=interrupted,
        runs_code=runs_code,
    )
    return VerdictRecord(
        verdict=word,
        exit_code=EXIT_CODES[word],
        why=why,
        program=judged,
        tool=tool_identity(),
        seed=seed,
        schedules=tuple(schedules),
        coverage=coverage,
        order_only=tuple(order_only),
        findings=tuple(findings),
        controls=tuple(controls),
        checks=tuple(checks),
        sections={**(sections or {}), "trust": trust()},
    )


def redecided(
    made: VerdictRecord, checks: Sequence[CheckOutcome], interrupted: bool = False
) -> VerdictRecord:
    """The record with other checks, and the verdict that they make with its findings and coverage."""
    word, why = decided(
        checks=checks,
        findings=made.findings,
        coverage=made.coverage,
        controls=made.controls,
        interrupted=interrupted or INTERRUPTED in made.why,
    )
    return replace(made, verdict=word, exit_code=EXIT_CODES[word], why=why, checks=tuple(checks))


def covered(decoded: Decoded, executed: Iterable[bytes]) -> ProgramCoverage | None:
    """What launches of the entry executed together (`RunResult.executed` of each); None of no launch."""
    bits = coverage.union(executed)
    if not bits:
        return None
    seen = coverage.instructions(decoded, bits)
    missing = [NotCovered(i.line, i.opcode, i.kind, i.source) for i in seen if not i.ran]
    ways = taken = 0
    for instruction in seen:
        for way, went in (("taken", instruction.taken), ("not taken", instruction.fell_through)):
            ways += went is not None
            taken += bool(went)
            if instruction.ran and went is False:
                missing.append(
                    NotCovered(instruction.line, instruction.opcode, "branch", instruction.source, way)  # type: ignore[arg-type]
                )
    return ProgramCoverage(
        instructions=len(seen),
        instructions_covered=sum(instruction.ran for instruction in seen),
        branch_ways=ways,
        branch_ways_covered=taken,
        not_covered=tuple(sorted(missing, key=lambda branch: (branch.ptx_line, branch.way))),
    )


def merged(parts: Sequence[ProgramCoverage]) -> ProgramCoverage:
    """The joint coverage of several entries."""
    return ProgramCoverage(
        sum(part.instructions for part in parts),
        sum(part.instructions_covered for part in parts),
        sum(part.branch_ways for part in parts),
        sum(part.branch_ways_covered for part in parts),
        tuple(missing for part in parts for missing in part.not_covered),
    )


def total_coverage(
    entries: Iterable[tuple[Decoded, Sequence[bytes]]],
) -> tuple[ProgramCoverage | None, tuple[OrderOnly, ...]]:
    """The coverage of entries by what their launches executed, as one, and their forms that are executed only
    as order; no coverage where nothing was launched.
    """
    parts: list[ProgramCoverage] = []
    only: list[OrderOnly] = []
    for decoded, executed in entries:
        part = covered(decoded, executed)
        parts += [part] if part else []
        only += order_only(decoded)
    return (merged(parts) if parts else None), tuple(only)


def order_only(decoded: Decoded) -> tuple[OrderOnly, ...]:
    """The forms of the entry that are executed only as order."""
    return tuple(
        OrderOnly(partly.form, partly.isa_section, partly.instructions)
        for partly in coverage.order_only(decoded)
    )
