"""A launch file's verdict as one page of text."""

from __future__ import annotations

from collections.abc import Iterator

from tileproof.conformance.verdict.contract import CheckOutcome, VerdictRecord
from tileproof.spec.machine.certificate import in_words
from tileproof.spec.machine.finding_text import folded, following, headline, printable
from tileproof.spec.machine.finding_text import lines as lines_of

MAX_FINDINGS = 8
MAX_LINES = 12
MAX_SHOWN = 6
WIDTH = 100
WORDS = {
    "clean": "CLEAN",
    "defect": "DEFECT",
    "incomplete": "INCOMPLETE",
    "error": "ERROR",
}


def lines(verdict: VerdictRecord) -> list[str]:
    """The page, a line each, without control characters: a kernel prints what it likes."""
    return [printable(line) for line in _page(verdict)]


def _page(verdict: VerdictRecord) -> list[str]:
    out = [f"{WORDS[verdict.verdict]} {verdict.program.kernel}: {_short(verdict.program.entry)}"]
    causes = folded(verdict.findings)
    for number, (finding, after) in enumerate(causes[:MAX_FINDINGS]):
        head, *facts = lines_of(finding)
        out += ["", f"{number + 1}. {head}", *(f"   {fact}" for fact in (*facts, *following(after)))]
    if len(causes) > MAX_FINDINGS:
        out.append(f"and {len(causes) - MAX_FINDINGS} more causes, in the JSON")
    rest = [
        text.splitlines()[0]
        for text in verdict.why
        if not any(text.endswith(headline(f)) for f in verdict.findings) and " never ran: " not in text
    ]
    rest += _never_ran(verdict)
    if rest:
        out += ["", "why not clean:" if not verdict.findings else "also:"]
        out += [f"- {text}" for text in rest[:MAX_LINES]]
        out += [f"- and {len(rest) - MAX_LINES} more, in the JSON"] if len(rest) > MAX_LINES else []
    out += ["", *_checks(verdict.checks), *_ran(verdict)]
    return out


def _short(text: str) -> str:
    return text if len(text) <= WIDTH else text[: WIDTH - 3] + "..."


def _never_ran(verdict: VerdictRecord) -> list[str]:
    """Instructions that must run and did not, by opcode."""
    lines: dict[str, list[int]] = {}
    for missing in verdict.coverage.missing() if verdict.coverage else ():
        lines.setdefault(f"{missing.kind} {missing.opcode}", []).append(missing.ptx_line)
    sentences = []
    for what, where in lines.items():
        shown = ", ".join(map(str, where[:MAX_SHOWN])) + (", ..." if len(where) > MAX_SHOWN else "")
        sentences.append(f"{what} never ran, at {len(where)} place(s): PTX line {shown}")
    return sentences


def _checks(checks: tuple[CheckOutcome, ...]) -> Iterator[str]:
    for check in checks:
        why = check.fault.splitlines()[0] if check.fault else check.reason
        outcome = "no result" if check.fault else check.outcome
        tail = f": {why}" if why and check.outcome != "failed" else ""
        yield f"  {check.name:<12} {outcome}{tail}"
        for text in check.details.get("unset", ())[:MAX_LINES]:
            yield f"  {'':<12}   {text}"
        for score in check.details.get("outputs", ()):
            stated = "" if score["stated"] else ", by the default bound"
            yield (
                f"  {'':<12}   {score['name']}: {score['elements'] - score['wrong']} of {score['elements']} "
                f"elements within their bound, largest error {score['worst']:.3g} of it{stated}"
            )
        if known := check.details.get("fixed inputs"):
            names = ", ".join(known[:MAX_SHOWN]) + (", ..." if len(known) > MAX_SHOWN else "")
            yield f"  {'':<12}   fixed inputs: a stored answer for {names} would not be noticed"
        for text, count in list(check.details.get("remarks", {}).items())[:MAX_LINES]:
            yield f"  {'':<12}   {text} (under {count} schedules)"
        for text in in_words(check.details["certificate"], True) if "certificate" in check.details else ():
            yield f"  {'':<12}   {text}"
        for error in check.details.get("errors", ()):
            for key in ("what", "where", "expected", "found", "do"):
                if error[key]:
                    yield f"  {'':<12}   {key + ':':<10}{error[key]}"


def _ran(verdict: VerdictRecord) -> Iterator[str]:
    if verdict.schedules:
        each = ", ".join(f"{s.policy} {s.launches}" for s in verdict.schedules)
        yield f"  schedules: {sum(s.launches for s in verdict.schedules)} ({each}), seed {verdict.seed}"
    if verdict.coverage:
        c = verdict.coverage
        ways = f"{c.branch_ways_covered} of {c.branch_ways} ways of branches"
        yield f"  covered: {c.instructions_covered} of {c.instructions} instructions, {ways}"
    for form in verdict.order_only[:MAX_LINES]:
        yield f"  only as order: {form.form} ({form.instructions}), PTX ISA {form.isa_section}"
    if tensors := verdict.sections.get("tensors"):
        count = f"{len(tensors['groups'])} of {tensors['of']} {tensors['unit']}s"
        yield f"  compared: {count}, seed {verdict.seed}"
        yield f"  tensors sha256 {tensors['sha256']}"
    if verdict.program.entry and verdict.program.ptx_sha256:  # without an entry the hash is of no text
        yield f"  PTX sha256 {verdict.program.ptx_sha256}"
