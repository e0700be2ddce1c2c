"""Schedules and races: the kernel under many orders of what is asynchronous."""

from __future__ import annotations

import shlex

from tileproof.conformance.explore.explored import Explored
from tileproof.conformance.gate.model import CheckReport, GatedVariant, gate_check
from tileproof.conformance.problems.generators import small
from tileproof.conformance.verdict.contract import Defect
from tileproof.emulator.coverage import section_of
from tileproof.emulator.explore import Defect as Explored_defect
from tileproof.emulator.explore import explore


@gate_check("schedules and races")
def schedules(gated: GatedVariant) -> CheckReport:
    """Many schedules of a problem that uses each ring again: no finding, no output that depends on them."""
    effort = gated.effort
    shrink = effort.shrink_seconds if gated.profile != "quick" else 0.0
    return explored(gated, effort.schedules, gated.seed, "schedules and races", shrink)


def explored(gated: GatedVariant, number: int, seed: int, check: str, shrink: float) -> CheckReport:
    """`number` schedules from `seed` on; `check` names who asks; `shrink`: CPU seconds per finding."""
    case = small(gated.plan)
    one = Explored.of(gated.kernel, gated.built, case)
    result = explore(
        one,
        schedules=number,
        seed=seed,
        compare=one.compare,
        names=one.words,
        processes=1,
        shrink_seconds=shrink,
        races=True,
        strict=gated.strict,
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
    errors = [defect for defect in result.defects if defect.severity == "error"]
    made.details["remarks"] = {str(d.signature): d.runs for d in result.defects if d.severity != "error"}
    made.findings = [found(gated, check, case.as_json(), defect) for defect in errors]
    made.reason = made.findings[0].message if made.findings else ""
    return made


def found(gated: GatedVariant, check: str, case: str, defect: Explored_defect) -> Defect:
    """What exploring found, in the terms of the verdict."""
    schedule = defect.shrunk.schedule if defect.shrunk else defect.schedules[0]
    head, *more = (defect.shrunk.text if defect.shrunk and defect.shrunk.text else defect.text).split("\n")
    missing = next((line.strip()[9:] for line in more if line.strip().startswith("missing: ")), "")
    places = defect.signature.place.split(" and ")
    return Defect(
        check=check,
        code=defect.signature.code,
        message=head,
        where=more[0].strip() if more else "",
        isa_section=section_of(defect.instruction) if defect.instruction else "",
        instruction=defect.instruction,
        ptx_line=defect.ptx_line,
        source=places[-1],
        source_before=places[0] if len(places) > 1 else "",
        missing=missing,
        evidence=tuple(line.strip() for line in more[1:]),
        count=defect.runs,
        replay=shlex.join(gated.replay("explore", f"--case={case}", "--schedule", str(schedule))),
    )
