"""How fast schedules are explored: `python benchmarks/explore.py [--schedules 100] [--runs 3] [--json]`.

One query token of head64 over two k-blocks (s_q 1, topk 128), all policies mixed, two processes, with and
without race checking; the module is decoded once. Each figure is the median of the runs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tileproof.conformance.explore.explored import Explored
from tileproof.emulator.explore import explore
from tileproof.kernels.registry import kernel, kernels
from tileproof.spec.problems.sparse_mla_bwd.case import Indices, SparseCase
from tileproof.spec.problems.sparse_mla_bwd.inputs import B_TOPK


def measure(name: str, d_qk: int, blocks: int, schedules: int, runs: int, races: bool) -> dict[str, float]:
    """Seconds of a whole exploration (median, fastest, slowest) and the schedules a second."""
    entry = kernel(name)
    variant = entry.variant(d_qk=d_qk)
    case = SparseCase(
        d_qk, blocks * B_TOPK, blocks, (Indices("permuted"),), values="normal", h_q=int(variant["h_q"])
    )
    explored = Explored.of(entry, entry.build(variant), case)
    seconds = []
    for run in range(runs):
        result = explore(
            explored, schedules=schedules, seed=1000 * run, compare=explored.compare, races=races
        )
        assert not result.failed, result.causes[0].finding
        seconds.append(result.seconds)
    median = statistics.median(seconds)
    return {
        "seconds": median,
        "fastest": min(seconds),
        "slowest": max(seconds),
        "schedules_per_second": schedules / median,
        "scheduling_points": result.points,
    }


def main() -> None:
    """Prints a line per mode, or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernel", default="head64", choices=sorted(kernels()))
    parser.add_argument("--d-qk", type=int, default=576, choices=(512, 576))
    parser.add_argument("--blocks", type=int, default=2, help="k-blocks of the token")
    parser.add_argument("--schedules", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    figures = {
        "races" if races else "no races": measure(
            args.kernel, args.d_qk, args.blocks, args.schedules, args.runs, races
        )
        for races in (False, True)
    }
    if args.json:
        print(json.dumps({**vars(args), "modes": figures}, indent=1))
        return
    print(f"{args.kernel}, d_qk {args.d_qk}, {args.blocks} k-blocks, {args.schedules} schedules, 2 processes")
    for mode, f in figures.items():
        print(
            f"  {mode:<9} {f['seconds']:7.2f} s ({f['fastest']:.2f} .. {f['slowest']:.2f})"
            f"  {f['schedules_per_second']:6.1f} schedules/s of {f['scheduling_points']} scheduling points"
        )


if __name__ == "__main__":
    main()
