"""`tileproof plant`: plant each planted defect of a kernel and report which are killed."""

from __future__ import annotations

import contextlib
import json
import time
from typing import TYPE_CHECKING

import click
from tileproof.conformance.cli.options import json_option
from tileproof.conformance.cli.stopping import INCOMPLETE, INTERRUPTS, stoppable, this_command
from tileproof.conformance.cli.variants import chosen, variant_options
from tileproof.conformance.report import terminal as text
from tileproof.spec.machine.errors import TileproofError

if TYPE_CHECKING:
    from tileproof.kernels.edit import InStage, PlantedDefect
    from tileproof.kernels.kernel import Kernel
    from tileproof.kernels.variant import Variant

SURVIVED = 1
NO_DEFECTS = "a launch file has no planted defects: `tileproof mutate` draws mutants of its PTX"
SEEDS = 3


@click.command()
@click.argument("kernel")
@click.option("--only", metavar="ID", multiple=True, help="Only this planted defect (repeatable).")
@variant_options
@click.option(
    "--examples",
    default=100,
    show_default=True,
    type=click.IntRange(1),
    help="Problems per planted defect and seed.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="First seed.")
@json_option()
def plant(
    kernel: str,
    only: tuple[str, ...],
    variant: str | None,
    examples: int,
    seed: int,
    as_json: bool,
) -> int:
    """Plant each planted defect of KERNEL; exit 1 if a defect survives or has an unexpected finding."""
    from tileproof.conformance.cases import resolve
    from tileproof.conformance.planted.synchronisation.run import variant_of

    found = resolve.kernel(kernel, NO_DEFECTS)
    own = {defect.id: defect for defect in found.defects()}
    if not own or set(only) - set(own):
        raise TileproofError(
            "unknown planted defect of this kernel" if own else "the kernel has no planted defects",
            where=f"planted defects of {found.name}",
            expected=", ".join(own),
            found=", ".join(only) or "none",
        )
    given = chosen(found, variant)[0]
    rows = []
    wanted = [defect for defect in own.values() if not only or defect.id in only]
    with stoppable(), contextlib.suppress(*INTERRUPTS), text.Progress(len(wanted)) as progress:
        for done, defect in enumerate(wanted):
            progress.start(defect.id)
            progress.show(done, False)
            began = time.monotonic()
            into = variant_of(found, defect.sizes) if defect.sizes.f16 else given
            wrong, seen = _run(found, into, defect, examples, seed)
            rows.append(
                {
                    "defect": defect.id,
                    "planted": defect.title,
                    "outcome": wrong or "killed",
                    "found as": seen,
                    "seconds": round(time.monotonic() - began, 1),
                }
            )
    survived = [row for row in rows if row["outcome"] != "killed"]
    remaining = [f"--only={defect.id}" for defect in wanted[len(rows) :]]
    resume = this_command(*remaining, without=["--only"])
    if as_json:
        word = "defect" if survived else "incomplete" if remaining else "clean"
        more = {"interrupted": True, "resume": resume} if remaining else {}
        print(json.dumps({"verdict": word, "defects": rows, **more}, indent=1))
    else:
        text.print_rows(f"Planted defects of {found.title(given)}", rows, False)
        click.echo(f"{len(rows) - len(survived)} of {len(rows)} killed")
        if remaining:
            click.echo(f"interrupted: {len(rows)} of {len(wanted)} were planted; resume: {resume}")
    return SURVIVED if survived else INCOMPLETE if remaining else 0


def _run(
    kernel: Kernel, variant: Variant, defect: PlantedDefect, examples: int, seed: int
) -> tuple[str, str]:
    """Return why the defect is not killed as expected ("" if it is), and its stage or code."""
    from tileproof.kernels.edit import InStage

    if not isinstance(defect.expected, InStage):
        from tileproof.conformance.planted.synchronisation.run import run

        outcome = run(defect, kernel=kernel)
        return outcome.wrong, outcome.shown.finding.code if outcome.shown else ""
    return _checked(kernel, variant, defect, defect.expected, examples, seed)


def _checked(
    kernel: Kernel, variant: Variant, defect: PlantedDefect, expected: InStage, examples: int, seed: int
) -> tuple[str, str]:
    """Run `check` with several seeds, since the first failing example depends on the seed."""
    from tileproof.conformance.check import property as engine
    from tileproof.conformance.check.under_test import on_own_driver
    from tileproof.conformance.planted.defects import planted_reference

    wrong, seen = "", ""
    tries = max(examples, expected.examples)
    with planted_reference(defect):
        under_test = on_own_driver(kernel, variant, planted=defect)
        for attempt in range(SEEDS):
            report = engine.check(
                under_test, examples=tries, policy=expected.policy, seed=seed + attempt, shrink_seconds=0.0
            )
            if report.failure is None:
                return f"survived {tries} examples", ""
            finding = report.failure.findings[0]
            seen = finding.problem.stage or finding.code
            if expected.fits(finding.problem.stage, finding.code):
                return "", seen
            wrong = f"found in {seen} first, not in {expected.stage or 'the machine'}"
    return wrong, seen
