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
    """Whether missing bytes may be those of an actor that has not come to its copies: the log prints copies,
    and none to this barrier; or the role that copies runs in another CTA too, copies to other CTAs, and is
    behind there.
    """
    copy, dump = wait.copy, ledger.trace.dump
    if ledger.copied and not dump and not any(ledger.copied[each] for each in ledger.siblings(copy)):
        return True
    for actor in ledger.producers(copy):
        peers = [peer for peer in ledger.peers(actor) if (peer.group, peer.cta) != (actor.group, actor.cta)]
        own = [each for each in peers if each.group == actor.group]
        crossing = [each.owner != who.cta for who in (actor, *own) for each in _targets(ledger, who)]
        if not (any(crossing) or (dump and not crossing)):
            continue
        for peer in own:
            mine = [each for each in ledger.twins(copy) if each.owner == peer.cta]
            if any(ledger.made.get((peer, each), 0) < wait.need for each in mine):
                return True
    return False


def _targets(ledger: Ledger, actor: Actor) -> set[Copy]:
    """The barriers to which an actor copied."""
    to = {each for step in ledger.trace.steps[actor] if step.kind == "copy" for each in step.to}
    return to | {each for who, each in ledger.trace.landed if who == actor}


def _in_turn(ledger: Ledger, made: Counter[Copy], copy: Copy, share: int) -> bool:
    """Whether an actor's copies to a ring's stages end in front of a stage: it left out none of it."""
    stage = ledger.stage(copy)
    return all(count <= made[copy] + share * (ledger.stage(each) < stage) for each, count in made.items())
