"""What race checking costs: `python benchmarks/races.py [--kernel head64] [--topk 512] [--runs 9] [--json]`.

One query token, random inputs, the same launch with and without `races`, alternately, under each schedule
policy; the figure is the ratio of the medians of whole launches, in processor time (a launch has one thread),
so that what else runs on the machine matters less.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

from engine import inputs
from tileproof.conformance.drivers import emulator
from tileproof.kernels.registry import kernel, kernels
from tileproof.spec.machine.schedule import Schedule

POLICIES = ("early", "late", "random")


def measure(name: str, d_qk: int, topk: int, policy: str, runs: int) -> dict[str, float]:
    """Median seconds of a launch without and with race checking, and their ratio."""
    entry = kernel(name)
    variant = entry.variant(d_qk=d_qk)
    launch = entry.launch(inputs(d_qk, topk, variant["h_q"]), entry.build(variant))
    plan = entry.plan(variant)
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for run in range(runs + 1):
        for races in (False, True):
            start = time.process_time()
            seen = emulator.run(launch, plan, schedule=Schedule(policy, run), taps=False, races=races)  # type: ignore[arg-type]
            took = time.process_time() - start
            assert not [f for f in seen.findings if f.severity != "note"], seen.findings
            if run:  # the first run parses and decodes the PTX
                seconds[races].append(took)
    plain, checked = (statistics.median(seconds[races]) for races in (False, True))
    return {"plain": plain, "checked": checked, "ratio": checked / plain}


def main() -> None:
    """Prints a line per policy, or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernel", default="head64", choices=sorted(kernels()))
    parser.add_argument("--d-qk", type=int, default=576, choices=(512, 576))
    parser.add_argument("--topk", type=int, default=512, help="keys of the token, a multiple of 64")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    figures = {policy: measure(args.kernel, args.d_qk, args.topk, policy, args.runs) for policy in POLICIES}
    if args.json:
        print(json.dumps({**vars(args), "policies": figures}, indent=1))
        return
    print(f"{args.kernel}, d_qk {args.d_qk}, one token, topk {args.topk}, median of {args.runs} pairs")
    for policy, f in figures.items():
        print(
            f"  {policy:<6} {f['plain'] * 1e3:8.1f} ms plain {f['checked'] * 1e3:8.1f} ms checked, "
            f"ratio {f['ratio']:.2f}"
        )


if __name__ == "__main__":
    main()
