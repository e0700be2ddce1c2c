"""What launches with race checking cost in an older engine and in this checkout.

    python benchmarks/recorded_in_pairs.py CHECKOUT [--kernels NAME ...] [--pairs 11] [--topk 2048]
    python benchmarks/recorded_in_pairs.py --record FILE      # and on another machine:
    python benchmarks/recorded_in_pairs.py CHECKOUT --launches FILE

`engines_in_pairs.py` runs each checkout's own kernels. This script records the launches of this checkout
(PTX, parameters, memory) and launches them with the engine of both, so that CHECKOUT may have other kernels
and another conformance suite; it needs `Module.from_ptx`, `Memory.buffer` and `Memory.empty`. The launches
run in turn; printed are medians of processor time and of the pairs' ratios, and whether outputs and
instruction counts are equal. Exit code 1 if they are not.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
import pickle
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from checkouts import HERE, Checkout, in_pairs, serve  # benchmarks/checkouts.py

if TYPE_CHECKING:
    import numpy as np
    from tileproof.emulator import Memory, Module
    from tileproof.emulator.arguments import Packed
    from tileproof.emulator.result import RunResult
    from tileproof.spec.machine.schedule import Policy

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does

POLICIES = ("early", "late", "random")


@dataclass
class Recorded:
    """A launch: its PTX, the arguments of `Module.launch`, and name, address and bytes of each buffer, and
    whether its writes are tracked.
    """

    ptx: str
    entry: str = ""
    how: dict[str, object] = field(default_factory=dict)
    memory: list[tuple[str, int, np.ndarray, bool]] = field(default_factory=list)


def recorded(name: str, topk: int) -> Recorded:
    """The launch of a query token of `topk` keys."""
    import numpy as np
    from tileproof.conformance.drivers import emulator
    from tileproof.emulator import module
    from tileproof.kernels.registry import kernel
    from tileproof.spec.machine.schedule import Schedule

    sys.path.insert(0, str(Path(__file__).parent))
    found = kernel(name)
    variant = found.variant(d_qk=576)
    built = found.build(variant)
    launch = found.launch(__import__("engine").inputs(576, topk, variant["h_q"]), built)
    launch_record = Recorded(built.ptx)
    real, pack = module.Module.launch, module.pack

    def noted(self: Module, entry: str, *, memory: Memory, **how: object) -> RunResult:
        def packing(*args: object) -> Packed:
            packed = pack(*args)
            launch_record.how["args"] = [packed.data[at : at + size] for at, size, _ in packed.names]
            return packed

        launch_record.entry = entry
        launch_record.how |= {word: how[word] for word in ("grid", "block", "cluster", "shared_bytes")}
        launch_record.memory = [
            (buffer.name, buffer.address, buffer.numpy().reshape(-1).view(np.uint8).copy(), buffer.tracked)
            for buffer in memory.buffers
        ]
        vars(module)["pack"] = packing
        try:
            return real(self, entry, memory=memory, **how)
        finally:
            vars(module)["pack"] = pack

    module.Module.launch = noted  # type: ignore[method-assign]
    try:
        emulator.run(launch, found.plan(variant), schedule=Schedule("early"), taps=False, races=False)
    finally:
        module.Module.launch = real  # type: ignore[method-assign]
    return launch_record


def serve_launches(path: str) -> None:
    """Launches what the questions name, kernel and policy, with race checking; the launches are in a file."""
    import numpy as np
    from tileproof.emulator import Memory, Module, Schedule

    with open(path, "rb") as file:
        launches: dict[str, Recorded] = pickle.load(file)
    modules = {name: Module.from_ptx(launch.ptx) for name, launch in launches.items()}

    def run(name: str, policy: Policy) -> tuple[float, str, int]:
        launch, memory = launches[name], Memory()
        buffers = [
            memory.empty(len(data), np.uint8, title, at) if tracked else memory.buffer(data.copy(), title, at)
            for title, at, data, tracked in launch.memory
        ]
        gc.collect()
        began = time.process_time()
        result = modules[name].launch(
            launch.entry, memory=memory, schedule=Schedule(policy, 0), races=True, **launch.how
        )
        took = time.process_time() - began
        digest = hashlib.sha256(b"".join(buffer.numpy().tobytes() for buffer in buffers)).hexdigest()
        return took, digest, result.counters.warp_instructions

    serve(run)


def main() -> None:
    """Prints a line per kernel and policy."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", nargs="?", type=Path, help="with its .venv and its engine built")
    parser.add_argument("--kernels", nargs="+", default=("head64", "head128-columns"))
    parser.add_argument("--pairs", type=int, default=11)
    parser.add_argument("--topk", type=int, default=2048)
    parser.add_argument("--record", metavar="FILE", type=Path, help="only record the launches")
    parser.add_argument("--launches", metavar="FILE", type=Path, help="that --record wrote")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve_launches(args.serve)
        return
    if args.record:
        args.record.write_bytes(pickle.dumps({name: recorded(name, args.topk) for name in args.kernels}))
        return
    if args.checkout is None:
        parser.error("the checkout of the other engine is missing")
    with tempfile.NamedTemporaryFile() as file:
        path = args.launches or Path(file.name)
        if not args.launches:
            path.write_bytes(pickle.dumps({name: recorded(name, args.topk) for name in args.kernels}))
        folders = args.checkout.resolve(), HERE
        before, now = (Checkout(folder, __file__, "--serve", str(path.resolve())) for folder in folders)
        equal = [compare(before, now, name, args.pairs) for name in args.kernels]
        sys.exit(not all(equal))


def compare(before: Checkout, now: Checkout, name: str, count: int) -> bool:
    """Prints a line per policy; whether both engines give the same."""
    equal = True
    for policy in POLICIES:
        same = before.run(name, policy)[1] == now.run(name, policy)[1]
        equal &= same
        pairs = in_pairs(before, now, count, name, policy)
        ratios = sorted(new / old for old, new in pairs)
        old, new = (median(pair[side] for pair in pairs) for side in (0, 1))
        print(
            f"{name:<16} {policy:<7} {old * 1e3:5.0f} -> {new * 1e3:5.0f} ms, ratio {median(ratios):.3f} "
            f"({ratios[0]:.3f} to {ratios[-1]:.3f}), {'equal' if same else 'NOT EQUAL'}",
            flush=True,
        )
    return equal


if __name__ == "__main__":
    main()
