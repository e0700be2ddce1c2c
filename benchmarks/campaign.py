"""What a second worker is worth: `python benchmarks/campaign.py [--kernel head128-part0] [--runs 2]`.

Runs the same `tileproof campaign` with one worker and with two, alternately, each with results of its own,
and samples the CPU seconds of every process under it. Two ratios are printed: of the clock, which means
something on an idle machine only, and by CPU seconds: one worker and its parent, against the busier of two
workers and theirs. `share` is how much of the cores that it may use a campaign got.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

STEP_S = 0.1


@dataclass(frozen=True)
class Ran:
    """One campaign: seconds of the clock, CPU seconds of the parent with what serves it, and of workers."""

    wall: float
    parent: float
    workers: tuple[float, ...]

    @property
    def path(self) -> float:
        """CPU seconds that come one after another at least."""
        return self.parent + max(self.workers, default=0.0)


def campaign(kernel: str, examples: int, schedules: int, shard: int, workers: int, out: Path) -> Ran:
    """Runs it, and looks on."""
    words = [
        sys.executable, "-m", "tileproof.conformance.cli", "campaign", kernel, "--examples", str(examples),
        "--schedules", str(schedules), "--shard", str(shard), "-j", str(workers), "--out", str(out), "--json",
    ]  # fmt: skip
    began = time.monotonic()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    used: dict[int, float] = {}
    above: dict[int, int] = {}
    root = psutil.Process(process.pid)
    while process.poll() is None:
        try:
            for child in (root, *root.children(recursive=True)):
                times = child.cpu_times()
                used[child.pid] = times.user + times.system
                above.setdefault(child.pid, child.ppid())
        except psutil.Error:
            pass  # it ended meanwhile
        time.sleep(STEP_S)
    wall = time.monotonic() - began
    if process.returncode:
        raise SystemExit(
            f"the campaign ended with {process.returncode}:\n{process.stderr and process.stderr.read()}"
        )
    return _ran(wall, process.pid, used, above)


def _ran(wall: float, root: int, used: dict[int, float], above: dict[int, int]) -> Ran:
    """Which process belongs to which worker: those directly under the parent that work are the workers."""
    own: dict[int, float] = {}
    for pid, seconds in used.items():
        top = pid
        while above.get(top) not in (None, root) and top != root:
            top = above[top]
        own[top] = own.get(top, 0.0) + seconds
    parent = own.pop(root, 0.0)
    busy = {pid: seconds for pid, seconds in own.items() if seconds > 0.1 * max(own.values(), default=0.0)}
    return Ran(wall, parent + sum(own.values()) - sum(busy.values()), tuple(sorted(busy.values())))


def main() -> None:
    """Prints both ratios, and how loaded the machine was."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kernel", default="head128-part0")
    parser.add_argument("--examples", type=int, default=120)
    parser.add_argument("--schedules", type=int, default=120)
    parser.add_argument("--shard", type=int, default=10)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    ran: dict[int, list[Ran]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as folder:  # compiles
        campaign(given.kernel, 1, 1, 1, 1, Path(folder) / "first")
    for number in range(given.runs):
        for workers in (1, 2):
            with tempfile.TemporaryDirectory() as folder:
                out = Path(folder) / f"{workers}-{number}"
                ran[workers].append(
                    campaign(given.kernel, given.examples, given.schedules, given.shard, workers, out)
                )
    best = {workers: min(them, key=lambda campaign: campaign.path) for workers, them in ran.items()}
    row = {
        "kernel": given.kernel,
        "by the clock": statistics.median(campaign.wall for campaign in ran[1])
        / statistics.median(campaign.wall for campaign in ran[2]),
        "by CPU seconds": best[1].path / best[2].path,
        "CPU seconds": {
            str(workers): {"parent": campaign.parent, "workers": campaign.workers, "clock": campaign.wall}
            for workers, campaign in best.items()
        },
        "share": {
            str(workers): (campaign.parent + sum(campaign.workers)) / campaign.wall / workers
            for workers, campaign in best.items()
        },
        "load": os.getloadavg()[0],
    }
    print(
        json.dumps(row, indent=1)
        if given.json
        else "\n".join(f"{name}: {value}" for name, value in row.items())
    )


if __name__ == "__main__":
    main()
