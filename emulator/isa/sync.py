"""Warp operations, barriers, mbarriers, fences (PTX ISA 9.7.9.6, 9.7.13)."""

from __future__ import annotations

from tileproof.emulator.decode import Decoder
from tileproof.emulator.isa.memory import scope_of
from tileproof.emulator.orders import order
from tileproof.emulator.program import NONE
from tileproof.emulator.ptx import Immediate, Instruction, Operand, Pair, Sink
from tileproof.emulator.registry import Modifiers, Unknown, instruction
from tileproof.emulator.slots import slots

slots("elect", operands="leader chosen mask", writes="leader chosen")
slots("shfl", operands="dst inside a b c mask", modifiers="mode", writes="dst inside")
slots("vote", operands="dst source mask", modifiers="mode negated", writes="dst")
slots("activemask", operands="dst", writes="dst")
slots("bar.warp.sync", operands="mask")
# `mode` of bar is the place in BARRIER_MODES.
BARRIER_MODES = order("BarrierMode", "sync arrive popc and or")
slots("bar", operands="id threads dst vote", modifiers="mode aligned negated", visible=True, writes="dst")
slots("barrier.cluster.arrive", modifiers="aligned relaxed", visible=True)
slots("barrier.cluster.wait", modifiers="aligned relaxed", visible=True)
# How far an arrival releases and a wait acquires; `default`: the scope is left out, by the letter .cta.
MBARRIER_SCOPES = order("MbarrierScope", "cluster relaxed cta default")
# The first slots of an mbarrier's handlers are those of its address.
slots("mbarrier.init", operands="dst base value", modifiers="space width", visible=True)
slots("mbarrier.inval", operands="dst base", modifiers="space width", visible=True)
slots(
    "mbarrier.arrive",
    operands="dst base value",
    modifiers="space width kind reach drops stays",
    visible=True,
    writes="dst",
)
slots("mbarrier.pending_count", operands="dst state", writes="dst")
slots(
    "mbarrier.wait",
    operands="dst base value",
    modifiers="space width parity suspends reach",
    visible=True,
    writes="dst",
)
# spaces: of a proxy fence; of a thread fence its scope.
slots("fence", modifiers="kind spaces")


def _pair(d: Decoder, operand: Operand, type_: str) -> tuple[int, int]:
    """Slots of `d|p`; either may be a sink."""
    first, second = (operand.first, operand.second) if isinstance(operand, Pair) else (operand, Sink())
    return (
        NONE if isinstance(first, Sink) else d.dst(first, type_),
        NONE if isinstance(second, Sink) else d.dst(second, "pred"),
    )


@instruction(
    "elect.sync",
    group="warp",
    forms="@sm_90 @ptx8.0",
    section="9.7.13.14",
    note="the lowest lane of the mask, always",
)
def elect(d: Decoder, i: Instruction, m: Modifiers) -> None:
    dst, mask = i.operands
    leader, p = _pair(d, dst, "b32")
    d.emit("elect", leader=leader, chosen=d.temporary(0) if p == NONE else p, mask=d.src(mask, "u32"))


@instruction("shfl.sync", group="warp", forms=".{up,down,bfly,idx}.b32", section="9.7.9.6")
def shfl(d: Decoder, i: Instruction, m: Modifiers) -> None:
    mode = m.need("up", "down", "bfly", "idx")
    m.need("b32")
    dst, a, b, c, mask = i.operands
    value, p = _pair(d, dst, "b32")
    value = d.temporary(4) if value == NONE else value
    d.emit(
        "shfl",
        dst=value,
        inside=p,
        a=d.src(a, "b32"),
        b=d.src(b, "u32"),
        c=d.src(c, "u32"),
        mask=d.src(mask, "u32"),
        mode=("up", "down", "bfly", "idx").index(mode),
    )


@instruction("vote.sync", group="warp", forms=".{all,any,uni}.pred; .ballot.b32", section="9.7.13.9")
def vote(d: Decoder, i: Instruction, m: Modifiers) -> None:
    mode = m.need("all", "any", "uni", "ballot")
    m.need("b32" if mode == "ballot" else "pred")
    dst, a, mask = i.operands
    p, negated = d.predicate(a)
    d.emit(
        "vote",
        dst=d.dst(dst, "b32" if mode == "ballot" else "pred"),
        source=p,
        mask=d.src(mask, "u32"),
        mode=("all", "any", "uni", "ballot").index(mode),
        negated=negated,
    )


@instruction(
    "activemask", group="warp", forms=".b32", section="9.7.13.11", note="the lanes that run together now"
)
def activemask(d: Decoder, i: Instruction, m: Modifiers) -> None:
    m.need("b32")
    d.emit("activemask", dst=d.dst(i.operands[0], "b32"))


@instruction("bar.warp.sync", group="barriers", forms="", section="9.7.13.2")
def warp_sync(d: Decoder, i: Instruction, m: Modifiers) -> None:
    d.emit("bar.warp.sync", mask=d.src(i.operands[0], "u32"))


@instruction(
    "bar",
    group="barriers",
    forms=".{sync,arrive}; .cta.{sync,arrive} @ptx7.8; "
    ".red{.popc.u32,.{and,or}.pred}; .cta.red{.popc.u32,.{and,or}.pred} @ptx7.8",
    section="9.7.13.1",
    note="16 a CTA; without a count: all warps that have not exited",
)
@instruction(
    "barrier",
    group="barriers",
    forms=".{sync,arrive}[.aligned]; .cta.{sync,arrive}[.aligned] @ptx7.8; "
    ".red{.popc[.aligned].u32,.{and,or}[.aligned].pred}; "
    ".cta.red{.popc[.aligned].u32,.{and,or}[.aligned].pred} @ptx7.8",
    section="9.7.13.1",
    note="without .aligned each lane arrives where it stands, and its warp counts with the last of them",
)
def bar(d: Decoder, i: Instruction, m: Modifiers) -> None:
    aligned = bool(m.take("aligned")) or i.opcode.startswith("bar.")
    m.drop("cta", "u32", "pred")
    mode = m.need("sync", "arrive", "red")
    dst, vote, negated = NONE, NONE, 0
    operands = list(i.operands)
    if mode == "red":
        mode = m.need("popc", "and", "or")
        dst = d.dst(operands.pop(0), "u32" if mode == "popc" else "pred")
        vote, negated = d.predicate(operands.pop())
    name, *count = operands
    if mode == "arrive" and not count:
        raise ValueError("bar.arrive needs a thread count")
    after = None if aligned else d.jump_unguarded()
    d.emit(
        "bar",
        id=d.src(name, "u32"),
        threads=d.src(count[0], "u32") if count else NONE,
        dst=dst,
        vote=vote,
        mode=BARRIER_MODES.index(mode),
        aligned=int(aligned),
        negated=negated,
        predicate=-1 if after else None,
    )
    if after:
        d.place_label(after)


@instruction(
    "barrier.cluster.arrive",
    group="barriers",
    forms="[.aligned] @sm_90 @ptx7.8; .{release,relaxed}[.aligned] @sm_90 @ptx8.0",
    section="9.7.13.3",
    note="memory ordering: order only",
)
@instruction(
    "barrier.cluster.wait",
    group="barriers",
    forms="[.aligned] @sm_90 @ptx7.8; .acquire[.aligned] @sm_90 @ptx8.0",
    section="9.7.13.3",
)
def cluster(d: Decoder, i: Instruction, m: Modifiers) -> None:
    relaxed = m.take("release", "relaxed", "acquire") == "relaxed"
    aligned = m.take("aligned")
    d.emit(".".join(i.opcode.split(".")[:3]), aligned=int(bool(aligned)), relaxed=int(relaxed))


_ARRIVE = (
    "[.shared[::cta]].b64 @sm_80 @ptx7.0; .release.{cta,cluster}[.shared[::cta]].b64 @sm_90 @ptx8.0; "
    ".relaxed.{cta,cluster}[.shared[::{cta,cluster}]].b64 @sm_90 @ptx8.6; "
    "[.release.{cta,cluster}].shared::cluster.b64 @sm_90 @ptx8.0; "
    ".expect_tx[.release.{cta,cluster}][.shared[::{cta,cluster}]].b64 @sm_90 @ptx8.0; "
    ".expect_tx.relaxed.{cta,cluster}[.shared[::{cta,cluster}]].b64 @sm_90 @ptx8.6; "
    ".noComplete[.shared[::cta]].b64 @sm_80 @ptx7.0; "
    ".noComplete.release.cta[.shared[::cta]].b64 @sm_80 @ptx8.0"
)
_TX = "[.relaxed.{cta,cluster}][.shared[::{cta,cluster}]].b64 @sm_90 @ptx8.0"
_TRY_WAIT = (
    "[.parity][.shared[::cta]].b64 @sm_90 @ptx7.8; "
    "[.parity].acquire.{cta,cluster}[.shared[::cta]].b64 @sm_90 @ptx8.0; "
    "[.parity].relaxed.{cta,cluster}[.shared[::cta]].b64 @sm_90 @ptx8.6"
)
_TEST_WAIT = (
    "[.shared[::cta]].b64 @sm_80 @ptx7.0; .parity[.shared[::cta]].b64 @sm_80 @ptx7.1; "
    "[.parity].acquire.{cta,cluster}[.shared[::cta]].b64 @sm_80 @ptx8.0; "
    "[.parity].relaxed.{cta,cluster}[.shared[::cta]].b64 @sm_90 @ptx8.6"
)
_FENCES = (
    "[.{sc,acq_rel,acquire,release}].{cta,cluster,gpu,sys} @sm_70; "
    ".acquire.sync_restrict::shared::cluster.cluster @sm_90 @ptx8.6; "
    ".release.sync_restrict::shared::cta.cluster @sm_90 @ptx8.6; "
    ".mbarrier_init.release.cluster @sm_90 @ptx8.0; "
    ".proxy.alias @sm_70 @ptx7.5; .proxy.async[.{global,shared::cta,shared::cluster}] @sm_90 @ptx8.0; "
    ".proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster @sm_90 @ptx8.6; "
    ".proxy.async::generic.release.sync_restrict::shared::cta.cluster @sm_90 @ptx8.6; "
    ".proxy.tensormap::generic.{acquire,release}.{cta,cluster,gpu,sys} @sm_90 @ptx8.3"
)


def _reach(m: Modifiers) -> int:
    """The place in MBARRIER_SCOPES."""
    return MBARRIER_SCOPES.index(next((w for w in ("relaxed", "cta", "cluster") if w in m.left), "default"))


def _state_space(m: Modifiers) -> int:
    """0 for .shared::cta, 1 for .shared::cluster, 2 for none (a generic address); scopes change nothing
    here.
    """
    m.drop("release", "acquire", "relaxed", "cta", "cluster")
    space = m.take("shared", "shared::cta", "shared::cluster")
    m.need("b64")
    return 2 if space is None else int(space == "shared::cluster")


def _own_space(m: Modifiers) -> int:
    """As `_state_space`, where only the own CTA's barriers may be named."""
    space = _state_space(m)
    if space == 1:
        raise Unknown("does not know the modifier .shared::cluster here")
    return space


@instruction(
    "mbarrier.init", group="mbarrier", forms="[.shared[::cta]].b64 @sm_80 @ptx7.0", section="9.7.13.15.9"
)
def mbarrier_init(d: Decoder, i: Instruction, m: Modifiers) -> None:
    space = _own_space(m)
    target, count = i.operands
    base, displacement, width = d.address(target)
    d.emit("mbarrier.init", base=base, value=d.src(count, "u32"), space=space, width=width, imm=displacement)


@instruction(
    "mbarrier.inval", group="mbarrier", forms="[.shared[::cta]].b64 @sm_80 @ptx7.0", section="9.7.13.15.10"
)
def mbarrier_inval(d: Decoder, i: Instruction, m: Modifiers) -> None:
    space = _own_space(m)
    base, displacement, width = d.address(i.operands[0])
    d.emit("mbarrier.inval", base=base, space=space, width=width, imm=displacement)


@instruction(
    "mbarrier.arrive",
    group="mbarrier",
    forms=_ARRIVE,
    section="9.7.13.15.13",
    note="the returned state is opaque: phase and pending count; over-arrival is a finding",
)
@instruction(
    "mbarrier.arrive_drop",
    group="mbarrier",
    forms=_ARRIVE,
    section="9.7.13.15.14",
    note="as arrive; the phases after this one expect that many arrivals fewer",
)
@instruction(
    "mbarrier.expect_tx",
    group="mbarrier",
    forms=_TX,
    section="9.7.13.15.11",
)
@instruction(
    "mbarrier.complete_tx",
    group="mbarrier",
    forms=_TX,
    section="9.7.13.15.12",
)
def mbarrier_arrive(d: Decoder, i: Instruction, m: Modifiers) -> None:
    word = i.opcode.split(".")[1]
    kind = {"arrive": 0, "arrive_drop": 0, "expect_tx": 2, "complete_tx": 3}[word]
    if kind == 0 and m.take("expect_tx"):
        kind = 1
    stays = m.take("noComplete")
    reach = _reach(m)
    cluster_space = _state_space(m)
    operands = list(i.operands)
    state = (
        operands.pop(0)
        if kind < 2
        and (isinstance(operands[0], Sink) or (len(operands) > 1 and not _is_address(operands[0])))
        else None
    )
    target, *value = operands
    if (kind or stays) and not value:
        raise ValueError("a byte count is needed" if kind else "a count is needed")
    base, displacement, width = d.address(target)
    out = NONE if state is None or isinstance(state, Sink) else d.dst(state, "b64")
    d.emit(
        "mbarrier.arrive",
        dst=out,
        base=base,
        value=d.src(value[0], "u32") if value else NONE,
        space=cluster_space,
        width=width,
        kind=kind,
        reach=reach,
        drops=int(word == "arrive_drop"),
        stays=int(bool(stays)),
        imm=displacement,
    )


@instruction("mbarrier.pending_count", group="mbarrier", forms=".b64 @sm_80 @ptx7.0", section="9.7.13.15.17")
def pending_count(d: Decoder, i: Instruction, m: Modifiers) -> None:
    m.need("b64")
    dst, state = i.operands
    d.emit("mbarrier.pending_count", dst=d.dst(dst, "u32"), state=d.src(state, "b64"))


def _is_address(operand: Operand) -> bool:
    from tileproof.emulator.ptx import Address

    return isinstance(operand, Address)


@instruction(
    "mbarrier.try_wait",
    group="mbarrier",
    forms=_TRY_WAIT,
    section="9.7.13.15.16",
    note="a failed try suspends the warp; it returns false when nothing else in the cluster can move",
)
@instruction(
    "mbarrier.test_wait",
    group="mbarrier",
    forms=_TEST_WAIT,
    section="9.7.13.15.16",
)
def mbarrier_wait(d: Decoder, i: Instruction, m: Modifiers) -> None:
    parity = m.take("parity")
    reach = _reach(m)
    space = _own_space(m)
    p, target, value, *_hint = i.operands
    base, displacement, width = d.address(target)
    d.emit(
        "mbarrier.wait",
        dst=d.dst(p, "pred"),
        base=base,
        value=d.src(value, "u32" if parity else "b64"),
        space=space,
        width=width,
        parity=int(bool(parity)),
        suspends=int("try_wait" in i.opcode),
        reach=reach,
        imm=displacement,
    )


@instruction(
    "fence",
    group="fences",
    forms=_FENCES,
    section="9.7.13.4",
    grade="order only",
    note="changes no value: generic accesses take effect at once in program order; the race checker "
    "misses it where it is needed",
)
@instruction(
    "membar",
    group="fences",
    forms=".{cta,gl,sys}; .proxy.alias @sm_70 @ptx7.5",
    section="9.7.13.4",
    grade="order only",
    note="as fence",
)
def fence(d: Decoder, i: Instruction, m: Modifiers) -> None:
    words = i.opcode.split(".")[1:]
    m.types()
    if "mbarrier_init" in words:
        d.emit("fence", kind=INIT_FENCE)
    elif "proxy" not in words:
        words = ["gpu" if word == "gl" else word for word in words]
        d.emit("fence", kind=THREAD_FENCE, spaces=scope_of(words, "sys"))
    elif "tensormap::generic" in words:
        address, size = i.operands if "acquire" in words else (None, None)
        if size is not None and not (isinstance(size, Immediate) and size.value == 128):
            raise ValueError("the size is 128")
        d.emit(
            "tensormap.fence",
            map=NONE if address is None else d.address_slot(address, 8),
            acquires=int("acquire" in words),
        )
    elif "alias" in words:
        d.emit("fence", kind=NO_FENCE)
    else:
        d.emit("fence", kind=PROXY_FENCE, spaces=_proxy_spaces(words))


# What a fence orders: nothing that is modelled; fence.acq_rel, fence.sc, membar; fence.proxy.async; ...
FENCES = order("Fence", "none thread proxy_async mbarrier_init before_thread_sync after_thread_sync")
NO_FENCE, THREAD_FENCE, PROXY_FENCE, INIT_FENCE, BEFORE_FENCE, AFTER_FENCE = range(len(FENCES))


def _proxy_spaces(words: list[str]) -> int:
    """1 for shared memory, 2 for global memory, 3 for both."""
    if "global" in words:
        return 2
    return 1 if any(word.startswith("shared") or "shared::" in word for word in words) else 3
