"""How fast the emulator runs a real kernel: `python benchmarks/engine.py [--topk 2048] [--runs 9] [--json]`.

One query token of a kernel (head128-part0: a cluster of 2 CTAs, 26 warps), random inputs, schedule policy
"early", one thread. The rates are of whole launches: warp instructions, TMA, mbarriers and MMAs together,
Python's part included. Each figure is the median of the runs, with the fastest and slowest beside it;
machines differ and drift.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import ml_dtypes
import numpy as np
from tileproof.conformance.drivers import emulator
from tileproof.kernels.registry import kernel, kernels
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs, Problem


def inputs(d_qk: int, topk: int, h_q: int, tokens: int = 1, s_kv: int = 4096) -> Inputs:
    """Standard normal values, and keys drawn for each token."""
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, dtype=np.float32).astype(ml_dtypes.bfloat16)

    problem = Problem(s_q=tokens, s_kv=s_kv, h_q=h_q, d_qk=d_qk, topk=topk, sm_scale=d_qk**-0.5)
    indices = rng.integers(0, s_kv, (tokens, topk)).astype(np.int32)
    return Inputs(
        problem, draw(tokens, h_q, d_qk), draw(s_kv, d_qk), draw(tokens, h_q, 512), draw(tokens, h_q, 512),
        np.zeros((tokens, h_q), np.float32), indices,
    )  # fmt: skip


def measure(name: str, d_qk: int, topk: int, mma: str, runs: int) -> dict[str, float]:
    """Seconds of a launch (median, fastest, slowest) and the rates at the median."""
    entry = kernel(name)
    variant = entry.variant(d_qk=d_qk)
    launch = entry.launch(inputs(d_qk, topk, variant["h_q"]), entry.build(variant))
    plan = entry.plan(variant)
    seconds = []
    counters: dict[str, int] = {}
    for run in range(runs + 1):
        start = time.perf_counter()
        run_result = emulator.run(launch, plan, schedule=Schedule("early"), taps=False, mma=mma)  # type: ignore[arg-type]
        took = time.perf_counter() - start
        if run:  # the first run parses and decodes the PTX
            seconds.append(took)
        counters = dict(run_result.counters)
    median = statistics.median(seconds)
    return {
        "seconds": median,
        "fastest": min(seconds),
        "slowest": max(seconds),
        "warp_instructions": counters["warp_instructions"],
        "warp_instructions_per_second": counters["warp_instructions"] / median,
        "multiply_adds": counters["mma_macs"],
        "multiply_adds_per_second": counters["mma_macs"] / median,
    }


def main() -> None:
    """Prints a line per mode, or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernel", default="head128-part0", choices=sorted(kernels()))
    parser.add_argument("--d-qk", type=int, default=576, choices=(512, 576))
    parser.add_argument("--topk", type=int, default=2048, help="keys of the token, a multiple of 64")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    figures = {mma: measure(args.kernel, args.d_qk, args.topk, mma, args.runs) for mma in ("fast", "exact")}
    if args.json:
        print(
            json.dumps(
                {
                    "kernel": args.kernel,
                    "d_qk": args.d_qk,
                    "topk": args.topk,
                    "runs": args.runs,
                    "modes": figures,
                },
                indent=1,
            )
        )
        return
    print(f"{args.kernel}, d_qk {args.d_qk}, one token, topk {args.topk}, median of {args.runs} runs")
    for mma, f in figures.items():
        print(
            f"  {mma:<5}  {f['seconds'] * 1e3:8.1f} ms ({f['fastest'] * 1e3:.1f} .. {f['slowest'] * 1e3:.1f})"
            f"  {f['warp_instructions_per_second'] / 1e6:6.2f} M warp instructions/s"
            f"  {f['multiply_adds_per_second'] / 1e9:6.2f} G multiply-adds/s"
        )


if __name__ == "__main__":
    main()
