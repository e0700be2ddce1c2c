"""Mutants of a launch file's PTX, judged by runs of the launch file itself."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tileproof.conformance.beside.equal.extents import Extents
from tileproof.conformance.beside.mutate.assembled import assemble
from tileproof.conformance.beside.mutate.code import PtxCode
from tileproof.conformance.beside.mutate.draw import Drawn
from tileproof.conformance.beside.mutate.judged import (
    SAME_CODE,
    Judgement,
    MutantOutcome,
    judged_in_children,
    limit_process,
)
from tileproof.conformance.beside.mutate.runs import LONGER, MIN_INSTRUCTIONS, Profile
from tileproof.conformance.judging import reference as references
from tileproof.conformance.judging.reference import ExpectedOutput, ReferenceFunction
from tileproof.conformance.judging.runs import RunOptions, run_once
from tileproof.conformance.judging.values import finding_of, judged_values, unwritten
from tileproof.conformance.launches.check import contradictions
from tileproof.conformance.launches.modules import LoadedModule, load
from tileproof.emulator import Finding, LaunchError, Module, PtxError, Schedule, UnsupportedInstruction
from tileproof.emulator.explore import planned
from tileproof.kernels.launch.model import LaunchFile
from tileproof.kernels.places import on_first_lines, target_of
from tileproof.spec.machine.errors import TileproofError, did_you_mean
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.machine.types import Json

FIRST = (Schedule("early"), Schedule("late"), Schedule("random", 1), Schedule("starve", 1))
SCHEDULES: dict[Profile, int] = {"quick": 8, "full": 40}


@dataclass(frozen=True)
class OriginalRun:
    """What the unchanged launch did under a schedule: bits of outputs and captures, warp instructions, its
    additions; `certified`: for all schedules.
    """

    schedule: Schedule
    bits: Mapping[str, str]
    instructions: int
    certified: bool = False
    additions: tuple[int, int] | None = None


@dataclass(frozen=True)
class OriginalLaunch:
    """The unchanged launch file under every schedule of a profile. Mutants are of the entry `code.entry` of
    the module `module`; its PTX has each instruction on a line. `expected`: the reference's values; empty
    without a reference: then any different bit kills a mutant.
    """

    file: LaunchFile
    module: str
    code: PtxCode
    sha256: str
    arch: str
    digest: str
    expected: Mapping[str, ExpectedOutput] = field(repr=False)
    runs: tuple[OriginalRun, ...] = ()
    strict: bool = True

    @property
    def extents(self) -> Extents:
        """The sizes of the launch."""
        step = next(s for s in self.file.launches if s.entry == self.code.entry)
        stated = Module.from_ptx(self.code.text).inspect_entry(step.entry)
        cluster = step.cluster or stated.directives.get("reqnctapercluster", ())
        blocks = {s.block for s in self.file.launches if s.entry == self.code.entry}
        x, y, z = (*step.block, 1, 1)[:3]
        block = (x, y, z) if len(blocks) == 1 else None
        return Extents(block, math.prod(cluster))


def original(
    file: LaunchFile,
    entry: str | None,
    reference: ReferenceFunction | None,
    profile: Profile,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> OriginalLaunch:
    """Runs the launch file under the schedules of a profile, by the letter of the ISA if nothing is found so.

    TileproofError when it has a finding, and where it launches several kernels and `entry` names none.
    """
    if reference is not None:
        file = references.described(file, reference)
    modules = load(file)
    if wrong := contradictions(file, modules):
        raise wrong[0]
    entries = {step.entry: file.module_of(step).name for step in file.launches}
    if entry not in entries and (entry is not None or len(entries) > 1):
        raise TileproofError(
            "the launch file launches several kernels" if entry is None else "this kernel is not launched",
            where="--entry", expected=", ".join(entries), found=entry or f"{len(entries)} kernels",
            do=did_you_mean(entry or "", entries),
        )  # fmt: skip
    entry = entry or next(iter(entries))
    loaded = modules[entries[entry]]
    text, arch = on_first_lines(loaded.ptx), target_of(loaded.ptx)
    expected = (
        references.evaluate(reference, file, references.inputs_of(file)) if reference is not None else {}
    )
    sha256 = hashlib.sha256(loaded.ptx.encode()).hexdigest()
    digest = assemble(text, arch).digest
    base = OriginalLaunch(file, loaded.name, PtxCode(text, entry), sha256, arch, digest, expected)
    for strict in (True, False):
        base = replace(base, strict=strict)
        runs = []
        count = SCHEDULES[profile]
        plan = [*FIRST, *(schedule for schedule in planned(count) if schedule not in FIRST)][:count]
        for number, schedule in enumerate(plan):
            progress(number, count)
            run = run_once(file, modules, schedule, RunOptions(strict=strict))
            wrong_here = _wrong(base, run, None)
            if wrong_here is not None:
                break
            bits, length = _bits(run), run.counters.warp_instructions
            runs.append(OriginalRun(schedule, bits, length, run.certified, _additions(run)))
        else:
            return replace(base, runs=tuple(runs))
    raise TileproofError(
        "the launch is not clean: its mutants cannot be judged", where=f"{file.name}, schedule {schedule}",
        found=wrong_here.message if wrong_here else "", do="run `tileproof judge` first",
    )  # fmt: skip


@dataclass(frozen=True)
class Wrong:
    """The first defect of a run: the check that finds it, its kind, its message, and its PTX lines."""

    by: str
    kind: str
    message: str
    cause: str = ""
    stage: str = ""
    lines: frozenset[int] = frozenset()


def judge_one(base: OriginalLaunch, drawn: Drawn) -> Judgement:
    """The judgement on a mutant, in this process."""
    began = time.monotonic()

    def done(outcome: MutantOutcome, **more: Json) -> Judgement:
        return Judgement(drawn, outcome, seconds=round(time.monotonic() - began, 2), **more)

    ptx = base.code.changed(drawn.lines)
    assembled = assemble(ptx, base.arch)
    if assembled.refused:
        return done("refused", by="ptxas", message=assembled.refused)
    if assembled.digest == base.digest:
        return done("equivalent", argument=SAME_CODE, same=True)
    same, certified = True, False
    try:
        others = {name: loaded for name, loaded in load(base.file).items() if name != base.module}
        mutant = LoadedModule(base.module, ptx, "", "", Module.from_ptx(ptx))
        for number, was in enumerate(base.runs):
            options = RunOptions(
                strict=base.strict, instruction_limit=max(MIN_INSTRUCTIONS, LONGER * was.instructions)
            )
            run = run_once(base.file, {**others, base.module: mutant}, was.schedule, options)
            wrong = _wrong(base, run, was)
            if wrong is not None:
                place = bool(wrong.lines & set(drawn.lines))
                found = {"by": wrong.by, "kind": wrong.kind, "message": wrong.message, "cause": wrong.cause}
                return done("killed", **found, stage=wrong.stage, place=place, run=number)
            same = same and _bits(run) == was.bits and _additions(run) == was.additions
            certified = run.certified and was.certified
            if certified:
                break
    except (UnsupportedInstruction, PtxError, LaunchError) as error:
        return done("killed", by="not read", kind="refusal", message=str(error), cause=str(error))
    except MemoryError:
        return done("killed", by="memory", message="more memory than a launch may take")
    return done("survived", same=same, certified=certified)


def judge_all(
    base: OriginalLaunch, mutants: Sequence[Drawn], jobs: int, seconds: float
) -> Iterator[Judgement]:
    """Judges mutants, each in a child that may take `seconds` of processor time."""

    def limited(drawn: Drawn) -> Judgement:
        limit_process(seconds)
        return judge_one(base, drawn)

    return judged_in_children(mutants, limited, jobs, seconds)


def _wrong(base: OriginalLaunch, run: RunResult, was: OriginalRun | None) -> Wrong | None:
    """The first defect of a run; None for a right run. `was`: the original's result there."""
    for finding in run.errors:
        return Wrong(
            finding.code, "machine", finding.message, finding.message, lines=frozenset(_lines(finding))
        )
    for missing in unwritten(base.file, run):
        name = missing.problem.array
        return Wrong(f"missing {name}", "missing", f"output {name} was not written completely", stage=name)
    for array in judged_values(run, base.expected)[1]:
        wrong_values = finding_of(array, "values")
        return Wrong(f"value {array.name}", "value", wrong_values.message, stage=array.name)
    if was is not None:
        for name, bits in _bits(run).items():
            if name not in base.expected and was.bits.get(name) != bits:
                return Wrong(f"value {name}", "value", f"{name} differs from the original's bits", stage=name)
    return None


def _lines(finding: Finding) -> list[int]:
    race = finding.machine.race
    return [finding.machine.ptx_line, *([] if race is None else [race.ptx_line])]


def _bits(run: RunResult) -> dict[str, str]:
    """Digests of what a run captured and wrote, by name."""
    out = {}
    for name, stage in run.stages.items():
        out[name] = hashlib.sha256(stage.value.tobytes() + stage.written.tobytes()).hexdigest()
    for name, output in run.outputs.items():
        out[name] = hashlib.sha256(output.values.tobytes() + output.written.tobytes()).hexdigest()
    return out


def _additions(run: RunResult) -> tuple[int, int] | None:
    return None if run.certificate is None else run.certificate.additions
