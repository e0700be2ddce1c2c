"""Which actors still owe copies to a barrier: those that made them in its other phases."""

from __future__ import annotations

from collections import Counter

from tileproof.conformance.beside.logs.hangs.accounts.ledger import Blocked, Ledger
from tileproof.conformance.beside.logs.hangs.accounts.trace import Copy
from tileproof.conformance.beside.logs.hangs.log import Actor


def owing(ledger: Ledger, wait: Blocked) -> list[Actor]:
    """The actors that have not come to their copies for the awaited phase.

    Not an actor that announced the phase itself, in this CTA or another, or copied for a later one: it left
    them out.
    """
    copy, trace = wait.copy, ledger.trace
    if trace.dump or not ledger.copied or wait.need < 1 or ledger.is_cut(wait):
        return []
    found = []
    for actor in trace.steps:
        made = _copies(ledger, actor, copy)
        if not made or actor == wait.actor:
            continue
        phases = {each: _announced(ledger, each) for each in made}
        share = max((-(-made[each] // phases[each]) for each in made if phases[each]), default=0)
        told = max(ledger.made.get((actor, each), 0) for each in (copy, *ledger.twins(copy)))
        if share and made[copy] < share * wait.need and told < wait.need and _in_turn(ledger, made, copy, share):
            found.append(actor)
    return sorted(found)


def _copies(ledger: Ledger, actor: Actor, copy: Copy) -> Counter[Copy]:
    """How many copies an actor made to each stage of a barrier."""
    ring = {*ledger.siblings(copy)}
    return Counter(
        each for step in ledger.trace.steps[actor] if step.kind == "copy" for each in step.to if each in ring
    )


def _announced(ledger: Ledger, copy: Copy) -> int:
    """Phases of a barrier that were announced."""
    return max((count for (_, each), count in ledger.made.items() if each == copy), default=0)


def _in_turn(ledger: Ledger, made: Counter[Copy], copy: Copy, share: int) -> bool:
    """Whether an actor's copies to a ring's stages end in front of a stage: it left out none of it."""
    stage = ledger.stage(copy)
    return all(count <= made[copy] + share * (ledger.stage(each) < stage) for each, count in made.items())
