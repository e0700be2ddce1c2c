"""`tileproof mutants`: plants the mutants of a kernel one by one, and says which are killed."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import click
from tileproof.conformance.cli.variants import chosen, variant_options
from tileproof.conformance.report import terminal as text
from tileproof.spec.machine.errors import TileproofError

if TYPE_CHECKING:
    from tileproof.kernels.edit import InStage, Mutant
    from tileproof.kernels.target import Target
    from tileproof.kernels.variant import Variant

SURVIVED = 1
SEEDS = 3


@click.command()
@click.argument("kernel")
@click.option("--only", metavar="ID", multiple=True, help="Only this mutant (repeatable).")
@variant_options
@click.option(
    "--examples", default=100, show_default=True, type=click.IntRange(1), help="Problems per mutant and seed."
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="First seed.")
@click.option("--json", "as_json", is_flag=True, help="The result as JSON on standard output.")
def mutants(
    kernel: str,
    only: tuple[str, ...],
    variant: str | None,
    examples: int,
    seed: int,
    as_json: bool,
) -> int:
    """Plant each mutant of KERNEL; exit 1 when one survives, or is found as something else than it says."""
    from tileproof.kernels.registry import kernel as find_kernel

    found = find_kernel(kernel)
    own = {one.id: one for one in found.mutants()}
    if not own or set(only) - set(own):
        raise TileproofError(
            "the kernel has no such mutant" if own else "the kernel has no mutants",
            where=f"mutants of {found.name}",
            expected=", ".join(own),
            found=", ".join(only) or "none",
        )
    given = chosen(found, variant)[0]
    rows = []
    wanted = [one for one in own.values() if not only or one.id in only]
    with text.Progress(len(wanted)) as progress:
        for done, one in enumerate(wanted):
            progress.start(one.id)
            progress.show(done, False)
            began = time.monotonic()
            wrong, seen = _judged(found, given, one, examples, seed)
            rows.append(
                {
                    "mutant": one.id,
                    "planted": one.title,
                    "verdict": wrong or "killed",
                    "found as": seen,
                    "seconds": round(time.monotonic() - began, 1),
                }
            )
    survived = [row for row in rows if row["verdict"] != "killed"]
    if as_json:
        print(json.dumps({"verdict": "survived" if survived else "killed", "mutants": rows}, indent=1))
    else:
        text.print_rows(f"Mutants of {found.title(given)}", rows, False)
        click.echo(f"{len(rows) - len(survived)} of {len(rows)} killed")
    return SURVIVED if survived else 0


def _judged(kernel: Target, variant: Variant, one: Mutant, examples: int, seed: int) -> tuple[str, str]:
    """What is wrong (empty: it was killed as it says), and what it was found as."""
    from tileproof.kernels.edit import InStage

    if not isinstance(one.expected, InStage):
        from tileproof.conformance.mutants.synchronisation.run import run

        outcome = run(one, kernel=kernel)
        return outcome.wrong, outcome.shown.finding.code if outcome.shown else ""
    return _checked(kernel, variant, one, one.expected, examples, seed)


def _checked(
    kernel: Target, variant: Variant, one: Mutant, expected: InStage, examples: int, seed: int
) -> tuple[str, str]:
    """By `check`: which example fails first depends on the seed, so a few of them are tried."""
    from tileproof.conformance.check import property as engine
    from tileproof.conformance.check.under_test import on_own_driver
    from tileproof.conformance.mutants.defects import planted_reference

    wrong, seen = "", ""
    tries = max(examples, expected.examples)
    with planted_reference(one):
        under_test = on_own_driver(kernel, variant, planted=one)
        for attempt in range(SEEDS):
            report = engine.check(
                under_test, examples=tries, policy=expected.policy, seed=seed + attempt, shrink_seconds=0.0
            )
            if report.failure is None:
                return f"survived {tries} examples", ""
            finding = report.failure.findings[0]
            seen = finding.stage or finding.code
            if expected.fits(finding.stage, finding.code):
                return "", seen
            wrong = (
                f"found in {finding.stage or finding.code} first, not in {expected.stage or 'the machine'}"
            )
    return wrong, seen
