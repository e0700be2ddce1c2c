"""Whether a single run of a launch covers all its schedules (docs/certificate.md)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Literal, TypedDict

from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.finding_text import source_or_line

# "open": an obligation is open, or two accesses race. "order-decides": a result depends on an order that
# nothing fixes. "not-tracked": the race checker does not follow an access. "unsupported": the certificate
# does not cover a form of synchronisation. "truncated": the run did not end.
Reason = Literal["open", "order-decides", "not-tracked", "unsupported", "truncated"]

OTHERS = "clusters that did not run are assumed to share no data with these"
SUMS_BEFORE = (
    "a launch before the last adds floats in an order that nothing fixes; a later launch may read them"
)


@dataclass(frozen=True)
class Doubt:
    """Why a launch is not certified: the reason, in words, and the instruction, as often as it happened.

    `reversed_by`: of two events whose order decides, the schedule that holds back the first; of an allocation
    of tensor memory, a schedule with another first column. Empty where none is constructed.
    """

    reason: Reason
    text: str
    ptx_line: int = 0
    source: str = ""
    instruction: str = ""
    count: int = 1
    reversed_by: str = ""

    def __str__(self) -> str:
        place = source_or_line(self.source, self.ptx_line)
        return f"{self.reason}: {self.text}" + (f" (at {place})" if place else "")


@dataclass(frozen=True)
class Obligations:
    """How many orders of two events the certificate of a launch needs, by kind, open orders included.

    `arrivals`: what is counted in a phase comes after the phase before. `waits`: a wait starts after the
    phase before the awaited phase. `held`: the next phase ends after the wait. `announcements`: `expect_tx`
    comes before an arrival of its phase.
    """

    arrivals: int = 0
    waits: int = 0
    held: int = 0
    announcements: int = 0

    @property
    def total(self) -> int:
        return self.arrivals + self.waits + self.held + self.announcements


@dataclass(frozen=True)
class Certificate:
    """The conclusion from a run with race checking about the other schedules of its launch.

    Without doubts every legal schedule has the same events and the same values, and ends. `sums`: it adds
    floats in global memory in no fixed order; these sums are equal up to rounding.
    `additions`: hashes of what reductions without a result add to global memory, as a multiset of addresses
    and operands. `part`: only chosen clusters of the grid ran. The certificate then assumes that the others
    write nothing that these access, but for reductions that commute, and that these write nothing they read.
    """

    obligations: Obligations = Obligations()
    doubts: tuple[Doubt, ...] = ()
    sums: bool = False
    additions: tuple[int, int] = (0, 0)
    part: bool = False

    def __bool__(self) -> bool:
        return not self.doubts

    @property
    def reversals(self) -> dict[str, str]:
        """The schedules of the doubts that have a schedule, each with the first such doubt as text."""
        return {doubt.reversed_by: str(doubt) for doubt in reversed(self.doubts) if doubt.reversed_by}

    def __str__(self) -> str:
        if self.doubts:
            more = len(self.doubts) - 1
            return f"not certified: {self.doubts[0]}" + (f"; {more} more reason(s)" if more else "")
        sums = "; sums of floats up to the order of their additions" if self.sums else ""
        part = f"; {OTHERS}" if self.part else ""
        return f"certified for all schedules ({self.obligations.total} obligations{sums}{part})"


def merged_certificate(
    certificates: Iterable[Certificate | None], found: Iterable[Finding] = ()
) -> Certificate | None:
    """The certificate of launches that run in sequence; None if a launch has none, or without launches.
    `found`: findings of no single launch, such as accesses of launches that overlap.
    """
    each = tuple(certificates)
    known = [run for run in each if run is not None]
    if not each or len(known) < len(each):
        return None
    doubts = [doubt for run in known for doubt in run.doubts]
    if any(run.sums for run in known[:-1]):
        doubts.append(Doubt("order-decides", SUMS_BEFORE))
    counts = {
        kind.name: sum(getattr(run.obligations, kind.name) for run in known) for kind in fields(Obligations)
    }
    return Certificate(
        Obligations(**counts),
        (*doubts, *from_findings(found)),
        any(run.sums for run in known),
        known[0].additions if len(known) == 1 else _digest([run.additions for run in known]),
        any(run.part for run in known),
    )


def _digest(additions: list[tuple[int, int]]) -> tuple[int, int]:
    """The additions of several launches, in their order."""
    digest = hashlib.sha256(repr(additions).encode()).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:16], "little")


class CertificateSummary(TypedDict):
    """The certificates of several runs, for reports: `certified` of `launches` runs with race
    checking, and the reasons of the others with the number of runs that give each. `part`: so many of the
    certified launches ran only chosen clusters.
    """

    launches: int
    certified: int
    part: int
    reasons: dict[str, int]


def summary(certificates: Iterable[Certificate | None]) -> CertificateSummary:
    """The summary of the certificates that there are."""
    known = [run for run in certificates if run is not None]
    reasons = Counter(text for run in known for text in dict.fromkeys(map(str, run.doubts)))
    certified = sum(map(bool, known))
    return {
        "launches": len(known),
        "certified": certified,
        "part": sum(run.part for run in known if run),
        "reasons": dict(reasons.most_common(12)),
    }


def in_words(totals: CertificateSummary, same: bool, schedules: int = 0) -> list[str]:
    """A `summary` as lines; none without race checking. `same`: all runs are of one launch with the same
    inputs, so that a single certificate covers them. `schedules`: that many ran, where it is not `launches`.
    """
    launches, certified = totals["launches"], totals["certified"]
    if not launches:
        return []
    part = [f"{totals['part']} of {launches} launches ran only chosen clusters: {OTHERS}"][: totals["part"]]
    if certified == launches or (same and certified):
        return ["certified for all schedules (docs/certificate.md)", *part]
    head = f"sampled: {schedules or launches} schedules"
    if not same:
        head = f"certified for all schedules: {certified} of {launches} launches"
    reasons = list(totals["reasons"].items())[:3]
    not_certified = (f"not certified: {text} ({count} run{'s'[: count - 1]})" for text, count in reasons)
    return [head, *part, *not_certified]


# Warnings about order that docs/assumptions.md takes to hold on hardware.
ASSUMED = frozenset(
    [
        "race-scope-default",
        "race-relaxed-barrier",
        "race-tmem-reused",
        "race-mma-reused",
        "race-proxy-write",
        "race-waited-fence",
        "race-commit-fence",
        "race-mbarrier-init-relaxed",
    ]
)
# Warnings that depend on the order, or come with an order that is not followed: tensor memory of both kinds
# of groups, and an operation that may come after the exit of its CTA.
_OPEN = frozenset(["cta-group-mixed", "async-pending-at-exit", "commit-at-exit"])
_ENDS = ("time-limit", "instruction-limit")


def from_findings(findings: Iterable[Finding]) -> tuple[Doubt, ...]:
    """A doubt for each finding that leaves an order or the end of the run open: every error, warnings of the
    race checker beside `ASSUMED`, and `_OPEN`.
    """
    doubts = []
    for found in findings:
        race = (
            found.code.startswith(("race-", "phase-"))
            and found.severity == "warning"
            and found.code not in ASSUMED
        )
        if found.severity != "error" and not race and found.code not in _OPEN:
            continue
        at = found.machine
        reason: Reason = "truncated" if found.code in _ENDS else "open"
        doubts.append(Doubt(reason, found.code, at.ptx_line, at.source, at.instruction, found.count))
    return tuple(doubts)
