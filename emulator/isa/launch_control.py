"""Claims of clusters that have not started: clusterlaunchcontrol (PTX ISA 9.7.13.16)."""

from __future__ import annotations

from tileproof.emulator.decode import Decoder
from tileproof.emulator.program import NONE
from tileproof.emulator.ptx import Instruction, Sink
from tileproof.emulator.registry import Modifiers, instruction
from tileproof.emulator.slots import slots
from tileproof.spec.machine.types import UncheckedObject

slots("clc.try_cancel", operands="dst barrier", modifiers="multicast", visible=True)
slots("clc.is_canceled", operands="dst response", writes="dst")
slots("clc.first_ctaid", operands="x y z w response", writes="x y z w")


@instruction(
    "clusterlaunchcontrol.try_cancel",
    group="control flow",
    forms=".async[.shared::cta].mbarrier::complete_tx::bytes.b128 @sm_100; "
    ".async[.shared::cta].mbarrier::complete_tx::bytes.multicast::cluster::all.b128 @sm_100a|sm_120a",
    section="9.7.13.16.1",
    note="every request is refused, which is a legal answer, unless the launch has clc='grant'; the "
    "schedule policy determines when the 16 bytes arrive",
)
def try_cancel(d: Decoder, i: Instruction, m: Modifiers) -> None:
    for word in ("async", "mbarrier::complete_tx::bytes", "b128"):
        m.need(word)
    m.take("shared::cta")
    multicast = m.take("multicast::cluster::all")
    dst, barrier = i.operands
    d.emit(
        "clc.try_cancel",
        dst=d.address_slot(dst, 4),
        barrier=d.address_slot(barrier, 4),
        multicast=int(bool(multicast)),
    )


@instruction(
    "clusterlaunchcontrol.query_cancel",
    group="control flow",
    forms=".is_canceled.pred.b128 @sm_100; .get_first_ctaid.v4.b32.b128 @sm_100; "
    ".get_first_ctaid::{x,y,z}.b32.b128 @sm_100",
    section="9.7.13.16.2",
    note="the first CTA of a request that was refused is a finding; the fourth component is 0",
)
def query_cancel(d: Decoder, i: Instruction, m: Modifiers) -> None:
    dst, response = i.operands
    if m.take("is_canceled"):
        m.need("pred")
        m.need("b128")
        d.emit("clc.is_canceled", dst=d.dst(dst, "pred"), response=d.src(response, "b128"))
        return
    single = m.take("get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z")
    if not single:
        m.need("get_first_ctaid")
        m.need("v4")
    m.need("b32")
    m.need("b128")
    if single:
        places: UncheckedObject = {single[-1]: d.dst(dst, "b32")}
    else:
        parts = d.vector(dst)
        if len(parts) != 4:
            raise ValueError("4 destinations are needed")
        places = {
            name: NONE if isinstance(part, Sink) else d.dst(part, "b32")
            for name, part in zip("xyzw", parts, strict=True)
        }
    d.emit("clc.first_ctaid", response=d.src(response, "b128"), **places)
