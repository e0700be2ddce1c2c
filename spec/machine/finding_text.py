"""A finding as text: where it is, its headline, its lines for a terminal, and its report by the emulator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tileproof.spec.machine.finding import VALUE_CODES, Finding, MachinePlace, ProblemPlace

AFTER_HANG = {*VALUE_CODES, "schedule-dependent-output", "relation"}  # what a hang may leave behind
MAX_EVIDENCE = 24
MAX_FOLLOWING = 6
MAX_WAITS = 3
WAITS = "waits: "  # begins the evidence of who waits for what


def printable(text: str) -> str:
    """The text with control characters escaped, except ends of lines, so that terminals do not interpret
    it."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def root(finding: Finding) -> str:
    """The root cause of a hang or livelock in words; "" where it is not known, and of any other finding."""
    return finding.cause if finding.machine.graph.roots else ""


def headline(finding: Finding) -> str:
    """The root cause, else the message; of a machine finding after its code."""
    text = root(finding) or finding.message
    return f"{finding.code}: {text}" if finding.kind == "machine" else text


def hang_first(findings: Sequence[Finding]) -> list[Finding]:
    """The findings with those that may follow from the first hang behind it."""
    first = next((number for number, finding in enumerate(findings) if root(finding)), 0)
    early = [finding for finding in findings[:first] if finding.code in AFTER_HANG]
    before = [finding for finding in findings[:first] if finding.code not in AFTER_HANG]
    return [*before, *findings[first : first + 1], *early, *findings[first + 1 :]]


def folded(findings: Sequence[Finding]) -> list[tuple[Finding, list[Finding]]]:
    """The findings as `hang_first` has them, each with those that may follow from it: values and further
    hangs of the run that hung.
    """
    hang: tuple[Finding, list[Finding]] | None = None
    roots: list[tuple[Finding, list[Finding]]] = []
    for finding in hang_first(findings):
        same_run = hang is not None and finding.replay == hang[0].replay
        if hang and same_run and (finding.code in AFTER_HANG or root(finding)):
            hang[1].append(finding)
            continue
        roots.append((finding, []))
        hang = hang or (roots[-1] if root(finding) else None)
    return roots


def following(findings: Sequence[Finding]) -> list[str]:
    """The findings that may follow from another, a line each below a line that counts them."""
    if not findings:
        return []
    count = "1 finding" if len(findings) == 1 else f"{len(findings)} findings"
    each = [
        f"  {headline(finding)}" + (f" ({place(finding)})" if place(finding) else "") for finding in findings
    ]
    more = len(each) - MAX_FOLLOWING
    return [
        f"{count} that may follow from it:",
        *each[:MAX_FOLLOWING],
        *([f"  and {more} more, in the JSON"] if more > 0 else []),
    ]


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
    """The known parts of source line, PTX line and instruction."""
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
    if root(finding):
        yield f"state:    {finding.message}"
    elif finding.cause:
        yield f"cause:    {finding.cause}"
    if code := code_line(machine):
        yield f"code:     {code}"
    for number, fact in enumerate(_evidence(finding)):
        yield f"{'' if number else 'evidence:':<9} {fact}"
    if finding.others:
        machine_kind = finding.kind == "machine"
        what = "finding(s) have the same cause" if machine_kind else "tile(s) of this stage are wrong"
        yield f"also:     {finding.others} more {what}"
    if finding.replay:
        yield f"replay:   {finding.replay}"


def _evidence(finding: Finding) -> Iterator[str]:
    """The facts; where the root of a hang is known, few of the warps that wait."""
    waits = [fact for fact in finding.evidence if fact.startswith(WAITS)] if root(finding) else []
    facts = [fact for fact in finding.evidence if fact not in waits[MAX_WAITS:]]
    yield from facts[:MAX_EVIDENCE]
    if len(facts) > MAX_EVIDENCE:
        yield f"and {len(facts) - MAX_EVIDENCE} more, in the JSON"
    if len(waits) > MAX_WAITS:
        yield f"{WAITS}and {len(waits) - MAX_WAITS} more like these, in the JSON"


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
    out = [f"{finding.severity} {finding.code}: {root(finding) or finding.message}{times}"]
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
    if root(finding):
        out.append(f"  state: {finding.message}")
    elif finding.cause:
        out.append(f"  cause: {finding.cause}")
    out += [f"    {line}" for line in finding.evidence]
    out += [f"  {group}" for group in at.waiting] if waiting else []
    return "\n".join(out)


def brief(finding: Finding) -> str:
    """`report` without the groups of lanes that wait."""
    return report(finding, waiting=False)
