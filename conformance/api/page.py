"""A launch file's verdict as one page of text."""

from __future__ import annotations

from collections.abc import Iterator

from tileproof.conformance.verdict.contract import CheckOutcome, VerdictRecord
from tileproof.spec.machine.certificate import in_words
from tileproof.spec.machine.finding_text import headline
from tileproof.spec.machine.finding_text import lines as lines_of

MOST_FINDINGS = 8
MOST_LINES = 12
MOST_SHOWN = 6
WIDTH = 100
WORDS = {
    "clean": "CLEAN",
    "defect": "DEFECT",
    "incomplete": "INCOMPLETE",
    "error": "ERROR",
}


def lines(one: VerdictRecord) -> list[str]:
    """The page, a line each."""
    out = [f"{WORDS[one.verdict]} {one.program.kernel}: {_short(one.program.entry)}"]
    for number, finding in enumerate(one.findings[:MOST_FINDINGS]):
        head, *facts = lines_of(finding)
        out += ["", f"{number + 1}. {head}", *(f"   {fact}" for fact in facts)]
    if len(one.findings) > MOST_FINDINGS:
        out.append(f"and {len(one.findings) - MOST_FINDINGS} more causes, in the JSON")
    rest = [
        text.splitlines()[0]
        for text in one.why
        if not any(text.endswith(headline(f)) for f in one.findings) and " never ran: " not in text
    ]
    rest += _never_ran(one)
    if rest:
        out += ["", "why not clean:" if not one.findings else "also:"]
        out += [f"- {text}" for text in rest[:MOST_LINES]]
        out += [f"- and {len(rest) - MOST_LINES} more, in the JSON"] if len(rest) > MOST_LINES else []
    out += ["", *_checks(one.checks), *_ran(one)]
    return out


def _short(text: str) -> str:
    return text if len(text) <= WIDTH else text[: WIDTH - 3] + "..."


def _never_ran(one: VerdictRecord) -> list[str]:
    """Instructions that must run and did not, by opcode."""
    lines: dict[str, list[int]] = {}
    for missing in one.coverage.missing() if one.coverage else ():
        lines.setdefault(f"{missing.kind} {missing.opcode}", []).append(missing.ptx_line)
    told = []
    for what, where in lines.items():
        shown = ", ".join(map(str, where[:MOST_SHOWN])) + (", ..." if len(where) > MOST_SHOWN else "")
        told.append(f"{what} never ran, at {len(where)} place(s): PTX line {shown}")
    return told


def _checks(checks: tuple[CheckOutcome, ...]) -> Iterator[str]:
    for one in checks:
        why = one.fault.splitlines()[0] if one.fault else one.reason
        outcome = "no result" if one.fault else one.outcome
        told = f": {why}" if why and one.outcome != "failed" else ""
        yield f"  {one.name:<12} {outcome}{told}"
        for text in one.details.get("unset", ())[:MOST_LINES]:
            yield f"  {'':<12}   {text}"
        for score in one.details.get("outputs", ()):
            stated = "" if score["stated"] else ", by the default bound"
            yield (
                f"  {'':<12}   {score['name']}: {score['elements'] - score['wrong']} of {score['elements']} "
                f"elements within their bound, largest error {score['worst']:.3g} of it{stated}"
            )
        if known := one.details.get("fixed inputs"):
            told = ", ".join(known[:MOST_SHOWN]) + (", ..." if len(known) > MOST_SHOWN else "")
            yield f"  {'':<12}   fixed inputs: an answer that is stored for {told} would not be noticed"
        for text, count in list(one.details.get("remarks", {}).items())[:MOST_LINES]:
            yield f"  {'':<12}   {text} (under {count} schedules)"
        for text in in_words(one.details["certificate"], True) if "certificate" in one.details else ():
            yield f"  {'':<12}   {text}"
        for error in one.details.get("errors", ()):
            for key in ("what", "where", "expected", "found", "do"):
                if error[key]:
                    yield f"  {'':<12}   {key + ':':<10}{error[key]}"


def _ran(one: VerdictRecord) -> Iterator[str]:
    if one.schedules:
        each = ", ".join(f"{s.policy} {s.launches}" for s in one.schedules)
        yield f"  schedules: {sum(s.launches for s in one.schedules)} ({each}), seed {one.seed}"
    if one.coverage:
        c = one.coverage
        ways = f"{c.branch_ways_covered} of {c.branch_ways} ways of branches"
        yield f"  covered: {c.instructions_covered} of {c.instructions} instructions, {ways}"
    for form in one.order_only[:MOST_LINES]:
        yield f"  only as order: {form.form} ({form.instructions}), PTX ISA {form.isa_section}"
    if one.program.ptx_sha256:
        yield f"  PTX sha256 {one.program.ptx_sha256}"
