"""`tileproof campaign`: many problems, schedules, planted and drawn mutants, over processes and machines."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click
from tileproof.conformance.check.property import Stopped
from tileproof.conformance.cli.gate import print_verdict
from tileproof.conformance.cli.seeds import seed_option
from tileproof.conformance.cli.stopping import closed_pipe_is_fine, stoppable
from tileproof.conformance.cli.variants import chosen, variant_options
from tileproof.conformance.report.terminal import tell
from tileproof.spec.machine.errors import TileproofError

DEFECT, COULD_NOT, INCOMPLETE = 1, 2, 3


@click.command()
@click.argument("kernels", nargs=-1, metavar="[KERNEL]...")
@variant_options
@click.option(
    "--examples", default=200, show_default=True, type=click.IntRange(0), help="Problems per variant."
)
@click.option("--schedules", default=200, show_default=True, type=click.IntRange(0), help="A variant.")
@click.option(
    "--mutants", default=0, show_default=True, type=click.IntRange(0), help="Planted ones per variant."
)
@click.option(
    "--drawn", default=0, show_default=True, type=click.IntRange(0),
    help="Mutants that the seed draws of each variant, as `tileproof mutate` does.",
)  # fmt: skip
@click.option(
    "--profile", default="quick", show_default=True, type=click.Choice(["quick", "full"]), help="Theirs."
)
@click.option("--shard", default=25, show_default=True, type=click.IntRange(1), help="Of these a shard.")
@seed_option("The first one")
@click.option("--scheduler", default="", metavar="tcp://HOST:PORT", help="Dask's; processes here without it.")
@click.option(
    "-j", "--jobs", default=0, show_default=True, type=click.IntRange(0), help="Processes; 0: per core."
)
@click.option(
    "--out", default="campaign", show_default=True, type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the results.",
)  # fmt: skip
@click.option(
    "--database", metavar="DIR",
    help="Failures that all workers share (Hypothesis's database); in --out without it.",
)  # fmt: skip
@click.option("--resume", is_flag=True, help="Go on with the results in --out.")
@click.option(
    "--into", type=click.Path(path_type=Path), metavar="EVIDENCE",
    help="The folder of an evidence of the gate, which gets the summary and the findings.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="The summary as JSON on standard output.")
def campaign(
    kernels: tuple[str, ...],
    variant: str | None,
    examples: int,
    schedules: int,
    mutants: int,
    drawn: int,
    profile: str,
    shard: int,
    seed: int,
    scheduler: str,
    jobs: int,
    out: Path,
    database: str | None,
    resume: bool,
    into: Path | None,
    as_json: bool,
) -> int:
    """Shard examples, schedules and mutants of the KERNELs over Dask workers; a lost worker loses no result.

    A drawn mutant that survives is told, and makes no verdict.

    Exit code 0: nothing wrong; 1: a defect; 3: it ended before its end; 2: a shard could not be run.
    """
    from tileproof.conformance.gate import campaign as campaigns
    from tileproof.conformance.gate import evidence
    from tileproof.conformance.gate.model import GatedVariant
    from tileproof.conformance.gate.reports import write_all
    from tileproof.conformance.gate.store import ResultStore, RunIdentity, write_whole
    from tileproof.conformance.mutate.parts import scored
    from tileproof.conformance.mutate.score import into as with_score
    from tileproof.conformance.verdict.program import program, tool_identity
    from tileproof.kernels import registry

    before = None if into is None else evidence.read(into)
    if into is not None and not into.is_dir():
        raise TileproofError("this is no folder of an evidence", where="--into", found=str(into))
    targets = [registry.compiled(name) for name in kernels] or registry.all_compiled()
    subjects = [(target, one) for target in targets for one in chosen(target, variant)]
    shared = str(Path(database).absolute()) if database else str((out / "examples").absolute())
    plan = campaigns.CampaignPlan(examples, schedules, mutants, shard, seed, shared, drawn, profile)
    programs = {}
    for target, one in subjects:
        tell(f"building {target.title(one)}")
        built = target.build(one)
        if target.probe:
            target.build(one, True)  # here, and not once on each worker
        programs[f"{target.name} {one}"] = program(target.name, {}, built.entry, built.ptx).ptx_sha256
    tool = tool_identity()
    ran = f"campaign {examples} {schedules} {mutants} by {shard}"
    ran += f", {drawn} drawn, {profile}" if drawn else ""
    identity = RunIdentity(ran, seed, False, "", programs, tool.commit, tool.changed)
    store = ResultStore(out / "results.jsonl", identity, resume)
    for note in store.notes:
        tell(note)
    wanted = campaigns.shards(subjects, plan)
    complete = True
    with stoppable():
        try:
            with campaigns.connected(scheduler, jobs or os.cpu_count() or 1) as client:
                found = campaigns.run(wanted, store, client, tell)
        except (KeyboardInterrupt, Stopped):
            complete, found = False, dict(store.done)
        finally:
            store.close()
    figures: dict[str, Any] = {**campaigns.summary(wanted, found), "complete": complete}
    scores = []
    for target, one in subjects if drawn else ():
        try:
            judged = campaigns.rows(wanted, found, GatedVariant(target, one))
        except TileproofError as error:
            tell(str(error))
            continue
        how: dict[str, Any] = {"seed": seed, "count": drawn, "profile": profile}
        scores.append((target, one, scored(target, one, target.build(one), judged, **how)))
    if scores:
        figures["mutation"] = [part for _, _, part in scores]
    write_whole(out / "summary.json", json.dumps(figures, indent=1) + "\n")
    with closed_pipe_is_fine():
        if as_json:
            print(json.dumps(figures, indent=1))
        else:
            for one_result in found.values():
                for defect in one_result.findings:
                    print(f"{one_result.key}: {defect.message}\n  replay: {defect.replay}")
            for part in figures.get("mutation", ()):
                for row in part["survivors"]:
                    print(f"survived: {json.dumps(row)}")
            told = {name: value for name, value in figures.items() if name not in ("work", "mutation")}
            print(", ".join(f"{name} {value}" for name, value in told.items()))
        if before is not None and into is not None:
            made = campaigns.merged(before, wanted, found, complete)
            for target, one, part in scores:
                made = with_score(made, target.name, dict(one.sizes), part)
            paths = write_all(made, into)
            if not as_json:
                print_verdict(made, paths)
    if figures["failed"]:
        return DEFECT
    return COULD_NOT if figures["without_result"] else 0 if complete else INCOMPLETE
