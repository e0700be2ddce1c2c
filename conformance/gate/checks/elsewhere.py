"""Checks with a requirement that a machine or kernel may lack: a card, a clock budget."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tileproof.conformance.beside.timing.kernel import time_kernel
from tileproof.conformance.check import property as checking
from tileproof.conformance.check.under_test import on_driver
from tileproof.conformance.drivers.cuda import CudaDriver
from tileproof.conformance.gate.model import CheckReport, GatedVariant, gate_check
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding_text import headline

DEVICE = Path("/dev/nvidia0")  # what the kernel module of a card makes


@gate_check("timing budget", required=False)
def timing(gated: GatedVariant) -> CheckReport:
    """The clocks per k-block of `tileproof time`, likely case, are not more than the kernel states by more
    than their noise."""
    budget = gated.kernel.clocks(gated.variant)
    if budget is None:
        return CheckReport("not run", "the kernel has no clock budget")
    try:
        report = time_kernel(gated.kernel, gated.variant).report
    except TileproofError as error:
        return CheckReport("unsupported", str(error))
    found, noise = report.clocks, report.noise.error
    details = {
        "clocks": found.likely,
        "best": found.best,
        "worst": found.worst,
        "noise": noise,
        "budget": budget,
    }
    over = found.likely - noise > budget
    wrong = f"{found.likely:,.0f} ±{noise:,.0f} clocks per k-block, budget {budget:,.0f}" if over else ""
    return CheckReport.of(wrong, details=details)


@gate_check("card results", required=False)
def card(gated: GatedVariant) -> CheckReport:
    """The same problems on a card: outputs and probe build against the spec."""
    if not DEVICE.exists():
        return CheckReport("not run", "this machine has no CUDA card")
    try:
        return _on_card(gated, CudaDriver())
    except TileproofError as error:
        return CheckReport("unsupported", str(error))


def _on_card(gated: GatedVariant, card: CudaDriver) -> CheckReport:
    with card as driver:
        under = on_driver(gated.kernel, gated.variant, driver, planted=gated.planted)
        report = checking.check(under, examples=gated.effort.examples, seed=gated.seed, shrink_seconds=0.0)
        details = {"examples": report.examples, "driver": driver.name}
    wrong = report.failure.findings if report.failure else []
    findings = [replace(finding, check="card results") for finding in wrong]
    return CheckReport(
        "failed" if findings else "passed",
        headline(findings[0]) if findings else "",
        findings=findings,
        details=details,
    )
