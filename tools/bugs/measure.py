"""Runs cases in both forms, and the other tools on them: a row of the result per case."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field

from tileproof.spec.machine.types import Json, JsonObject, UncheckedObject
from tileproof.tools.bugs import others
from tileproof.tools.bugs.case import BugCase, Detection


@dataclass(frozen=True)
class CaseResult:
    """What Tileproof and other tools report of a case.

    `alarms`: errors and warnings of the right form under ten schedules. `seconds`: of the wrong form.
    """

    id: str
    rows: tuple[str, ...]
    wrong: str
    base: str
    form: str
    detection: Detection
    alarms: tuple[str, ...]
    seconds: float
    tools: JsonObject = field(default_factory=dict)

    @property
    def right(self) -> bool:
        """Found at its place with its cause, and no alarm on the right form."""
        return self.detection.named and not self.alarms

    def as_dict(self) -> dict[str, Json]:
        """For `--json`."""
        return {**asdict(self), "named": self.detection.named}


def measured(
    cases: Sequence[BugCase], tools: bool = True, progress: Callable[[str], None] = lambda line: None
) -> Iterator[CaseResult]:
    """The results of cases in turn but those that cannot run here; a shared right form runs a single time."""
    alarms: dict[object, tuple[str, ...]] = {}
    for case in cases:
        progress(f"{case.id}: skipped: {case.skip}" if case.skip else case.id)
        if case.skip:
            continue
        began = time.monotonic()
        detection = case.detected()
        seconds = round(time.monotonic() - began, 2)
        if case.right_key not in alarms:
            alarms[case.right_key] = tuple(case.alarms())
        yield CaseResult(
            case.id,
            case.rows,
            case.wrong,
            case.base,
            case.form,
            detection,
            alarms[case.right_key],
            seconds,
            others.answers(case) if tools else {},
        )


HEAD = ("tool", "cases it accepts", "wrong forms found", "right forms with an alarm")


def counts(rows: Sequence[UncheckedObject], tool: str) -> tuple[int, int, int]:
    """Of rows of a result: accepted by a tool, wrong forms that it finds, right forms with an alarm."""
    if tool == "Tileproof":
        found = [bool(row["detection"]["code"]) for row in rows]
        return len(found), sum(found), sum(bool(row["alarms"]) for row in rows)
    given = [row["tools"][tool] for row in rows if tool in row["tools"]]
    accepted, found_by, alarms = (sum(each[key] for each in given) for key in ("accepted", "found", "alarm"))
    return accepted, found_by, alarms


def summary(rows: Sequence[UncheckedObject]) -> list[tuple[str, ...]]:
    """A row of `HEAD` for each tool that ran. The right form is the reference of a comparison of outputs,
    which can have no alarm on it.
    """
    ran = ["Tileproof", *(tool for tool in others.TOOLS if any(tool in row["tools"] for row in rows))]
    made: list[tuple[str, ...]] = []
    for tool in ran:
        accepted, found, alarms = map(str, counts(rows, tool))
        made.append((tool, accepted, found, "-" if tool in others.COMPARED else alarms))
    return made
