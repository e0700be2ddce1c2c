"""Signs that lines of a log are missing: an answer is then never certain."""

from __future__ import annotations

from tileproof.conformance.beside.logs.hangs.accounts.evidence import LoggedReason
from tileproof.conformance.beside.logs.hangs.accounts.ledger import Ledger


def signs(ledger: Ledger, parities: list[LoggedReason]) -> list[str]:
    """What the lines contradict: an end without its wait, a wait that ended without its arrivals, a role
    that stops elsewhere, two waits out of turn.
    """
    found = []
    ended = [step for steps in ledger.waits.values() for step in steps if step.passed]
    lone = [step.line for step in ended if step.lone]
    if lone and 2 * len(lone) < len(ended):
        found.append(f"a wait ends that no line begins (line {min(lone)})")
    for (actor, copy), steps in sorted(ledger.waits.items(), key=lambda item: item[1][0].line):
        if ledger.made and ledger.lacks_of(actor, copy):
            line = next((step.line for step in reversed(steps) if step.passed), steps[0].line)
            found.append(f"a wait on {copy} ended, and lines about its arrivals are missing (line {line})")
            break
    trace = ledger.trace
    for actor in sorted(trace.steps) if trace.prints_ends and not trace.dump else ():
        if actor not in trace.ended and trace.blocked(actor) is None:
            found.append(f"{actor} neither waits nor ends: its last lines are missing, or it stopped")
            break
    odd = {(each.waiter, ledger.family(each.copy)) for each in parities}
    if len(odd) > 1:
        found.append(f"{len(odd)} waits are out of turn: lines before them are missing")
    return found
