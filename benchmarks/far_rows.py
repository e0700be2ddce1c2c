"""What a head64 token costs by the number of kv rows: `python benchmarks/far_rows.py [--rows 4096 1048576]`.

Each number of rows runs in a process of its own, in turn, `--rounds` times: one token of topk 2048 on the
emulator (canaries and one launch with captures and races), and the same example judged as `check` does.
Prints the least CPU seconds and the largest resident memory of each, and their ratios to the first.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does


def measure(kernel_name: str, rows: int) -> dict[str, float]:
    """CPU seconds of a launch and of a judged example, each the best of three, and megabytes after them."""
    from tileproof.conformance.check.run import run_case
    from tileproof.conformance.check.under_test import on_emulator
    from tileproof.conformance.compare.rows import plant_canaries
    from tileproof.kernels.registry import kernel
    from tileproof.spec.machine.schedule import Schedule
    from tileproof.spec.problems.sparse_mla_bwd.case import Indices, SparseCase

    found = kernel(kernel_name)
    under_test = on_emulator(found, found.variants[0])
    plan = under_test.plan()
    case = SparseCase(
        plan.size("d_qk"), rows, 32, (Indices("permuted"),), values="normal", h_q=plan.size("h_q")
    )

    def launch() -> None:
        described = plant_canaries(plan, inputs, found.launch(inputs, under_test.production))
        under_test.driver.run(described, plan, Schedule(), True)

    def judged() -> None:
        assert not run_case(under_test, case, Schedule()).findings

    inputs, out = case.inputs(), {}
    for name, action in (("launch", launch), ("example", judged)):
        best = float("inf")
        for _ in range(3):
            start = time.process_time()
            action()
            best = min(best, time.process_time() - start)
        out[f"{name} s"] = best
        out[f"{name} MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return out


def main() -> None:
    """Prints a line for each number of rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernel", default="head64")
    parser.add_argument("--rows", type=int, nargs="+", default=[1 << 12, 1 << 20])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--here", action="store_true", help="measure in this process and print JSON")
    args = parser.parse_args()
    if args.here:
        print(json.dumps(measure(args.kernel, args.rows[0])))
        return
    best: dict[int, dict[str, float]] = {}
    for _ in range(args.rounds):
        for rows in args.rows:
            command = [sys.executable, __file__, "--here", f"--kernel={args.kernel}", "--rows", str(rows)]
            seen = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            best[rows] = {name: min(value, best.get(rows, seen)[name]) for name, value in seen.items()}
    first = best[args.rows[0]]
    for rows, seen in best.items():
        columns = (f"{name} {value:.3f} ({value / first[name]:.2f})" for name, value in seen.items())
        print(f"{rows:>10} rows: {', '.join(columns)}")


if __name__ == "__main__":
    main()
