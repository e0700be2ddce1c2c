"""What one example of `check` costs: `python benchmarks/check.py [--kernel head64] [--examples 60]`.

Draws the examples of a seed as `check` does, without edges, and runs each under its schedule: CPU seconds of
this process, the best of `--rounds` of each example. `--write FILE` keeps each example's verdict (findings,
tiles, elements, exact elements, largest error / bound per stage); `--against FILE` compares with those that
another checkout wrote, and fails where one differs. `--profile` prints where the time goes.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import sys
import time
from pathlib import Path

from tileproof.conformance.check.runs import Run

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does

from tileproof.conformance.check import property as engine
from tileproof.conformance.check.run import KernelUnderTest, every_fourth, run_case
from tileproof.conformance.check.under_test import on_emulator
from tileproof.conformance.judging.judged_run import JudgedRun
from tileproof.kernels.registry import kernel, kernels
from tileproof.spec.machine.types import UncheckedObject


def as_row(verdict: JudgedRun) -> UncheckedObject:
    """What an example showed, as JSON."""
    return {
        "findings": [finding.as_dict() for finding in verdict.findings],
        "agreed": verdict.agreed,
        "remarks": dict(verdict.remarks),
        "scores": {
            name: [score.tiles, score.elements, score.exact, score.worst, score.unbounded]
            for name, score in verdict.scores.items()
        },
    }


def measure(
    under_test: KernelUnderTest, runs: list[Run], rounds: int
) -> tuple[list[float], list[UncheckedObject]]:
    """CPU seconds of each run, and what it showed."""
    run_case(under_test, *runs[0], explain=False)  # parses, decodes and builds
    best, rows = [], []
    for case, schedule in runs:
        took = []
        for _ in range(rounds):
            start = time.process_time()
            again = every_fourth(case, schedule)
            verdict = run_case(under_test, case, schedule, explain=False, again=again)
            took.append(time.process_time() - start)
        best.append(min(took))
        rows.append({"case": case.as_json(), "policy": schedule.policy, **as_row(verdict)})
    return best, rows


def main() -> None:
    """Prints the cost per example; exit code 1 where a verdict is not the other checkout's."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernel", default="head64", choices=sorted(kernels()))
    parser.add_argument("--examples", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, metavar="FILE")
    parser.add_argument("--against", type=Path, metavar="FILE")
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    found = kernel(args.kernel)
    under_test = on_emulator(found, found.variants[0])
    runs = engine.drawn(under_test.plan(), "all", args.seed, args.examples)
    profile = cProfile.Profile(time.process_time)
    if args.profile:
        run_case(under_test, *runs[0], explain=False)
        profile.enable()
    best, rows = measure(under_test, runs, args.rounds)
    profile.disable()
    print(f"{under_test.title()}: {sum(best) / len(best):.4f} s of CPU per example, {len(best)} examples")
    if args.profile:
        pstats.Stats(profile).sort_stats("cumtime").print_stats(45)
    if args.write:
        args.write.write_text(json.dumps(rows))
    if args.against:
        before = json.loads(args.against.read_text())
        unlike = [row["case"] for row, other in zip(rows, before, strict=True) if row != other]
        print(f"verdicts: {len(rows) - len(unlike)} of {len(rows)} the same")
        sys.exit(bool(unlike))


if __name__ == "__main__":
    main()
