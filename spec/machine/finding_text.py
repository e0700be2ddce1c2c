"""A finding as text: where it is, its headline, its lines for a terminal, and its report by the emulator."""

from __future__ import annotations

from collections.abc import Iterator

from tileproof.spec.machine.finding import Finding, MachinePlace, ProblemPlace

MAX_EVIDENCE = 24


def headline(finding: Finding) -> str:
    """The message, of a machine finding after its code."""
    return f"{finding.code}: {finding.message}" if finding.kind == "machine" else finding.message


def place(finding: Finding) -> str:
    """The place in the problem in words, else the place on the machine, else ""."""
    return problem_place(finding.problem) or machine_place(finding.machine)


def problem_place(at: ProblemPlace) -> str:
    """Stage, group, CTA, k-block and element in words."""
    if at.words:
        return at.words
    parts = [f"stage {at.stage}"] if at.stage and not at.array else []
    if at.array:
        parts.append(f"{at.array}{list(at.index)}")
        parts += [at.moment] if at.moment else []
    for label, value in (
        (at.unit, at.group),
        ("CTA", at.cta),
        ("k-block", at.k_block),
        (at.axes[0], None if at.array else at.row),
        (at.axes[1], None if at.array else at.column),
    ):
        if value is not None:
            parts.append(f"{label} {value}")
    if at.lane is not None:
        parts.append(f"TMEM lane {at.lane} column {at.tmem_column}")
    if at.smem is not None:
        parts.append(f"shared memory at byte {at.smem}")
    return ", ".join(parts)


def machine_place(at: MachinePlace) -> str:
    """Launch, CTA, warp and lane in words."""
    parts = [] if at.launch is None else [f"launch {at.launch}, {at.kernel}"]
    parts += [f"{label} {value}" for label, value in (("CTA", at.cta), *_thread(at)) if value is not None]
    return ", ".join(parts)


def _thread(at: MachinePlace) -> tuple[tuple[str, int | None], ...]:
    return ("warp", at.warp), ("lane", at.lane)


def code_line(at: MachinePlace) -> str:
    """The source line, the PTX line and the instruction, those that are known."""
    parts = [at.source] if at.source else []
    parts += [f"PTX line {at.ptx_line}"] if at.ptx_line else []
    return ", ".join(parts) + (f": {at.instruction}" if parts and at.instruction else "")


def source_or_line(source: str, ptx_line: int) -> str:
    """The source line, the PTX line where there is none, "" where neither is known."""
    return source or (f"PTX line {ptx_line}" if ptx_line else "")


def lines(finding: Finding) -> list[str]:
    """The finding as text, one fact per line, most important first."""
    return list(_lines(finding))


def _lines(finding: Finding) -> Iterator[str]:
    machine, problem = finding.machine, finding.problem
    yield headline(finding)
    at = problem_place(problem)
    if where := at or machine_place(machine):
        yield f"where:    {where}" + (f" ({problem.build} build)" if problem.build else "")
    if at and machine.warp is not None:
        lane = "" if machine.lane is None else f", lane {machine.lane}"
        yield f"warp:     {machine.warp}{lane}" + (f" (role {machine.role})" if machine.role else "")
    yield from _values(finding)
    if finding.cause:
        yield f"cause:    {finding.cause}"
    if code := code_line(machine):
        yield f"code:     {code}"
    facts, more = finding.evidence[:MAX_EVIDENCE], len(finding.evidence) - MAX_EVIDENCE
    for number, fact in enumerate((*facts, *([f"and {more} more, in the JSON"] if more > 0 else []))):
        yield f"{'' if number else 'evidence:':<9} {fact}"
    if finding.others:
        machine_kind = finding.kind == "machine"
        what = "finding(s) have the same cause" if machine_kind else "tile(s) of this stage are wrong"
        yield f"also:     {finding.others} more {what}"
    if finding.replay:
        yield f"replay:   {finding.replay}"


def _values(finding: Finding) -> Iterator[str]:
    if finding.expected is not None:
        bound = f" +- {finding.bound:.3g}" if finding.bound else " exactly"
        yield f"expected: {finding.expected!r}{bound}"
        nothing = "nothing: it was not written"
        yield f"found:    {nothing if finding.found is None else repr(finding.found)}"
    if finding.elements:
        whole = " of the tile" if finding.problem.cta is not None and finding.kind != "chain" else ""
        pattern = f"; {finding.pattern}" if finding.pattern else ""
        yield f"wrong:    {finding.wrong} of {finding.elements} elements{whole}{pattern}"
    if finding.names:
        yield f"names:    {finding.names}"


def report(finding: Finding, waiting: bool = True) -> str:
    """The finding as the emulator reports it; `waiting`: with every group of lanes that waits."""
    at = finding.machine
    times = f" ({finding.count} times)" if finding.count > 1 else ""
    out = [f"{finding.severity} {finding.code}: {finding.message}{times}"]
    parts = [f"PTX line {at.ptx_line}"] if at.ptx_line else []
    parts += [at.source] if at.source else []
    parts += [f"{label} {value}" for label, value in (("CTA", at.cta), *_thread(at)) if value is not None]
    if parts:
        out.append(f"  at {', '.join(parts)}: {at.instruction}")
        if at.race and at.race.then_execution:
            kind = "write" if at.race.then_writes else "read"
            out[-1] += f" ({kind}, execution {at.race.then_execution})"
    elif problem := problem_place(finding.problem):
        out.append(f"  at {problem}")
    out += [f"  cause: {finding.cause}"] if finding.cause else []
    out += [f"    {line}" for line in finding.evidence]
    out += [f"  {group}" for group in at.waiting] if waiting else []
    return "\n".join(out)


def brief(finding: Finding) -> str:
    """`report` without the groups of lanes that wait."""
    return report(finding, waiting=False)
