"""The score of a draw: how many mutants were found, by operator and by check, and how precisely."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tileproof.conformance.beside.mutate.judged import BY_SOLVER, SAME_CODE, SAME_IN_SCHEDULES, Judgement
from tileproof.conformance.gate.difference import MUTATION
from tileproof.conformance.gate.evidence import ReleaseEvidence
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Json, JsonObject, JsonValue

OUTCOMES = ("killed", "survived", "equivalent", "refused")
VALUES = ("value", "missing", "surplus")


def score(judged: Sequence[Judgement]) -> JsonObject:
    """The numbers of a draw. `of` counts the mutants that ptxas takes and that are not equivalent, `score`
    the killed among them."""
    killed = [judgement for judgement in judged if judgement.outcome == "killed"]
    counted = len(killed) + sum(judgement.outcome == "survived" for judgement in judged)
    sync = [
        judgement
        for judgement in judged
        if judgement.drawn.operator == "remove-sync" and judgement.outcome in ("killed", "survived")
    ]
    values = [judgement for judgement in killed if judgement.kind in VALUES]
    machine = [judgement for judgement in killed if judgement.kind == "machine"]
    staged = [value for value in values if value.differs]
    return {
        "drawn": len(judged),
        **{name: sum(judgement.outcome == name for judgement in judged) for name in OUTCOMES},
        **_shown(judged),
        "survived with equal bits": sum(
            judgement.outcome == "survived" and judgement.same for judgement in judged
        ),
        "of": counted,
        "score": _share(len(killed), counted),
        "interval": interval(len(killed), counted),
        "synchronising": _share(sum(judgement.outcome == "killed" for judgement in sync), len(sync)),
        "crashed or stopped": sum(judgement.kind == "stopped" for judgement in judged),
        "value findings": len(values),
        "with a cause": _share(sum(bool(value.cause) for value in values), len(values)),
        "in the right stage": _share(sum(value.stage == value.differs for value in staged), len(staged)),
        "machine findings": len(machine),
        "at the right place": _share(sum(judgement.place for judgement in machine), len(machine)),
    }


def _shown(judged: Sequence[Judgement]) -> dict[str, int]:
    """Number of equivalent mutants by the kind of proof."""
    arguments = [judgement.argument for judgement in judged if judgement.outcome == "equivalent"]
    return {
        "the same machine code": arguments.count(SAME_CODE),
        "equal by the solver": sum(argument.startswith(BY_SOLVER) for argument in arguments),
        SAME_IN_SCHEDULES: arguments.count(SAME_IN_SCHEDULES),
    }


def interval(part: int, whole: int, z: float = 1.96) -> list[float] | None:
    """The low and high end of the 95% confidence interval of a share (Wilson 1927); None for an empty
    count."""
    if not whole:
        return None
    share, room = part / whole, z * z / whole
    middle = share + room / 2
    apart = z * math.sqrt(share * (1 - share) / whole + room / (4 * whole))
    low, high = (middle - apart) / (1 + room), (middle + apart) / (1 + room)
    return [round(max(low, 0.0), 4), round(min(high, 1.0), 4)]


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def by_operator(judged: Sequence[Judgement]) -> list[JsonObject]:
    """One row an operator."""
    rows: list[JsonObject] = []
    for name in dict.fromkeys(judgement.drawn.operator for judgement in judged):
        own = [judgement for judgement in judged if judgement.drawn.operator == name]
        counts = {outcome: sum(judgement.outcome == outcome for judgement in own) for outcome in OUTCOMES}
        rows.append({"operator": name, "drawn": len(own), **counts})
    return rows


def by_check(judged: Sequence[Judgement]) -> list[JsonObject]:
    """One row a check that killed, the most frequent first."""
    found = Counter(judgement.by for judgement in judged if judgement.outcome == "killed")
    return [
        {"check": name, "killed": number}
        for name, number in sorted(found.items(), key=lambda x: (-x[1], x[0]))
    ]


def as_json(judged: Sequence[Judgement], **of: Json) -> JsonObject:
    """The score as JSON, which is the gate's section `mutation` of a variant: what was drawn from (`of`:
    kernel, variant, seed, profile, operators, count, ptx), the numbers of `score`, the rows of `by_operator`
    and `by_check`, and, as rows of `Judgement.as_dict`, the survivors and the equivalent ones with the
    argument of each. To merge scores into an evidence, use this or `tileproof mutate --into`.
    """
    survived, equivalent = (
        [judgement.as_dict() for judgement in judged if judgement.outcome == outcome]
        for outcome in ("survived", "equivalent")
    )
    tables = {"by operator": by_operator(judged), "by check": by_check(judged)}
    return {**of, **score(judged), **tables, "survivors": survived, "equivalents": equivalent}


def row(numbers: Mapping[str, JsonValue], **of: JsonValue) -> str:
    """One line of a ledger of draws: what was drawn from (`of`), and its score."""
    return json.dumps({**of, **numbers}, separators=(",", ":"))


def into(
    made: ReleaseEvidence, kernel: str, variant: Mapping[str, int], part: Mapping[str, JsonValue]
) -> ReleaseEvidence:
    """The evidence with a score as section `mutation` of the variant's verdict; TileproofError where it does
    not judge that variant.
    """
    own = [
        record
        for record in made.kernels
        if (record.program.kernel, dict(record.program.variant)) == (kernel, dict(variant))
    ]
    if not own:
        raise TileproofError(
            "the evidence has no verdict on this kernel",
            where="--into",
            expected=f"{kernel}, {dict(variant)}",
            found=", ".join(kernel.program.kernel for kernel in made.kernels),
        )
    kernels = tuple(
        replace(kernel, sections={**kernel.sections, MUTATION: dict(part)}) if kernel is own[0] else kernel
        for kernel in made.kernels
    )
    return replace(made, kernels=kernels)
