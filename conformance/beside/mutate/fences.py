"""Fences that a thread of a PTX entry does not need, by its control flow."""

from __future__ import annotations

import re
from collections.abc import Callable

from tileproof.conformance.beside.mutate.code import ALU, CodeLine, PtxCode
from tileproof.conformance.beside.mutate.draw import Drawn
from tileproof.conformance.beside.mutate.flow import Flow, meets
from tileproof.conformance.beside.mutate.operators import EFFECT

Reason = Callable[[PtxCode, Flow, CodeLine], str]

# What another thread may learn by, and what a thread may learn by itself (PTX ISA 8.9, 9.7.16.6.4).
TELLS = re.compile(
    r"mbarrier\.(?!init|try_wait|test_wait)|bar|fence|membar|tcgen05\.(commit|dealloc|relinquish)|red|atom|cp\.|"
    r"st\.(release|relaxed|volatile|async|mmio)|multimem|tensormap|clusterlaunchcontrol|call|griddepcontrol|ret|"
    r"exit|wgmma"
)
LEARNS = re.compile(
    r"mbarrier\.(?!init|arrive)|bar|ld\.(acquire|relaxed|volatile|mmio)|atom|multimem|call|griddepcontrol|"
    r"cp\.async\.|wgmma|tcgen05\.wait"
)
_BEFORE = re.compile(r"tcgen05\.fence::before_thread_sync|fence\.mbarrier_init")
AFTER = re.compile(r"tcgen05\.fence::after_thread_sync")
# Asynchronous operations of tensor memory (PTX ISA 9.7.16.2.1), and those which a fence before them may order
# as far as this rule knows: `tcgen05.dealloc` is synchronous, and in order by the barrier alone.
ASYNC = re.compile(r"tcgen05\.(mma|ld|st|cp|shift)")
ORDERED = re.compile(r"tcgen05\.(?!fence|dealloc|relinquish)")
_COLLECTIVE = ("tcgen05.ld.sync.aligned", "tcgen05.st.sync.aligned")  # issued by a warp (table 46)
# May write shared memory through the generic proxy: not mbarriers, whose inits have a fence of their own.
_WRITES = re.compile(
    r"st(?!\.global)|stmatrix|atom(?!\.global)|red(?!\.global|ux)|cp\.async\.c|tcgen05\.alloc|call|brx|multimem|"
    r"tensormap|mbarrier\.inval"
)
_FENCED = re.compile(r"tcgen05\.(fence::before_thread_sync|commit)")  # a commit implies the fence (9.7.16.12)


def beside(code: PtxCode, flow: Flow, at: CodeLine) -> str:
    """Why the same fence next to it is sufficient; "" if unproved."""
    earlier = bool(AFTER.match(at.opcode))
    if not earlier and not _BEFORE.match(at.opcode):
        return ""
    edges, barred = (flow.before, LEARNS) if earlier else (flow.after, TELLS)
    if not meets(code, code.at[at.number], edges, _same(at), lambda line: not barred.match(line.opcode)):
        return ""
    if earlier:
        return "the same fence precedes it on every path, without a wait between"
    return "the same fence follows on every path before the thread publishes anything"


def idle(code: PtxCode, flow: Flow, at: CodeLine) -> str:
    """Why a fence of tensor memory has nothing to order; "" when it is not known."""
    start = code.at[at.number]
    if AFTER.match(at.opcode):
        free = meets(
            code, start, flow.after, _same(at), lambda line: not ORDERED.match(line.opcode), ends=True
        )
        return "no operation of tensor memory is between it and the next such fence" if free else ""
    if not at.opcode.startswith("tcgen05.fence::before_thread_sync"):
        return ""

    free = meets(code, start, flow.before, _fenced, lambda line: not ASYNC.match(line.opcode), ends=True)
    return "no operation of tensor memory was issued since the same fence or a commit" if free else ""


def later(code: PtxCode, drawn: Drawn, at: CodeLine) -> str:
    """Why a wait for loads of tensor memory may be removed, become a wait for stores, or move before a load;
    "" if unproved.
    """
    if drawn.operator == "move":
        both = [code.code[code.at[n]] for n in drawn.lines if n in code.at]
        waits = [line for line in both if line.opcode.startswith("tcgen05.wait::ld")]
        loads = ("tcgen05.wait::ld", "tcgen05.ld")
        if len(waits) != 1 or not all(line.opcode.startswith(loads) for line in both):
            return ""
        at = waits[0]
    gone = drawn.operator in ("remove-sync", "move") or drawn.what.startswith("wait::ld is wait::st")
    wait = at.opcode.startswith("tcgen05.wait::ld") and not at.guard
    flow = Flow.of(code) if gone and wait and code.alone else None

    def silent(line: CodeLine) -> bool:
        return not TELLS.match(line.opcode) and (
            line.opcode.startswith("tcgen05.ld") or not line.opcode.startswith("tcgen05")
        )

    if flow is None or not meets(code, code.at[at.number], flow.after, _same(at), silent):
        return ""
    return "the next wait covers these loads too, and the thread publishes nothing before it"


def reads_only(code: PtxCode, flow: Flow, at: CodeLine) -> str:
    """Why a proxy fence for shared memory has only reads to order, by what the entry may write there; "" when
    it is not known.
    """
    del flow
    if not at.opcode.startswith("fence.proxy.async.shared") or any(
        _WRITES.match(line.opcode) for line in code.code
    ):
        return ""
    return (
        "no thread writes shared memory through the generic proxy; reads before a barrier and an "
        "asynchronous write are assumed to need no fence (docs/assumptions.md, race-proxy-read)"
    )


def of_a_warp(code: PtxCode, flow: Flow, at: CodeLine) -> str:
    """Why such a fence may change places with a barrier of the whole warp; "" when it is not known
    to.
    """
    if at.opcode.startswith("fence.proxy.async"):
        # It is about what its thread knows of, and behind the barrier that is what every lane did before it.
        return (
            "every lane has the fence, and a lane that publishes the warp's writes has it after all of them"
        )
    if not at.opcode.startswith("tcgen05.fence::before_thread_sync"):
        return ""

    def shared(line: CodeLine) -> bool:
        return not ASYNC.match(line.opcode) or line.opcode.startswith(_COLLECTIVE)

    if not meets(code, code.at[at.number], flow.before, _fenced, shared, ends=True):
        return ""
    return "it orders loads and stores, which are operations of the whole warp, and every lane has the fence"


def announced(cluster: int, code: PtxCode, flow: Flow, at: CodeLine) -> str:
    """Why a barrier behind `fence.mbarrier_init` is enough, in clusters of so many CTAs; "" when it is not
    known to be.
    """
    if not at.opcode.startswith("fence.mbarrier_init"):
        return ""

    def barrier(line: CodeLine) -> bool:
        if line.guard:
            return False
        if line.opcode.startswith("barrier.cluster.arrive"):
            return ".relaxed" not in line.opcode
        return cluster == 1 and line.opcode == "bar.sync" and line.operands == ("0",)

    def silent(line: CodeLine) -> bool:
        # What the threads of a warp tell each other leads on from here, to the same barrier.
        return not TELLS.match(line.opcode) or line.opcode.startswith(("bar.warp", "tcgen05.relinquish"))

    if not meets(code, code.at[at.number], flow.after, barrier, silent):
        return ""
    return "the barrier behind it releases, and every thread acquires (PTX ISA 9.7.13.4)"


def _fenced(line: CodeLine) -> bool:
    return bool(_FENCED.match(line.opcode)) and not line.guard


def _same(at: CodeLine) -> Callable[[CodeLine], bool]:
    return lambda line: line.opcode == at.opcode and not line.guard


def without(reason: Reason, code: PtxCode, drawn: Drawn, at: CodeLine) -> str:
    """Why a fence that was removed, replaced or moved is not needed: fences only add to the order."""
    if not code.alone:
        return ""
    if drawn.operator in ("remove-sync", "scope"):
        fences = [at]
    elif drawn.operator == "move":
        fences = _moved(code, drawn)
    else:
        return ""
    flow = Flow.of(code)
    if flow is None:
        return ""
    for fence in fences:
        because = reason(code, flow, fence) if "fence" in fence.opcode and not fence.guard else ""
        if because:
            return because
    return ""


def over_warp(code: PtxCode, drawn: Drawn) -> str:
    """Why a fence that changed places with `bar.warp.sync` of all lanes orders what it did; "" when it is not
    known.
    """
    places = [n for n in drawn.lines if n in code.at]
    both = [code.code[code.at[n]] for n in places]
    flow = Flow.of(code) if drawn.operator == "move" and len(both) == 2 and code.alone else None
    if flow is None or any(line.guard for line in both):
        return ""
    for fence, barrier in (both, both[::-1]):
        if (barrier.opcode, barrier.operands) == ("bar.warp.sync", ("-1",)) and fence.block == barrier.block:
            first, last = sorted((code.at[fence.number], code.at[barrier.number]))
            if not any(EFFECT.match(line.opcode) for line in code.code[first + 1 : last]):
                return of_a_warp(code, flow, fence)
    return ""


def unlike(code: PtxCode, drawn: Drawn) -> str:
    """Why a fence of tensor memory and a proxy fence may change places; "" where they do not stand
    together.
    """
    both = [code.code[code.at[n]] for n in drawn.lines if n in code.at]
    if drawn.operator != "move" or len(both) != 2 or any(line.guard for line in both):
        return ""
    first, last = sorted(both, key=lambda line: line.number)
    between = code.code[code.at[first.number] + 1 : code.at[last.number]]
    kinds = {line.opcode.split("::")[0].split(".async")[0] for line in both}
    computes = all(ALU.match(line.opcode) or line.opcode.startswith("setp") for line in between)
    if kinds != {"tcgen05.fence", "fence.proxy"} or first.block != last.block or not computes:
        return ""
    return (
        "one fence orders operations of tensor memory, the other accesses of another proxy; neither fence "
        "is such an access, so their order has no effect"
    )


def _moved(code: PtxCode, drawn: Drawn) -> list[CodeLine]:
    """Of two side effects that changed places, the fence: where it went elsewhere itself, or where the other
    went past it and past what stands between, which only computes what that one does not read.
    """
    gone = [code.code[code.at[n]] for n, text in drawn.lines.items() if n in code.at and not text]
    ends = [n for n, text in drawn.lines.items() if text]
    if not gone or len(ends) != 1:
        return []
    span = gone[0].span
    other = [line for line in code.code if line.span[0] <= ends[0] <= line.span[1]]
    if len(gone) == 1 and "fence" in gone[0].opcode:
        return gone  # it stands elsewhere
    first, last = sorted((span, other[0].span)) if other else (span, span)
    between = [line for line in code.code if first[1] < line.number < last[0]]
    made = {name for line in between for name in line.defines}
    read = {name for line in gone for name in (*line.uses, *line.defines)}
    computes = all(ALU.match(line.opcode) or line.opcode.startswith("setp") for line in between)
    used = {name for line in between for name in line.uses} & {name for line in gone for name in line.defines}
    return other if computes and not made & read and not used and len(other) == 1 else []
