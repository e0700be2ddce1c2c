"""Findings as the verdict contract has them: of the judge, and of the emulator alone."""

from __future__ import annotations

from tileproof.conformance.observe.finding import Finding
from tileproof.conformance.verdict.contract import Defect
from tileproof.emulator.causes import Cause
from tileproof.emulator.coverage import section_of

_COORDINATES = ("group", "cta", "k_block", "row", "column", "lane", "tmem_column", "smem")


def judged(finding: Finding, check: str, replay: str = "") -> Defect:
    """A finding of the judge; `replay` is the command that shows it again."""
    known = {name: getattr(finding, name) for name in _COORDINATES}
    return Defect(
        check=check,
        code=finding.code or finding.kind,
        message=finding.message,
        stage=finding.stage,
        where=finding.place,
        coordinates={name: value for name, value in known.items() if value is not None},
        expected=finding.expected,
        found=finding.found,
        bound=finding.bound,
        wrong=finding.wrong,
        elements=finding.elements,
        pattern=finding.pattern,
        cause=finding.cause,
        isa_section=section_of(finding.instruction) if finding.instruction else "",
        instruction=finding.instruction,
        ptx_line=finding.ptx_line or 0,
        source=finding.source,
        source_before=finding.before,
        missing=finding.missing,
        evidence=(*finding.root, *finding.waiting),
        count=1 + finding.instructions + finding.others,
        replay=replay,
    )


def of_machine(cause: Cause, check: str, replay: str = "") -> Defect:
    """A cause of the emulator's findings, of a launch that no plan describes."""
    one = cause.sample
    race = one.race
    root = one.root
    evidence = tuple(root.lines()) if root else tuple(map(str, one.waiting))
    return Defect(
        check=check,
        code=one.code,
        message=one.message,
        where=", ".join(
            [f"CTA {one.cta}"] + [f"{n} {v}" for n, v in (("warp", one.warp), ("lane", one.lane)) if v >= 0]
        ),
        cause=evidence[0] if root else "",
        isa_section=section_of(one.instruction) if one.instruction else "",
        instruction=one.instruction,
        ptx_line=one.ptx_line,
        source=one.source,
        source_before="" if race is None else race.source or f"PTX line {race.ptx_line}",
        missing="" if race is None else race.missing,
        evidence=evidence,
        count=cause.count,
        replay=replay,
    )
