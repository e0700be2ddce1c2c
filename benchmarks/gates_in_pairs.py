"""What the checks of the gate cost in another checkout and here.

    python benchmarks/gates_in_pairs.py CHECKOUT [KERNEL ...] [--profile full] [--pairs 3]

Each check of the first variant of each kernel (default: head64 head128-columns) runs in a process of its own,
in turn in both checkouts, each with its own kernels; the first pair, which compiles, is not counted. Printed
are medians of processor time, child processes included, the ratio of the sums, and launches where a check
counts them. CHECKOUT needs a `.venv`, its engine built, and `conformance/gate/model.py`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import median

from checkouts import HERE, Checkout, in_child, in_pairs, serve  # benchmarks/checkouts.py


def answer(name: str, profile: str, check: str) -> list[object]:
    """Processor time, outcome and launches of a check; without a check the names of the checks."""
    from tileproof.conformance.gate.model import GatedVariant, checks
    from tileproof.kernels.registry import kernel

    wanted = {each.name: each for each in checks().values() if not each.release and each.wanted(profile)}
    if not check:
        return [0.0, *wanted]
    chosen = kernel(name)
    gated = GatedVariant(chosen, chosen.variants[0], profile)  # type: ignore[arg-type]
    if gated.under_test.probe is not None:
        gated.under_test.probe()

    def run() -> list[object]:
        report = wanted[check].run(gated)
        return [report.outcome, sum(len(seeds) for seeds in report.schedules.values())]

    seconds, outcome = in_child(run)
    return [seconds, *outcome]


def main() -> int:
    """Prints a line per check, and the sums; exit code 1 if an outcome differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path)
    parser.add_argument("kernels", nargs="*", default=["head64", "head128-columns"])
    parser.add_argument("--profile", default="full")
    parser.add_argument("--pairs", type=int, default=3)
    args = parser.parse_args()
    before, now = (Checkout(folder, __file__, "--serve") for folder in (args.checkout.resolve(), HERE))
    same = True
    for name in args.kernels:
        sums = [0.0, 0.0]
        known = [before.run(name, args.profile, "")[1], now.run(name, args.profile, "")[1]]
        for check in known[1]:
            outcomes = [
                process.run(name, args.profile, check)[1] if check in names else ["not there", 0]
                for process, names in zip((before, now), known, strict=True)
            ]
            if check in known[0]:
                pairs = in_pairs(before, now, args.pairs, name, args.profile, check)
                seconds = [median(side) for side in zip(*pairs, strict=True)]
                same &= outcomes[0][0] == outcomes[1][0]
            else:
                seconds = [0.0, median(now.run(name, args.profile, check)[0] for _ in range(args.pairs))]
            sums = [total + more for total, more in zip(sums, seconds, strict=True)]
            print(
                f"{name:<16} {check:<22} {seconds[0]:6.2f} -> {seconds[1]:6.2f} s, "
                f"launches {outcomes[0][1]} -> {outcomes[1][1]}, {outcomes[0][0]} -> {outcomes[1][0]}",
                flush=True,
            )
        print(f"{name:<16} {'all':<22} {sums[0]:6.2f} -> {sums[1]:6.2f} s, ratio {sums[1] / sums[0]:.2f}")
    before.close()
    now.close()
    return 0 if same else 1


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        from tileproof.emulator.heap import keep_freed_memory

        keep_freed_memory()  # as the command line does
        serve(answer)
    else:
        sys.exit(main())
