"""Clusters on several threads of the host: `python benchmarks/clusters.py [--tokens 64] [--threads 1 2]`.

A launch of head64 with random inputs, a cluster for each query token, schedule "early", fast products, no
races: seconds of the launch alone for each number of threads, in turn, and the bits of the outputs.
`--ptx FILE` takes the kernel's PTX where there is no nvcc (`tileproof build` writes it).
"""

from __future__ import annotations

import argparse
import hashlib
import time
from pathlib import Path

from engine import inputs  # benchmarks/engine.py
from tileproof.conformance.drivers import emulator
from tileproof.kernels.compile import Built
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.schedule import Schedule


def main() -> None:
    """Prints a line per run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--topk", type=int, default=2048)
    parser.add_argument("--s-kv", type=int, default=8192)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--ptx", type=Path)
    args = parser.parse_args()
    entry = kernel("head64")
    variant = entry.variant(d_qk=576)
    built = (
        Built(entry.entry(variant), args.ptx.read_text(), args.ptx, None, "")
        if args.ptx
        else entry.build(variant)
    )
    launch = entry.launch(inputs(576, args.topk, 64, args.tokens, args.s_kv), built)
    plan = entry.plan(variant)
    print(f"head64, d_qk 576, {args.tokens} tokens, topk {args.topk}, {args.s_kv} rows of kv")
    for _ in range(args.runs):
        for threads in args.threads:
            began = time.perf_counter()
            seen = emulator.run(launch, plan, schedule=Schedule("early"), taps=False, host_threads=threads)
            took = time.perf_counter() - began
            bits = hashlib.sha256(b"".join(output.values.tobytes() for output in seen.outputs.values()))
            print(
                f"{threads} threads, {seen.host_threads} ran: {took:7.2f} s, bits {bits.hexdigest()[:12]}, "
                f"{len(seen.findings)} findings",
                flush=True,
            )


if __name__ == "__main__":
    main()
