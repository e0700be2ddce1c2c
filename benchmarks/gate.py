"""What certificates save in the gate: `python benchmarks/gate.py [KERNEL ...] [--profile full] [--json]`.

Each check of each kernel (first variant) runs twice in a process of its own: with certificates, and with each
certificate refused, so that all schedules are sampled. The figures are CPU seconds, child processes included.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import defaultdict
from typing import get_args

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does

from checkouts import in_child  # benchmarks/checkouts.py
from tileproof.conformance.gate.model import GateCheck, GatedVariant, Profile, checks
from tileproof.emulator import launch_result
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.certificate import Certificate, Doubt
from tileproof.spec.machine.types import UncheckedObject

KERNELS = ("head64", "head128-columns")


def refused(*_: object) -> Certificate:
    """No launch is certified."""
    return Certificate(doubts=(Doubt("unsupported", "certificates are turned off"),))


def measure(check: GateCheck, gated: GatedVariant, certificates: bool) -> UncheckedObject:
    """CPU seconds of a check in a process of its own, its outcome and the launches by policy."""

    def run() -> list[object]:
        if not certificates:
            vars(launch_result)["certificate"] = refused
        report = check.run(gated)
        return [report.outcome, sum(len(seeds) for seeds in report.schedules.values())]

    seconds, (outcome, launches) = in_child(run)
    return {"seconds": round(seconds, 2), "outcome": outcome, "launches": launches}


def main() -> None:
    """Prints a line per check and kernel, or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kernels", nargs="*", default=KERNELS)
    parser.add_argument("--profile", default="full", choices=get_args(Profile))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows: list[UncheckedObject] = []
    for name in args.kernels:
        chosen = kernel(name)
        gated = GatedVariant(chosen, chosen.variants[0], args.profile)
        built = gated.under_test
        if built.probe is not None:
            built.probe()
        sums = defaultdict[str, float](float)
        for check in checks().values():
            if check.release or not check.wanted(args.profile):
                continue
            on, off = (measure(check, gated, certificates) for certificates in (True, False))
            rows.append({"kernel": gated.title, "check": check.name, "with": on, "without": off})
            for key, cost in (("with", on), ("without", off)):
                for what in ("seconds", "launches"):
                    sums[f"{key} {what}"] += cost[what]
            if not args.json:
                print(
                    f"{gated.title:<28} {check.name:<24} {on['outcome']:<8} {off['outcome']:<8} "
                    f"{on['seconds']:7} s {off['seconds']:7} s "
                    f"{on['launches']:5} {off['launches']:5} launches",
                    flush=True,
                )
        ratio = sums["with seconds"] / sums["without seconds"]
        rows.append({"kernel": gated.title, "check": "all", **sums, "ratio": round(ratio, 3)})
        if not args.json:
            print(f"{gated.title:<28} all: {dict(sums)}, ratio {ratio:.2f}", flush=True)
    if args.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
