"""Whether `check` finds anything on right kernels: `python benchmarks/false_alarms.py --examples 20000`.

Runs drawn examples of every kernel and variant under their schedules, as `check` does without edge cases, in
units of `--unit` examples of one seed. Prints findings and CPU seconds per kernel; exit code 1 where anything
was found. `--out FILE` appends a line of JSON per unit, and skips those that the file has. `--seeds A:B`
takes seeds from A to B - 1 in the place of a number of examples, so that machines can share the work.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does

from tileproof.conformance.check import property as engine
from tileproof.conformance.check.run import KernelUnderTest
from tileproof.conformance.check.under_test import on_driver, on_emulator
from tileproof.conformance.drivers.host import HostDriver
from tileproof.kernels.called import HOST
from tileproof.kernels.registry import kernel, own

Unit = tuple[str, int, int, int]  # kernel, number of its variant, seed, examples


@cache
def under_test(name: str, number: int) -> KernelUnderTest:
    """A variant of a kernel on its driver, built."""
    found = kernel(name)
    if found.arch == HOST:
        return on_driver(found, found.variants[number], HostDriver())
    return on_emulator(found, found.variants[number])


def run(unit: Unit) -> dict[str, Any]:
    """One unit: how many examples ran, what the first finding was, and CPU seconds."""
    name, number, seed, examples = unit
    target = under_test(name, number)
    began = time.process_time()
    report = engine.check(target, examples=examples, seed=seed, with_edges=False, shrink_seconds=0.0)
    row: dict[str, Any] = {"unit": list(unit), "examples": report.examples, "found": ""}
    if report.failure is not None:
        finding = report.failure.findings[0]
        row |= {
            "found": finding.message,
            "stage": finding.problem.stage,
            "case": report.failure.case.as_json(),
        }
    return {**row, "cpu": round(time.process_time() - began, 2)}


def units(names: list[str], seeds: range, each: int) -> Iterator[Unit]:
    """Every kernel and variant with every seed; the kernels in turn."""
    pairs = [(name, number) for name in names for number in range(len(kernel(name).variants))]
    for seed, (name, number) in product(seeds, pairs):
        yield name, number, seed, each


def main() -> None:
    """Print the table; exit code 1 as above."""
    right = sorted(
        name for name, found in own().items() if not found.on_demand and not name.startswith("torch")
    )
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernel", action="append", default=[], choices=right)
    parser.add_argument("--examples", type=int, default=20_000, help="of all kernels together")
    parser.add_argument("--seeds", default="", metavar="A:B")
    parser.add_argument("--unit", type=int, default=20)
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, metavar="FILE")
    given = parser.parse_args()
    names = given.kernel or right
    each_seed = given.unit * sum(len(kernel(name).variants) for name in names)
    first, end = (
        (int(part) for part in given.seeds.split(":"))
        if given.seeds
        else (0, -(-given.examples // each_seed))
    )
    lines = given.out.read_text().splitlines() if given.out and given.out.exists() else []
    rows = [json.loads(line) for line in lines]
    done = {tuple(row["unit"]) for row in rows}
    wanted = [unit for unit in units(names, range(first, end), given.unit) if unit not in done]
    for name in names:  # compiles once
        for number in range(len(kernel(name).variants)):
            target = under_test(name, number)
            if target.probe is not None:
                target.probe()
    with ProcessPoolExecutor(given.jobs, get_context("fork"), os.nice, (19,)) as pool:
        for row in pool.map(run, wanted):
            rows.append(row)
            if row["found"]:
                print(json.dumps(row), flush=True)
            if given.out:
                with given.out.open("a") as out:
                    out.write(json.dumps(row) + "\n")
    for name in names:
        mine = [row for row in rows if row["unit"][0] == name]
        ran, cpu = sum(row["examples"] for row in mine), sum(row["cpu"] for row in mine)
        found = sum(bool(row["found"]) for row in mine)
        print(f"{name:20} {ran:6} examples, {found} with findings, {cpu / max(ran, 1):.3f} CPU s per example")
    print(f"{sum(row['examples'] for row in rows)} examples, {sum(row['cpu'] for row in rows):.0f} CPU s")
    sys.exit(any(row["found"] for row in rows))


if __name__ == "__main__":
    main()
