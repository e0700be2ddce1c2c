"""Rules that prove a surviving mutant equivalent to the original, from its code alone.

A rule holds for every kernel and place, and reads the code alone, no run. Each gives its reason, for a
reviewer to dispute.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from tileproof.conformance.beside.mutate import (
    barriers,
    bits,
    fences,
    lanes,
    roundings,
)
from tileproof.conformance.beside.mutate.code import REGISTER, CodeLine, PtxCode
from tileproof.conformance.beside.mutate.draw import Drawn
from tileproof.conformance.beside.mutate.flow import Flow, meets

SM_SHARED_BYTES = 228 << 10  # of one processor, sm_100 (CUDA C Programming Guide, table of capabilities)
RESERVED = 1 << 10  # of each CTA
BY_A_RULE = "rule "  # what the argument of a rule begins with


@dataclass(frozen=True)
class Facts:
    """Of a launch: CTAs per cluster, bytes of shared memory per CTA, threads per CTA (None: not known)."""

    cluster: int
    shared_bytes: int
    block: tuple[int, int, int] | None = None


Rule = Callable[[PtxCode, Drawn, CodeLine, Facts], str]
RULES: dict[str, Rule] = {}


def rule(name: str) -> Callable[[Rule], Rule]:
    """Registers a rule under its name."""

    def add(function: Rule) -> Rule:
        RULES[name] = function
        return function

    return add


def proved(code: PtxCode, drawn: Drawn, facts: Facts) -> str:
    """The first rule that proves the mutant equivalent, and why; "" when none does."""
    at = _changed(code, drawn)
    for name, decide in RULES.items() if at is not None else ():
        assert at is not None
        because = decide(code, drawn, at, facts)
        if because:
            return f"{BY_A_RULE}{name}: {because}"
    return ""


def _changed(code: PtxCode, drawn: Drawn) -> CodeLine | None:
    """The instruction that was changed, or the first of two that changed places; None where several were, or
    sources.
    """
    numbers = [number for number in drawn.lines if number in code.at]
    if drawn.operator == "move" and numbers:
        return code.code[code.at[numbers[0]]]
    return code.code[code.at[numbers[0]]] if len(drawn.lines) == len(numbers) == 1 else None


def _becomes(code: PtxCode, drawn: Drawn, at: CodeLine) -> CodeLine | None:
    """The single instruction that replaces it, with the same destination; None for any other change."""
    text = drawn.lines[at.number]
    found = PtxCode(f".entry x()\n{{\n{text}\n}}", "x").code
    if "\n" in text or len(found) != 1:
        return None
    other = found[0]
    alike = (other.guard, other.operands[:1]) == (at.guard, at.operands[:1])
    return other if alike and len(other.operands) == len(at.operands) else None


def _number(operand: str) -> bool:
    return bool(re.fullmatch(r"-?(?:0x[0-9A-Fa-f]+|\d+)", operand))


@rule("no other allocation")
def relinquish(code: PtxCode, drawn: Drawn, at: CodeLine, facts: Facts) -> str:
    """Relinquishing the allocation permit twice, or not at all if no second CTA fits on the SM."""
    alone = 2 * (facts.shared_bytes + RESERVED) > SM_SHARED_BYTES
    if not at.opcode.startswith("tcgen05.relinquish"):
        return ""
    if drawn.operator == "duplicate":
        return "the first one gives up the right, and only alloc is illegal after it (PTX ISA 9.7.16.7.1)"
    if drawn.operator == "remove-effect" and alone:
        return (
            "it allows other CTAs on the processor to allocate, but no second CTA fits (PTX ISA 9.7.16.7.1)"
        )
    return ""


@rule("a cluster of one CTA")
def one_cta(code: PtxCode, drawn: Drawn, at: CodeLine, facts: Facts) -> str:
    """The CTA's scope or window, if the cluster has a single CTA."""
    narrower = (
        ".release.cluster is .release.cta",
        ".acquire.cluster is .acquire.cta",
        "shared::cluster.b64 is ",
    )
    if drawn.operator == "scope" and facts.cluster == 1 and drawn.what.startswith(narrower):
        return "its threads and its shared memory are the CTA's own (PTX ISA 8.5, 5.1.5)"
    return ""


@rule("a fence next to the same fence")
def dominated(code: PtxCode, drawn: Drawn, at: CodeLine, facts: Facts) -> str:
    """A fence that orders earlier accesses, if the same fence follows on every path before the thread
    publishes anything; or a fence that orders later accesses, if the same fence precedes it on every path
    without a wait between.
    """
    return fences.without(fences.beside, code, drawn, at)


@rule("a fence without accesses to order")
def idle(code: PtxCode, drawn: Drawn, at: CodeLine, facts: Facts) -> str:
    """`before_thread_sync` where on every way back no operation of tensor memory comes before the same fence,
    a commit or the beginning; `after_thread_sync` where none comes before the same fence or the end.
    """
    return fences.without(fences.idle, code, drawn, at)


@rule("a fence after a barrier")
def beyond(code: PtxCode, drawn: Drawn, at: CodeLine, facts: Facts) -> str:
    """In a cluster of one CTA: `after_thread_sync` behind the first barrier of all threads, before which no
    operation of tensor memory is issued; `before_thread_sync` in front of the last, behind which none is.
    """
    return fences.without(barriers.beyond, code, drawn, at) if facts.cluster == 1 else ""


@rule("a barrier of a warp before a barrier of all")
def before_all(code: PtxCode, drawn: Drawn, at: CodeLine, facts: Facts) -> str:
    """`bar.warp.sync` of all lanes, removed or after a fence, if `bar.sync 0` follows after fences only."""
    return barriers.before_all(code, drawn, at)


@rule("a barrier of all threads twice")
def meets_twice(code: PtxCode, drawn: Drawn, at: CodeLine, facts: Facts) -> str:
    """`bar.sync 0` twice, if every thread reaches each such barrier once, and no other barrier."""
    return barriers.twice(code, drawn, at)


@rule("a barrier of all threads by another number")
def other_number(code: PtxCode, drawn: Drawn, at: CodeLine, facts: Facts) -> str:
    """`bar.sync 0`, which every thread reaches once, with a number that no other barrier has."""
    return barriers.renamed(code, drawn, at)


@rule("a proxy fence after reads only")
def behind_reads(code: PtxCode, drawn: Drawn, at: CodeLine, facts: Facts) -> str:
    """`fence.proxy.async` if the entry does not write shared memory through the generic proxy."""
    return fences.without(fences.reads_only, code, drawn, at)


@rule("a rounding before another rounding")
def rounded_again(code: PtxCode, drawn: Drawn, at: CodeLine, facts: Facts) -> str:
    """A directed rounding of an f32 value that is rounded to bf16 or f16 and not used otherwise: the contract
    is the bound of the stage, which holds.
    """
    return roundings.narrowed(code, drawn, at)


@rule("loads covered by a later wait")
def later(code: PtxCode, drawn: Drawn, at: CodeLine, facts: Facts) -> str:
    """`tcgen05.wait::ld` left out, or before a load that it stood behind, where another follows before the
    thread tells anybody anything, or stores to tensor memory. A register waits for its own load (PTX ISA
    9.7.16.6.4).
    """
    return fences.later(code, drawn, at)


@rule("a fence of inits before a barrier")
def announced(code: PtxCode, drawn: Drawn, at: CodeLine, facts: Facts) -> str:
    """`fence.mbarrier_init` where a barrier of the cluster that releases comes before the thread tells
    anybody anything; in a cluster of one CTA, one of the CTA.
    """
    return fences.without(partial(fences.announced, facts.cluster), code, drawn, at)


@rule("a fence of a warp")
def of_a_warp(code: PtxCode, drawn: Drawn, at: CodeLine, facts: Facts) -> str:
    """`before_thread_sync` and `bar.warp.sync` of all lanes in the other order, where what the fence orders
    are loads and stores of tensor memory: each is one operation of the warp, and every lane has the fence. Or
    `fence.proxy.async` and that barrier.
    """
    return fences.over_warp(code, drawn)


@rule("two fences of different kinds")
def unlike_fences(code: PtxCode, drawn: Drawn, at: CodeLine, facts: Facts) -> str:
    """A tcgen05.fence and a fence.proxy exchanged, with only computation in between."""
    return fences.unlike(code, drawn)


# What a release may tell of: accesses that others may ask for, and what the thread has learnt. A load by the
# tensor memory accelerator is in no order with what its thread does next; and a phase that waits for bytes is
# not over by the arrival that announced them, so that to know of that one alone is of no use.
_RELEASED = re.compile(
    r"st\w*\.|red|atom|ld\w*\.(?!param|const|global\.nc)|multimem|tensormap|clusterlaunchcontrol|tcgen05\.|wgmma|"
    r"mbarrier\.(?!(arrive\.)?expect_tx)|cp\."
)


@rule("nothing to release")
def released(code: PtxCode, drawn: Drawn, at: CodeLine, facts: Facts) -> str:
    """A relaxed arrival that announces bytes, by a thread that has stored, loaded and learnt nothing since a
    barrier of all threads.
    """
    if drawn.operator != "scope" or not drawn.what.startswith(".release. is .relaxed."):
        return ""
    if not at.opcode.startswith("mbarrier.arrive.expect_tx") or not code.alone:
        return ""
    flow = Flow.of(code)

    def everyone(line: CodeLine) -> bool:
        # What came before it, others of the cluster learn by the arrival, where they wait for it.
        own = facts.cluster == 1 or ".shared::cta" in at.opcode
        whole = own and line.opcode == "bar.sync" and line.operands == ("0",)
        return not line.guard and (whole or line.opcode.startswith("barrier.cluster.wait"))

    def nothing(line: CodeLine) -> bool:
        loads = line.opcode.startswith("cp.async.bulk.tensor") and ".shared::cluster.global" in line.opcode
        return loads or not (_RELEASED.match(line.opcode) or fences.LEARNS.match(line.opcode))

    if flow is None or not meets(code, code.at[at.number], flow.before, everyone, nothing, ends=True):
        return ""
    return (
        "since a barrier of all threads the thread has neither written nor read anything that others access"
    )


@rule("a product that clears")
def clears(code: PtxCode, drawn: Drawn, at: CodeLine, facts: Facts) -> str:
    """D = A B twice, with nothing in between."""
    if drawn.operator != "duplicate" or not at.opcode.startswith("tcgen05.mma") or at.guard:
        return ""
    if re.search("::(use|lastuse)", at.opcode):
        return ""  # what the collector buffer holds behind the first is not known
    enabled = [operand for operand in at.operands[4:] if REGISTER.fullmatch(operand)]
    made = [line for line in _of_block(code, at) if line.operands[:1] == tuple(enabled[-1:])]
    if len(made) != 1 or not made[0].opcode.startswith("setp.ne.") or made[0].operands[2:] != ("0",):
        return ""
    if made[0].guard or made[0].number > at.number or len(made[0].opcode.split(".")) != 3:
        return ""
    if bits.may_be_set(code, made[0].operands[1]):
        return ""
    return "it does not add to D, so the second product has the same result as the first"


def _of_block(code: PtxCode, at: CodeLine) -> Iterator[CodeLine]:
    """The instructions of its inline-asm block."""
    return (line for line in code.code if at.span[0] <= line.number <= at.span[1])


_MASK_IS_USED, _SHIFT = 1 << 39, 63 << 56  # of a zero-column mask descriptor (PTX ISA 9.7.16.4.3)


@rule("an unused zero-column mask")
def no_mask(code: PtxCode, drawn: Drawn, at: CodeLine, facts: Facts) -> str:
    """Different bits of a zero-column mask descriptor that masks and shifts no column."""
    other = _becomes(code, drawn, at)
    if other is None or not at.opcode.startswith("tcgen05.mma.ws") or other.opcode != at.opcode:
        return ""
    *was, mask = at.operands
    *now, changed = other.operands
    # The mask is the operand behind enable-input-d; without it there are five.
    if was != now or len(at.operands) != 6 or not _number(mask) or not _number(changed):
        return ""
    if (int(mask, 0) | int(changed, 0)) & (_MASK_IS_USED | _SHIFT):
        return ""
    return "its bit 39 is clear: every column is used (PTX ISA 9.7.16.4.3)"


@rule("equal lanes")
def same_lanes(code: PtxCode, drawn: Drawn, at: CodeLine, facts: Facts) -> str:
    """A butterfly over a different distance, to lanes that hold the values of the original lanes."""
    other = _becomes(code, drawn, at)
    if other is None or not lanes.whole(at) or not lanes.whole(other):
        return ""
    if at.operands[1] != other.operands[1]:
        return ""
    apart = int(at.operands[2]) ^ int(other.operands[2])
    if apart >= 32 or apart not in lanes.alike(code, at.operands[1], at):
        return ""
    return f"lanes l and l ^ {apart} have added their previous values, and hold the same value"


@rule("a clamp that is not reached")
def clamp(code: PtxCode, drawn: Drawn, at: CodeLine, facts: Facts) -> str:
    """The value of lane n of the warp with a different largest lane, if n is below or equal to both."""
    other = _becomes(code, drawn, at)
    was, now = lanes.from_lane(at), None if other is None else lanes.from_lane(other)
    if other is None or was is None or now is None or at.operands[1] != other.operands[1]:
        return ""
    if was[0] != now[0] or max(was[0], now[0]) > min(was[1], now[1]):
        return ""
    return f"lane {was[0]} is in range of both, {was[1]} and {now[1]}, for every lane (PTX ISA 9.7.9.6)"
