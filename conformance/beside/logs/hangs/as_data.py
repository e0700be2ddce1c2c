"""The form of a diagnosis as data: what both readers of hang logs make, what `text` prints, and `--json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict


class Quote(TypedDict):
    line: int
    text: str


class ActorName(TypedDict):
    role: str
    cta: int | None
    name: str
    cluster: int


class WaitRow(TypedDict):
    actor: ActorName
    barrier: str
    stage: int | None
    phase: int | None
    k: int | None
    line: int
    copy: str


class RootRow(WaitRow):
    state: str
    stopped: bool
    waits_behind_it: list[ActorName]


class CauseRow(TypedDict):
    code: str
    what: str
    also: Sequence[str]
    copies: str
    fix: str
    culprit: ActorName | None
    shows: list[Quote]
    lines: list[Quote]


class OtherHang(TypedDict):
    root: RootRow
    causes: list[CauseRow]


class ProducerRow(ActorName):
    arrivals: int
    needed: int
    blocked: bool


class BlockedRow(WaitRow):
    waits_for: list[ProducerRow]
    root: bool


class ActorRow(ActorName):
    plan_role: str
    k: int | None
    waits_on: str | None
    passed: int
    arrivals: int
    last: Quote


class BarrierRow(TypedDict):
    barrier: str
    stage: int | None
    cta: int | None
    name: str
    cluster: int
    waits: int
    done: int
    arrivals: int
    phases: dict[str, dict[str, int]]


class RunRow(TypedDict):
    title: str
    lines: list[int]
    outcome: str
    certainty: str
    root: RootRow | None
    cause: CauseRow | None


class ReadCounts(TypedDict):
    lines: int
    events: int
    progress: int
    host: int
    not_understood: int
    examples: list[Quote]


class TemplateRow(TypedDict):
    template: str
    lines: int


class Diagnosis(TypedDict):
    outcome: str
    certainty: str
    why: Sequence[str]
    title: str
    span: list[int]
    root: RootRow | None
    causes: list[CauseRow]
    others: list[OtherHang]
    blocked: list[BlockedRow]
    actors: list[ActorRow]
    barriers: list[BarrierRow]
    asymmetries: list[str]
    facts: dict[str, str]
    remarks: list[str]
    read: ReadCounts
    runs: list[RunRow]
    templates: NotRequired[list[TemplateRow]]
    proposal: NotRequired[list[str]]
