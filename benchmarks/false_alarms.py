"""Whether `check` finds anything on right kernels: `python benchmarks/false_alarms.py --examples 20000`.

Runs drawn examples of every kernel and variant under their schedules, as `check` does without edge cases, in
units of `--unit` examples of one seed. A round takes one unit of every variant, or N units of the variants of
`--kernel K=N`, each with a seed of its own. Prints findings, and for each kernel its seeds and CPU seconds;
exit code 1 where anything was found. `--out FILE` appends a line of JSON per unit, and skips those that the
file has. `--rounds A:B` takes the rounds A to B - 1 in the place of a number of examples, so that machines
can share the work. `--kernel` also takes kernels that are compiled on demand.
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

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does

from tileproof.conformance.check import property as engine
from tileproof.conformance.check.run import KernelUnderTest
from tileproof.conformance.check.under_test import on_driver, on_emulator
from tileproof.conformance.drivers.host import HostDriver
from tileproof.kernels.called import HOST
from tileproof.kernels.registry import kernel, own
from tileproof.spec.machine.types import UncheckedObject

Unit = tuple[str, int, int, int]  # kernel, number of its variant, seed, examples


@cache
def under_test(name: str, number: int) -> KernelUnderTest:
    """A variant of a kernel on its driver, built."""
    found = kernel(name)
    if found.arch == HOST:
        return on_driver(found, found.variants[number], HostDriver())
    return on_emulator(found, found.variants[number])


def run(unit: Unit) -> UncheckedObject:
    """One unit: how many examples ran, what the first finding was, and CPU seconds."""
    name, number, seed, examples = unit
    target = under_test(name, number)
    began = time.process_time()
    report = engine.check(target, examples=examples, seed=seed, with_edges=False, shrink_seconds=0.0)
    row: UncheckedObject = {"unit": list(unit), "examples": report.examples, "found": ""}
    if report.failure is not None:
        finding = report.failure.findings[0]
        row |= {
            "found": finding.message,
            "stage": finding.problem.stage,
            "case": report.failure.case.as_json(),
        }
    return {**row, "cpu": round(time.process_time() - began, 2)}


def units(names: dict[str, int], rounds: range, each: int) -> Iterator[Unit]:
    """Every kernel and variant in each round, with as many seeds as the kernel has units there."""
    for number, (name, seeds) in product(rounds, names.items()):
        for seed, variant in product(range(seeds), range(len(kernel(name).variants))):
            yield name, variant, number * seeds + seed, each


def asked(text: str) -> tuple[str, int]:
    """`K` or `K=N` as a kernel and its units per round."""
    name, _, count = text.partition("=")
    if name not in own():
        raise argparse.ArgumentTypeError(f"no such kernel: {name}")
    return name, int(count or 1)


def report(rows: list[UncheckedObject]) -> None:
    """Print what the rows say of each kernel, and together."""
    for name in sorted({row["unit"][0] for row in rows}):
        mine = [row for row in rows if row["unit"][0] == name]
        ran, cpu = sum(row["examples"] for row in mine), sum(row["cpu"] for row in mine)
        seeds, found = {row["unit"][2] for row in mine}, sum(bool(row["found"]) for row in mine)
        print(
            f"{name:24} {ran:6} examples of {len({row['unit'][1] for row in mine})} variants,"
            f" {len(seeds):4} seeds from {min(seeds)} to {max(seeds)}, {found} with findings,"
            f" {cpu / max(ran, 1):.3f} CPU s per example"
        )
    found = sum(bool(row["found"]) for row in rows)
    ran, cpu = sum(row["examples"] for row in rows), sum(row["cpu"] for row in rows)
    print(f"{ran} examples, {found} with findings, {cpu:.0f} CPU s")


def main() -> None:
    """Print the table; exit code 1 as above."""
    right = {
        name: 1
        for name, found in sorted(own().items())
        if not found.on_demand and not name.startswith("torch")
    }
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernel", action="append", default=[], type=asked, metavar="K[=N]")
    parser.add_argument("--examples", type=int, default=20_000, help="of all kernels together")
    parser.add_argument("--rounds", default="", metavar="A:B")
    parser.add_argument("--unit", type=int, default=20)
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, metavar="FILE")
    given = parser.parse_args()
    names = dict(given.kernel) or right
    each_round = given.unit * sum(count * len(kernel(name).variants) for name, count in names.items())
    first, end = (
        (int(part) for part in given.rounds.split(":"))
        if given.rounds
        else (0, -(-given.examples // each_round))
    )
    lines = given.out.read_text().splitlines() if given.out and given.out.exists() else []
    rows = [json.loads(line) for line in lines]
    done = {tuple(row["unit"]) for row in rows}
    wanted = [unit for unit in units(names, range(first, end), given.unit) if unit not in done]
    for name, number in sorted({unit[:2] for unit in wanted}):  # compiles once
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
    report(rows)
    sys.exit(any(row["found"] for row in rows))


if __name__ == "__main__":
    main()
