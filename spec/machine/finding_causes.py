"""The cause that findings share: the code, what is missing, and the place that lacks it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.finding_text import source_or_line

INLINED = " (inlined at "


def inline_chain(source: str) -> tuple[str, str]:
    """(its own line, its callers "a, b, c" or "") of a source place "file:line (inlined at a, b, c)"."""
    own, _, callers = source.rstrip(")").partition(INLINED)
    return own, callers


def call_site(source: str) -> str:
    """The callers of an inline chain, else the line itself: the line of a wrapper of an instruction has
    little information, and variants of it called from the same place have the same cause.
    """
    own, callers = inline_chain(source)
    return callers or own


def base(instruction: str) -> str:
    """An opcode without its hints, types and widths: "ld.shared" of "ld.shared.v4.b32"."""
    words = instruction.split(" ")[0].split(".")
    return ".".join(words[: 3 if words[0] in ("cp", "tcgen05", "mbarrier") else 2])


def _where(source: str, instruction: str) -> str:
    # Without source lines unrolled copies cannot be distinguished: what they do stands for the place.
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
    root = finding.machine.root
    if root is not None:
        return (finding.severity, finding.code, root.kind, root.node.kind, str(root.node.offset))
    place = _where(finding.machine.source, finding.machine.instruction)
    race = finding.machine.race
    if race is None:
        return (finding.severity, finding.code, place)
    first = _where(race.source, race.instruction)
    side = SIDE.get(finding.code)
    if finding.code in ("race-tcgen05-fence", "race-waited-fence"):
        side = "second" if "after_thread_sync" in race.missing else "first"
    # Where an edge between both is missing, either access of the pair may be the later access.
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
            tuple(dict.fromkeys(source_or_line(f.machine.source, f.machine.ptx_line) for f in group)),
            group[0],
        )
        for group in groups.values()
    )
