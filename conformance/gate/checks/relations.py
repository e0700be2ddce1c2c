"""Metamorphic relations: two runs with related inputs must have related outputs."""

from __future__ import annotations

import shlex

import numpy as np
from tileproof.conformance.cases.generators import small
from tileproof.conformance.gate.model import CheckReport, GatedVariant, gate_check
from tileproof.emulator.coverage import union
from tileproof.spec.machine.finding import Finding, ProblemPlace
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.machine.types import Array
from tileproof.spec.problems.cases import ProblemInputs
from tileproof.spec.problems.relation import relations_of

NAME = "metamorphic relations"
EARLY = Schedule("early")  # the same for both runs: sums are added in one order


@gate_check(NAME, functions=True)
def relations(gated: GatedVariant) -> CheckReport:
    """The problem's relations between two runs with related inputs."""
    known = relations_of(gated.plan.problem)
    if not known:
        return CheckReport("unsupported", f"the problem {gated.plan.problem.name} has no relations")
    base = small(gated.plan).inputs()
    executed: list[bytes] = []

    def outputs(inputs: ProblemInputs) -> dict[str, Array]:
        launch = gated.kernel.launch(inputs, gated.built)
        seen = gated.under_test.driver.run(launch, gated.plan, EARLY, False)
        executed.append(seen.executed)
        return {name: np.asarray(output.values) for name, output in seen.outputs.items()}

    first = outputs(base)
    sizes = ",".join(f"{name}={size}" for name, size in gated.variant.sizes)
    words = ["--only", NAME, f"--profile={gated.profile}", f"--seed={gated.seed}", "--out=relations"]
    again = gated.replay("gate", *([f"--variant={sizes}"] if sizes else []), *words)
    found: list[Finding] = []
    for relation in known:
        for seed in range(gated.seed, gated.seed + gated.effort.relation_seeds):
            second = outputs(relation.change(base, seed))
            if broken := relation.broken(base, seed, first, second):
                found.append(
                    Finding(
                        "relation",
                        f"{relation.name}: {relation.says}, but {broken} does not follow (seed {seed})",
                        check=NAME,
                        problem=ProblemPlace(stage=broken if broken in gated.plan.stages else ""),
                        replay=shlex.join(again),
                    )
                )
                break
    return CheckReport(
        "failed" if found else "passed",
        found[0].message if found else "",
        findings=found,
        details={"relations": [relation.name for relation in known], "launches": len(executed)},
        executed=union(executed),
        schedules={"early": [0] * len(executed)},
    )
