"""The verdict contract: the machine-readable result for a kernel or a launch.

`verdict.schema.json` beside this file is the published schema; `python -m
tileproof.conformance.verdict.schema` writes it from these classes, and a test compares both. A field is
never removed or redefined without a new `SCHEMA_VERSION`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.finding_text import headline
from tileproof.spec.machine.types import Json

SCHEMA = "tileproof-verdict"
SCHEMA_VERSION = 3
Word = Literal["clean", "defect", "incomplete", "error"]
Outcome = Literal["passed", "failed", "unsupported", "not run"]
EXIT_CODES: dict[Word, int] = {"clean": 0, "defect": 1, "error": 2, "incomplete": 3}
RELEASE = "release"  # the label of checks of no kernel
INTERRUPTED = "it was interrupted"  # the reason of a verdict that Ctrl-C or SIGTERM ended early
MUST_RUN = ("mma", "copy", "output")  # kinds of instructions without which nothing was shown


@dataclass(frozen=True)
class ToolIdentity:
    """Which Tileproof judged: its version, and the commit of its checkout, "" where there is none.

    `changed`: the checkout had changes that no commit holds.
    """

    version: str
    commit: str = ""
    changed: bool = False


@dataclass(frozen=True)
class JudgedProgram:
    """What was judged: a kernel's name and the sizes of its variant, or of a launch its file; the entry and
    the SHA-256 of the PTX text; the compilers that made it, "" of PTX that came as it is.
    """

    kernel: str
    variant: Mapping[str, int]
    entry: str
    ptx_sha256: str
    toolchain: str = ""


@dataclass(frozen=True)
class SchedulesRun:
    """Launches under one policy; `seeds` are the different seeds among them, for policies with a seed."""

    policy: str
    launches: int
    seeds: int = 0


@dataclass(frozen=True)
class NotCovered:
    """An instruction that no launch executed (`way` ""), or a way of a branch that none took.

    `kind`: "mma", "copy", "output", "branch" or "other"; `ptx_line` counts from 1.
    """

    ptx_line: int
    opcode: str
    kind: str
    source: str
    way: Literal["", "taken", "not taken"] = ""


@dataclass(frozen=True)
class ProgramCoverage:
    """What all launches together executed of the entry: instructions of the PTX, ways of its branches."""

    instructions: int
    instructions_covered: int
    branch_ways: int
    branch_ways_covered: int
    not_covered: tuple[NotCovered, ...] = ()

    def missing(self) -> tuple[NotCovered, ...]:
        """The products, copies and outputs that nothing executed."""
        return tuple(missed for missed in self.not_covered if missed.kind in MUST_RUN and not missed.way)


@dataclass(frozen=True)
class OrderOnly:
    """A form that is executed only as order: how many instructions of the entry have it, and where the PTX
    ISA defines it.
    """

    form: str
    isa_section: str
    instructions: int


@dataclass(frozen=True)
class PlantedControl:
    """A defect planted in this kernel on purpose: what it should be found as, what it was found as."""

    id: str
    planted: str
    expected: str
    found: str
    fired: bool
    check: str = ""


@dataclass(frozen=True)
class CheckOutcome:
    """How one check ended, and why, where it did not pass. `fault`: what kept the tool from an outcome (a
    crash, bad input); then the outcome is "not run". `details` are the check's own figures.
    """

    name: str
    required: bool
    outcome: Outcome
    reason: str = ""
    fault: str = ""
    details: Mapping[str, Json] = field(default_factory=dict)


def named_check(label: str, check: str) -> str:
    """What names a check among those of several kernels; `label` is `VerdictRecord.label`, "" of the
    release.
    """
    return f"{label or RELEASE}: {check}"


@dataclass(frozen=True)
class VerdictRecord:
    """The verdict on one kernel variant, or one launch, with its evidence.

    `why` has a line for each reason against "clean". `findings` come by cause. `sections` holds what further
    commands add by name, such as "mutation".
    """

    verdict: Word
    exit_code: int
    why: tuple[str, ...]
    program: JudgedProgram
    tool: ToolIdentity
    seed: int
    schedules: tuple[SchedulesRun, ...]
    coverage: ProgramCoverage | None
    order_only: tuple[OrderOnly, ...]
    findings: tuple[Finding, ...]
    controls: tuple[PlantedControl, ...]
    checks: tuple[CheckOutcome, ...]
    sections: Mapping[str, Json] = field(default_factory=dict)
    schema: Literal["tileproof-verdict"] = "tileproof-verdict"
    schema_version: int = SCHEMA_VERSION

    @property
    def label(self) -> str:
        """The kernel with the sizes of its variant, or the launch file, in words."""
        sizes = ",".join(f"{name}={value}" for name, value in sorted(self.program.variant.items()))
        return f"{self.program.kernel} {sizes}".strip()


def what_is_wrong(checks: Sequence[CheckOutcome], findings: Sequence[Finding]) -> list[str]:
    """The reasons for the verdict "defect": each finding, and each required check that failed without a
    finding.
    """
    with_finding = {finding.check for finding in findings}
    failed = (check for check in checks if check.required and check.outcome == "failed")
    return [
        *(f"{finding.check}: {headline(finding)}" for finding in findings),
        *(f"{check.name} failed: {check.reason}" for check in failed if check.name not in with_finding),
    ]


def _never_ran(missing: Sequence[NotCovered]) -> list[str]:
    """Instructions that nothing executed; one reason for all of the same opcode at the same source line."""
    places: dict[tuple[str, str, str], list[int]] = {}
    for missed in missing:
        places.setdefault((missed.kind, missed.opcode, missed.source), []).append(missed.ptx_line)
    return [
        f"{kind} at PTX line {lines[0]} never ran: {opcode}"
        + (f" ({source})" if source else "")
        + (f", and {len(lines) - 1} more of that source line" if len(lines) > 1 else "")
        for (kind, opcode, source), lines in places.items()
    ]


def decided(
    *,
    checks: Sequence[CheckOutcome],
    findings: Sequence[Finding] = (),
    coverage: ProgramCoverage | None = None,
    controls: Sequence[PlantedControl] = (),
    interrupted: bool = False,
    runs_code: bool = True,
) -> tuple[Word, tuple[str, ...]]:
    """The verdict, and the reasons against "clean", those that weigh most first.

    A defect is one whatever else went wrong; then comes what the tool could not do; then what was not
    covered: a required check that did not run, an MMA, copy or output that no launch executed (all of them
    without a coverage, unless `runs_code` is false: a dump of tensors has no instructions), a planted control
    that did not fire, no control at all.
    """
    wrong = what_is_wrong(checks, findings)
    faults = [f"{check.name}: {check.fault}" for check in checks if check.fault]
    missing = ["it was interrupted"] if interrupted else []
    missing += [
        f"{check.name} {'was not run' if check.outcome == 'not run' else 'is unsupported'}: {check.reason}"
        for check in checks
        if check.required and check.outcome in ("unsupported", "not run") and not check.fault
    ]
    if not checks:
        missing.append("nothing was checked")
    if coverage is None and runs_code:
        missing.append("the instructions that ran are unknown")
    if coverage is not None:
        missing += _never_ran(coverage.missing())
    missing += [
        f"the planted control {control.id} was not found as {control.expected}"
        + (f" but as {control.found}" if control.found else "")
        for control in controls
        if not control.fired
    ]
    word: Word = "defect" if wrong else "error" if faults else "incomplete" if missing else "clean"
    return word, (*wrong, *faults, *missing)


def worst(words: Iterable[Word]) -> Word:
    """The verdict on all: defect before error before incomplete before clean; "incomplete" of none."""
    found = set(words)
    order: tuple[Word, ...] = ("defect", "error", "incomplete", "clean")
    return next((word for word in order if word in found), "incomplete")
