"""Campaigns: problems, schedules, planted and drawn mutants in shards over processes and machines, with Dask.

A shard is a few words (which kernel, what, which seed); its result is stored when it arrives. Dask runs the
shards of a worker that is lost again on another one.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hypothesis.database import DirectoryBasedExampleDatabase
from tileproof.conformance.cases.resolve import launch_file
from tileproof.conformance.check import property as checking
from tileproof.conformance.check.result import Failure
from tileproof.conformance.explore.launch_file import ExploredLaunch
from tileproof.conformance.gate import runner
from tileproof.conformance.gate.checks import controls
from tileproof.conformance.gate.checks.schedules import explored, explored_kernel
from tileproof.conformance.gate.checks.stages import figures, replay
from tileproof.conformance.gate.evidence import ReleaseEvidence, again
from tileproof.conformance.gate.launch_files import GatedLaunch
from tileproof.conformance.gate.model import CheckReport, GateCheck, Gated, GatedVariant
from tileproof.conformance.gate.runner import CheckJob, not_run
from tileproof.conformance.gate.store import ResultStore, StoredResult
from tileproof.conformance.judging import reference as references
from tileproof.conformance.verdict import contract, jsonform
from tileproof.conformance.verdict.contract import CheckOutcome, VerdictRecord, decided
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.registry import kernel
from tileproof.kernels.variant import Variant
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding_text import headline
from tileproof.spec.machine.schedule import SEEDED, Schedule
from tileproof.spec.machine.types import Json, JsonObject, JsonValue

if TYPE_CHECKING:
    from distributed import Client, Future


Work = Literal["known failures", "examples", "schedules", "planted defect", "drawn mutants"]
INSTALL = "pip install 'tileproof[campaign]' (in a checkout: make setup)"
NAME = "campaign"
DRAWN: Literal["drawn mutants"] = "drawn mutants"
PLANTED: Literal["planted defect"] = "planted defect"
_JUDGED = (0, 1)  # exit codes of `tileproof mutate`: each was found; one survived
LOST = 3  # workers that a shard may take with it before it counts as the reason


@dataclass(frozen=True)
class Shard:
    """A part of a campaign: `number` of this kind of work on a variant, `count` examples or schedules from
    `seed` on, the planted defect `planted`, or `count` of the mutants that `seed` draws, from number `first`
    on, in a profile of `tileproof mutate`; `database` is the folder of known failures, "" for none.

    Of a launch file `kernel` is its path and `file` true; `expect` is the reference as on the command line.
    """

    kernel: str
    sizes: Mapping[str, int]
    work: Work
    number: int
    seed: int
    count: int
    planted: str = ""
    database: str = ""
    first: int = 0
    profile: str = ""
    file: bool = False
    expect: str = ""

    @property
    def name(self) -> str:
        """Its name among the shards of its variant."""
        return f"{self.work} {self.planted or self.number}"


@dataclass(frozen=True)
class CampaignPlan:
    """What a campaign runs on each variant: examples, schedules and drawn mutants, cut into shards, and
    planted defects. `profile` is that of the drawn mutants.
    """

    examples: int = 200
    schedules: int = 200
    planted: int = 0
    a_shard: int = 25
    seed: int = 0
    database: str = ""
    drawn: int = 0
    profile: str = "quick"


def shards(kernels: Sequence[tuple[Kernel, Variant]], plan: CampaignPlan) -> list[Shard]:
    """The shards of all variants, the most likely to fail first."""
    made: list[Shard] = []
    for target, variant in kernels:
        sizes = dict(variant.sizes)
        if plan.database:
            made.append(Shard(target.name, sizes, "known failures", 0, plan.seed, 0, "", plan.database))
        kinds: tuple[tuple[Work, int], ...] = (("examples", plan.examples), ("schedules", plan.schedules))
        for work, total in kinds:
            for number, first in enumerate(range(0, total, plan.a_shard)):
                count = min(plan.a_shard, total - first)
                # Schedules are numbered by seeds from the first on; problems are drawn anew from each seed.
                seed = plan.seed + (number if work == "examples" else first)
                made.append(Shard(target.name, sizes, work, number, seed, count, "", plan.database))
        gated = GatedVariant(target, variant)
        own = [defect for defect in target.defects() if controls.of_variant(gated, defect)]
        for number, defect in enumerate(own[: plan.planted]):
            made.append(Shard(target.name, sizes, PLANTED, number, plan.seed, 0, defect.id, plan.database))
        for number, first in enumerate(range(0, plan.drawn, plan.a_shard)):
            count = min(plan.a_shard, plan.drawn - first)
            made.append(
                Shard(target.name, sizes, DRAWN, number, plan.seed, count, "", "", first, plan.profile)
            )
    return made


def file_shards(path: str, expect: str, plan: CampaignPlan) -> list[Shard]:
    """The shards of a launch file, which is one case: its schedules and drawn mutants."""
    made: list[Shard] = []
    for number, first in enumerate(range(0, plan.schedules, plan.a_shard)):
        count = min(plan.a_shard, plan.schedules - first)
        made.append(Shard(path, {}, "schedules", number, plan.seed + first, count, file=True, expect=expect))
    for number, first in enumerate(range(0, plan.drawn, plan.a_shard)):
        count = min(plan.a_shard, plan.drawn - first)
        made.append(
            Shard(path, {}, DRAWN, number, plan.seed, count, "", "", first, plan.profile, True, expect)
        )
    return made


def gated_by(shard: Shard) -> GatedVariant | GatedLaunch:
    """What a shard is about."""
    if shard.file:
        reference = references.load(shard.expect) if shard.expect else None
        return GatedLaunch(shard.kernel, launch_file(Path(shard.kernel)), reference)
    target = kernel(shard.kernel)
    return GatedVariant(target, target.variant(**shard.sizes), seed=shard.seed)


# ---- on a worker


def run_shard(data: Mapping[str, JsonValue]) -> Json:
    """The result of a shard; both are plain data, to be sent between processes."""
    # Dask's own threads draw from the module `random`; problems are drawn from a generator of their own.
    warnings.filterwarnings("ignore", message="Do not use the `random` module inside strategies")
    shard = jsonform.parse(Shard, dict(data), "shard")
    return jsonform.dump(runner.in_process(_job(shard, gated_by(shard))))


def _job(shard: Shard, gated: GatedVariant | GatedLaunch) -> CheckJob:
    def work(gated: Gated) -> CheckReport:
        return _WORK[shard.work](shard, gated)

    return CheckJob(GateCheck(shard.name, "", "quick", True, False, work), gated, gated.key)


def _examples(shard: Shard, gated: GatedVariant) -> CheckReport:
    report = checking.check(
        gated.under_test, examples=shard.count, seed=shard.seed, with_edges=False, shrink_seconds=20.0
    )
    seeds: dict[str, list[int]] = {}
    for schedule in report.schedules:
        seeds.setdefault(schedule.policy, []).append(schedule.seed if schedule.policy in SEEDED else 0)
    made = CheckReport("passed", details=figures(report), executed=report.executed, schedules=seeds)
    if report.failure:
        _failed(shard, gated, made, report.failure)
        if shard.database:
            known_failures(shard.database).save(_key(gated), _encoded(report.failure))
    return made


def _failed(shard: Shard, gated: GatedVariant, made: CheckReport, failure: Failure) -> None:
    command = shlex.join(replay(gated, failure))
    made.outcome = "failed"
    made.findings += [replace(finding, check=shard.name, replay=command) for finding in failure.findings]
    made.reason = headline(made.findings[0])


def _schedules(shard: Shard, gated: GatedVariant | GatedLaunch) -> CheckReport:
    if isinstance(gated, GatedVariant):
        return explored_kernel(gated, shard.count, shard.seed, shard.name, 0.0, sample=True)
    case = ExploredLaunch(gated.file, gated.reference)
    words = ["tileproof", "explore", shard.kernel, *([f"--expect={shard.expect}"] if shard.expect else [])]
    made = explored(case, words, shard.count, shard.seed, shard.name, 0.0, sample=True)
    if made.outcome == "passed":  # the schedules agree: the values of one are those of all
        early = Schedule("early")
        replay = shlex.join([*words, "--schedule", str(early)])
        made.findings = [replace(finding, check=shard.name, replay=replay) for finding in case.wrong(early)]
        if made.findings:
            made.outcome, made.reason = "failed", headline(made.findings[0])
    made.details["not_judged"] = list(case.not_judged)
    return made


def _planted(shard: Shard, gated: GatedVariant) -> CheckReport:
    defect = next(defect for defect in gated.kernel.defects() if defect.id == shard.planted)
    tried = controls.planted(gated, defect)
    wrong = (
        ""
        if tried.fired
        else f"{defect.id} was found as {tried.found or 'no finding'}, expected was {tried.expected}"
    )
    return CheckReport.of(wrong, controls=[tried])


def _drawn(shard: Shard, gated: GatedVariant | GatedLaunch) -> CheckReport:
    """Judges drawn mutants, as `tileproof mutate` does, in a process of its own: it forks and limits the
    resources of a mutant. A survivor is about the checks and does not change the verdict on the kernel.
    """
    end = shard.first + shard.count
    sizes = ",".join(f"{name}={size}" for name, size in shard.sizes.items())
    words = [
        *("mutate", shard.kernel, *(["--variant", sizes] if sizes else [])),
        *([f"--expect={shard.expect}"] if shard.expect else []),
        *("--seed", str(shard.seed), "--count", str(end), "--json"),
        *("--profile", shard.profile, *(f"--only={number}" for number in range(shard.first, end))),
    ]
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "tileproof.conformance.cli", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode not in _JUDGED:
        raise TileproofError(
            "the mutants could not be judged",
            where=shlex.join(["tileproof", *words]),
            found=ran.stderr.strip().rpartition("\n")[2] or f"exit code {ran.returncode}",
        )
    return CheckReport("passed", details={"mutants": json.loads(ran.stdout)["mutants"]})


def rows(wanted: Sequence[Shard], found: Mapping[str, StoredResult], gated: GatedVariant) -> list[JsonObject]:
    """What became of a variant's drawn mutants; TileproofError where a shard of them has no result."""
    judged: list[JsonObject] = []
    sizes = dict(gated.variant.sizes)
    for shard in wanted:
        if shard.work != DRAWN or (shard.kernel, dict(shard.sizes)) != (gated.kernel.name, sizes):
            continue
        result = found.get(_job(shard, gated).key)
        if result is None or result.check.fault:
            raise TileproofError(
                "the drawn mutants have no score",
                where=_job(shard, gated).key,
                found="it did not run" if result is None else result.check.fault,
                do="continue with --resume",
            )
        judged += result.check.details["mutants"]
    return judged


def mutants_of_file(wanted: Sequence[Shard], found: Mapping[str, StoredResult], path: str) -> JsonObject:
    """How many drawn mutants of a launch file have each outcome, and the survivors."""
    own = [shard for shard in wanted if shard.work == DRAWN and shard.kernel == path]
    results = [found.get(_job(shard, gated_by(shard)).key) for shard in own]
    judged = [
        row for result in results if result is not None for row in result.check.details.get("mutants", ())
    ]
    return {
        "launch file": path,
        "outcomes": dict(Counter(row["outcome"] for row in judged)),
        "survivors": [row for row in judged if row["outcome"] == "survived"],
    }


def _known(shard: Shard, gated: GatedVariant) -> CheckReport:
    """Runs again what failed before, here or elsewhere; what no longer fails is forgotten."""
    database, key = known_failures(shard.database), _key(gated)
    made = CheckReport("passed")
    tried = 0
    for value in sorted(database.fetch(key)):
        try:
            data = dict(json.loads(value))
            case = gated.plan.problem.generator.from_json(str(data["case"]))
            schedule = Schedule(data["policy"], data["seed"])
        except (ValueError, KeyError, TileproofError):
            database.delete(key, value)  # of another version
            continue
        tried += 1
        report = checking.replay(gated.under_test, case, schedule)
        if report.failure is None:
            database.delete(key, value)
        else:
            _failed(shard, gated, made, report.failure)
    made.details["known"] = tried
    return made


_WORK: dict[Work, Callable[[Shard, Gated], CheckReport]] = {
    "examples": _examples,
    "schedules": _schedules,
    PLANTED: _planted,
    DRAWN: _drawn,
    "known failures": _known,
}


def known_failures(folder: str) -> DirectoryBasedExampleDatabase:
    """Hypothesis's database in a folder that all workers see; its values are cases and schedules as JSON."""
    return DirectoryBasedExampleDatabase(folder)


def _key(gated: GatedVariant) -> bytes:
    return f"tileproof {gated.key}".encode()


def _encoded(failure: Failure) -> bytes:
    schedule = failure.schedule
    data = {"case": failure.case.as_json(), "policy": schedule.policy, "seed": schedule.seed}
    return json.dumps(data, sort_keys=True).encode()


# ---- the campaign


@contextlib.contextmanager
def connected(scheduler: str, workers: int) -> Iterator[Client]:
    """A Dask client: of the scheduler at an address, or of a cluster of processes here, for as long as it
    lasts.

    TileproofError if Dask is not installed or the scheduler does not answer.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise TileproofError(
            "Dask is not installed", where="campaign", found=str(error), do=INSTALL
        ) from None
    import dask

    dask.config.set(
        {"distributed.scheduler.allowed-failures": LOST, "distributed.comm.timeouts.connect": "5s"}
    )
    try:
        made = (
            Client(scheduler)
            if scheduler
            else Client(
                LocalCluster(
                    n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None,
                    silence_logs=50,
                )
            )
        )  # fmt: skip
    except (OSError, ValueError) as error:
        raise TileproofError(
            "the scheduler cannot be reached",
            where=f"--scheduler {scheduler}",
            found=str(error),
            do="start one with `dask scheduler`, and workers with `dask worker ADDRESS --nthreads 1`",
        ) from None
    try:
        yield made
    finally:
        if made.cluster is not None:
            made.cluster.close()
        made.close()


def run(
    wanted: Sequence[Shard],
    store: ResultStore,
    client: Client,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, StoredResult]:
    """The result of each shard by key; those in `store` are not run again, what arrives is stored."""
    from distributed import as_completed

    found: dict[str, StoredResult] = {}
    futures: dict[Future, tuple[Shard, CheckJob]] = {}
    for shard in wanted:
        job = _job(shard, gated_by(shard))
        if job.key in store.done:
            found[job.key] = store.done[job.key]
        else:
            futures[client.submit(run_shard, jsonform.dump(shard), pure=False)] = (shard, job)
    for future in as_completed(list(futures)):
        shard, job = futures[future]
        try:
            result = jsonform.parse(StoredResult, future.result(), job.key)
        except Exception as error:  # Dask's, and whatever a worker raised
            result = not_run(job, "its worker died" if _killed(error) else "it could not be run", str(error))
        store.add(result)
        found[job.key] = result
        why = f" ({result.check.reason})" if result.check.reason else ""
        progress(f"[{len(found)}/{len(wanted)}] {job.key}: {result.check.outcome}{why}")
    return found


def _killed(error: Exception) -> bool:
    return type(error).__name__ == "KilledWorker"


def summary(wanted: Sequence[Shard], found: Mapping[str, StoredResult]) -> JsonObject:
    """What a campaign did, for the evidence: the same whatever the workers."""
    outcomes = [stored_result.check.outcome for stored_result in found.values()]
    work: dict[str, int] = {}
    for shard in wanted:
        work[shard.work] = work.get(shard.work, 0) + max(shard.count, 1)
    return {
        "shards": len(wanted),
        "finished": len(found),
        "passed": outcomes.count("passed"),
        "failed": outcomes.count("failed"),
        "without_result": sum(bool(stored_result.check.fault) for stored_result in found.values()),
        "work": dict(sorted(work.items())),
    }


def verdict_with(
    verdict: VerdictRecord, results: Sequence[StoredResult], figures: Mapping[str, JsonValue]
) -> VerdictRecord:
    """The verdict on a variant with what a campaign found on it; an earlier campaign's part is replaced."""
    results = sorted(results, key=lambda result: result.key)
    failed = [result for result in results if result.check.outcome == "failed"]
    faults = [f"{result.key}: {result.check.fault}" for result in results if result.check.fault]
    outcome: contract.Outcome = "failed" if failed else "not run" if faults else "passed"
    check = CheckOutcome(
        NAME, True, outcome, failed[0].check.reason if failed else "", "" if failed else "; ".join(faults)
    )
    new = tuple(replace(found, check=NAME) for result in results for found in result.findings)
    findings = (*(found for found in verdict.findings if found.check != NAME), *new)
    checks = (*(old for old in verdict.checks if old.name != NAME), check)
    controls_of = {control.id: control for control in verdict.controls}
    controls_of |= {control.id: control for result in results for control in result.controls}
    word, why = decided(
        checks=checks, findings=findings, coverage=verdict.coverage, controls=tuple(controls_of.values())
    )
    return replace(
        verdict,
        verdict=word,
        exit_code=contract.EXIT_CODES[word],
        why=why,
        checks=checks,
        findings=findings,
        controls=tuple(controls_of.values()),
        sections={**verdict.sections, NAME: dict(figures)},
    )


def _program(shard: Shard) -> tuple[str, tuple[tuple[str, int], ...]]:
    """(name, sizes) of the program that a shard is about, as a verdict has them."""
    gated = gated_by(shard)
    name = gated.file.name if isinstance(gated, GatedLaunch) else shard.kernel
    return name, tuple(sorted(shard.sizes.items()))


def merged(
    made: ReleaseEvidence, wanted: Sequence[Shard], found: Mapping[str, StoredResult], complete: bool
) -> ReleaseEvidence:
    """The evidence with a campaign in it. TileproofError where it does not judge one of the kernels."""
    verdicts = []
    remaining = {_program(shard) for shard in wanted}
    for record in made.kernels:
        name = (record.program.kernel, tuple(sorted(record.program.variant.items())))
        if name not in remaining:
            verdicts.append(record)
            continue
        remaining.remove(name)
        own = [shard for shard in wanted if _program(shard) == name]
        key = gated_by(own[0]).key
        results = [result for result in found.values() if result.gated == key]
        verdicts.append(verdict_with(record, results, summary(own, {r.key: r for r in results})))
    if remaining:
        raise TileproofError(
            "the evidence does not judge a kernel of the campaign",
            where="--into",
            expected=", ".join(name for name, _ in sorted(remaining)),
            found=", ".join(record.program.kernel for record in made.kernels),
        )
    sections = {**made.sections, NAME: summary(wanted, found)}
    return again(made, verdicts, complete=complete, sections=sections)
