"""`tileproof gate` and `tileproof diff`: all checks as one verdict with its evidence; comparison of two
evidence files.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tileproof.conformance.cli.given import KERNEL_ONLY, expect_option, reference_of, refuse
from tileproof.conformance.cli.options import (
    PLANT,
    RESUME,
    STRICT,
    jobs_option,
    json_option,
    option,
    options,
)
from tileproof.conformance.cli.seeds import seed_option
from tileproof.conformance.cli.stopping import closed_pipe_is_fine, stoppable
from tileproof.conformance.cli.variants import chosen, variant_options
from tileproof.conformance.report import terminal as text
from tileproof.spec.machine.errors import TileproofError, did_you_mean

if TYPE_CHECKING:
    from tileproof.conformance.gate.evidence import Reason, ReleaseEvidence
    from tileproof.conformance.gate.gate import GateOptions
    from tileproof.conformance.gate.launch_files import GatedLaunch
    from tileproof.conformance.gate.model import Profile
    from tileproof.conformance.verdict.contract import VerdictRecord
    from tileproof.kernels.edit import PlantedDefect
    from tileproof.kernels.kernel import Kernel
    from tileproof.kernels.variant import Variant

WORSE = 1
MAX_REASONS = 20
MAX_FOLLOWING = 3
NIGHTLY_MUTANTS = 100


@dataclass(frozen=True)
class GateArguments:
    """Options of `tileproof gate`."""

    profile: Profile = option(
        "--profile", default="quick", show_default=True, type=click.Choice(["quick", "full", "nightly"]),
        help="Which checks run, and how long (docs/gate.md).",
    )  # fmt: skip
    against: Path | None = option(
        "--against", metavar="BASELINE", type=click.Path(path_type=Path),
        help="Earlier evidence to compare with; a check that got worse is a defect.",
    )  # fmt: skip
    out: Path = option(
        "--out", default="gate", show_default=True, type=click.Path(path_type=Path, file_okay=False),
        help="Folder of the results and the evidence.",
    )  # fmt: skip
    seed: int = option(seed_option("Seed of cases, schedules and mutants"))
    resume: bool = option(RESUME)
    strict: bool = option(STRICT)
    keep_going: bool = option(
        "--keep-going", is_flag=True, help="Continue after a required check has failed."
    )
    jobs: int = option(jobs_option("Checks in parallel", 0, " The evidence does not depend on it."))
    max_seconds: float = option(
        "--max-seconds", default=0.0, metavar="SECONDS", type=click.FloatRange(0),
        help="Stop after this time and report the results so far; 0 for no limit.",
    )  # fmt: skip
    only: tuple[str, ...] = option(
        "--only",
        multiple=True,
        metavar="CHECK",
        help="Only this check (repeatable); the others count as not run.",
    )
    mutants: int | None = option(
        "--mutants", default=None, metavar="N", type=click.IntRange(0),
        help="Also draw N mutants of each variant and add the score (nightly profile: 100, else 0).",
    )  # fmt: skip
    plant: str | None = option(PLANT)
    expect: str | None = option(expect_option)
    listing: bool = option("--list", "listing", is_flag=True, help="List the checks and the profile of each.")
    as_json: bool = option(json_option("The evidence"))


@click.command()
@click.argument("kernels", nargs=-1, metavar="[KERNEL|FILE]...")
@variant_options
@options(GateArguments)
def gate(kernels: tuple[str, ...], variant: str | None, given: GateArguments) -> int:
    """Run all checks of the KERNELs and launch FILEs (all kernels without an argument) as one verdict, and
    write its evidence into --out.

    Exit code 0: clean; 1: a defect; 3: required checks did not run; 2: the gate could not run.
    """
    from tileproof.conformance.gate.store import alone

    if given.listing:
        return _print_checks(given.as_json)
    gated = _gated(kernels, variant, given)
    with stoppable(), alone(given.out):
        made, paths = _run(gated, given)
    with closed_pipe_is_fine():
        if given.as_json:
            print(paths["evidence"].read_text(encoding="utf-8"), end="")
        else:
            print_verdict(made, paths)
    return made.exit_code


def _print_checks(as_json: bool) -> int:
    from tileproof.conformance.gate.model import checks

    rows = [
        {"check": c.name, "of": "release" if c.release else "kernel", "from profile": c.least,
         "required": "yes" if c.required else "no", "about": c.about}
        for c in checks().values()
    ]  # fmt: skip
    text.print_rows("Checks of the gate", rows, as_json)
    return 0


@dataclass(frozen=True)
class GateArgument:
    """What a gate runs on, and the evidence that it compares with."""

    variants: Sequence[tuple[Kernel, Variant]]
    files: Sequence[GatedLaunch]
    baseline: ReleaseEvidence | None
    planted: PlantedDefect | None


def _gated(names: Sequence[str], variant: str | None, given: GateArguments) -> GateArgument:
    """Resolve the arguments; TileproofError for options that do not apply."""
    from tileproof.conformance.cases import resolve
    from tileproof.conformance.gate import evidence as evidences
    from tileproof.conformance.gate.launch_files import GatedLaunch
    from tileproof.conformance.gate.model import checks
    from tileproof.conformance.planted.defects import defect
    from tileproof.kernels import registry
    from tileproof.kernels.kernel import Kernel
    from tileproof.kernels.launch.model import LaunchFile

    _require_known(given.only, checks())
    baseline = None if given.against is None else evidences.baseline(given.against, "the baseline")
    found = [(name, resolve.resolve(name)) for name in names]
    files = [
        GatedLaunch(name, item, reference_of(given.expect))
        for name, item in found
        if isinstance(item, LaunchFile)
    ]
    kernels = [item for _, item in found if isinstance(item, Kernel)] if found else registry.all_compiled()
    if not kernels:
        asked = {
            "--variant": variant, "--plant": given.plant, "--only": given.only, "--resume": given.resume,
        }  # fmt: skip
        refuse("a launch file", asked, KERNEL_ONLY)
    if not files:
        refuse("a gate without launch files", {"--expect": given.expect})
    planted = None if given.plant is None else defect(given.plant)
    variants = [(kernel, its_variant) for kernel in kernels for its_variant in chosen(kernel, variant)]
    return GateArgument(variants, files, baseline, planted)


def _run(gated: GateArgument, given: GateArguments) -> tuple[ReleaseEvidence, dict[str, Path]]:
    """Run the checks and draw the mutants; return the evidence, and the files that were written."""
    from tileproof.conformance.cli.gate_mutants import MutantDraws, carried, draw_mutants
    from tileproof.conformance.gate import evidence as evidences
    from tileproof.conformance.gate.gate import GateOptions, compared
    from tileproof.conformance.gate.gate import gate as run
    from tileproof.conformance.gate.reports import write_all

    out, baseline = given.out, gated.baseline
    options = GateOptions(
        given.profile, given.seed, given.strict, given.keep_going, given.resume, given.jobs,
        given.max_seconds, given.only,
    )  # fmt: skip
    nightly = NIGHTLY_MUTANTS if given.profile == "nightly" else 0
    wanted = nightly if given.mutants is None else given.mutants
    paths_of = {launch.file.name: launch.argument for launch in gated.files}
    draws = MutantDraws(out, given.seed, wanted, given.jobs, given.resume, paths_of, given.expect)
    end = time.monotonic() + given.max_seconds if given.max_seconds else None
    before = None
    if given.resume and wanted:
        with contextlib.suppress(TileproofError):  # what was finished is in the results
            before = evidences.read(out)
    made = None
    if gated.variants:
        made = run(
            gated.variants,
            out,
            options,
            baseline=baseline,
            planted=gated.planted,
            progress=text.print_progress,
        )
        made = made if before is None else carried(made, before, draws)
    if gated.files:
        made = _with_launches(made, gated.files, options, given.expect)
        made = made if baseline is None else compared(made, baseline)
    assert made is not None  # a kernel or a file
    paths = write_all(made, out)
    if wanted and made.complete and gated.planted is None:
        made = draw_mutants(made, draws, end, text.print_progress)
        made = made if baseline is None else compared(made, baseline)
        write_all(made, out)
    return made, paths


def _with_launches(
    made: ReleaseEvidence | None, files: Sequence[GatedLaunch], options: GateOptions, expect: str | None
) -> ReleaseEvidence:
    """Return the evidence with the verdicts on launch files."""
    from tileproof.conformance.gate.evidence import facts_of
    from tileproof.conformance.gate.launch_files import joined

    began = time.time()
    verdicts = [_on_launch(file, options, expect) for file in files]
    about = {"profile": options.profile, "seed": options.seed, "strict": options.strict}
    return joined(made, verdicts, facts_of(began, {}), **about)


def _require_known(only: Sequence[str], known: Mapping[str, object]) -> None:
    """TileproofError for a name of `--only` that no check has."""
    for name in only:
        if name not in known:
            raise TileproofError(
                "unknown check", where="--only", expected=", ".join(known), found=name,
                do=did_you_mean(name, known),
            )  # fmt: skip


def _on_launch(gated: GatedLaunch, options: GateOptions, expect: str | None) -> VerdictRecord:
    """Return the verdict on a launch file, with the other arguments of the gate."""
    from tileproof.conformance.api.replay import judge_words
    from tileproof.conformance.api.verdicts import Judging, judge_file
    from tileproof.conformance.check.stopped import Stopped
    from tileproof.conformance.gate.launch_files import verdict_on_launch

    words = judge_words(expect, options.seed, True, options.strict, "fast", ())
    interrupts = (KeyboardInterrupt, Stopped)
    judging = Judging(["tileproof", "judge", gated.argument, *words], interrupts=interrupts)
    return verdict_on_launch(
        gated,
        lambda given: judge_file(gated.file, Path(gated.argument), gated.reference, given, judging),
        profile=options.profile,
        seed=options.seed,
        strict=options.strict,
        workers=options.workers,
        progress=text.print_progress,
        interrupts=interrupts,
    )


def reason_lines(found: Sequence[Reason]) -> Iterator[str]:
    """Yield the reasons against "clean", each with its possible consequences, and what was not judged."""
    for reason in found[:MAX_REASONS]:
        yield f"  - {reason.title}: {reason.first}" if reason.title else f"  - {reason.first}"
        for kind, lines in (("may follow from it", reason.rest), ("not judged", reason.not_judged)):
            for line in lines[:MAX_FOLLOWING]:
                yield f"      {kind}: {line}"
            if len(lines) > MAX_FOLLOWING:
                yield f"      and {len(lines) - MAX_FOLLOWING} more, in the evidence"
    if len(found) > MAX_REASONS:
        yield f"  - and {len(found) - MAX_REASONS} more, in the evidence"


def print_verdict(made: ReleaseEvidence, paths: dict[str, Path]) -> None:
    """Print the verdict in a few lines."""
    from tileproof.conformance.cli.gate_mutants import killed
    from tileproof.conformance.gate.difference import MUTATION
    from tileproof.conformance.gate.evidence import reasons, required, titled

    planted = made.sections.get("planted")
    print(made.verdict.upper() + (f" (with the planted defect {planted}: no baseline)" if planted else ""))
    for record in made.kernels:
        print(
            f"  {titled(record)}: {record.verdict}, {required(record)}"
            + (f"; {killed(record.sections[MUTATION])}" if MUTATION in record.sections else "")
        )
    for line in reason_lines(reasons(made)):
        print(line)
    print("evidence: " + ", ".join(str(path) for path in paths.values()))


@click.command()
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@json_option("The changes")
def diff(before: Path, after: Path, as_json: bool) -> int:
    """Compare two evidence files of the gate, BEFORE and AFTER (or folders that contain them).

    Compares verdicts, checks, the largest error of each stage relative to its bound, clocks and mutants.
    Exit code 1 if any of them got worse.
    """
    from tileproof.conformance.gate import difference, evidence

    old, new = evidence.baseline(before, "the first evidence"), evidence.read(after, "the second evidence")
    found = difference.changes(old.kernels, new.kernels) + difference.of_release(old.checks, new.checks)
    worse = any(change.worse for change in found)
    with closed_pipe_is_fine():
        rows = [
            {"kernel": c.kernel, "what": c.what, "before": c.before, "after": c.after, "worse": c.worse}
            for c in found
        ]
        if as_json:
            whole = {"before": old.verdict, "after": new.verdict, "worse": worse, "changes": rows}
            print(json.dumps(whole, indent=1))
        else:
            shown = [{**row, "worse": "yes" if row["worse"] else ""} for row in rows]
            text.print_rows(f"Changes, {old.verdict} to {new.verdict}", shown, False)
    return WORSE if worse else 0
