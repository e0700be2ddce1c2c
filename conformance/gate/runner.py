"""Runs checks, each in a process of its own: one that crashes or is killed is named, and the others go on."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from tileproof.conformance.gate.model import CheckReport, GateCheck, GatedVariant
from tileproof.conformance.gate.store import ResultStore, StoredResult, pack
from tileproof.conformance.verdict.contract import CheckOutcome
from tileproof.spec.machine.errors import TileproofError

Progress = Callable[[str], None]
LOOK_S = 0.25
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class CheckJob:
    """A check of a kernel's variant; of the release `label` is empty."""

    check: GateCheck
    gated: GatedVariant
    label: str

    @property
    def key(self) -> str:
        """As `StoredResult.key`."""
        return f"{self.label}: {self.check.name}"


@dataclass
class _Running:
    job: CheckJob
    process: Any
    pipe: Connection
    began: float


def outcome_of(job: CheckJob, report: CheckReport, seconds: float) -> StoredResult:
    """A check's report as it is stored."""
    check = CheckOutcome(
        name=job.check.name,
        required=job.check.required,
        outcome=report.outcome,
        reason=report.reason,
        seconds=round(seconds, 3),
        details=report.details,
    )
    return StoredResult(
        job.label,
        check,
        tuple(report.findings),
        tuple(report.controls),
        pack(report.executed),
        {policy: tuple(seeds) for policy, seeds in sorted(report.schedules.items())},
    )


def not_run(job: CheckJob, reason: str, fault: str = "", seconds: float = 0.0) -> StoredResult:
    """A check without an outcome, and why; `fault` where the tool failed."""
    name, required = job.check.name, job.check.required
    return StoredResult(job.label, CheckOutcome(name, required, "not run", reason, fault, round(seconds, 3)))


def in_process(job: CheckJob) -> StoredResult:
    """Runs a check here; errors of the tool are its fault."""
    began = time.monotonic()
    try:
        report = job.check.run(job.gated)
    except TileproofError as error:
        return not_run(job, error.what, str(error), time.monotonic() - began)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = f"internal error: {type(error).__name__}: {error} ({last.name}, line {last.lineno})"
        return not_run(job, "the check did not finish", text, time.monotonic() - began)
    return outcome_of(job, report, time.monotonic() - began)


def _child(job: CheckJob, pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to every process of the terminal
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    with contextlib.suppress(BrokenPipeError):
        pipe.send(in_process(job))
    pipe.close()
    sys.stderr.flush()
    os._exit(0)  # what the parent's libraries do at exit is the parent's affair


def died(code: int | None) -> str:
    """How a process ended that gave no result."""
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with code {code} and gave no result"


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

    `seconds` (0: none) ends what still runs then. Without `keep_going` no check begins after a required one
    has failed. Whatever ends the run early (an exception too), no process is left behind, and what was
    finished is in the store.
    """
    results = {job.key: store.done[job.key] for job in jobs if job.key in store.done}
    waiting = [job for job in jobs if job.key not in results]
    total, deadline = len(jobs), time.monotonic() + seconds if seconds else None
    running: list[_Running] = []
    context = multiprocessing.get_context("fork")
    stopped = ""

    def finish(one: StoredResult) -> None:
        results[one.key] = one
        if one.check.outcome != "not run" or one.check.fault or not stopped:
            store.add(one)
        told = f" ({one.check.reason})" if one.check.reason else ""
        what = "no result" if one.check.fault else one.check.outcome
        whose = f"{one.gated or 'release'}: {one.check.name}"
        progress(f"[{len(results)}/{total}] {whose}: {what}, {one.check.seconds:.1f} s{told}")

    try:
        while waiting or running:
            while waiting and len(running) < workers and not stopped:
                job = waiting.pop(0)
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=_child, args=(job, theirs))
                # What a signal raises inside a hook of fork is lost: it waits until the child is there.
                before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
                try:
                    process.start()
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, before)
                theirs.close()
                running.append(_Running(job, process, ours, time.monotonic()))
            if stopped and not running:
                break
            left = LOOK_S if deadline is None else min(LOOK_S, max(deadline - time.monotonic(), 0.0))
            ready = set(wait([one.pipe for one in running], left))
            for one in [r for r in running if r.pipe in ready]:
                running.remove(one)
                finish(_received(one))
            failed = [r for r in results.values() if r.check.required and r.check.outcome == "failed"]
            if failed and not keep_going and not stopped:
                stopped = f"{failed[0].key} failed before (--keep-going runs all)"
            if deadline is not None and time.monotonic() > deadline:
                stopped = "--max-seconds were over"
                for one in running:
                    _end(one)
                    finish(not_run(one.job, stopped, seconds=time.monotonic() - one.began))
                running = []
    finally:
        for one in running:
            _end(one)
    for job in waiting:
        results[job.key] = not_run(job, stopped)
    return results


def _received(one: _Running) -> StoredResult:
    seconds = time.monotonic() - one.began
    try:
        result: StoredResult = one.pipe.recv()
    except (EOFError, OSError):
        one.process.join()
        return not_run(one.job, "its process died", died(one.process.exitcode), seconds)
    finally:
        one.pipe.close()
    one.process.join()
    return result


def _end(one: _Running) -> None:
    """Ends the process of a check."""
    one.process.terminate()
    one.process.join(5)
    if one.process.is_alive():
        one.process.kill()
        one.process.join()
    one.pipe.close()
