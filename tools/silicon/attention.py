"""PyTorch's attention kernels on a card, many problems each, judged by the bounds of their plans.

    python -m tileproof.tools.silicon.attention evidence.json.xz [NAME ...] [--examples N] [--seconds N]

Problems of all kernels named (every one of the card's) are judged side by side, a few at a time, by
`--jobs` processes; the evidence is written again whenever some are done. A kernel that takes more than
`--kernel-seconds` of those processes, or starts its worker too often, is ended as incomplete with what it
has, and at `--seconds` everything is. Needs torch and no engine.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.pool import AsyncResult, Pool
from pathlib import Path

from tileproof.kernels.host.torch_cuda import card
from tileproof.spec.machine.types import Json, UncheckedObject
from tileproof.spec.problems.cases import OwnCase
from tileproof.tools import evidence
from tileproof.tools.silicon.attention_judged import Tally, smallest, surveyed, tallied

BY_HAND = "tileproof.tools.silicon.attention_by_hand"
AT_ONCE = 8  # problems of a task
MAX_STARTS = 60  # of a kernel's worker: a start is seconds
KEEP = 60.0  # of `--seconds`, for making failing problems smaller
WRITE_SECONDS = 3.0
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@dataclass
class KernelProgress:
    """How far a kernel is."""

    name: str
    survey: UncheckedObject | None = None
    cases: list[OwnCase] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    failing: dict[str, UncheckedObject] = field(default_factory=dict)
    given: int = 0  # problems in tasks that were given out
    running: int = 0  # of those tasks
    shrinking: set[str] = field(default_factory=set)
    ended: str = ""  # why no more of it runs

    def as_dict(self) -> UncheckedObject:
        """For the evidence file: whole only when every problem was judged."""
        if self.survey is None:
            return {"kernel": self.name, "complete": False, "ended": self.ended or "not begun"}
        if "refused" in self.survey:
            return self.survey
        whole = self.tally.done == len(self.cases)
        found = self.survey | self.tally.as_dict() | {"complete": whole, "of": len(self.cases)}
        if not whole:
            found["ended"] = self.ended or "the limit of the whole run"
        rows = {}
        for what, cases in self.tally.failing.items():
            least = self.failing.get(what, {"note": "not made smaller", "smallest": cases[0].as_json()})
            rows[what] = least | {"examples": len(cases), "cases": [case.as_json() for case in cases[:8]]}
        return found | {"failing": rows}


Found = dict[tuple[str, str], tuple[tuple[str, str], ...]]  # `card.FOUND`


def _tally(name: str, found: Found, cases: list[OwnCase], until: float) -> Tally:
    card.FOUND.update(found)
    return tallied(name, cases, until)


def _smallest(name: str, found: Found, cases: list[OwnCase], seconds: float) -> UncheckedObject:
    card.FOUND.update(found)
    return smallest(name, cases, seconds)


class SideBySide:
    """Kernels judged side by side within limits; `write` is called with the progress of all of them."""

    def __init__(
        self, names: Sequence[str], given: argparse.Namespace, write: Callable[[SideBySide], None]
    ) -> None:
        self.progress = [KernelProgress(name) for name in names]
        self._given, self._write, self._written = given, write, 0.0
        self._ends = time.time() + given.seconds
        self._judge_until = self._ends - min(KEEP, given.seconds / 4)
        self._tasks: list[tuple[AsyncResult[Json], Callable[[Json], None], KernelProgress]] = []

    def run(self) -> None:
        """Until everything is done, or at the limit."""
        with mp.get_context("fork").Pool(self._given.jobs) as pool:
            waiting = deque(self.progress)
            while time.time() < self._ends:
                self._collect()
                while len(self._tasks) < self._given.jobs and self._give(pool, waiting):
                    pass
                if not self._tasks and not waiting:
                    break
                if time.time() > self._written + WRITE_SECONDS:
                    self._write(self)
                    self._written = time.time()
                time.sleep(0.02)
            self._collect()
            pool.terminate()  # what still runs has had its time
        self._write(self)

    def _collect(self) -> None:
        waiting = []
        for task, then, progress in self._tasks:
            if not task.ready():
                waiting.append((task, then, progress))
                continue
            try:
                then(task.get())
            except Exception as error:
                progress.ended = f"{type(error).__name__}: {error}"[:400]
        self._tasks = waiting

    def _start(
        self,
        pool: Pool,
        kernel: KernelProgress,
        then: Callable[[Json], None],
        work: Callable[..., object],
        *arguments: object,
    ) -> bool:
        self._tasks.append((pool.apply_async(work, (kernel.name, *arguments)), then, kernel))
        return True

    def _give(self, pool: Pool, waiting: deque[KernelProgress]) -> bool:
        """Start the next task, if any: surveys first, then problems, then shrinking."""
        if waiting:
            progress = waiting.popleft()
            given = self._given
            return self._start(pool, progress, self._surveyed(progress), surveyed, given.examples, given.seed)
        for progress in self.progress:
            if progress.survey is None or progress.ended or progress.given >= len(progress.cases):
                continue
            if time.time() > self._judge_until:
                progress.ended = "the limit of the whole run"
            elif progress.tally.seconds > self._given.kernel_seconds:
                progress.ended = f"its limit of {self._given.kernel_seconds:g} s of processes"
            elif progress.tally.starts > MAX_STARTS:
                progress.ended = f"its worker was started more than {MAX_STARTS} times"
            else:
                cases = progress.cases[progress.given : progress.given + AT_ONCE]
                progress.given += len(cases)
                progress.running += 1
                found = progress.survey["found"]
                return self._start(
                    pool, progress, self._tallied(progress), _tally, found, cases, self._judge_until
                )
        for progress in self.progress:
            if (
                progress.survey is None
                or progress.running
                or not (progress.ended or progress.given >= len(progress.cases))
            ):
                continue
            for what, cases in progress.tally.failing.items():
                if what not in progress.shrinking:
                    progress.shrinking.add(what)
                    seconds = min(self._given.shrink_seconds, max(1.0, self._ends - time.time() - 10))
                    found = progress.survey["found"]
                    return self._start(
                        pool, progress, self._smaller(progress, what), _smallest, found, cases, seconds
                    )
        return False

    def _surveyed(self, kernel: KernelProgress) -> Callable[[Json], None]:
        def then(survey: UncheckedObject) -> None:
            kernel.cases = survey.pop("cases", [])
            kernel.survey = survey

        return then

    def _tallied(self, kernel: KernelProgress) -> Callable[[Json], None]:
        def then(tally: Tally) -> None:
            kernel.running -= 1
            kernel.tally.add(tally)

        return then

    def _smaller(self, kernel: KernelProgress, what: str) -> Callable[[Json], None]:
        def then(found: UncheckedObject) -> None:
            kernel.failing[what] = found

        return then


def main() -> None:
    """Judges the kernels named (all of them) side by side, and writes the evidence."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--examples", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=480.0, help="for everything")
    parser.add_argument("--kernel-seconds", type=float, default=1800.0, help="of processes, for a kernel")
    parser.add_argument("--shrink-seconds", type=float, default=20.0, help="for a kind of failure")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--no-hand", action="store_true", help="without the single calls by hand")
    given = parser.parse_args()
    os.environ |= ONE_THREAD
    # An evidence names no folder of the machine that made it.
    words = [given.output.name if word == str(given.output) else word for word in sys.argv[1:]]
    head: UncheckedObject = {"command": " ".join(words)}
    part = given.output.with_name(f"{given.output.name}.by-hand")
    hand = None if given.no_hand else subprocess.Popen([sys.executable, "-m", BY_HAND, str(part)])
    began = time.time()

    def write(run: SideBySide) -> None:
        if part.exists() and part.read_text().endswith("}\n"):
            head.update(json.loads(part.read_text()))
        kernels = {}
        for kernel in run.progress:
            row = kernel.as_dict()
            kernels[kernel.name] = {word: value for word, value in row.items() if word != "found"}
        whole = head | {"wall seconds": round(time.time() - began, 1), "kernels": kernels}
        evidence.write_json(given.output, whole)

    # Those that make a plan for every problem's sizes are slow, and begin first.
    names = given.names or sorted(card.kernels(), key=lambda name: "cudnn" not in name)
    run = SideBySide(names, given, write)
    run.run()
    if hand is not None:
        try:
            hand.wait(20)
        except subprocess.TimeoutExpired:
            hand.kill()
        write(run)
        part.unlink(missing_ok=True)
    for kernel in run.progress:
        row = kernel.as_dict()
        failing = {what: rows["examples"] for what, rows in row.get("failing", {}).items()}
        raised = {said: rows["examples"] for said, rows in row.get("raised", {}).items()}
        state = "complete" if row.get("complete") else row.get("ended", "")
        print(kernel.name, row.get("examples", ""), state, failing or row.get("refused", ""), raised or "")
        print("  refuses", row.get("refuses"))


if __name__ == "__main__":
    main()
