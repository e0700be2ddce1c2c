"""`tileproof mutate`: draws mutants of a kernel and says how many of them the checks find."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from tileproof.conformance.cli.seeds import seed_option
from tileproof.conformance.cli.stopping import closed_pipe_is_fine, stoppable
from tileproof.conformance.cli.variants import chosen, variant_options
from tileproof.conformance.report import terminal as text

SURVIVED = 1


@click.command()
@click.argument("kernel")
@seed_option("Of the draw")
@click.option(
    "--count", default=50, show_default=True, type=click.IntRange(0),
    help="Mutants; 0 for one of every place and operator.",
)  # fmt: skip
@click.option("--operators", metavar="A,B", help="Of these operators only; all without it.")
@click.option(
    "--only", metavar="N", multiple=True, type=int, help="Only this number of the draw (repeatable)."
)
@click.option(
    "--at", metavar="FILE[:LINE]", multiple=True,
    help="Only mutants of this place, or inlined there (repeatable).",
)  # fmt: skip
@click.option("--profile", default="quick", show_default=True, type=click.Choice(["quick", "full"]))
@variant_options
@click.option(
    "-j", "--jobs", default=1, show_default=True, type=click.IntRange(0),
    help="Mutants judged at a time; 0 for one per core. The result does not depend on it.",
)  # fmt: skip
@click.option(
    "--seconds",
    default=120.0,
    show_default=True,
    type=click.FloatRange(1),
    help="Processor time of a mutant.",
)
@click.option(
    "--ledger", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Append the score to this file, a line of JSON.",
)  # fmt: skip
@click.option(
    "--into", type=click.Path(path_type=Path, file_okay=False), metavar="EVIDENCE",
    help="Add the score to the gate's evidence in this folder.",
)  # fmt: skip
@click.option(
    "--resume", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Keep the judgements in this file while they come, and go on from those that it has.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="The result as JSON on standard output.")
def mutate(
    kernel: str,
    seed: int,
    count: int,
    operators: str | None,
    only: tuple[int, ...],
    at: tuple[str, ...],
    profile: Any,
    variant: str | None,
    jobs: int,
    seconds: float,
    ledger: Path | None,
    into: Path | None,
    resume: Path | None,
    as_json: bool,
) -> int:
    """Draw mutants of KERNEL's production build and judge each alone; exit 1 when one survives.

    The seed draws the same mutants on every machine that has the same compiler.
    """
    from tileproof.conformance.gate import evidence
    from tileproof.conformance.gate.reports import write_all
    from tileproof.conformance.mutate.arguments import argued, arguments
    from tileproof.conformance.mutate.assembled import assemble
    from tileproof.conformance.mutate.code import PtxCode
    from tileproof.conformance.mutate.draw import Pool, draw, places_named, stands_at, wanted
    from tileproof.conformance.mutate.journal import Journal
    from tileproof.conformance.mutate.judged import in_ptx, judge_all, with_argument
    from tileproof.conformance.mutate.ledger import enter
    from tileproof.conformance.mutate.rules import Facts, proved
    from tileproof.conformance.mutate.runs import original
    from tileproof.conformance.mutate.score import as_json as evidence_part
    from tileproof.conformance.mutate.score import by_check, by_operator, score
    from tileproof.conformance.mutate.score import into as with_score
    from tileproof.conformance.verdict.program import tool_identity
    from tileproof.kernels.registry import compiled as find_kernel
    from tileproof.spec.machine.errors import TileproofError

    found = find_kernel(kernel)
    given = chosen(found, variant)[0]
    names = wanted(operators)
    places = places_named(at)
    known = arguments(found, found.equivalent)
    before = None if into is None else evidence.read(into)
    began = time.monotonic()
    with stoppable(), text.Progress(count) as progress:
        progress.start(f"{found.title(given)}: the kernel itself")
        base = original(found, given, profile, lambda n, total: progress.show(n, False))
        plan = found.plan(given)
        facts = Facts(plan.cluster, plan.smem_bytes, base.idle, base.silent)
        pool = Pool(PtxCode(base.built.ptx, base.built.entry), found.sources, found.image.prefix)
        every = draw(pool, names, seed, rounds=None if count else 1)
        if places:
            every = (one for one in every if stands_at(one, places))
        drawn = list(itertools.islice(every, count or None))
        if places and not drawn:
            raise TileproofError(
                "no operator changes anything there", where="--at", found=", ".join(at),
                do="name a file and line of the kernel's code, as the survivors' `at` does",
            )  # fmt: skip
        if only:
            drawn = [one for one in drawn if one.number in only]
        tool = tool_identity()
        of = {
            "kernel": found.name, "variant": dict(given.sizes), "seed": seed, "profile": profile,
            "operators": names, **({"at": list(at)} if at else {}),
            "ptx": hashlib.sha256(base.built.ptx.encode()).hexdigest(),
        }  # fmt: skip
        journal = None
        if resume is not None:
            state = {"tool_commit": tool.commit, "tool_changed": tool.changed}
            journal = Journal(resume, {**of, **state}, drawn)
            for note in journal.notes:
                click.echo(note, err=True)
        known_already = journal.done if journal else {}
        left = [one for one in drawn if one.number not in known_already]
        assembled = assemble(base.built.ptx, found.arch)
        fresh = judge_all(base, left, assembled.digest, jobs or os.cpu_count() or 1, seconds)
        judged = []
        for one in journal.judged(drawn, fresh) if journal else fresh:
            argument = ""
            if one.verdict == "survived":
                mutant, there = in_ptx(one)
                argument = proved(pool.code, mutant, replace(facts, there=there))
                if not argument and one.kind != "stopped":  # a claim is about what has passed every run
                    argument = argued(known, one.drawn, one.same)
            one = with_argument(one, argument) if argument else one
            judged.append(one)
            progress.start(f"{found.title(given)}: {one.drawn.operator} {one.verdict}")
            progress.show(len(judged), False)
    of["count"] = count
    numbers = score(judged)
    took = round(time.monotonic() - began, 1)
    if ledger is not None:
        enter(ledger, numbers, **of, tool_commit=tool.commit, tool_changed=tool.changed)
    if before is not None and into is not None:
        part = evidence_part(judged, **of)
        write_all(with_score(before, found.name, dict(given.sizes), part), into)
    if as_json:
        whole = {
            "verdict": "survived" if numbers["survived"] else "killed",
            "kernel": found.name, "variant": dict(given.sizes), "seed": seed, "profile": profile,
            "seconds": took, "score": numbers,
            "by operator": by_operator(judged), "by check": by_check(judged),
            "mutants": [one.as_dict() for one in judged],
        }  # fmt: skip
        with closed_pipe_is_fine():
            print(json.dumps(whole, indent=1))
        return SURVIVED if numbers["survived"] else 0
    with closed_pipe_is_fine():
        text.print_rows(
            f"Mutants of {found.title(given)}, seed {seed}, {profile}", by_operator(judged), False
        )
        text.print_rows("Killed by", by_check(judged), False)
        for one in judged:
            if one.verdict == "survived":
                print(f"survived: {json.dumps(one.as_dict())}")
        print(json.dumps({**numbers, "seconds": took}))
    return SURVIVED if numbers["survived"] else 0
