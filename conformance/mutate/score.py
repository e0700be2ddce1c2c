"""The score of a draw: how many mutants were found, by operator and by check, and how well named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tileproof.conformance.mutate.judged import Judgement

VERDICTS = ("killed", "survived", "equivalent", "refused")
VALUES = ("value", "missing", "surplus")


def score(judged: Sequence[Judgement]) -> dict[str, Any]:
    """The numbers of a draw. `of` counts the mutants that ptxas takes and that are not equivalent."""
    killed = [one for one in judged if one.verdict == "killed"]
    counted = len(killed) + sum(one.verdict == "survived" for one in judged)
    sync = [
        one for one in judged if one.drawn.operator == "remove-sync" and one.verdict in ("killed", "survived")
    ]
    values = [one for one in killed if one.kind in VALUES]
    machine = [one for one in killed if one.kind == "machine"]
    staged = [one for one in values if one.differs]
    return {
        "mutants": len(judged),
        **{name: sum(one.verdict == name for one in judged) for name in VERDICTS},
        "candidates": sum(one.candidate for one in judged),
        "of": counted,
        "share": _share(len(killed), counted),
        "synchronising": _share(sum(one.verdict == "killed" for one in sync), len(sync)),
        "crashed or stopped": sum(one.kind == "stopped" for one in judged),
        "value findings": len(values),
        "with a cause": _share(sum(bool(one.cause) for one in values), len(values)),
        "in the right stage": _share(sum(one.stage == one.differs for one in staged), len(staged)),
        "machine findings": len(machine),
        "at the right place": _share(sum(one.place for one in machine), len(machine)),
    }


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def by_operator(judged: Sequence[Judgement]) -> list[dict[str, Any]]:
    """One row an operator."""
    rows = []
    for name in dict.fromkeys(one.drawn.operator for one in judged):
        own = [one for one in judged if one.drawn.operator == name]
        counts = {verdict: sum(one.verdict == verdict for one in own) for verdict in VERDICTS}
        rows.append({"operator": name, "drawn": len(own), **counts})
    return rows


def by_check(judged: Sequence[Judgement]) -> list[dict[str, Any]]:
    """One row a check that killed, the most frequent first."""
    found = Counter(one.by for one in judged if one.verdict == "killed")
    return [
        {"check": name, "killed": number}
        for name, number in sorted(found.items(), key=lambda x: (-x[1], x[0]))
    ]
