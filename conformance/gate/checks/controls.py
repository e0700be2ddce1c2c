"""Planted controls: defects put into this kernel on purpose, which its checks must find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial

from tileproof.conformance.cases.generators import small
from tileproof.conformance.check import property as checking
from tileproof.conformance.check.run import run_case
from tileproof.conformance.check.under_test import on_own_driver
from tileproof.conformance.drivers.spoiled import FACTOR, Spoiled
from tileproof.conformance.gate.model import CheckReport, GatedVariant, gate_check
from tileproof.conformance.planted.defects import build_planted, planted_reference
from tileproof.conformance.planted.synchronisation.run import run, variant_of
from tileproof.conformance.verdict.contract import PlantedControl
from tileproof.kernels.edit import InStage, PlantedDefect, Reported
from tileproof.kernels.places import instructions
from tileproof.spec.machine.schedule import Schedule

EXAMPLES = 20  # beside the edges


@gate_check("planted controls", functions=True)
def controls(gated: GatedVariant) -> CheckReport:
    """Defects planted in this kernel, each found in the stage, or by the finding, that it should show as."""
    every = gated.kernel.defects()
    own = [defect for defect in every if of_variant(gated, defect)]
    quick = gated.profile == "quick"
    chosen = choose(own, gated.effort.controls, compile_free=quick, into=partial(changes, gated))
    if not chosen and gated.function:
        tried = spoiled(gated)
    elif not chosen:
        return CheckReport("unsupported", "the kernel has no planted defects")
    else:
        tried = [planted(gated, defect) for defect in chosen]
    wrong = [control for control in tried if not control.fired]
    return CheckReport(
        "failed" if wrong else "passed",
        "; ".join(
            f"{control.id} was found as {control.found or 'nothing'}, not as {control.expected}"
            for control in wrong
        ),
        details={"planted": len(tried), "fired": len(tried) - len(wrong), "known": len(every)},
        controls=tried,
    )


def choose(
    every: Sequence[PlantedDefect],
    limit: int,
    *,
    compile_free: bool,
    into: Callable[[PlantedDefect], bool] = lambda _: True,
) -> list[PlantedDefect]:
    """Up to `limit` (0: all) for each stage or code that they are found as, of those that go `into` the
    variant; without compiling only those whose edits are of the PTX or of the reference, where there are any.
    """
    in_ptx = [
        planted_defect
        for planted_defect in every
        if all(edit.place.kind != "source" for edit in planted_defect.edits)
    ]
    taken: dict[str, list[PlantedDefect]] = {}
    for planted_defect in in_ptx if compile_free and in_ptx else every:
        group = taken.setdefault(expected(planted_defect), [])
        if (not limit or len(group) < limit) and into(planted_defect):
            group.append(planted_defect)
    return [defect for group in taken.values() for defect in group]


def of_variant(gated: GatedVariant, defect: PlantedDefect) -> bool:
    """Whether a defect goes into this variant: a defect of synchronisation is planted in that of its sizes,
    another in every variant of its form.
    """
    if isinstance(defect.expected, InStage):
        return defect.sizes.f16 <= gated.variant["f16"]
    return variant_of(gated.kernel, defect.sizes) == gated.variant


def changes(gated: GatedVariant, defect: PlantedDefect) -> bool:
    """Whether an edit of the sources changes this variant's code: code of another width only is not a defect
    here.
    """
    if all(edit.place.kind != "source" for edit in defect.edits):
        return True
    return _instructions(gated.built.ptx) != instructions(
        build_planted(gated.kernel, gated.variant, defect).ptx
    )


_instructions = lru_cache(maxsize=1)(instructions)  # of the kernel itself, which each defect is compared with


def expected(defect: PlantedDefect) -> str:
    """The stage or code that a mutant must be found as."""
    return (
        defect.expected.code
        if isinstance(defect.expected, Reported)
        else defect.expected.stage or "the machine"
    )


def planted(gated: GatedVariant, defect: PlantedDefect) -> PlantedControl:
    """Plant it, and return how it is found."""
    if isinstance(defect.expected, InStage):
        found, fired = _stage(gated, defect, defect.expected)
        check = "stage conformance"
    else:
        outcome = run(defect, kernel=gated.kernel, to_first=True)
        found = outcome.shown.finding.code if outcome.shown else ""
        fired, check = not outcome.wrong, "schedules and races"
    return PlantedControl(defect.id, defect.title, expected(defect), found, fired, check)


def spoiled(gated: GatedVariant) -> list[PlantedControl]:
    """Each output that is compared, a twentieth too large: a control of functions without planted defects."""
    case = small(gated.plan)
    tried = []
    for stage in gated.plan.stages:
        under = replace(gated.under_test, driver=Spoiled(stage))
        findings = run_case(under, case, Schedule(), explain=False).findings
        found = findings[0].problem.stage or findings[0].code if findings else ""
        fired = any(finding.problem.stage == stage for finding in findings)
        title = f"{stage} times {FACTOR}"
        tried.append(PlantedControl(f"spoiled-{stage}", title, stage, found, fired, "stage conformance"))
    return tried


def _stage(gated: GatedVariant, defect: PlantedDefect, wanted: InStage) -> tuple[str, bool]:
    with planted_reference(defect):
        under = on_own_driver(gated.kernel, gated.variant, planted=defect)
        report = checking.check(
            under,
            examples=max(EXAMPLES, wanted.examples),
            policy=wanted.policy,
            seed=gated.seed,
            shrink_seconds=0.0,
            explain=False,
            edge=wanted.edge,
        )
    if report.failure is None:
        return "", False
    seen = [(finding.problem.stage, finding.code) for finding in report.failure.findings]
    # Of several findings of one example the first one names the stage; an edge may begin with a later stage.
    fired = any(wanted.fits(stage, code) for stage, code in seen)
    return seen[0][0] or seen[0][1], fired
