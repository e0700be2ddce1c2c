"""mbarriers (PTX ISA 9.7.13.15)."""

from __future__ import annotations

from tileproof.emulator.decode import Decoder
from tileproof.emulator.enumerations import enumeration
from tileproof.emulator.program import NONE
from tileproof.emulator.ptx import Address, Instruction, Operand, Sink
from tileproof.emulator.registry import Modifiers, Unknown, instruction
from tileproof.emulator.slots import slots

# How far an arrival releases and a wait acquires; `default`: the scope is left out, by the letter .cta.
MBARRIER_SCOPES = enumeration("MbarrierScope", "cluster relaxed cta default")
# What an instruction does to the phase under way.
SIGNALS = enumeration("Signal", "arrive arrive_expect_tx expect_tx complete_tx")
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
    modifiers="space width parity suspends reach unused",  # the last is set when all is decoded
    visible=True,
    writes="dst",
)

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


def _reach(m: Modifiers) -> int:
    """The place in MBARRIER_SCOPES."""
    return MBARRIER_SCOPES.index(
        next((w for w in ("relaxed", "cta", "cluster") if w in m.remaining), "default")
    )


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
        raise Unknown("does not support the modifier .shared::cluster here")
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
    note="as arrive; later phases expect so many fewer arrivals",
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
    arrives = word.startswith("arrive")
    kind = word if not arrives else "arrive_expect_tx" if m.take("expect_tx") else "arrive"
    stays = m.take("noComplete")
    reach = _reach(m)
    cluster_space = _state_space(m)
    operands = list(i.operands)
    state = (
        operands.pop(0)
        if arrives and (isinstance(operands[0], Sink) or (len(operands) > 1 and not _is_address(operands[0])))
        else None
    )
    target, *value = operands
    if (kind != "arrive" or stays) and not value:
        raise ValueError("a count is needed" if kind == "arrive" else "a byte count is needed")
    base, displacement, width = d.address(target)
    out = NONE if state is None or isinstance(state, Sink) else d.dst(state, "b64")
    d.emit(
        "mbarrier.arrive",
        dst=out,
        base=base,
        value=d.src(value[0], "u32") if value else NONE,
        space=cluster_space,
        width=width,
        kind=SIGNALS.index(kind),
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
    return isinstance(operand, Address)


@instruction(
    "mbarrier.try_wait",
    group="mbarrier",
    forms=_TRY_WAIT,
    section="9.7.13.15.16",
    note="a failed try suspends the warp; it returns false if nothing else in the cluster can proceed",
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
