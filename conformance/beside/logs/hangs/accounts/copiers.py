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
        share = _of_phase(ledger, actor, {*made})
        told = max(ledger.made.get((actor, each), 0) for each in (copy, *ledger.twins(copy)))
        if made[copy] < share * wait.need and told < wait.need and _in_turn(ledger, made, copy, share):
            found.append(actor)
    return sorted(found)


def _copies(ledger: Ledger, actor: Actor, copy: Copy) -> Counter[Copy]:
    """How many copies an actor made to each stage of a barrier."""
    ring = {*ledger.siblings(copy)}
    return Counter(
        each for step in ledger.trace.steps[actor] if step.kind == "copy" for each in step.to if each in ring
    )


def _of_phase(ledger: Ledger, actor: Actor, ring: set[Copy]) -> int:
    """How many copies an actor makes for a phase of a barrier: the most between its other steps."""
    most = run = 0
    for step in ledger.trace.steps[actor]:
        run = run + 1 if step.kind == "copy" and not ring.isdisjoint(step.to) else 0
        most = max(most, run)
    return most


def doubtful(ledger: Ledger, wait: Blocked) -> bool:
    """Whether missing bytes may be those of an actor that has not come to its copies: none was printed, or
    the role that copies runs in another CTA too, and is behind there.
    """
    copy, trace = wait.copy, ledger.trace
    if not any(ledger.copied[each] for each in ledger.siblings(copy)) and not trace.dump:
        return True
    for actor in ledger.producers(copy):
        for peer in ledger.peers(actor):
            to = {each for step in trace.steps[peer] if step.kind == "copy" for each in step.to}
            to |= {each for who, each in trace.landed if who == peer}
            mine = [each for each in ledger.twins(copy) if each.owner == peer.cta]
            behind = any(ledger.made.get((peer, each), 0) < wait.need for each in mine)
            alone = to and all(each.owner == peer.cta for each in to)
            if peer.group == actor.group and peer.cta != actor.cta and behind and not alone:
                return True
    return False


def _in_turn(ledger: Ledger, made: Counter[Copy], copy: Copy, share: int) -> bool:
    """Whether an actor's copies to a ring's stages end in front of a stage: it left out none of it."""
    stage = ledger.stage(copy)
    return all(count <= made[copy] + share * (ledger.stage(each) < stage) for each, count in made.items())
