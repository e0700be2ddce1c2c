"""Findings by cause: one row per barrier lapped or fence missing, however often unrolled code repeats it; and
findings that a user accepts on purpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tileproof.emulator.codes import CODES
from tileproof.emulator.errors import LaunchError
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.finding_causes import Cause, by_cause, key

__all__ = ["Allow", "Cause", "by_cause", "divide", "key"]


@dataclass(frozen=True)
class Allow:
    """A finding that is accepted on purpose: a code, and, where given, a text that its place must contain.

    The place is the source chain of the instruction, or of the earlier access of a race ("softmax.cuh:93"),
    or the PTX line as a whole number.
    """

    code: str
    place: str = ""

    @classmethod
    def parse(cls, text: str) -> Allow:
        """`CODE[:PLACE]`; LaunchError for a code that no finding has, and for a colon without a place."""
        code, colon, place = text.partition(":")
        if code not in CODES:
            raise LaunchError(
                "no finding has this code",
                where=f"--allow {text}",
                expected="CODE or CODE:PLACE, with a code of docs/instructions.md",
                found=repr(code),
                do="`tileproof instructions --findings` lists the codes",
            )
        if colon and not place.strip():
            raise LaunchError(
                "no place follows the colon",
                where=f"--allow {text}",
                expected=f"{code} for every place, or {code}:PLACE",
                found=repr(place),
            )
        return cls(code, place)

    def covers(self, finding: Finding) -> bool:
        """Whether the finding is accepted."""
        if finding.code != self.code:
            return False
        at, race = finding.machine, finding.machine.race
        if self.place.isdigit():
            return int(self.place) in (at.ptx_line, race.ptx_line if race else at.ptx_line)
        places = (at.source, race.source if race else "")
        return not self.place or any(self.place in place for place in places)

    def __str__(self) -> str:
        return f"{self.code}:{self.place}" if self.place else self.code


def accepted(allow: Sequence[Allow | str]) -> list[Allow]:
    """The entries of `launch(allow=...)`; LaunchError if it is not a list of them."""
    if isinstance(allow, str) or not isinstance(allow, Sequence):
        raise LaunchError("allow is not a list", expected='["CODE", "CODE:PLACE"]', found=repr(allow))
    for entry in allow:
        if not isinstance(entry, str | Allow):
            raise LaunchError(
                "an entry of allow is not a finding", expected='"CODE[:PLACE]" or an Allow', found=repr(entry)
            )
    return [Allow.parse(entry) if isinstance(entry, str) else entry for entry in allow]


def divide(
    findings: Sequence[Finding], allow: Sequence[Allow]
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """(findings that count, findings that are accepted)."""
    accepted = [any(a.covers(f) for a in allow) for f in findings]
    return (
        tuple(f for f, yes in zip(findings, accepted, strict=True) if not yes),
        tuple(f for f, yes in zip(findings, accepted, strict=True) if yes),
    )
