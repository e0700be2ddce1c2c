"""Runs cases in both forms, and the other tools on them: a row of the result per case."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field

from tileproof.spec.machine.types import Json, JsonObject
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
    """The results of cases in turn; a right form that several share runs once."""
    alarms: dict[object, tuple[str, ...]] = {}
    for case in cases:
        progress(case.id)
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


def summary(results: Sequence[CaseResult]) -> list[tuple[str, str, str, str]]:
    """Per tool: its name, cases that it accepts, wrong forms found, right forms with an alarm."""
    found = sum(bool(each.detection.code) for each in results)
    alarms = sum(bool(each.alarms) for each in results)
    total = len(results)
    rows = [("Tileproof", f"{total}", f"{found}", f"{alarms}")]
    for name in others.TOOLS:
        given = [each.tools[name] for each in results if name in each.tools]
        if given:
            counts = [sum(bool(each[key]) for each in given) for key in ("accepted", "found", "alarm")]  # type: ignore[index, call-overload]
            rows.append((name, *(str(count) for count in counts)))  # type: ignore[arg-type]
    return rows
