"""`tileproof campaign`: many problems, schedules, planted and drawn mutants, over processes and machines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tileproof.conformance.check.stopped import Stopped
from tileproof.conformance.cli.gate import print_verdict
from tileproof.conformance.cli.given import KERNEL_ONLY, expect_option, reference_of, refuse
from tileproof.conformance.cli.options import RESUME, jobs_option, json_option, option, options
from tileproof.conformance.cli.seeds import seed_option
from tileproof.conformance.cli.stopping import closed_pipe_is_fine, stoppable
from tileproof.conformance.cli.variants import chosen, variant_options
from tileproof.conformance.report.terminal import print_progress
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Json, JsonObject

if TYPE_CHECKING:
    from tileproof.conformance.gate.campaign import CampaignPlan, Shard
    from tileproof.conformance.gate.evidence import ReleaseEvidence
    from tileproof.conformance.gate.store import StoredResult
    from tileproof.kernels.kernel import Kernel
    from tileproof.kernels.launch.model import LaunchFile
    from tileproof.kernels.variant import Variant

DEFECT, COULD_NOT, INCOMPLETE = 1, 2, 3


@dataclass(frozen=True)
class CampaignOptions:
    """Options of `tileproof campaign`."""

    examples: int = option(
        "--examples", default=200, show_default=True, type=click.IntRange(0), help="Problems per variant."
    )
    schedules: int = option(
        "--schedules",
        default=200,
        show_default=True,
        type=click.IntRange(0),
        help="Schedules to explore per variant.",
    )
    planted: int = option(
        "--planted", default=0, show_default=True, type=click.IntRange(0), help="Planted defects per variant."
    )
    drawn: int = option(
        "--drawn", default=0, show_default=True, type=click.IntRange(0),
        help="Generated mutants per variant, as `tileproof mutate` draws them.",
    )  # fmt: skip
    profile: str = option(
        "--profile",
        default="quick",
        show_default=True,
        type=click.Choice(["quick", "full"]),
        help="Checks run on each generated mutant.",
    )
    shard: int = option(
        "--shard",
        default=25,
        show_default=True,
        type=click.IntRange(1),
        help="Examples, schedules or mutants per shard.",
    )
    seed: int = option(seed_option("First seed"))
    scheduler: str = option(
        "--scheduler",
        default="",
        metavar="tcp://HOST:PORT",
        help="Dask scheduler; without it, local processes.",
    )
    jobs: int = option(jobs_option("Local processes", 0))
    out: Path = option(
        "--out", default="campaign", show_default=True, type=click.Path(path_type=Path, file_okay=False),
        help="Folder of the results.",
    )  # fmt: skip
    database: str | None = option(
        "--database", metavar="DIR",
        help="Hypothesis database of failures, shared by all workers (default: in --out).",
    )  # fmt: skip
    expect: str | None = option(expect_option)
    resume: bool = option(RESUME)
    into: Path | None = option(
        "--into", type=click.Path(path_type=Path), metavar="EVIDENCE",
        help="Add the summary and the findings to the gate's evidence in this folder.",
    )  # fmt: skip
    as_json: bool = option(json_option("The summary"))


@click.command()
@click.argument("kernels", nargs=-1, metavar="[KERNEL]...")
@variant_options
@options(CampaignOptions)
def campaign(kernels: tuple[str, ...], variant: str | None, given: CampaignOptions) -> int:
    """Distribute examples, schedules and mutants of the KERNELs over Dask workers.

    A KERNEL may be a launch file: a single case, whose shards are schedules and drawn mutants. Every worker
    must be able to read its path.

    No result is lost if a worker is lost. Surviving drawn mutants are reported, but do not change the
    verdict.

    Exit code 0: clean; 1: a defect; 3: interrupted; 2: a shard could not be run.
    """
    from tileproof.conformance.cases import resolve
    from tileproof.conformance.gate import campaign as campaigns
    from tileproof.conformance.gate import evidence
    from tileproof.conformance.gate.store import write_whole
    from tileproof.kernels import registry
    from tileproof.kernels.launch.model import LaunchFile

    before = None if given.into is None else evidence.read(given.into)
    if given.into is not None and not given.into.is_dir():
        raise TileproofError("not a folder with the gate's evidence", where="--into", found=str(given.into))
    found = [(name, resolve.compiled(name)) for name in kernels]
    files = [(name, item) for name, item in found if isinstance(item, LaunchFile)]
    compiled = [item for _, item in found if not isinstance(item, LaunchFile)]
    reference_of(given.expect)
    if files and not compiled:
        refuse("a launch file", {"--variant": variant, "--planted": given.planted}, KERNEL_ONLY)
    if not files:
        refuse("a campaign without launch files", {"--expect": given.expect})
    subjects = [
        (kernel, its_variant)
        for kernel in (compiled if found else registry.all_compiled())
        for its_variant in chosen(kernel, variant)
    ]
    database = Path(given.database) if given.database else given.out / "examples"
    plan = campaigns.CampaignPlan(
        given.examples, given.schedules, given.planted, given.shard, given.seed, str(database.absolute()),
        given.drawn, given.profile,
    )  # fmt: skip
    wanted = campaigns.shards(subjects, plan)
    for name, _ in files:
        wanted += campaigns.file_shards(name, given.expect or "", plan)
    results, complete = _run(wanted, _programs(subjects, files), given)
    figures: JsonObject = {**campaigns.summary(wanted, results), "complete": complete}
    scores = _scores(subjects, wanted, results, plan) if given.drawn else []
    mutation = [part for _, _, part in scores]
    mutation += [campaigns.mutants_of_file(wanted, results, name) for name, _ in files if given.drawn]
    figures |= {"mutation": mutation} if mutation else {}
    write_whole(given.out / "summary.json", json.dumps(figures, indent=1) + "\n")
    with closed_pipe_is_fine():
        if given.as_json:
            print(json.dumps(figures, indent=1))
        else:
            _print(figures, results.values())
        if before is not None and given.into is not None:
            made = campaigns.merged(before, wanted, results, complete)
            _write_evidence(made, scores, given.into, quiet=given.as_json)
    failed = DEFECT if figures["failed"] else COULD_NOT if figures["without_result"] else 0
    return failed or (0 if complete else INCOMPLETE)


def _run(
    wanted: Sequence[Shard], programs: dict[str, str], given: CampaignOptions
) -> tuple[Mapping[str, StoredResult], bool]:
    """Run the shards without a stored result; return the results, and whether the run was not interrupted."""
    from tileproof.conformance.gate import campaign as campaigns
    from tileproof.conformance.gate.store import ResultStore, RunIdentity
    from tileproof.conformance.verdict.program import tool_identity

    tool = tool_identity()
    ran = f"campaign {given.examples} {given.schedules} {given.planted} by {given.shard}"
    ran += f", {given.drawn} drawn, {given.profile}" if given.drawn else ""
    identity = RunIdentity(ran, given.seed, False, "", programs, tool.commit, tool.changed)
    store = ResultStore(given.out / "results.jsonl", identity, given.resume)
    for note in store.notes:
        print_progress(note)
    with stoppable():
        try:
            with campaigns.connected(given.scheduler, given.jobs) as client:
                return campaigns.run(wanted, store, client, print_progress), True
        except (KeyboardInterrupt, Stopped):
            return dict(store.done), False
        finally:
            store.close()


def _write_evidence(
    made: ReleaseEvidence, scores: Sequence[tuple[Kernel, Variant, JsonObject]], into: Path, quiet: bool
) -> None:
    """Write the gate's evidence with the scores of drawn mutants, and print its verdict unless `quiet`."""
    from tileproof.conformance.beside.mutate.score import into as with_score
    from tileproof.conformance.gate.reports import write_all

    for kernel, variant, part in scores:
        made = with_score(made, kernel.name, dict(variant.sizes), part)
    paths = write_all(made, into)
    if not quiet:
        print_verdict(made, paths)


def _programs(
    subjects: Sequence[tuple[Kernel, Variant]], files: Sequence[tuple[str, LaunchFile]]
) -> dict[str, str]:
    """Build every kernel, here and not on each worker; return the hash of the PTX of each subject."""
    from tileproof.conformance.launches.modules import load
    from tileproof.conformance.verdict.program import program

    programs = {}
    for kernel, variant in subjects:
        print_progress(f"building {kernel.title(variant)}")
        built = kernel.build(variant)
        if kernel.probe:
            kernel.build(variant, True)
        programs[f"{kernel.name} {variant}"] = program(kernel.name, {}, built.entry, built.ptx).ptx_sha256
    for name, file in files:
        ptx = "".join(module.ptx for module in load(file).values())
        programs[name] = program(file.name, {}, "", ptx).ptx_sha256
    return programs


def _scores(
    subjects: Sequence[tuple[Kernel, Variant]],
    wanted: Sequence[Shard],
    found: Mapping[str, StoredResult],
    plan: CampaignPlan,
) -> list[tuple[Kernel, Variant, JsonObject]]:
    """Return the score of the drawn mutants of each variant whose shards all have a result."""
    from tileproof.conformance.beside.mutate.parts import scored
    from tileproof.conformance.gate import campaign as campaigns
    from tileproof.conformance.gate.model import GatedVariant

    scores = []
    for kernel, variant in subjects:
        try:
            judged = campaigns.rows(wanted, found, GatedVariant(kernel, variant))
        except TileproofError as error:
            print_progress(str(error))
            continue
        built = kernel.build(variant)
        score = scored(kernel, variant, built, judged, seed=plan.seed, count=plan.drawn, profile=plan.profile)
        scores.append((kernel, variant, score))
    return scores


def _print(figures: Mapping[str, Json], results: Iterable[StoredResult]) -> None:
    """Print findings, surviving mutants and the summary as text."""
    for result in results:
        for finding in result.findings:
            print(f"{result.key}: {finding.message}\n  replay: {finding.replay}")
    for part in figures.get("mutation", ()):
        for row in part["survivors"]:
            print(f"survived: {json.dumps(row)}")
    shown = {name: value for name, value in figures.items() if name not in ("work", "mutation")}
    print(", ".join(f"{name} {value}" for name, value in shown.items()))
