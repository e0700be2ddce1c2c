"""`tileproof campaign`: many problems, schedules, planted and drawn mutants, over processes and machines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tileproof.conformance.check.stopped import Stopped
from tileproof.conformance.cli.gate import print_verdict
from tileproof.conformance.cli.given import expect_option, reference_of, refuse
from tileproof.conformance.cli.seeds import seed_option
from tileproof.conformance.cli.stopping import closed_pipe_is_fine, stoppable
from tileproof.conformance.cli.variants import chosen, variant_options
from tileproof.conformance.report.terminal import tell
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Json, JsonObject

if TYPE_CHECKING:
    from tileproof.conformance.gate.campaign import CampaignPlan, Shard
    from tileproof.conformance.gate.store import StoredResult
    from tileproof.kernels.kernel import Kernel
    from tileproof.kernels.launch.model import LaunchFile
    from tileproof.kernels.variant import Variant

DEFECT, COULD_NOT, INCOMPLETE = 1, 2, 3


@click.command()
@click.argument("kernels", nargs=-1, metavar="[KERNEL]...")
@variant_options
@click.option(
    "--examples", default=200, show_default=True, type=click.IntRange(0), help="Problems per variant."
)
@click.option(
    "--schedules",
    default=200,
    show_default=True,
    type=click.IntRange(0),
    help="Schedules to explore per variant.",
)
@click.option(
    "--planted", default=0, show_default=True, type=click.IntRange(0), help="Planted defects per variant."
)
@click.option(
    "--drawn", default=0, show_default=True, type=click.IntRange(0),
    help="Generated mutants per variant, as `tileproof mutate` draws them.",
)  # fmt: skip
@click.option(
    "--profile",
    default="quick",
    show_default=True,
    type=click.Choice(["quick", "full"]),
    help="Checks run on each generated mutant.",
)
@click.option(
    "--shard",
    default=25,
    show_default=True,
    type=click.IntRange(1),
    help="Examples, schedules or mutants per shard.",
)
@seed_option("First seed")
@click.option(
    "--scheduler", default="", metavar="tcp://HOST:PORT", help="Dask scheduler; without it, local processes."
)
@click.option(
    "-j",
    "--jobs",
    default=0,
    show_default=True,
    type=click.IntRange(0),
    help="Local processes; 0 for one per core.",
)
@click.option(
    "--out", default="campaign", show_default=True, type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the results.",
)  # fmt: skip
@click.option(
    "--database", metavar="DIR",
    help="Hypothesis database of failures, shared by all workers (default: in --out).",
)  # fmt: skip
@expect_option
@click.option("--resume", is_flag=True, help="Continue from the results in --out.")
@click.option(
    "--into", type=click.Path(path_type=Path), metavar="EVIDENCE",
    help="Add the summary and the findings to the gate's evidence in this folder.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="The summary as JSON on standard output.")
def campaign(
    kernels: tuple[str, ...],
    variant: str | None,
    examples: int,
    schedules: int,
    planted: int,
    drawn: int,
    profile: str,
    shard: int,
    seed: int,
    scheduler: str,
    jobs: int,
    out: Path,
    database: str | None,
    expect: str | None,
    resume: bool,
    into: Path | None,
    as_json: bool,
) -> int:
    """Distribute examples, schedules and mutants of the KERNELs over Dask workers.

    A KERNEL may be a launch file: a single case, whose shards are schedules and drawn mutants. Every worker
    must be able to read its path.

    No result is lost if a worker is lost. Surviving drawn mutants are reported, but do not change the
    verdict.

    Exit code 0: clean; 1: a defect; 3: interrupted; 2: a shard could not be run.
    """
    from tileproof.conformance.beside.mutate.score import into as with_score
    from tileproof.conformance.cases import resolve
    from tileproof.conformance.gate import campaign as campaigns
    from tileproof.conformance.gate import evidence
    from tileproof.conformance.gate.reports import write_all
    from tileproof.conformance.gate.store import ResultStore, RunIdentity, write_whole
    from tileproof.conformance.verdict.program import tool_identity
    from tileproof.kernels import registry
    from tileproof.kernels.launch.model import LaunchFile

    before = None if into is None else evidence.read(into)
    if into is not None and not into.is_dir():
        raise TileproofError("not a folder with the gate's evidence", where="--into", found=str(into))
    found_all = [(name, resolve.compiled(name)) for name in kernels]
    files = [(name, item) for name, item in found_all if isinstance(item, LaunchFile)]
    given = [item for _, item in found_all if not isinstance(item, LaunchFile)]
    chosen_kernels = given or ([] if files else registry.all_compiled())
    reference_of(expect)
    if expect and not files:
        refuse("a campaign without launch files", {"--expect": expect})
    subjects = [
        (kernel, chosen_variant) for kernel in chosen_kernels for chosen_variant in chosen(kernel, variant)
    ]
    shared = str(Path(database).absolute()) if database else str((out / "examples").absolute())
    plan = campaigns.CampaignPlan(examples, schedules, planted, shard, seed, shared, drawn, profile)
    programs = _programs(subjects, files)
    tool = tool_identity()
    ran = f"campaign {examples} {schedules} {planted} by {shard}"
    ran += f", {drawn} drawn, {profile}" if drawn else ""
    identity = RunIdentity(ran, seed, False, "", programs, tool.commit, tool.changed)
    store = ResultStore(out / "results.jsonl", identity, resume)
    for note in store.notes:
        tell(note)
    wanted = campaigns.shards(subjects, plan)
    for name, _ in files:
        wanted += campaigns.file_shards(name, expect or "", plan)
    complete = True
    with stoppable():
        try:
            with campaigns.connected(scheduler, jobs or os.cpu_count() or 1) as client:
                found = campaigns.run(wanted, store, client, tell)
        except (KeyboardInterrupt, Stopped):
            complete, found = False, dict(store.done)
        finally:
            store.close()
    figures: JsonObject = {**campaigns.summary(wanted, found), "complete": complete}
    scores = _scores(subjects, wanted, found, plan) if drawn else []
    mutation = [part for _, _, part in scores]
    mutation += [campaigns.mutants_of_file(wanted, found, name) for name, _ in files if drawn]
    figures |= {"mutation": mutation} if mutation else {}
    write_whole(out / "summary.json", json.dumps(figures, indent=1) + "\n")
    with closed_pipe_is_fine():
        if as_json:
            print(json.dumps(figures, indent=1))
        else:
            _print(figures, found.values())
        if before is not None and into is not None:
            made = campaigns.merged(before, wanted, found, complete)
            for kernel, chosen_variant, part in scores:
                made = with_score(made, kernel.name, dict(chosen_variant.sizes), part)
            paths = write_all(made, into)
            if not as_json:
                print_verdict(made, paths)
    failed = DEFECT if figures["failed"] else COULD_NOT if figures["without_result"] else 0
    return failed or (0 if complete else INCOMPLETE)


def _programs(
    subjects: Sequence[tuple[Kernel, Variant]], files: Sequence[tuple[str, LaunchFile]]
) -> dict[str, str]:
    """Build every kernel, here and not on each worker; return the hash of the PTX of each subject."""
    from tileproof.conformance.launches.modules import load
    from tileproof.conformance.verdict.program import program

    programs = {}
    for kernel, variant in subjects:
        tell(f"building {kernel.title(variant)}")
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
            tell(str(error))
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
