"""A kernel judged tile by tile on a card, and each of its planted defects: the verdicts of `check --driver
cuda`.

    python -m tileproof.tools.silicon.judged sm90-gemm evidence.json.xz [--examples N] [--driver emulator]

Writes the report of the kernel, that of each mutant (its verdict and first finding), and in how many launches
the outputs are the bits of the emulator's exact tensor core. A mutant that only an order of events can show
may pass: a card has one order, and the report says what was not judged.
"""

from __future__ import annotations

import datetime
from pathlib import Path

import click
import numpy as np
from tileproof.conformance.check import property as engine
from tileproof.conformance.check.result import as_dict
from tileproof.conformance.check.under_test import on_driver
from tileproof.conformance.cli.driving import DRIVERS, opened
from tileproof.conformance.drivers.driver import Driver
from tileproof.conformance.drivers.emulator import EmulatorDriver
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.registry import compiled as find_kernel
from tileproof.spec.machine.finding_text import lines
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.machine.types import UncheckedObject
from tileproof.tools import evidence

SEED = 0


def judged(kernel: Kernel, driver: Driver, examples: int) -> UncheckedObject:
    """The reports of the kernel's first variant and of its mutants on `driver`."""
    variant = kernel.variants[0]
    clean = engine.check(on_driver(kernel, variant, driver), examples=examples, seed=SEED)
    found: UncheckedObject = {"kernel": as_dict(clean), "mutants": {}}
    for planted in kernel.defects():
        under_test = on_driver(kernel, variant, driver, planted=planted)
        report = engine.check(under_test, examples=min(examples, 30), seed=SEED, shrink_seconds=2.0)
        row: UncheckedObject = {"planted": planted.title, "examples": report.examples, "verdict": "clean"}
        if report.failure:
            row["verdict"] = "defect"
            row["finding"] = lines(report.failure.findings[0])
            row["case"] = report.failure.case.as_json()
            row["repeated"] = report.failure.repeated
        found["mutants"][planted.id] = row
    return found


def same_bits(kernel: Kernel, driver: Driver, examples: int) -> dict[str, int]:
    """Outputs of the probe build on `driver` against those of the emulator's exact mode, by output."""
    variant = kernel.variants[0]
    plan, built = kernel.plan(variant), kernel.build(variant, kernel.probe)
    exact = EmulatorDriver(mma="exact", races=False)
    equal: dict[str, int] = {"launches": 0}
    for case, _ in engine.drawn(plan, "early", SEED, examples):
        launch = kernel.launch(case.inputs(), built, kernel.probe)
        on_card, emulated = (by.run(launch, plan, Schedule(), False).outputs for by in (driver, exact))
        equal["launches"] += 1
        for name in emulated:
            mine, theirs = (each[name].values.view(np.uint8) for each in (on_card, emulated))
            equal[name] = equal.get(name, 0) + int(np.array_equal(mine, theirs))
    return equal


@click.command()
@click.argument("kernel")
@click.argument("output", type=click.Path(path_type=Path))
@click.option("--examples", default=100, show_default=True, type=click.IntRange(1))
@click.option("--driver", "name", default="cuda", show_default=True, type=click.Choice(DRIVERS))
def main(kernel: str, output: Path, examples: int, name: str) -> None:
    """Judges KERNEL and its mutants, and writes OUTPUT."""
    found = find_kernel(kernel)
    options = dict.fromkeys(("races", "strict"), False)
    with opened(name, policy="all", mma="fast", allow=(), seconds_limit=5.0, **options) as driver:
        bits = same_bits(found, driver, min(examples, 40))
        result: UncheckedObject = {"date": datetime.date.today().isoformat(), "driver": driver.name}
        result |= judged(found, driver, examples) | {"same bits as the exact emulator": bits}
    evidence.write_json(output, result)
    report: UncheckedObject = result["kernel"]
    click.echo(f"{kernel} on {driver.name}: {report['verdict']}, {report['examples']} examples")
    for words in report["not_judged"]:
        click.echo(f"  not judged: {words}")
    mutants: UncheckedObject = result["mutants"]
    for mutant, row in mutants.items():
        click.echo(f"  {mutant}: {row['verdict']} {row.get('finding', [''])[0]}")
    click.echo(f"  the exact emulator's bits: {bits}")


if __name__ == "__main__":
    main()
