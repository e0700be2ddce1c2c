"""Mutants drawn by `tileproof gate`: their scores in the evidence, or why a score is missing."""

from __future__ import annotations

import contextlib
import io
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tileproof.conformance.beside.mutate.draw import wanted
from tileproof.conformance.check.stopped import Stopped
from tileproof.conformance.cli.mutate import mutate
from tileproof.conformance.cli.stopping import ends_after
from tileproof.conformance.gate import evidence as evidences
from tileproof.conformance.gate.difference import MUTATION
from tileproof.conformance.gate.evidence import ReleaseEvidence, named
from tileproof.conformance.gate.reports import write_all
from tileproof.conformance.gate.store import CannotWrite
from tileproof.conformance.verdict.contract import EXIT_CODES, CheckOutcome, VerdictRecord, decided
from tileproof.kernels import registry
from tileproof.kernels.called import HOST
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Json

LEDGER = "mutation.jsonl"
NAME = "drawn mutants"  # the check that states why a variant has no score
PROFILE = "full"
SECONDS = 120.0  # CPU time per mutant
ENDED = "the run was interrupted; --resume continues it"


@dataclass(frozen=True)
class MutantDraws:
    """`count` mutants per variant, drawn with `seed`. Their scores are added to the evidence in `out`;
    `resume` continues from the saved results. `files`: paths of launch files by name, whose reference is
    `expect`.
    """

    out: Path
    seed: int
    count: int
    jobs: int
    resume: bool
    files: Mapping[str, str] = field(default_factory=dict)
    expect: str | None = None

    def has_ptx(self, verdict: VerdictRecord) -> bool:
        """Whether the verdict is on a compiled kernel (not a Python function) that was built."""
        name = verdict.program.kernel
        return bool(verdict.program.ptx_sha256) and (name in self.files or registry.kernel(name).arch != HOST)

    def journal(self, verdict: VerdictRecord) -> Path:
        """Return the path of the saved results of a variant's mutants."""
        return self.out / f"mutants {_title(verdict).replace(', ', ' ')}.jsonl"

    def made(self, part: Mapping[str, Json], verdict: VerdictRecord) -> bool:
        """Whether a score belongs to this draw of the variant."""
        of = {"seed": self.seed, "count": self.count, "profile": PROFILE, "operators": wanted(None)}
        of["ptx"] = verdict.program.ptx_sha256
        return all(part.get(name) == value for name, value in of.items())


def carried(made: ReleaseEvidence, before: ReleaseEvidence, draws: MutantDraws) -> ReleaseEvidence:
    """Return the evidence with the scores of an earlier part of the run, if the commit is the same."""
    if made.tool != before.tool or made.tool.changed:
        return made
    old = {
        (kernel.program.kernel, tuple(kernel.program.variant.items())): kernel.sections
        for kernel in before.kernels
    }
    kernels = []
    for kernel in made.kernels:
        part = old.get((kernel.program.kernel, tuple(kernel.program.variant.items())), {}).get(MUTATION)
        fits = isinstance(part, dict) and draws.made(part, kernel)
        kernels.append(replace(kernel, sections={**kernel.sections, MUTATION: part}) if fits else kernel)
    return replace(made, kernels=tuple(kernels))


def draw_mutants(
    made: ReleaseEvidence, draws: MutantDraws, end: float | None, progress: Callable[[str], None]
) -> ReleaseEvidence:
    """Add the scores of all compiled variants to the evidence in `draws.out`, each as soon as it is known,
    and a line per variant to the ledger. An interrupted run (by a signal, or at time `end` of
    `time.monotonic`) keeps its results; its evidence is not complete. For a variant without a score, the
    check `NAME` states why.

    CannotWrite if the results cannot be saved.
    """
    if not draws.resume:
        for record in made.kernels:
            draws.journal(record).unlink(missing_ok=True)
    for number, record in enumerate(made.kernels):
        if not draws.has_ptx(record):
            continue  # not built, or a function, which has no PTX
        try:
            if MUTATION in record.sections:
                progress(f"{_title(record)}: {killed(record.sections[MUTATION])}, as before")
                continue
            with ends_after(None if end is None else end - time.monotonic()):
                why, fault = _scored(record, draws, progress)
            if why:
                progress(f"{_title(record)}: no score of mutants: {fault or why}")
                made = _with(made, [_without_score(record, why, fault)])
                write_all(made, draws.out)
            else:
                made = evidences.read(draws.out)
                progress(f"{_title(record)}: {killed(made.kernels[number].sections[MUTATION])}")
        except (KeyboardInterrupt, Stopped):
            progress(f"{_title(record)}: {ENDED}")
            return _ended(made, draws)
    return made


def _scored(verdict: VerdictRecord, draws: MutantDraws, progress: Callable[[str], None]) -> tuple[str, str]:
    """Add the score of a variant to the evidence; return why there is none, and an internal error."""
    if verdict.verdict in ("defect", "error"):
        return f"mutants need a kernel that passes; its verdict is {verdict.verdict}", ""
    progress(f"{_title(verdict)}: {draws.count} mutants")
    try:
        _judge(verdict, draws)
    except CannotWrite:
        raise
    except TileproofError as error:
        return str(error), ""
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        fault = f"internal error: {type(error).__name__}: {error} ({last.name}, line {last.lineno})"
        return "the mutants did not run", fault
    return "", ""


def killed(part: Mapping[str, Json]) -> str:
    """Return a score in a few words."""
    return f"{part.get('killed')} of {part.get('of')} mutants killed"


def _judge(verdict: VerdictRecord, draws: MutantDraws) -> None:
    sizes = ",".join(f"{name}={size}" for name, size in verdict.program.variant.items())
    name = verdict.program.kernel
    assert mutate.callback is not None
    with contextlib.redirect_stdout(io.StringIO()):
        mutate.callback(
            kernel=draws.files.get(name, name), seed=draws.seed, count=draws.count, operators=None,
            only=(), at=(), profile=PROFILE, variant=sizes or None, jobs=draws.jobs, seconds=SECONDS,
            ledger=draws.out / LEDGER, into=draws.out, resume=draws.journal(verdict), as_json=True,
            entry=None,
            expect=draws.expect if name in draws.files else None,
        )  # fmt: skip


def _title(verdict: VerdictRecord) -> str:
    return f"{verdict.program.kernel} {named(verdict)}".strip()


def _ended(made: ReleaseEvidence, draws: MutantDraws) -> ReleaseEvidence:
    """Return the evidence of an interrupted run, the reason for each variant without a score."""
    remaining = [
        _without_score(kernel, ENDED)
        for kernel in made.kernels
        if MUTATION not in kernel.sections
        and not any(check.name == NAME for check in kernel.checks)
        and draws.has_ptx(kernel)
    ]
    made = _with(made, remaining, complete=False)
    write_all(made, draws.out)
    return made


def _without_score(verdict: VerdictRecord, why: str, fault: str = "") -> VerdictRecord:
    """Return the verdict with the reason for the missing score; an internal error changes the verdict."""
    check = CheckOutcome(NAME, False, "not run", why, fault)
    checks = (*(old for old in verdict.checks if old.name != NAME), check)
    word, reasons = decided(
        checks=checks, findings=verdict.findings, coverage=verdict.coverage, controls=verdict.controls
    )
    return replace(verdict, verdict=word, exit_code=EXIT_CODES[word], why=reasons, checks=checks)


def _with(made: ReleaseEvidence, verdicts: Sequence[VerdictRecord], complete: bool = True) -> ReleaseEvidence:
    """Return the evidence with the verdicts of these variants replaced."""
    new = {(verdict.program.kernel, tuple(verdict.program.variant.items())): verdict for verdict in verdicts}
    kernels = [new.get((k.program.kernel, tuple(k.program.variant.items())), k) for k in made.kernels]
    return evidences.again(made, kernels, complete=complete)
