"""Asynchronous stores and reductions to shared memory, bulk stores of zero (PTX ISA 9.7.9.12)."""

from __future__ import annotations

from tileproof.emulator.decode import Decoder
from tileproof.emulator.isa.atomics import OPERATIONS, TYPES
from tileproof.emulator.isa.memory import SPACES, scope_of
from tileproof.emulator.program import TYPE_BYTES
from tileproof.emulator.ptx import Immediate, Instruction
from tileproof.emulator.registry import Modifiers, instruction
from tileproof.emulator.slots import slots

# `operation` is 0 for a store, else 1 + the place in OPERATIONS; the values are in vec.
slots("st.async", operands="dst barrier", modifiers="bytes elements operation type", visible=True)
slots("st.async.release", operands="dst value", modifiers="bytes operation type scope", visible=True)
slots("st.bulk", operands="dst bytes", modifiers="space", visible=True)

_DONE = "mbarrier::complete_tx::bytes"
# Strong stores of .release semantics to global memory, of which nothing signals the completion.
_RELEASES = "[.mmio].release.{gpu,sys}[.global]"


@instruction(
    "st.async",
    group="asynchronous copies",
    forms=f"[.weak][.shared::cluster].{_DONE}{{.{{b32,b64,u32,u64,s32,s64,f32,f64}},"
    ".v2.{b32,b64,u32,u64,s32,s64,f32,f64},.v4.{b32,u32,s32,f32}} @sm_90 @ptx8.1; "
    f"{_RELEASES}.{{b8,b16,b32,b64,u8,u16,u32,u64,s8,s16,s32,s64,f32,f64}} @sm_100 @ptx8.7",
    section="9.7.9.12",
    note="the schedule policy determines its completion; its bytes count on the mbarrier, which lies in "
    "the same CTA; "
    "a .release store to global memory is seen by an acquire that reads it",
)
def store(d: Decoder, i: Instruction, m: Modifiers) -> None:
    if "release" in m.remaining:
        _release(d, i, m)
        return
    m.take("weak")
    m.take("shared::cluster")
    m.need(_DONE)
    vector = m.take("v2", "v4")
    (type_,) = m.types()
    elements = int(vector[1:]) if vector else 1
    dst, source, barrier = i.operands
    values = [d.src(part, type_) for part in d.vector(source)]
    if len(values) != elements:
        raise ValueError(f"{elements} values are needed")
    d.emit(
        "st.async",
        dst=d.address_slot(dst, 4),
        barrier=d.address_slot(barrier, 4),
        bytes=TYPE_BYTES[type_],
        elements=elements,
        vec=values,
    )


def _release(d: Decoder, i: Instruction, m: Modifiers) -> None:
    """Either, with .release, to global memory."""
    scope = scope_of(list(m.remaining), "gpu")
    m.drop("mmio", "release", "gpu", "sys", "global")
    operation = m.take(*OPERATIONS)
    (type_,) = m.types()
    dst, source = i.operands
    d.emit(
        "st.async.release",
        dst=d.address_slot(dst, 8),
        value=d.src(source, type_),
        bytes=TYPE_BYTES[type_],
        operation=1 + OPERATIONS.index(operation) if operation else 0,
        type=TYPES.index(type_) if operation else 0,
        scope=scope,
    )


@instruction(
    "red.async",
    group="asynchronous copies",
    forms=f".relaxed.cluster[.shared::cluster].{_DONE}{{.add.{{u32,s32,u64,s64}},.{{min,max}}.{{u32,s32}},"
    ".{inc,dec}.u32,.{and,or,xor}.b32} @sm_90 @ptx8.1; "
    f"{_RELEASES}{{.add.{{u32,s32,u64,s64}},.{{min,max}}.{{u32,s32}},.{{inc,dec}}.u32,.{{and,or,xor}}.b32}} "
    "@sm_100 @ptx8.7",
    section="9.7.13.7",
    note="as st.async, atomically",
)
def reduce(d: Decoder, i: Instruction, m: Modifiers) -> None:
    if "release" in m.remaining:
        _release(d, i, m)
        return
    m.drop("relaxed", "cluster", "shared::cluster", _DONE)
    operation = m.need(*OPERATIONS)
    (type_,) = m.types()
    dst, source, barrier = i.operands
    d.emit(
        "st.async",
        dst=d.address_slot(dst, 4),
        barrier=d.address_slot(barrier, 4),
        bytes=TYPE_BYTES[type_],
        elements=1,
        operation=1 + OPERATIONS.index(operation),
        type=TYPES.index(type_),
        vec=[d.src(source, type_)],
    )


@instruction(
    "st.bulk",
    group="memory",
    forms="[.weak][.shared::cta] @sm_100 @ptx8.6",
    section="9.7.9.14",
    note="an ordinary store of zeros: a multiple of 8 bytes at a multiple of 8",
)
def bulk(d: Decoder, i: Instruction, m: Modifiers) -> None:
    m.take("weak")
    space = m.take("shared::cta") or "generic"
    dst, size, value = i.operands
    if not isinstance(value, Immediate) or value.value != 0:
        raise ValueError("the value is 0")
    d.emit("st.bulk", dst=d.address_slot(dst, 8), bytes=d.src(size, "u64"), space=SPACES[space])
