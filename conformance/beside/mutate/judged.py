"""Judges a mutant in its own process, so that a crash or hang does not stop the draw."""

from __future__ import annotations

import os
import resource
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from tileproof.conformance.beside.mutate.assembled import assemble
from tileproof.conformance.beside.mutate.code import PtxCode
from tileproof.conformance.beside.mutate.compared import change
from tileproof.conformance.beside.mutate.draw import Drawn
from tileproof.conformance.beside.mutate.runs import Original, built_with, judge, names
from tileproof.conformance.processes.children import LOOK_S, Children, ChildResult
from tileproof.emulator import LaunchError, PtxError, UnsupportedInstruction
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.finding_text import headline
from tileproof.spec.machine.types import Json, JsonObject

MutantOutcome = Literal["killed", "survived", "refused", "equivalent"]
SAME_CODE = "ptxas generates the same machine code"
BY_SOLVER = "solver: "  # what the argument of its proofs begins with
SAME_IN_SCHEDULES = "equal in all schedules of the runs"
MEMORY = 6 << 30  # bytes of address space beyond what the process has
LAZY = 128 << 30  # bytes of it for buffers of which only pages that are touched take memory


class CodeProof(NamedTuple):
    """A proof from the code that a mutant is equivalent; where there is none, why."""

    argument: str
    unproved: str = ""


@dataclass(frozen=True)
class Judgement:
    """What became of a mutant.

    `by` is the check that killed it: the machine's code, or what was compared. `stage` is the first
    finding's, `differs` the first stage whose tiles are not the original's bits; `place` is whether a
    finding names a source line of the change, `cause` is the first finding's. For a survivor, `same`
    is whether every launch equalled the original's bit for bit, findings included, and `certified` whether
    every launch of both was certified for all schedules. `argument` is the proof that it is
    equivalent, `unproved` why there is no proof from the code; `becomes` what a mutant of sources
    is in the original's PTX (`compared.change`), operator and lines.
    """

    drawn: Drawn
    outcome: MutantOutcome
    by: str = ""
    kind: str = ""
    stage: str = ""
    differs: str = ""
    cause: str = ""
    place: bool = False
    message: str = ""
    same: bool = False
    certified: bool = False
    argument: str = ""
    unproved: str = ""
    run: int = -1
    seconds: float = 0.0
    findings: tuple[str, ...] = field(default=(), repr=False)
    becomes: tuple[str, tuple[tuple[int, str], ...]] | None = field(default=None, repr=False)

    def as_dict(self) -> JsonObject:
        """The row for `--json`."""
        row = {
            key: value for key, value in asdict(self).items() if key not in ("drawn", "findings", "becomes")
        }
        frames = [f"{file.rsplit('/', 1)[-1]}:{line}" for file, line in self.drawn.frames]
        return {
            "number": self.drawn.number,
            "operator": self.drawn.operator,
            "what": self.drawn.what,
            "at": frames,
            **{key: value for key, value in row.items() if value not in ("", -1) and value is not False},
        }


def judge_one(base: Original, drawn: Drawn, digest: str) -> Judgement:
    """The judgement in this process; `digest` is the original's machine code."""
    began = time.monotonic()

    def done(outcome: MutantOutcome, **more: Json) -> Judgement:
        return Judgement(drawn, outcome, seconds=round(time.monotonic() - began, 2), **more)

    try:
        ptx = mutated(base, drawn)
    except TileproofError as error:
        return done("refused", by="nvcc", message=str(error))
    assembled = assemble(ptx, base.kernel.arch)
    if assembled.refused:
        return done("refused", by="ptxas", message=assembled.refused)
    if assembled.digest == digest:
        return done("equivalent", argument=SAME_CODE, same=True)
    try:
        build = built_with(base, ptx)
        kill, like = judge(build, base)
    except (UnsupportedInstruction, PtxError, LaunchError) as error:
        return done("killed", by="not read", kind="refusal", message=str(error), cause=str(error))
    except MemoryError:
        return done("killed", by="memory", message="more memory than a launch may take")
    if kill is None:
        made = change(PtxCode(base.built.ptx, base.built.entry), ptx) if drawn.sources else None
        becomes = None if made is None else (made[0], tuple(sorted(made[1].items())))
        return done("survived", same=like.same, certified=like.certified, becomes=becomes)
    first = kill.findings[0]
    return done(
        "killed",
        by=next(names(kill.findings)),
        kind=first.kind,
        stage=first.problem.stage,
        differs=kill.differs,
        cause=_cause_of(first),
        place=_names_place(drawn, kill.findings),
        message=first.message,
        run=kill.run,
        findings=tuple(dict.fromkeys(names(kill.findings))),
    )


def _cause_of(first: Finding) -> str:
    """The cause; of a machine finding with its evidence, or its message where it has neither."""
    if first.kind != "machine":
        return first.cause
    return " | ".join(filter(None, (first.cause, *first.evidence))) or headline(first)


def mutated(base: Original, drawn: Drawn) -> str:
    """The PTX of a mutant; TileproofError when its sources do not compile."""
    if drawn.sources:
        with tempfile.TemporaryDirectory(prefix="tileproof-mutate-") as cache:
            os.environ["TILEPROOF_CACHE"] = cache  # of this process alone: nobody asks for it again
            return base.kernel.build(base.variant, source_overrides=drawn.sources).ptx
    lines = base.built.ptx.split("\n")
    for number, text in drawn.lines.items():
        lines[number - 1] = text
    return "\n".join(lines)


def _names_place(drawn: Drawn, findings: Sequence[Finding]) -> bool:
    """Whether a machine finding names a source line of the changed instruction, or of its callers."""
    known = {f"{file.rsplit('/', 1)[-1]}:{line}" for file, line in drawn.frames}
    for finding in findings:
        text = " ".join((finding.machine.source, finding.cause, *finding.evidence, finding.message))
        if any(f"{place}{end}" in f"{text} " for place in known for end in " ,;)."):
            return True
    return False


# ---- processes


def judge_all(
    base: Original, mutants: Sequence[Drawn], digest: str, jobs: int, seconds: float
) -> Iterator[Judgement]:
    """Judges mutants of a kernel, each in a child (`judged_in_children`)."""
    return judged_in_children(mutants, lambda drawn: _limited(base, drawn, digest, seconds), jobs, seconds)


def judged_in_children(
    mutants: Sequence[Drawn], judge: Callable[[Drawn], Judgement], jobs: int, seconds: float
) -> Iterator[Judgement]:
    """Judges mutants in their order, `jobs` at a time, each in a child that `judge` limits to `seconds` of
    processor time and twice that of idle wall time. A mutant that exceeds a limit survives.
    """
    ready: dict[int, Judgement] = {}
    started = reported = 0
    with Children[Judgement]() as children:
        while reported < len(mutants):
            while started < len(mutants) and len(children) < jobs:
                children.start(started, partial(judge, mutants[started]))
                started += 1
            for n, result in children.ended(LOOK_S):
                ready[n] = _collected(mutants[n], result)
            for n, took in children.end(longer_than=2 * seconds):
                still = f"no answer, and no processor time used for {2 * seconds:g} s"
                ready[n] = _stopped(mutants[n], "time limit", still, took)
            while reported in ready:
                yield ready.pop(reported)
                reported += 1


def _collected(drawn: Drawn, result: ChildResult[Judgement]) -> Judgement:
    """The child's judgement, or what ended it."""
    if result.value is not None:
        return result.value
    if result.code == -signal.SIGXCPU:
        return _stopped(
            drawn, "time limit", "the mutant exceeded its limit of processor time", result.seconds
        )
    how = f"signal {signal.Signals(-result.code).name}" if result.code < 0 else f"exit code {result.code}"
    reason = str(result.error) if result.error is not None else f"its process ended with {how}"
    return _stopped(drawn, "crash", reason, result.seconds)


def _stopped(drawn: Drawn, by: str, message: str, took: float) -> Judgement:
    # A crash is noticed by any check; a mutant at its time limit was not found by any check.
    outcome: MutantOutcome = "survived" if by == "time limit" else "killed"
    return Judgement(drawn, outcome, by=by, kind="stopped", message=message, seconds=round(took, 2))


def _limited(base: Original, drawn: Drawn, digest: str, seconds: float) -> Judgement:
    """Run the checks on a mutant in a process with these limits."""
    limit_process(seconds)
    return judge_one(base, drawn, digest)


def limit_process(seconds: float) -> None:
    """Limits this process to so many seconds of processor time, and its memory."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (has + MEMORY + LAZY,) * 2)


def in_ptx(judgement: Judgement) -> Drawn:
    """The mutant, as a change of the original's PTX where its sources make such a change."""
    if judgement.becomes is None:
        return judgement.drawn
    operator, lines = judgement.becomes
    return replace(judgement.drawn, operator=operator, lines=dict(lines))


def settled(judgement: Judgement, proved: Callable[[Drawn], CodeProof]) -> Judgement:
    """The judgement of a survivor: equivalent if it is proved from the code, or if it is equal in all
    schedules of the runs; else as it was.
    """
    if judgement.outcome != "survived":
        return judgement
    argument, unproved = proved(in_ptx(judgement))
    if not argument and judgement.same and judgement.certified:
        argument = SAME_IN_SCHEDULES
    judgement = replace(judgement, unproved=unproved)
    return replace(judgement, outcome="equivalent", argument=argument) if argument else judgement
