"""`tileproof mutate`: draw mutants of a kernel and report how many the checks kill."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tileproof.conformance.cli.given import FILE_ONLY, KERNEL_ONLY, expect_option, reference_of, refuse
from tileproof.conformance.cli.options import jobs_option, json_option, option, options
from tileproof.conformance.cli.seeds import seed_option
from tileproof.conformance.cli.stopping import (
    INTERRUPTS,
    closed_pipe_is_fine,
    stoppable,
    this_command,
)
from tileproof.conformance.cli.variants import chosen, variant_options
from tileproof.conformance.report import terminal as text
from tileproof.spec.machine.types import JsonObject, UncheckedObject

if TYPE_CHECKING:
    from tileproof.conformance.beside.equal.extents import Extents
    from tileproof.conformance.beside.mutate.draw import Drawn, Pool
    from tileproof.conformance.beside.mutate.journal import Journal
    from tileproof.conformance.beside.mutate.judged import Judgement
    from tileproof.conformance.beside.mutate.runs import Profile
    from tileproof.conformance.gate.evidence import ReleaseEvidence
    from tileproof.kernels.kernel import Kernel
    from tileproof.kernels.launch.model import LaunchFile

NO_PTX = "plant its defects (`tileproof plant`)"


@dataclass(frozen=True)
class MutateOptions:
    """Options of `tileproof mutate`."""

    seed: int = option(seed_option("Of the draw"))
    count: int = option(
        "--count", default=50, show_default=True, type=click.IntRange(0),
        help="Number of mutants; 0 draws a mutant per place and operator.",
    )  # fmt: skip
    operators: str | None = option(
        "--operators", metavar="A,B", help="Draw from these operators only (default: all)."
    )
    only: tuple[int, ...] = option(
        "--only", metavar="N", multiple=True, type=int, help="Only the mutant with this number (repeatable)."
    )
    at: tuple[str, ...] = option(
        "--at", metavar="FILE[:LINE]", multiple=True,
        help="Only mutants at this place, or inlined there (repeatable).",
    )  # fmt: skip
    profile: Profile = option(
        "--profile", default="quick", show_default=True, type=click.Choice(["quick", "full"]),
        help="How many problems and schedules judge a mutant (docs/mutate.md).",
    )  # fmt: skip
    jobs: int = option(jobs_option("Mutants in parallel", 1, " The result does not depend on it."))
    seconds: float = option(
        "--seconds",
        default=120.0,
        show_default=True,
        type=click.FloatRange(1),
        help="CPU time limit per mutant.",
    )
    ledger: Path | None = option(
        "--ledger", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
        help="Append the score to this file, a line of JSON.",
    )  # fmt: skip
    into: Path | None = option(
        "--into", type=click.Path(path_type=Path, file_okay=False), metavar="EVIDENCE",
        help="Add the score to the gate's evidence in this folder.",
    )  # fmt: skip
    resume: Path | None = option(
        "--resume", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
        help="Save each result in this file, and continue from the saved results.",
    )  # fmt: skip
    expect: str | None = option(expect_option)
    entry: str | None = option(
        "--entry", metavar="NAME", help="For a launch file with several kernels: the kernel to change."
    )
    as_json: bool = option(json_option())


@click.command()
@click.argument("kernel", metavar="KERNEL|FILE")
@variant_options
@options(MutateOptions)
def mutate(kernel: str, variant: str | None, given: MutateOptions) -> int:
    """Draw mutants of KERNEL's production build, or of the PTX of the launch file FILE, and check each of
    them; exit 1 if any survives, 3 if none could be killed.

    A mutant of a launch file is killed by a finding, by values that --expect rejects, or, without --expect,
    by outputs or captures that differ from the original in any bit.

    A seed gives the same mutants on every machine with the same compiler.
    """
    from tileproof.conformance.beside.mutate.draw import places_named, wanted
    from tileproof.conformance.beside.mutate.operators import OPERATORS
    from tileproof.conformance.beside.mutate.score import score
    from tileproof.conformance.cases import resolve
    from tileproof.conformance.gate import evidence
    from tileproof.kernels.launch.model import LaunchFile

    found = resolve.compiled(kernel, NO_PTX)
    names = wanted(given.operators)
    places_named(given.at)  # rejects a wrong place before anything runs
    before = None if given.into is None else evidence.read(given.into)
    began = time.monotonic()
    with stoppable(), text.Progress(given.count) as progress:
        progress.start(f"{kernel}: the kernel itself")
        original = _original(found, variant, given, lambda done, total: progress.show(done, False))
        if isinstance(found, LaunchFile):  # operators on sources need a kernel's sources
            names = [name for name in names if name in OPERATORS]
        drawn = _drawn(original.pool, names, given.seed, given.count, given.at)
        if given.only:
            drawn = [mutant for mutant in drawn if mutant.number in given.only]
        identity: JsonObject = {
            "kernel": found.name, "variant": original.sizes, "seed": given.seed, "profile": given.profile,
        }  # fmt: skip
        of: JsonObject = {
            **identity, "operators": names, **({"at": list(given.at)} if given.at else {}),
            "ptx": original.sha256,
        }  # fmt: skip
        judged = _judged(original, drawn, of, given, progress)
    of["count"] = given.count
    numbers = score(judged)
    took = round(time.monotonic() - began, 1)
    remaining = len(drawn) - len(judged)
    if given.resume is not None:
        going_on = f"resume: {this_command()}"
    else:
        going_on = f"the results were not saved: {this_command('--resume=mutants.jsonl')} saves each result"
    if not remaining:
        _add_score(judged, numbers, of, original, before, given)
    elif given.ledger is not None or given.into is not None:
        click.echo("the score of a part of a draw cannot be added", err=True)
    return _print(original.title, identity, numbers, judged, took, (remaining, going_on), given.as_json)


def _judged(
    original: MutatedOriginal,
    drawn: Sequence[Drawn],
    of: JsonObject,
    given: MutateOptions,
    progress: text.Progress,
) -> list[Judgement]:
    """Judge the mutants that have no saved result, until an interrupt; return all results."""
    from tileproof.conformance.beside.mutate.judged import settled
    from tileproof.conformance.beside.mutate.solved import proof

    journal = None if given.resume is None else _journal(given.resume, {**of, **_tool()}, drawn)
    known_already = journal.done if journal else {}
    pending = [mutant for mutant in drawn if mutant.number not in known_already]
    fresh = original.judge(pending, given.jobs, given.seconds)
    judged: list[Judgement] = []
    with contextlib.suppress(*INTERRUPTS):
        for judgement in journal.judged(drawn, fresh) if journal else fresh:
            judged.append(
                settled(judgement, lambda mutant: proof(original.pool.code, mutant, original.extents))
            )
            progress.start(f"{original.title}: {judgement.drawn.operator} {judged[-1].outcome}")
            progress.show(len(judged), False)
    return judged


def _tool() -> JsonObject:
    """Return the identity of this tool, as saved results and scores store it."""
    from tileproof.conformance.verdict.program import tool_identity

    tool = tool_identity()
    return {"tool_commit": tool.commit, "tool_changed": tool.changed}


def _add_score(
    judged: Sequence[Judgement],
    numbers: UncheckedObject,
    of: JsonObject,
    original: MutatedOriginal,
    before: ReleaseEvidence | None,
    given: MutateOptions,
) -> None:
    """Append the score to the ledger, and add it to the evidence `before`."""
    from tileproof.conformance.beside.mutate.ledger import enter
    from tileproof.conformance.beside.mutate.score import as_json as evidence_part
    from tileproof.conformance.beside.mutate.score import into as with_score
    from tileproof.conformance.gate.reports import write_all

    if given.ledger is not None:
        enter(given.ledger, numbers, **of, **_tool())
    if before is not None and given.into is not None:
        part = evidence_part(judged, **of)
        write_all(with_score(before, original.name, original.sizes, part), given.into)


def _print(
    title: str,
    identity: UncheckedObject,
    numbers: UncheckedObject,
    judged: Sequence[Judgement],
    took: float,
    interrupted: tuple[int, str],
    as_json: bool,
) -> int:
    """Print the score and the survivors; return the exit code. `interrupted`: the number of mutants that
    were not judged, and how to resume."""
    from tileproof.conformance.beside.mutate.score import by_check, by_operator
    from tileproof.conformance.verdict.contract import EXIT_CODES, Word

    remaining, going_on = interrupted
    none = f"no score: none of the {len(judged)} mutants can be killed by a check"
    word: Word = (
        "defect" if numbers["survived"] else "incomplete" if remaining or not numbers["of"] else "clean"
    )
    if as_json:
        whole = {
            "verdict": word,
            **({} if numbers["of"] else {"why": none}),
            **({"interrupted": True, "left": remaining, "resume": going_on} if remaining else {}),
            **identity, "seconds": took, "score": numbers,
            "by operator": by_operator(judged), "by check": by_check(judged),
            "mutants": [judgement.as_dict() for judgement in judged],
        }  # fmt: skip
        with closed_pipe_is_fine():
            print(json.dumps(whole, indent=1))
        return EXIT_CODES[word]
    with closed_pipe_is_fine():
        text.print_rows(
            f"Mutants of {title}, seed {identity['seed']}, {identity['profile']}", by_operator(judged), False
        )
        text.print_rows("Killed by", by_check(judged), False)
        for judgement in judged:
            if judgement.outcome == "survived":
                print(f"survived: {json.dumps(judgement.as_dict())}")
        print(json.dumps({**numbers, "seconds": took}))
        print(word.upper() + ("" if numbers["of"] else f": {none}"))
        if remaining:
            print(f"interrupted: {len(judged)} of {len(judged) + remaining} mutants were judged; {going_on}")
    return EXIT_CODES[word]


def _drawn(pool: Pool, operators: Sequence[str], seed: int, count: int, at: Sequence[str]) -> list[Drawn]:
    """Return `count` mutants (0: one per place and operator), only at the places `at`, if any."""
    from tileproof.conformance.beside.mutate.draw import draw, places_named, stands_at
    from tileproof.spec.machine.errors import TileproofError

    every = draw(pool, operators, seed, rounds=None if count else 1)
    places = places_named(at)
    if places:
        every = (mutant for mutant in every if stands_at(mutant, places))
    drawn = list(itertools.islice(every, count or None))
    if places and not drawn:
        raise TileproofError(
            "no operator applies there", where="--at", found=", ".join(at),
            do="give a file and line of the kernel's code, like the survivors' `at`",
        )  # fmt: skip
    return drawn


def _journal(path: Path, of: UncheckedObject, drawn: Sequence[Drawn]) -> Journal:
    """Open the saved results of a draw, and print what could not be used of them."""
    from tileproof.conformance.beside.mutate.journal import Journal

    journal = Journal(path, of, drawn)
    for note in journal.notes:
        click.echo(note, err=True)
    return journal


@dataclass(frozen=True)
class MutatedOriginal:
    """The original of the mutants: a variant's production build, or a launch file.

    `judge(mutants, jobs, seconds)`.
    """

    name: str
    title: str
    sizes: dict[str, int]
    sha256: str
    pool: Pool
    extents: Extents
    judge: Callable[[Sequence[Drawn], int, float], Iterator[Judgement]]


def _original(
    found: Kernel | LaunchFile,
    variant: str | None,
    options: MutateOptions,
    progress: Callable[[int, int], None],
) -> MutatedOriginal:
    """Run the original; TileproofError if it is not clean."""
    from tileproof.conformance.beside.equal.extents import Extents
    from tileproof.conformance.beside.mutate import launched, runs
    from tileproof.conformance.beside.mutate.assembled import assemble
    from tileproof.conformance.beside.mutate.code import PtxCode
    from tileproof.conformance.beside.mutate.draw import Pool
    from tileproof.conformance.beside.mutate.judged import judge_all
    from tileproof.kernels.kernel import Kernel

    if not isinstance(found, Kernel):
        refuse("a launch file", {"--variant": variant}, KERNEL_ONLY)
        launch = launched.original(
            found, options.entry, reference_of(options.expect), options.profile, progress
        )
        return MutatedOriginal(
            found.name, found.name, {}, launch.sha256, Pool(launch.code), launch.extents,
            partial(launched.judge_all, launch),
        )  # fmt: skip
    refuse("a kernel with a plan", {"--expect": options.expect, "--entry": options.entry}, FILE_ONLY)
    given = chosen(found, variant)[0]
    base, plan = runs.original(found, given, options.profile, progress), found.plan(given)
    ptx = base.built.ptx

    def judge(mutants: Sequence[Drawn], jobs: int, seconds: float) -> Iterator[Judgement]:
        return judge_all(base, mutants, assemble(ptx, found.arch).digest, jobs, seconds)

    return MutatedOriginal(
        found.name, found.title(given), dict(given.sizes), hashlib.sha256(ptx.encode()).hexdigest(),
        Pool(PtxCode(ptx, base.built.entry), found.sources, found.image.prefix),
        Extents((plan.threads, 1, 1), plan.cluster), judge,
    )  # fmt: skip
