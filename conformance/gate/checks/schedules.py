"""Schedules and races: the kernel under many orders of its asynchronous operations."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from tileproof.conformance.cases.generators import small
from tileproof.conformance.explore.case import ExploredCase
from tileproof.conformance.explore.control_flow import control_flow_of
from tileproof.conformance.explore.explored import Explored
from tileproof.conformance.explore.periods import ring_period
from tileproof.conformance.gate.model import CheckReport, GatedVariant, gate_check
from tileproof.emulator.explore import ExploredCause, explore
from tileproof.spec.machine.certificate import summary
from tileproof.spec.machine.finding import Finding


@gate_check("schedules and races")
def schedules(gated: GatedVariant) -> CheckReport:
    """A problem that uses each ring again: certified for all schedules, or many schedules of it without a
    finding and without an output that depends on them.
    """
    effort = gated.effort
    shrink = effort.shrink_seconds if gated.profile != "quick" else 0.0
    return explored_kernel(gated, effort.schedules, gated.seed, "schedules and races", shrink)


@gate_check("k-blocks", least="full")
def k_blocks(gated: GatedVariant) -> CheckReport:
    """In each class of the inputs on which control flow depends, a launch is certified, and its order of
    events repeats from k-block to k-block with the period of the rings, if the kernel states that it does
    (`Kernel.repeats`): what a small problem shows holds for longer loops.
    """
    if not ring_period(gated.plan):
        return CheckReport.of("", details={"stated": False, "control flow": ["the plan has no ring"]})
    found = control_flow_of(gated.kernel, gated.built, gated.plan)
    return CheckReport.of(
        found.wrong if gated.kernel.repeats else "",
        details={"stated": gated.kernel.repeats, "control flow": list(found.lines())},
    )


def explored_kernel(
    gated: GatedVariant, number: int, seed: int, check: str, shrink: float, sample: bool = False
) -> CheckReport:
    """`explored` of a small case of a kernel."""
    case = small(gated.plan)
    case_explored = Explored.of(gated.kernel, gated.built, case)
    words = gated.replay("explore", f"--case={case.as_json()}")
    return explored(case_explored, words, number, seed, check, shrink, gated.strict, sample)


def explored(
    case: ExploredCase,
    words: Sequence[str],
    number: int,
    seed: int,
    check: str,
    shrink: float,
    strict: bool = False,
    sample: bool = False,
) -> CheckReport:
    """`number` schedules of a case from `seed` on; of a certified case one, unless `sample`. `words` is the
    command that explores it, `check` is the name of the check; `shrink`: CPU seconds per finding.
    """
    result = explore(
        case,
        schedules=number,
        seed=seed,
        compare=case.compare,
        processes=1,
        shrink_seconds=shrink,
        races=True,
        strict=strict,
        sample=sample,
    )
    seeds: dict[str, list[int]] = {}
    for policy, launches in sorted(result.policies.items()):
        seeds[policy] = list(range(seed, seed + launches))
    made = CheckReport(
        "failed" if result.failed else "passed",
        details={"schedules": result.schedules, "policies": dict(sorted(result.policies.items()))},
        executed=result.executed,
        schedules=seeds,
    )
    errors = [cause for cause in result.causes if cause.severity == "error"]
    made.details["certificate"] = summary([result.certificate])
    made.details["remarks"] = {str(d.signature): d.runs for d in result.causes if d.severity != "error"}
    made.findings = [found(words, check, cause) for cause in errors]
    made.reason = made.findings[0].message if made.findings else ""
    return made


def found(words: Sequence[str], check: str, cause: ExploredCause) -> Finding:
    """What exploring found, with the command that shows it again."""
    schedule = cause.shrunk.schedule if cause.shrunk else cause.schedules[0]
    replay = shlex.join([*words, "--schedule", str(schedule)])
    return replace(cause.smallest, check=check, count=cause.runs, replay=replay)
