"""Findings by cause: one row per barrier lapped or fence missing, however often unrolled code repeats it; and
findings that a user accepts on purpose.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tileproof.emulator.codes import CODES
from tileproof.emulator.errors import LaunchError

if TYPE_CHECKING:
    from tileproof.emulator.result import Finding

INLINED = " (inlined at "


def inline_chain(source: str) -> tuple[str, str]:
    """(its own line, its callers "a, b, c" or "") of a source place "file:line (inlined at a, b, c)"."""
    own, _, callers = source.rstrip(")").partition(INLINED)
    return own, callers


def call_site(source: str) -> str:
    """The callers of an inline chain, else the line itself: a wrapper of one instruction says little, and
    variants of it called from one place are one thing.
    """
    own, callers = inline_chain(source)
    return callers or own


def base(instruction: str) -> str:
    """An opcode without its hints, types and widths: "ld.shared" of "ld.shared.v4.b32"."""
    words = instruction.split(" ")[0].split(".")
    return ".".join(words[: 3 if words[0] in ("cp", "tcgen05", "mbarrier") else 2])


def _where(source: str, instruction: str) -> str:
    # Without source lines unrolled copies cannot be told from one another: what they do stands for the place.
    return call_site(source) if source else base(instruction)


# On which side of a race the missing fence or wait should stand; races of other codes lack an edge between
# the two, so both sides make the cause.
SIDE = {
    "race-proxy-fence": "first",
    "race-proxy-write": "first",
    "race-proxy-reader": "first",
    "race-tmem-unwaited": "first",
    "race-tmem-reused": "first",
    "race-mma-reused": "second",
    "race-mbarrier-init": "first",
    "race-mbarrier-init-fence": "first",
    "race-mbarrier-init-relaxed": "first",
    "race-exit": "first",
    "race-store-exit": "first",
    "race-commit-exit": "first",
    "race-copy-unwaited": "second",
    "race-mma-unwaited": "second",
    "race-operand-fence": "second",
    "race-proxy-read": "second",
    "race-scope-default": "second",
    "race-grids": "second",
}


def key(finding: Finding) -> tuple[str, ...]:
    """What makes two findings one cause: the code, what is missing, and the call site of the access that
    lacks it; of a hang its root.
    """
    root = finding.root
    if root is not None:
        return (finding.severity, finding.code, root.kind, root.node.kind, str(root.node.offset))
    place = _where(finding.source, finding.instruction)
    race = finding.race
    if race is None:
        return (finding.severity, finding.code, place)
    first = _where(race.source, race.instruction)
    side = SIDE.get(finding.code)
    if finding.code in ("race-tcgen05-fence", "race-waited-fence"):
        side = "second" if "after_thread_sync" in race.missing else "first"
    # Where an edge between both is missing, either access of the pair may be the later one.
    places = [first] if side == "first" else [place] if side == "second" else sorted((place, first))
    return (finding.severity, finding.code, race.missing, *places)


@dataclass(frozen=True)
class Cause:
    """Findings with one cause. `count`: how often it happened; `places`: the distinct source places, or PTX
    lines, at which; `sample`: the first of the findings, whole.
    """

    severity: str
    code: str
    count: int
    places: tuple[str, ...]
    sample: Finding

    def __str__(self) -> str:
        more = len(self.places) - 1
        text = str(self.sample)
        if self.count > self.sample.count or more:
            text += f"\n  in all {self.count} times" + (f", at {more} more place(s)" if more else "")
        return text


def place_of(finding: Finding) -> str:
    """Where a finding stands: its source, or its PTX line."""
    return finding.source or f"PTX line {finding.ptx_line}"


def by_cause(findings: Iterable[Finding]) -> tuple[Cause, ...]:
    """The findings grouped, in the order of their first."""
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        groups.setdefault(key(finding), []).append(finding)
    return tuple(
        Cause(
            group[0].severity,
            group[0].code,
            sum(f.count for f in group),
            tuple(dict.fromkeys(map(place_of, group))),
            group[0],
        )
        for group in groups.values()
    )


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
        """Whether the finding is the accepted one."""
        if finding.code != self.code:
            return False
        race = finding.race
        if self.place.isdigit():
            return int(self.place) in (finding.ptx_line, race.ptx_line if race else finding.ptx_line)
        places = (finding.source, race.source if race else "")
        return not self.place or any(self.place in place for place in places)

    def __str__(self) -> str:
        return f"{self.code}:{self.place}" if self.place else self.code


def accepted(allow: Sequence[Allow | str]) -> list[Allow]:
    """What `launch(allow=...)` was given; LaunchError for what is no list of it."""
    if isinstance(allow, str) or not isinstance(allow, Sequence):
        raise LaunchError("allow is no list", expected='["CODE", "CODE:PLACE"]', found=repr(allow))
    for one in allow:
        if not isinstance(one, str | Allow):
            raise LaunchError(
                "allow names no finding", expected='"CODE[:PLACE]" or an Allow', found=repr(one)
            )
    return [Allow.parse(one) if isinstance(one, str) else one for one in allow]


def divide(
    findings: Sequence[Finding], allow: Sequence[Allow]
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """(findings that count, findings that are accepted)."""
    accepted = [any(a.covers(f) for a in allow) for f in findings]
    return (
        tuple(f for f, yes in zip(findings, accepted, strict=True) if not yes),
        tuple(f for f, yes in zip(findings, accepted, strict=True) if yes),
    )
