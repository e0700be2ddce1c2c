"""Plants a synchronisation mutant, runs it with race checking, and judges its findings."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tileproof.conformance.cases.generators import small
from tileproof.conformance.drivers import emulator as driver
from tileproof.conformance.drivers.names import PlanNames
from tileproof.conformance.planted.defects import build_planted
from tileproof.conformance.planted.synchronisation.catalogue import expected_of
from tileproof.conformance.planted.synchronisation.ptx import Program
from tileproof.emulator import Finding, Schedule
from tileproof.emulator.hang import Names
from tileproof.emulator.result import explained
from tileproof.kernels import edit as edits
from tileproof.kernels.compile import Built
from tileproof.kernels.edit import PlantedDefect, Reported, Sizes
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.launch.model import LaunchFile
from tileproof.kernels.registry import kernels
from tileproof.kernels.variant import Variant
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems.sparse_mla_bwd.case import Indices, SparseCase
from tileproof.spec.problems.sparse_mla_bwd.problem import SPARSE_MLA_BWD

SCHEDULES = (
    Schedule("early"),
    Schedule("late"),
    *(Schedule("random", seed) for seed in range(1, 7)),
    *(Schedule("starve", seed) for seed in range(1, 3)),
)
# A read of what is not there yet says that something came too late; which order is missing the race checker
# says, at the other of the two accesses. Of these a launch is judged only when it has no other fault.
USUAL = Sizes()
SYMPTOMS = frozenset(
    (
        "shared-uninitialised",
        "shared-pending",
        "shared-write-under-copy",
        "tmem-uninitialised",
        "tmem-pending",
    )
)
LIVELOCK = 200_000  # warp instructions; the clean runs need less than a tenth between two effects


@dataclass(frozen=True)
class Shown:
    """A fault of one launch."""

    schedule: Schedule
    finding: Finding

    @property
    def root(self) -> tuple[str, ...]:
        """The root of a hang in words, empty where there is none."""
        root = self.finding.machine.root
        return tuple(root.lines()) if root else ()


@dataclass(frozen=True)
class Outcome:
    """How a row fared. `wrong` describes the deviation from the expectation, empty if none; `shown` is the
    launch judged, `policies` are all under which the expected finding was the first.
    """

    row: PlantedDefect
    wrong: str
    shown: Shown | None
    policies: tuple[str, ...]
    seconds: float


@lru_cache(maxsize=1)
def programs() -> Mapping[str, Program]:
    """All small programs by name."""
    from tileproof.conformance.planted.synchronisation import barriers, copies, memory, tensor

    every = (
        *copies.PROGRAMS,
        *memory.PROGRAMS,
        *tensor.PROGRAMS,
        *barriers.PROGRAMS,
    )
    return {program.name: program for program in every}


# ---- planting


@dataclass(frozen=True)
class Planted:
    """What a row is planted in, ready to launch: `sources` are the kernel's, or the program's own text."""

    text: str
    sources: Mapping[str, str]
    built: Built | None = None
    kernel: Kernel | None = None


def plant(row: PlantedDefect, kernel: Kernel | None = None) -> Planted:
    """The program or kernel with the row's edits; TileproofError where one does not fit."""
    if kernel is None and row.target in programs():
        text = programs()[row.target].text()
        for edit in row.edits:
            if edit.place.file or edit.place.opcode:
                where = f"planted defect {row.id}"
                raise TileproofError("a program takes edits of its text only", where=where)
            text = edits.apply(row.id, edit, text)
        return Planted(text, {"": text})
    if kernel is None and row.target not in kernels():
        raise TileproofError(
            "there is no such kernel or program",
            where=f"planted defect {row.id}",
            expected=", ".join([*kernels(), *programs()]),
            found=row.target,
        )
    kernel = kernel or kernels()[row.target]
    built = build_planted(kernel, variant_of(kernel, row.sizes), row)
    sources = {**kernel.sources, **edits.in_sources(row.id, row.edits, kernel.sources)}
    return Planted(built.ptx, sources, built, kernel)


def variant_of(kernel: Kernel, sizes: Sizes) -> Variant:
    """The kernel's variant of the wanted width and form, or its first."""
    return next(
        (each for each in kernel.variants if each.has({"d_qk": sizes.d_qk, "f16": sizes.f16})),
        kernel.variants[0],
    )


# ---- launching


class ProgramNames(Names):
    """A small program's mbarriers by name."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def mbarrier(self, rank: int, offset: int) -> str:
        name = self._program.barrier_at(offset)
        return f"{name} of CTA {rank}" if name else super().mbarrier(rank, offset)


def launch(
    name: str,
    text: str,
    schedule: Schedule,
    sizes: Sizes = USUAL,
    built: Built | None = None,
    kernel: Kernel | None = None,
) -> tuple[Finding, ...]:
    """All findings of one launch of a program, or of a kernel's build, hangs in its own names."""
    names: Names
    if built is None:
        program = programs()[name]
        file, names = program.launch(text), ProgramNames(program)
    else:
        kernel = kernel or kernels()[name]
        file = described(kernel, sizes, built)
        names = PlanNames(kernel.plan(variant_of(kernel, sizes)), driver.shared_offset(file))
    result, _ = driver.launch_on(file, schedule=schedule, livelock_limit=LIVELOCK, races=True)
    return tuple(explained(finding, result.hang, names) for finding in result.findings)


def described(kernel: Kernel, sizes: Sizes, built: Built) -> LaunchFile:
    """The launch of a build of a kernel on a problem of these sizes."""
    plan = kernel.plan(variant_of(kernel, sizes))
    if plan.problem == SPARSE_MLA_BWD:
        return kernel.launch(_inputs(sizes, plan.size("d_qk"), plan.size("h_q")), built)
    return kernel.launch(small(plan, sizes.blocks).inputs(), built)


@lru_cache(maxsize=8)
def _inputs(sizes: Sizes, d_qk: int, h_q: int):  # type: ignore[no-untyped-def]
    whole = 64 * sizes.blocks
    return SparseCase(
        d_qk,
        h_q=h_q,
        s_kv=whole,
        blocks=sizes.blocks,
        tokens=tuple(Indices("permuted") for _ in sizes.lengths),
        lengths=None
        if set(sizes.lengths) == {None}
        else tuple(whole if n is None else n for n in sizes.lengths),
        values="normal",
    ).inputs()


def shown_findings(
    findings: Sequence[Finding], schedule: Schedule, expected: Reported | None = None
) -> list[Shown]:
    """What a launch is judged by: its first error or, when there is none, its first warning; and where that
    is a mere symptom, the first that is none as well. Where a note is expected, that note alone.
    """
    wanted = "error" if any(finding.severity == "error" for finding in findings) else "warning"
    every = [finding for finding in findings if finding.severity == wanted]
    every.sort(
        key=lambda finding: finding.code.startswith("phase-")
    )  # beside them, what comes of an open phase
    if expected and expected.severity == "note" and not every:
        every = [
            finding for finding in findings if (finding.severity, finding.code) == ("note", expected.code)
        ]
    first = every[:1] + [finding for finding in every if finding.code not in SYMPTOMS][:1]
    return [Shown(schedule, finding) for finding in dict.fromkeys(first)]


# ---- judging


def differs(row: str, expected: Reported, shown: Shown, sources: Mapping[str, str]) -> str:
    """What of the finding is not as expected, empty when nothing is."""
    finding = shown.finding
    if (finding.severity, finding.code) != (expected.severity, expected.code):
        return f"{finding.severity} {finding.code}: {finding.message}; {' '.join(shown.root)}"
    if not finding.machine.instruction.startswith(expected.second):
        return f"the finding is at {finding.machine.instruction}, expected {expected.second}"
    race = finding.machine.race
    if expected.first or expected.first_at or expected.missing:
        if race is None:
            return "it does not name the earlier access"
        if not race.instruction.startswith(expected.first):
            return f"the earlier access is {race.instruction}, expected {expected.first}"
        if expected.missing not in race.missing:
            return f"missing is {race.missing!r}"
    for label, place, line, source in (
        ("it", expected.second_at, finding.machine.ptx_line, finding.machine.source),
        (
            "the earlier access",
            expected.first_at,
            race.ptx_line if race else 0,
            race.source if race else "",
        ),
    ):
        if place and not _stands_at(row, place, line, source, sources):
            return f"{label} is at PTX line {line} {source}, not at {place!r}"
    said = "\n".join((finding.message, *shown.root))
    for text in expected.says:
        if text not in said:
            return f"{text!r} is missing in: {said}"
    return ""


def _stands_at(row: str, place: str, line: int, source: str, sources: Mapping[str, str]) -> bool:
    if "" in sources:
        return line in edits.lines_at(row, "", place, sources[""])
    file, _, anchor = place.partition(": ")
    if file not in sources:
        raise edits.stale(row, file, 1, file, 0)
    name = re.escape(file.rpartition("/")[2])
    return any(
        re.search(rf"(?<![\w.]){name}:{number}(?!\d)", source)
        for number in edits.lines_at(row, file, anchor, sources[file])
    )


def run(
    row: PlantedDefect,
    schedules: Sequence[Schedule] = SCHEDULES,
    kernel: Kernel | None = None,
    *,
    to_first: bool = False,
) -> Outcome:
    """Plants the row and judges the first schedule that shows any error or warning; runs the others too,
    unless `to_first`.

    `kernel`: the row's, where the registry does not know it.
    """
    began = time.monotonic()
    expected, planted = expected_of(row), plant(row, kernel)
    judged: list[Shown] = []
    policies: list[str] = []
    for schedule in schedules:
        findings = launch(row.target, planted.text, schedule, row.sizes, planted.built, planted.kernel)
        shown = shown_findings(findings, schedule, expected)
        judged = judged or shown
        if any(not differs(row.id, expected, fault, planted.sources) for fault in shown):
            policies.append(schedule.policy)
        if judged and to_first:
            break
    said = [differs(row.id, expected, fault, planted.sources) for fault in judged]
    wrong = ("nothing is found" if not said else "") if "" in said or not said else said[-1]
    best = judged[said.index("") if "" in said else -1] if judged else None
    if not wrong and best and best.schedule.policy != row.policy:
        wrong = f"first found under {best.schedule.policy}, not under {row.policy}"
    return Outcome(row, wrong, best, tuple(dict.fromkeys(policies)), time.monotonic() - began)
