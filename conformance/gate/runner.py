"""Runs each check in its own process: a check that crashes or is killed is reported, and the others
continue."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tileproof.conformance.gate.launch_files import GatedLaunch
from tileproof.conformance.gate.model import CheckReport, GateCheck, GatedVariant
from tileproof.conformance.gate.store import ResultStore, StoredResult, pack
from tileproof.conformance.processes.children import Children, ChildResult, until
from tileproof.conformance.verdict.contract import CheckOutcome
from tileproof.spec.machine.errors import TileproofError

Progress = Callable[[str], None]
STILL_S = 60.0  # a line of progress at least in this time


@dataclass(frozen=True)
class CheckJob:
    """A check of a kernel's variant; of the release `label` is empty."""

    check: GateCheck
    gated: GatedVariant | GatedLaunch
    label: str

    @property
    def key(self) -> str:
        """As `StoredResult.key`."""
        return f"{self.label}: {self.check.name}"


def outcome_of(job: CheckJob, report: CheckReport, seconds: float) -> StoredResult:
    """A check's report as it is stored."""
    check = CheckOutcome(
        name=job.check.name,
        required=job.check.required,
        outcome=report.outcome,
        reason=report.reason,
        details=report.details,
    )
    return StoredResult(
        job.label,
        check,
        tuple(report.findings),
        tuple(report.controls),
        pack(report.executed),
        {policy: tuple(seeds) for policy, seeds in sorted(report.schedules.items())},
        round(seconds, 3),
    )


def not_run(job: CheckJob, reason: str, fault: str = "", seconds: float = 0.0) -> StoredResult:
    """A check without an outcome, and why; `fault` where the tool failed."""
    name, required = job.check.name, job.check.required
    check = CheckOutcome(name, required, "not run", reason, fault)
    return StoredResult(job.label, check, seconds=round(seconds, 3))


def in_process(job: CheckJob) -> StoredResult:
    """Runs a check here; errors of the tool are its fault."""
    began = time.monotonic()
    if _of_no_meaning(job):
        optional = replace(job, check=replace(job.check, required=False))
        return not_run(optional, "a Python function has no PTX, and no schedule")
    try:
        report = job.check.run(job.gated)
    except TileproofError as error:
        return not_run(job, error.what, str(error), time.monotonic() - began)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = f"internal error: {type(error).__name__}: {error} ({last.name}, line {last.lineno})"
        return not_run(job, "the check did not finish", text, time.monotonic() - began)
    return outcome_of(job, report, time.monotonic() - began)


def skipped(job: CheckJob) -> StoredResult:
    """A check that was not selected."""
    return in_process(job) if _of_no_meaning(job) else not_run(job, "not selected (--only)")


def _of_no_meaning(job: CheckJob) -> bool:
    return job.gated.function and not (job.check.functions or job.check.release)


def run(
    jobs: Sequence[CheckJob],
    store: ResultStore,
    *,
    workers: int = 1,
    seconds: float = 0.0,
    keep_going: bool = True,
    progress: Progress = lambda line: None,
) -> dict[str, StoredResult]:
    """The result of each job, by key; what `store` already has is not run again.

    `seconds` (0: none) ends the checks that still run then. Without `keep_going` no check begins after a
    required one has failed. If the run ends early (also by an exception), no process remains, and the
    finished results are in the store.
    """
    results = {job.key: store.done[job.key] for job in jobs if job.key in store.done}
    waiting = [job for job in jobs if job.key not in results]
    total, deadline = len(jobs), time.monotonic() + seconds if seconds else None
    begun: list[CheckJob] = []
    stopped = ""

    def finish(stored_result: StoredResult) -> None:
        results[stored_result.key] = stored_result
        if stored_result.check.outcome != "not run" or stored_result.check.fault or not stopped:
            store.add(stored_result)
        why = f" ({stored_result.check.reason})" if stored_result.check.reason else ""
        what = "no result" if stored_result.check.fault else stored_result.check.outcome
        whose = f"{stored_result.gated or 'release'}: {stored_result.check.name}"
        progress(f"[{len(results)}/{total}] {whose}: {what}, {stored_result.seconds:.1f} s{why}")

    said = time.monotonic()
    with Children[StoredResult]() as children:
        while waiting or len(children):
            while waiting and len(children) < workers and not stopped:
                begun.append(waiting.pop(0))
                children.start(len(begun) - 1, partial(in_process, begun[-1]))
            if stopped and not len(children):
                break
            for number, result in children.ended(until(deadline)):
                finish(_collected(begun[number], result))
                said = time.monotonic()
            if len(children) and time.monotonic() - said > STILL_S:
                said = time.monotonic()
                running = ", ".join(job.key for job in begun if job.key not in results)
                progress(f"[{len(results)}/{total}] still running: {running}")
            failed = [r for r in results.values() if r.check.required and r.check.outcome == "failed"]
            if failed and not keep_going and not stopped:
                stopped = f"{failed[0].key} failed before (--keep-going runs all)"
            if deadline is not None and time.monotonic() > deadline:
                stopped = "--max-seconds were over"
                for number, took in children.end():
                    finish(not_run(begun[number], stopped, seconds=took))
    for job in waiting:
        results[job.key] = not_run(job, stopped)
    return results


def _collected(job: CheckJob, result: ChildResult[StoredResult]) -> StoredResult:
    """The result of a check's process; None if it died."""
    if result.value is not None:
        return result.value
    fault = result.fault or str(result.error)
    return not_run(job, "its process died", fault, result.seconds)
