"""Plants a row of the orders catalogue, runs it with race checking, and judges what is said."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tileproof.conformance.drivers import emulator as driver
from tileproof.conformance.drivers.names import PlanNames
from tileproof.conformance.mutants.synchronisation.catalogue import (
    Edit,
    Expected,
    PtxEdit,
    Row,
    Sizes,
    SourceEdit,
    TextEdit,
)
from tileproof.conformance.mutants.synchronisation.ptx import Program
from tileproof.conformance.problems.case import Case, Indices
from tileproof.emulator import Finding, Memory, Module, Schedule
from tileproof.emulator.hang import Names, Root
from tileproof.emulator.program import SHARED_RESERVED
from tileproof.kernels.compile import ROOT, Built
from tileproof.kernels.registry import kernels
from tileproof.spec.machine.errors import TileproofError

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
    """A fault of one launch, with the root of a hang in words."""

    schedule: Schedule
    finding: Finding
    root: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """How a row fared. `wrong` says what is not as expected, empty when all is; `shown` is the launch judged,
    `policies` are all under which the expected finding was the first.
    """

    row: Row
    wrong: str
    shown: Shown | None
    policies: tuple[str, ...]
    seconds: float


@lru_cache(maxsize=1)
def programs() -> Mapping[str, Program]:
    """All small programs by name."""
    from tileproof.conformance.mutants.synchronisation import barriers, copies, memory, tensor

    every = (
        *copies.PROGRAMS,
        *memory.PROGRAMS,
        *tensor.PROGRAMS,
        *barriers.PROGRAMS,
    )
    return {program.name: program for program in every}


# ---- planting


def _stale(row: str, where: str, expected: int, what: str, found: int) -> TileproofError:
    return TileproofError(
        "the planted defect does not fit the text any more",
        where=f"orders row {row}, {where}",
        expected=f"{expected} occurrence(s) of {what!r}",
        found=str(found),
        do="bring the row up to date with what it is planted in",
    )


def plant_text(row: str, where: str, edit: TextEdit | SourceEdit, text: str) -> str:
    """`text` with the edit; TileproofError unless `find` occurs as often as the edit says."""
    seen = text.count(edit.find)
    if not edit.find or seen != edit.count:
        raise _stale(row, where, edit.count, edit.find, seen)
    return text.replace(edit.find, edit.replace)


def line_at(row: str, file: str, snippet: str, sources: Mapping[str, str]) -> int:
    """The 1-based line of `file` on which the text `snippet` ends; indentation does not count."""
    if file not in sources:
        raise _stale(row, file, 1, file, 0)
    wanted = [line.strip() for line in snippet.split("\n")]
    lines = [line.strip() for line in sources[file].split("\n")]
    hits = []
    for start in range(len(lines) - len(wanted) + 1):
        here = lines[start : start + len(wanted)]
        # One line may be a part of the source's; of several each must be whole.
        if here == wanted or (len(wanted) == 1 and wanted[0] in here[0]):
            hits.append(start + len(wanted))
    if len(hits) != 1:
        raise _stale(row, file, 1, snippet, len(hits))
    return hits[0]


_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]+)"', re.MULTILINE)


def lines_of(ptx: str) -> list[frozenset[tuple[str, int]]]:
    """For each line of the PTX the source lines that it was made of, those of its callers included."""
    files = {int(number): path for number, path in _FILE.findall(ptx)}
    chains: dict[tuple[int, ...], frozenset[tuple[str, int]]] = {}
    here: frozenset[tuple[str, int]] = frozenset()
    found = []
    for line in ptx.split("\n"):
        if match := _LOC.match(line):
            numbers = [int(part) if part else 0 for part in match.groups()]
            own = frozenset({(files.get(numbers[0], ""), numbers[1])})
            here = own | chains.get(tuple(numbers[3:6]), frozenset()) if match[4] else own
            chains[tuple(numbers[:3])] = here
        found.append(here)
    return found


def plant_ptx(row: str, edit: PtxEdit, ptx: str, sources: Mapping[str, str]) -> str:
    """The PTX with the edit; TileproofError when the source line or its instructions are not there."""
    number = line_at(row, edit.file, edit.at, sources)
    lines, chains = ptx.split("\n"), lines_of(ptx)
    opcode = re.compile(rf"^\s*(?:@!?%\w+\s+)?{re.escape(edit.opcode)}")
    hits = [
        n
        for n, (line, chain) in enumerate(zip(lines, chains, strict=True))
        if (f"kernels/{edit.file}", number) in chain and opcode.match(line)
    ]
    if len(hits) != edit.count:
        raise _stale(row, f"{edit.file}:{number}", edit.count, edit.opcode, len(hits))
    for n in hits:
        if edit.find:
            lines[n], seen = re.subn(edit.find, edit.replace, lines[n])
            if seen != 1:
                raise _stale(row, f"PTX line {n + 1}", 1, edit.find, seen)
        else:
            lines[n] = edit.replace
    return "\n".join(lines)


# ---- launching


@dataclass(frozen=True)
class Target:
    """What a row is planted in, ready to launch: `sources` are the kernel's, or the program's own text."""

    text: str
    sources: Mapping[str, str]
    built: Built | None = None


def _target(row: Row) -> Target:
    if row.target in programs():
        text = programs()[row.target].text()
        for edit in row.edits:
            if not isinstance(edit, TextEdit):
                raise TileproofError("a program takes text edits only", where=f"orders row {row.id}")
            text = plant_text(row.id, row.target, edit, text)
        return Target(text, {"": text})
    return _kernel_target(row.id, row.target, row.edits, row.sizes.d_qk)


def _kernel_target(row: str, name: str, edits: Sequence[Edit], d_qk: int) -> Target:
    if name not in kernels():
        raise TileproofError(
            "there is no such kernel or program",
            where=f"orders row {row}",
            expected=", ".join([*kernels(), *programs()]),
            found=name,
        )
    kernel = kernels()[name]
    overrides: dict[str, str] = {}
    for edit in edits:
        if isinstance(edit, SourceEdit):
            if edit.file not in kernel.sources:
                raise _stale(row, edit.file, 1, edit.file, 0)
            text = overrides.get(edit.file) or (ROOT / edit.file).read_text()
            overrides[edit.file] = plant_text(row, edit.file, edit, text)
    built = kernel.build(kernel.variant(d_qk=d_qk), source_overrides=overrides)
    sources = {path: overrides.get(path) or (ROOT / path).read_text() for path in kernel.sources}
    ptx = built.ptx
    for edit in edits:
        if isinstance(edit, PtxEdit):
            ptx = plant_ptx(row, edit, ptx, sources)
        elif isinstance(edit, TextEdit):
            raise TileproofError("a kernel takes source and PTX edits", where=f"orders row {row}")
    return Target(ptx, sources, replace(built, ptx=ptx))


class ProgramNames(Names):
    """A small program's mbarriers by name."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def mbarrier(self, rank: int, offset: int) -> str:
        name = self._program.barrier_at(offset)
        return f"{name} of CTA {rank}" if name else super().mbarrier(rank, offset)


def launch(
    name: str, text: str, schedule: Schedule, sizes: Sizes = USUAL, built: Built | None = None
) -> tuple[tuple[Finding, ...], Names]:
    """All findings of one launch of a program, or of a kernel's build, and the names for its roots."""
    if built is None:
        program = programs()[name]
        memory = Memory()
        result = _parsed(text).launch(
            "k",
            grid=(program.cluster * program.clusters, 1, 1),
            block=(program.threads, 1, 1),
            cluster=(program.cluster, 1, 1),
            args=list(program.buffers(memory)),
            memory=memory,
            schedule=schedule,
            livelock_limit=LIVELOCK,
            races=True,
        )
        return result.findings, ProgramNames(program)
    kernel = kernels()[name]
    plan = kernel.plan(kernel.variant(d_qk=sizes.d_qk))
    described = kernel.launch(_inputs(sizes), built)
    memory = Memory()
    buffers = {one: driver._place(memory, buffer) for one, buffer in described.buffers().items()}
    module = driver.module_of(described.image)
    result = module.launch(
        described.entry,
        grid=described.grid,
        block=described.block,
        cluster=described.cluster,
        shared_bytes=described.shared_bytes,
        args=[driver._argument(one, buffers) for one in described.params],
        memory=memory,
        schedule=schedule,
        livelock_limit=LIVELOCK,
        races=True,
    )
    dynamic = SHARED_RESERVED + module.decode(described.entry).static_shared
    return result.findings, PlanNames(plan, dynamic)


@lru_cache(maxsize=64)
def _parsed(text: str) -> Module:
    return Module.from_ptx(text)


@lru_cache(maxsize=8)
def _inputs(sizes: Sizes):  # type: ignore[no-untyped-def]
    whole = 64 * sizes.blocks
    return Case(
        sizes.d_qk,
        s_kv=whole,
        blocks=sizes.blocks,
        tokens=tuple(Indices("permuted") for _ in sizes.lengths),
        lengths=None
        if set(sizes.lengths) == {None}
        else tuple(whole if n is None else n for n in sizes.lengths),
        values="normal",
    ).inputs()


def faults(
    findings: Sequence[Finding], names: Names, schedule: Schedule, expected: Expected | None = None
) -> list[Shown]:
    """What a launch is judged by: its first error or, when there is none, its first warning; and where that
    is a mere symptom, the first that is none as well. Where a note is expected, that note alone.
    """
    wanted = "error" if any(one.severity == "error" for one in findings) else "warning"
    every = [finding for finding in findings if finding.severity == wanted]
    if expected and expected.severity == "note" and not every:
        every = [one for one in findings if (one.severity, one.code) == ("note", expected.code)]
    first = every[:1] + [one for one in every if one.code not in SYMPTOMS][:1]
    return [_shown(finding, names, schedule) for finding in dict.fromkeys(first)]


def _shown(finding: Finding, names: Names, schedule: Schedule) -> Shown:
    roots: tuple[Root, ...] = finding.hang.explain(names).roots if finding.hang else ()
    return Shown(schedule, finding, tuple(roots[0].lines()) if roots else ())


# ---- judging


def differs(row: str, expected: Expected, shown: Shown, sources: Mapping[str, str]) -> str:
    """What of the finding is not as expected, empty when nothing is."""
    finding = shown.finding
    if (finding.severity, finding.code) != (expected.severity, expected.code):
        return f"{finding.severity} {finding.code}: {finding.message}; {' '.join(shown.root)}"
    if not finding.instruction.startswith(expected.second):
        return f"the finding is at {finding.instruction}, not {expected.second}"
    race = finding.race
    if expected.first or expected.first_at or expected.missing:
        if race is None:
            return "it does not say which access came before"
        if not race.instruction.startswith(expected.first):
            return f"the access before it is {race.instruction}, not {expected.first}"
        if expected.missing not in race.missing:
            return f"missing is {race.missing!r}"
    for label, place, line, source in (
        ("it", expected.second_at, finding.ptx_line, finding.source),
        (
            "the access before it",
            expected.first_at,
            race.ptx_line if race else 0,
            race.source if race else "",
        ),
    ):
        if place and not _stands_at(row, place, line, source, sources):
            return f"{label} stands at PTX line {line} {source}, not at {place!r}"
    said = "\n".join((finding.message, *shown.root))
    for text in expected.says:
        if text not in said:
            return f"{text!r} is not said: {said}"
    return ""


def _stands_at(row: str, place: str, line: int, source: str, sources: Mapping[str, str]) -> bool:
    if "" in sources:
        return line == line_at(row, "", place, sources)
    file, _, snippet = place.partition(": ")
    number = line_at(row, file, snippet, sources)
    return re.search(rf"(?<![\w.]){re.escape(file.rpartition('/')[2])}:{number}(?!\d)", source) is not None


def run(row: Row, schedules: Sequence[Schedule] = SCHEDULES) -> Outcome:
    """Plants the row and judges the first schedule that shows any error or warning; runs the others too."""
    began = time.monotonic()
    target = _target(row)
    judged: list[Shown] = []
    policies: list[str] = []
    for schedule in schedules:
        findings, names = launch(row.target, target.text, schedule, row.sizes, target.built)
        shown = faults(findings, names, schedule, row.expected)
        judged = judged or shown
        if any(not differs(row.id, row.expected, one, target.sources) for one in shown):
            policies.append(schedule.policy)
    said = [differs(row.id, row.expected, one, target.sources) for one in judged]
    wrong = ("nothing is found" if not said else "") if "" in said or not said else said[-1]
    best = judged[said.index("") if "" in said else -1] if judged else None
    if not wrong and best and best.schedule.policy != row.policy:
        wrong = f"it shows under {best.schedule.policy} first, not under {row.policy}"
    return Outcome(row, wrong, best, tuple(dict.fromkeys(policies)), time.monotonic() - began)
