"""How fast dense attention is judged: `python benchmarks/dense_attention.py [--examples 500] [--jobs 2]`.

One problem of a (128 x 128) block on each build of CUTLASS example 77 that is right, with races and every
stage (`run_case`, the best of `--rounds` problems, once the kernel is compiled and decoded): under 1 s. Then
`tileproof check torch-cpu-flash` on `--examples` problems, with `--jobs` processes: 500 under 180 s. Exit
code 1 where a limit is missed, a stage is not judged or something is found.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import replace

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does

from tileproof.conformance.check.run import run_case
from tileproof.conformance.check.under_test import on_emulator
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.problems.dense_attention_bwd.key_block import KeyBlockCase

SIZES = {"m": 128, "n": 128, "seed": 1}
CASES = {
    "cutlass-fmha-bwd-mended": KeyBlockCase("f16", d_qk=64, d_v=64, **SIZES),
    "cutlass-fmha-bwd-mla-mended": KeyBlockCase("f16", d_qk=192, d_v=128, **SIZES),
}
BLOCK_LIMIT, FUNCTION_LIMIT = 1.0, 180.0  # seconds on the clock


def block(name: str, case: KeyBlockCase, rounds: int) -> tuple[float, float, bool]:
    """Seconds on the clock and of the CPU, and whether nothing was found."""
    target = kernel(name)
    tested = on_emulator(target, target.variant_of_case(case))
    run_case(tested, case, Schedule("late"), again=False)
    took, clean = [], True
    for seed in range(2, 2 + rounds):
        wall, cpu = time.perf_counter(), time.process_time()
        verdict = run_case(tested, replace(case, seed=seed), Schedule("late"), again=False)
        took.append((time.perf_counter() - wall, time.process_time() - cpu))
        clean &= not verdict.findings and set(tested.plan().stages) <= set(verdict.scores)
    return *min(took), clean


def main() -> None:
    """Prints what each took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    failed = False
    for name, case in CASES.items():
        wall, cpu, clean = block(name, case, given.rounds)
        failed |= wall > BLOCK_LIMIT or not clean
        print(f"{name}: one block {wall:.2f} s, {cpu:.2f} s of CPU{'' if clean else ', and not right'}")
    words = [
        "check",
        "torch-cpu-flash",
        "--examples",
        str(given.examples),
        "--seed",
        "1",
        "-j",
        str(given.jobs),
    ]
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "tileproof", *words], capture_output=True, check=False)
    took = time.perf_counter() - start
    failed |= took > FUNCTION_LIMIT or done.returncode != 0
    print(f"tileproof {' '.join(words)}: {took:.1f} s, exit code {done.returncode}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
