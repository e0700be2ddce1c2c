"""`tileproof gate` and `tileproof diff`: all checks as one verdict with its evidence; two evidences
compared.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

import click
from tileproof.conformance.cli.seeds import seed_option
from tileproof.conformance.cli.stopping import closed_pipe_is_fine, stoppable
from tileproof.conformance.cli.variants import chosen, variant_options
from tileproof.conformance.report import terminal as text
from tileproof.spec.machine.errors import TileproofError

WORSE = 1
MOST_REASONS = 20
NIGHTLY_MUTANTS = 100


@click.command()
@click.argument("kernels", nargs=-1, metavar="[KERNEL]...")
@variant_options
@click.option(
    "--profile", default="quick", show_default=True, type=click.Choice(["quick", "full", "nightly"]),
    help="How much is run (docs/gate.md).",
)  # fmt: skip
@click.option(
    "--against", metavar="BASELINE", type=click.Path(path_type=Path),
    help="An earlier evidence: what got worse since is a defect.",
)  # fmt: skip
@click.option(
    "--out", default="gate", show_default=True, type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the results and the evidence.",
)  # fmt: skip
@seed_option("Of all that is drawn")
@click.option("--resume", is_flag=True, help="Go on with the results in --out; what is finished is kept.")
@click.option("--strict", is_flag=True, help="Take the PTX ISA by the letter: some findings weigh more.")
@click.option("--keep-going", is_flag=True, help="Run all checks, also after a required one has failed.")
@click.option(
    "-j", "--jobs", default=0, show_default=True, type=click.IntRange(0),
    help="Checks at a time; 0 for one per core. The evidence does not depend on it.",
)  # fmt: skip
@click.option(
    "--max-seconds", default=0.0, metavar="SECONDS", type=click.FloatRange(0),
    help="End then, with what is known; 0 for no limit.",
)  # fmt: skip
@click.option(
    "--only",
    multiple=True,
    metavar="CHECK",
    help="Only this check (repeatable); the others count as not run.",
)
@click.option(
    "--mutants", default=None, metavar="N", type=click.IntRange(0),
    help="Then draw N mutants of each variant and add the score; 100 in the nightly profile, else 0.",
)  # fmt: skip
@click.option("--plant", metavar="ID", help="Plant a defect first (see `tileproof defects`).")
@click.option("--list", "listing", is_flag=True, help="List the checks and the profile of each.")
@click.option("--json", "as_json", is_flag=True, help="The evidence as JSON on standard output.")
def gate(
    kernels: tuple[str, ...],
    variant: str | None,
    profile: Any,
    against: Path | None,
    out: Path,
    seed: int,
    resume: bool,
    strict: bool,
    keep_going: bool,
    jobs: int,
    max_seconds: float,
    only: tuple[str, ...],
    mutants: int | None,
    plant: str | None,
    listing: bool,
    as_json: bool,
) -> int:
    """Run all checks of the KERNELs (all without a name) as one verdict, and write its evidence into --out.

    Exit code 0: clean; 1: a defect; 3: something that is required was not shown; 2: it could not be done.
    """
    from tileproof.conformance.cli.gate_mutants import MutantDraws, carried, draw_mutants
    from tileproof.conformance.gate import evidence as evidences
    from tileproof.conformance.gate.gate import GateOptions, compared
    from tileproof.conformance.gate.gate import gate as run
    from tileproof.conformance.gate.model import checks
    from tileproof.conformance.gate.reports import write_all
    from tileproof.conformance.mutants.defects import defect
    from tileproof.kernels import registry

    known = checks()
    if listing:
        rows = [
            {"check": c.name, "of": "release" if c.release else "kernel", "from profile": c.least,
             "required": "yes" if c.required else "no", "about": c.about}
            for c in known.values()
        ]  # fmt: skip
        text.print_rows("Checks of the gate", rows, as_json)
        return 0
    for name in only:
        if name not in known:
            raise TileproofError(
                "there is no such check", where="--only", expected=", ".join(known), found=name
            )
    baseline = None if against is None else evidences.read(against, "the baseline")
    targets = [registry.kernel(name) for name in kernels] or registry.all_compiled()
    planted = None if plant is None else defect(plant)
    options = GateOptions(
        profile, seed, strict, keep_going, resume, jobs or os.cpu_count() or 1, max_seconds, only
    )
    wanted = NIGHTLY_MUTANTS if mutants is None and profile == "nightly" else mutants or 0
    draws = MutantDraws(out, seed, wanted, jobs, resume)
    end = time.monotonic() + max_seconds if max_seconds else None
    before = None
    if resume and wanted:
        with contextlib.suppress(TileproofError):  # what was finished is in the results
            before = evidences.read(out)
    with stoppable():
        made = run(
            [(target, one) for target in targets for one in chosen(target, variant)],
            out,
            options,
            baseline=baseline,
            planted=planted,
            progress=text.tell,
        )
        made = made if before is None else carried(made, before, draws)
        paths = write_all(made, out)
        if wanted and made.complete and planted is None:
            made = draw_mutants(made, draws, end, text.tell)
            made = made if baseline is None else compared(made, baseline)
            write_all(made, out)
    with closed_pipe_is_fine():
        if as_json:
            print(paths["evidence"].read_text(encoding="utf-8"), end="")
        else:
            print_verdict(made, paths)
    return made.exit_code


def print_verdict(made: Any, paths: dict[str, Path]) -> None:
    """The verdict in a few lines."""
    from tileproof.conformance.cli.gate_mutants import killed
    from tileproof.conformance.gate.difference import MUTATION
    from tileproof.conformance.gate.evidence import named

    print(made.verdict.upper())
    for one in made.kernels:
        passed = sum(check.outcome == "passed" for check in one.checks)
        print(
            f"  {one.program.kernel} {named(one)}: {one.verdict}, {passed} of {len(one.checks)} checks passed"
            + (f"; {killed(one.sections[MUTATION])}" if MUTATION in one.sections else "")
        )
    for line in made.why[:MOST_REASONS]:
        print(f"  - {line}")
    if len(made.why) > MOST_REASONS:
        print(f"  - and {len(made.why) - MOST_REASONS} more reasons, in the evidence")
    print("evidence: " + ", ".join(str(path) for path in paths.values()))


@click.command()
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="The changes as JSON on standard output.")
def diff(before: Path, after: Path, as_json: bool) -> int:
    """Compare two evidences of the gate, BEFORE and AFTER: files, or the folders that hold them.

    Verdicts, checks, the worst error over its bound of each stage, clocks, mutants. Exit code 1 when
    something got worse.
    """
    from tileproof.conformance.gate import difference, evidence

    one, two = evidence.read(before, "the first evidence"), evidence.read(after, "the second evidence")
    found = difference.changes(one.kernels, two.kernels) + difference.of_release(one.checks, two.checks)
    worse = any(change.worse for change in found)
    with closed_pipe_is_fine():
        rows = [
            {"kernel": c.kernel, "what": c.what, "before": c.before, "after": c.after, "worse": c.worse}
            for c in found
        ]
        if as_json:
            whole = {"before": one.verdict, "after": two.verdict, "worse": worse, "changes": rows}
            print(json.dumps(whole, indent=1))
        else:
            shown = [{**row, "worse": "yes" if row["worse"] else ""} for row in rows]
            text.print_rows(f"Changes, {one.verdict} to {two.verdict}", shown, False)
    return WORSE if worse else 0
