"""The evidence of a release: the verdict on each kernel variant and on the whole, as JSON."""

from __future__ import annotations

import datetime
import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tileproof.conformance.cases import resolve
from tileproof.conformance.gate.model import GatedVariant
from tileproof.conformance.gate.source_lines import SECTION, source_lines
from tileproof.conformance.gate.store import StoredResult, unpack
from tileproof.conformance.verdict import contract, jsonform, versions
from tileproof.conformance.verdict.contract import (
    CheckOutcome,
    JudgedProgram,
    SchedulesRun,
    ToolIdentity,
    VerdictRecord,
    Word,
    decided,
    worst,
)
from tileproof.conformance.verdict.program import covered, order_only, program, record, tool_identity
from tileproof.emulator import Module
from tileproof.kernels import toolchain
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.schedule import SEEDED
from tileproof.spec.machine.types import Json, JsonObject

SCHEMA = "tileproof-evidence"
FILE = "evidence.json"
SCHEMA_VERSION = 3


@dataclass(frozen=True)
class RunFacts:
    """Everything that differs between two runs of the same gate: when it began (ISO 8601, UTC), its seconds
    and those of each check ("kernel m=128: determinism", "release: corpus rows"), the machine.
    """

    began: str = ""
    seconds: float = 0.0
    machine: str = ""
    checks: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ReleaseEvidence:
    """All verdicts of one run of the gate. `checks` are those of the whole release; `complete`: nothing ended
    the run early. Two runs on the same programs and seed differ in `run` alone.
    """

    verdict: Word
    exit_code: int
    why: tuple[str, ...]
    tool: ToolIdentity
    profile: str
    seed: int
    strict: bool
    complete: bool
    kernels: tuple[VerdictRecord, ...]
    checks: tuple[CheckOutcome, ...]
    sections: Mapping[str, Json] = field(default_factory=dict)
    run: RunFacts = RunFacts()
    schema: Literal["tileproof-evidence"] = "tileproof-evidence"
    schema_version: int = SCHEMA_VERSION


def read(path: Path, what: str = "the evidence") -> ReleaseEvidence:
    """The evidence in a file, or in a folder that the gate wrote, also of an older version; TileproofError
    names what is wrong with it.
    """
    expected = "evidence.json of `tileproof gate`, or the folder that holds it"
    if path.is_dir() and not (path / FILE).is_file():
        raise resolve.without(path, FILE, expected)
    path = path / FILE if path.is_dir() else path
    resolve.require_json(path, what, expected, SCHEMA)
    return jsonform.load(path, ReleaseEvidence, SCHEMA, SCHEMA_VERSION, what, versions.EVIDENCE)


def baseline(path: Path, what: str) -> ReleaseEvidence:
    """As `read`, for what others are compared with; TileproofError for evidence of a planted defect."""
    found = read(path, what)
    if planted := found.sections.get("planted"):
        raise TileproofError(
            f"{what} is not a baseline: a defect was planted", where=str(path), found=f"--plant {planted}",
            do="run the gate without --plant",
        )  # fmt: skip
    return found


def verdict_on(gated: GatedVariant, results: Sequence[StoredResult], interrupted: bool) -> VerdictRecord:
    """The verdict on one kernel variant from the results of its checks."""
    built = gated.built
    coverage: contract.ProgramCoverage | None = contract.ProgramCoverage(0, 0, 0, 0)
    forms: tuple[contract.OrderOnly, ...] = ()
    if not gated.function:
        decoded = Module.from_ptx(built.ptx).decode(built.entry)
        coverage = covered(decoded, [bits for result in results if (bits := unpack(result.executed))])
        forms = order_only(decoded)
    findings = tuple(found for result in results for found in result.findings)
    controls = tuple(control for result in results for control in result.controls)
    checks = tuple(result.check for result in results)
    seeds: dict[str, list[int]] = {}
    for result in results:
        for policy, numbers in result.schedules.items():
            seeds.setdefault(policy, []).extend(numbers)
    compiler = toolchain.find().version if gated.kernel.sources else ""
    return record(
        program(gated.kernel.name, dict(gated.variant.sizes), built.entry, built.ptx, compiler),
        gated.seed,
        checks,
        findings=findings,
        coverage=coverage,
        order_only=forms,
        controls=controls,
        schedules=[
            SchedulesRun(policy, len(numbers), len(set(numbers)) if policy in SEEDED else 0)
            for policy, numbers in sorted(seeds.items())
        ],
        sections={SECTION: lines} if (lines := source_lines(findings, gated.kernel.sources)) else {},
        interrupted=interrupted,
    )


def no_verdict(gated: GatedVariant, why: str, fault: str = "") -> VerdictRecord:
    """The verdict on a variant that was not built; `fault`: it could not be."""
    not_run = CheckOutcome("build provenance", True, "not run", why, fault)
    return record(JudgedProgram(gated.kernel.name, dict(gated.variant.sizes), "", ""), gated.seed, (not_run,))


def evidence(
    verdicts: Sequence[VerdictRecord],
    release: Sequence[CheckOutcome],
    *,
    profile: str,
    seed: int,
    strict: bool,
    complete: bool,
    sections: Mapping[str, Json],
    run: RunFacts = RunFacts(),
) -> ReleaseEvidence:
    """The verdict on the release: the worst of its kernels' and of its own checks'."""
    whole = contract.ProgramCoverage(0, 0, 0, 0)  # the release itself has no program
    own, why = decided(checks=release, coverage=whole) if release else ("clean", ())
    word = worst([own, *(verdict.verdict for verdict in verdicts)]) if verdicts else "incomplete"
    if not complete and word == "clean":
        word = "incomplete"
    reasons = [f"{titled(verdict)}: {line}" for verdict in verdicts for line in verdict.why]
    reasons += [*why, *([] if complete else ["the run ended before all checks and mutants had run"])]
    return ReleaseEvidence(
        verdict=word,
        exit_code=contract.EXIT_CODES[word],
        why=tuple(reasons),
        tool=tool_identity(),
        profile=profile,
        seed=seed,
        strict=strict,
        complete=complete,
        kernels=tuple(verdicts),
        checks=tuple(release),
        sections=sections,
        run=run,
    )


def again(
    made: ReleaseEvidence,
    verdicts: Sequence[VerdictRecord],
    release: Sequence[CheckOutcome] | None = None,
    *,
    complete: bool = True,
    sections: Mapping[str, Json] | None = None,
    run: RunFacts | None = None,
) -> ReleaseEvidence:
    """The evidence of the same run with other verdicts, checks of the release, sections or run facts."""
    return evidence(
        verdicts,
        made.checks if release is None else release,
        profile=made.profile,
        seed=made.seed,
        strict=made.strict,
        complete=made.complete and complete,
        sections=made.sections if sections is None else sections,
        run=made.run if run is None else run,
    )


def facts_of(began: float, checks: Mapping[str, float]) -> RunFacts:
    """The facts of a run that began at a time of `time.time()` and ends now."""
    at = datetime.datetime.fromtimestamp(began, datetime.UTC).isoformat(timespec="seconds")
    system, python = f"{platform.system()} {platform.machine()}", f"Python {platform.python_version()}"
    machine = ", ".join((system, processor(), f"{os.cpu_count()} cores", python))
    return RunFacts(at, round(time.time() - began, 3), machine, dict(checks))


def processor() -> str:
    """The processor's name, as Linux gives it; "processor not known" elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "processor not known"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "processor not known")


def required(record: VerdictRecord) -> str:
    """How many of the required checks passed, in words."""
    needed = [check for check in record.checks if check.required]
    passed = sum(check.outcome == "passed" for check in needed)
    return f"{passed} of {len(needed)} required checks passed"


@dataclass(frozen=True)
class Reason:
    """Why a kernel is not clean: its first reason, the other defects, which may follow from it, and what was
    not judged. `title` is "" for a reason of the release.
    """

    title: str
    first: str
    rest: tuple[str, ...] = ()
    not_judged: tuple[str, ...] = ()


def reasons(made: ReleaseEvidence) -> list[Reason]:
    """The reasons against "clean": for each kernel its first, then each reason of the release."""
    own = [_reason(kernel) for kernel in made.kernels if kernel.why]
    listed = {
        f"{reason.title}: {line}"
        for reason in own
        for line in (reason.first, *reason.rest, *reason.not_judged)
    }
    return [*own, *(Reason("", line) for line in made.why if line not in listed)]


def _reason(kernel: VerdictRecord) -> Reason:
    wrong = max(len(contract.what_is_wrong(kernel.checks, kernel.findings)), 1)
    return Reason(titled(kernel), kernel.why[0], tuple(kernel.why[1:wrong]), tuple(kernel.why[wrong:]))


def titled(verdict: VerdictRecord) -> str:
    """The kernel and its variant, or the launch file, of a verdict in words."""
    return f"{verdict.program.kernel} {named(verdict)}".strip()


def named(verdict: VerdictRecord) -> str:
    """The variant of a verdict in words."""
    return ", ".join(f"{name} {value}" for name, value in verdict.program.variant.items())


def without_run(text: str) -> JsonObject:
    """The evidence without its facts of time and machine, for comparing two runs."""
    return {name: value for name, value in json.loads(text).items() if name != "run"}
