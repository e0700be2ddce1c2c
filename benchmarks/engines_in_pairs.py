"""The engines of two checkouts: the same bits, and what each costs.

    python benchmarks/engines_in_pairs.py CHECKOUT [--kernels NAME ...] [--pairs 9] [--topk 2048] [--races]

First the bits: small problems of every kernel with PTX run in both checkouts under several schedules, in
both modes of the tensor core, with and without the race checker. Outputs, captures, findings and counters
must be equal, else the exit code is 1. Then the cost: fast launches of a query token, in turn in both
checkouts, with `--races` with race checking; medians of processor time, and the median of the pairs' ratios.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import itertools
import sys
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from checkouts import HERE, Checkout, in_pairs, serve  # benchmarks/checkouts.py

if TYPE_CHECKING:
    from tileproof.conformance.drivers.emulator import Mma
    from tileproof.kernels.launch.model import LaunchFile
    from tileproof.spec.machine.schedule import Policy
    from tileproof.spec.plan import KernelPlan

HOST = "a Python function"  # of kernels that the emulator does not run
TIMED = ("head64", "head128-columns")
POLICIES = ("early", "late", "random")


class _Server:
    """Launches of this process's checkout, each asked for by a line on standard input."""

    def __init__(self) -> None:
        self._built: dict[tuple[str, int], tuple[LaunchFile, KernelPlan]] = {}

    def launch(self, name: str, topk: int) -> tuple[LaunchFile, KernelPlan]:
        """The launch and plan of a kernel: a query token of `topk` keys, or with 0 a small problem."""
        if (name, topk) in self._built:
            return self._built[name, topk]
        from tileproof.conformance.cases.generators import small
        from tileproof.kernels.registry import kernel

        found = kernel(name)
        variant = found.variant(d_qk=576) if topk else found.variants[0]
        plan = found.plan(variant)
        if topk:
            sys.path.insert(0, str(Path("benchmarks").resolve()))
            drawn = __import__("engine").inputs(576, topk, variant["h_q"])
        else:
            drawn = small(plan, 2).inputs()
        self._built[name, topk] = found.launch(drawn, found.build(variant)), plan
        return self._built[name, topk]

    def run(
        self, name: str, topk: int, policy: Policy, seed: int, mma: Mma, races: bool
    ) -> tuple[float, str]:
        """Processor seconds of a launch, and a digest of its result."""
        from tileproof.conformance.drivers import emulator
        from tileproof.spec.machine.schedule import Schedule

        launch, plan = self.launch(name, topk)
        if launch.call is not None:
            return 0.0, HOST
        gc.collect()
        begin = time.process_time()
        done = emulator.run(
            launch, plan, schedule=Schedule(policy, seed), taps=not topk, mma=mma, races=races
        )
        seconds = time.process_time() - begin
        digest = hashlib.sha256()
        for output in sorted(done.outputs):
            digest.update(output.encode() + _bytes(done.outputs[output]))
        for capture in done.captures:
            digest.update(f"{capture.name} {capture.cta} {capture.phase}".encode() + _bytes(capture))
        digest.update(repr([str(finding) for finding in done.findings]).encode())
        digest.update(repr(sorted(dict(done.counters).items())).encode())
        return seconds, digest.hexdigest()


def _bytes(value: object) -> bytes:
    """The bytes of the arrays of a value."""
    return b"".join(part.tobytes() for part in vars(value).values() if hasattr(part, "tobytes"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", nargs="?", type=Path, help="a folder with its .venv and its engine built")
    parser.add_argument("--kernels", nargs="*")
    parser.add_argument("--pairs", type=int, default=9, help="0: only the bits")
    parser.add_argument("--topk", type=int, default=2048)
    parser.add_argument("--races", action="store_true", help="the cost with race checking")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        return serve(_Server().run)
    from tileproof.kernels.registry import kernels

    there, here = (Checkout(folder, __file__, "--serve") for folder in (args.checkout.resolve(), HERE))
    differ = 0
    for name in sorted(kernels()) if args.kernels is None else args.kernels:
        if here.run(name, 0, "early", 0, "fast", False)[1] == [HOST]:
            continue
        ways = list(itertools.product(POLICIES, ("fast", "exact"), (False, True)))
        wrong = []
        for policy, mma, races in ways:
            how = name, 0, policy, 3, mma, races
            if there.run(*how)[1] != here.run(*how)[1]:
                wrong.append(f"{policy} {mma}{' races' * races}")
        differ += len(wrong)
        print(f"{name}: {len(ways) - len(wrong)} of {len(ways)} runs have the same bits", *wrong, flush=True)
    for name in TIMED if args.pairs else ():
        how = name, args.topk, "early", 0, "fast", args.races
        same = there.run(*how)[1] == here.run(*how)[1]
        differ += not same
        pairs = in_pairs(there, here, args.pairs, *how)
        before, after = (median(seconds) * 1e3 for seconds in zip(*pairs, strict=True))
        ratio = median(new / old for old, new in pairs)
        print(f"{name}: {before:.1f} ms there, {after:.1f} ms here, ratio {ratio:.3f}, same bits: {same}")
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
