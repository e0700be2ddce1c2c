"""Flat bulk copies and reductions, and their groups (PTX ISA 9.7.9.25.4, 9.7.9.25.5)."""

from __future__ import annotations

from tileproof.emulator.decode import Decoder
from tileproof.emulator.isa.atomics import OPERATIONS, TYPES
from tileproof.emulator.program import NONE
from tileproof.emulator.ptx import Immediate, Instruction
from tileproof.emulator.registry import Modifiers, instruction
from tileproof.emulator.slots import slots

# `operation` is 0 for a copy, else 1 + the place in OPERATIONS.
slots(
    "bulk.copy",
    operands="dst src bytes barrier mask",
    modifiers="from_shared own_window operation type",
    visible=True,
)
slots("bulk.store", operands="dst src bytes mask", modifiers="operation type", visible=True)
slots("bulk.prefetch", operands="src bytes", visible=True)
slots("bulk.commit")
slots("bulk.wait", modifiers="reads_only", visible=True)  # imm: the groups that may stay pending

_DONE = "mbarrier::complete_tx::bytes"


@instruction(
    "cp.async.bulk",
    group="asynchronous copies",
    forms=f".shared::cluster.global.{_DONE}[.multicast::cluster][.L2::cache_hint] @sm_90 @ptx8.0; "
    f".shared::cta.global.{_DONE}[.L2::cache_hint] @sm_90 @ptx8.6; "
    f".shared::cluster.shared::cta.{_DONE} @sm_90 @ptx8.0; "
    ".global.shared::cta.bulk_group[.L2::cache_hint] @sm_90 @ptx8.0; "
    ".global.shared::cta.bulk_group[.L2::cache_hint].cp_mask @sm_100 @ptx8.6",
    section="9.7.9.25.4.1",
    note="if several lanes execute it, it is issued once per lane, as on silicon",
)
def copy(d: Decoder, i: Instruction, m: Modifiers) -> None:
    hint = m.take("L2::cache_hint")
    multicast, masked = m.take("multicast::cluster"), m.take("cp_mask")
    to, source, completion = m.types()
    operands = list(i.operands)
    if completion == "bulk_group":
        dst, src, size, *rest = operands
        if len(rest) != bool(hint) + bool(masked):
            raise ValueError("a cache policy or byte mask is missing or surplus")
        if hint:
            d.src(rest[0], "b64")
        d.emit(
            "bulk.store",
            dst=d.address_slot(dst, 8),
            src=d.address_slot(src, 4),
            bytes=d.src(size, "u32"),
            mask=d.src(rest[-1], "b16") if masked else NONE,
        )
        return
    dst, src, size, barrier, *rest = operands
    if len(rest) != bool(hint) + bool(multicast):
        raise ValueError("a cache policy or CTA mask is missing or surplus")
    if hint:
        d.src(rest[-1], "b64")
    d.emit(
        "bulk.copy",
        dst=d.address_slot(dst, 4),
        src=d.address_slot(src, 4 if source == "shared::cta" else 8),
        bytes=d.src(size, "u32"),
        barrier=d.address_slot(barrier, 4),
        mask=d.src(rest[0], "b16") if multicast else NONE,
        from_shared=int(source == "shared::cta"),
        own_window=int(to == "shared::cta"),
    )


@instruction(
    "cp.reduce.async.bulk",
    group="asynchronous copies",
    forms=".global.shared::cta.bulk_group[.L2::cache_hint]{.add.{u32,s32,u64,f32,f64},.add.noftz.{f16,bf16},"
    ".{min,max}.{u32,s32,u64,s64,f16,bf16},.{inc,dec}.u32,.{and,or,xor}.{b32,b64}} @sm_90 @ptx8.0; "
    f".shared::cluster.shared::cta.{_DONE}{{.add.{{u32,s32,u64}},.{{min,max}}.{{u32,s32}},"
    ".{inc,dec}.u32,.{and,or,xor}.b32} @sm_90 @ptx8.0",
    section="9.7.9.25.4.2",
    note="subnormals are kept, as observed on silicon (according to the manual, f32 additions flush them)",
)
def reduce(d: Decoder, i: Instruction, m: Modifiers) -> None:
    hint = m.take("L2::cache_hint")
    m.take("noftz")
    operation, type_ = m.need(*OPERATIONS), m.need(*TYPES)
    to, _source, completion = m.types()
    how, kind = 1 + OPERATIONS.index(operation), TYPES.index(type_)
    dst, src, size, *rest = i.operands
    if completion == "bulk_group":
        if hint:
            d.src(rest.pop(), "b64")
        if rest:
            raise ValueError("an operand is surplus")
        d.emit(
            "bulk.store",
            dst=d.address_slot(dst, 8),
            src=d.address_slot(src, 4),
            bytes=d.src(size, "u32"),
            operation=how,
            type=kind,
        )
        return
    (barrier,) = rest
    d.emit(
        "bulk.copy",
        dst=d.address_slot(dst, 4),
        src=d.address_slot(src, 4),
        bytes=d.src(size, "u32"),
        barrier=d.address_slot(barrier, 4),
        from_shared=1,
        own_window=int(to == "shared::cta"),
        operation=how,
        type=kind,
    )


@instruction(
    "cp.async.bulk.prefetch",
    group="hints",
    forms=".L2.global[.L2::cache_hint] @sm_90 @ptx8.0",
    section="9.7.9.25.4.3",
    note="checked as a copy, and without effect",
)
def prefetch(d: Decoder, i: Instruction, m: Modifiers) -> None:
    m.types()
    src, size, *_hint = i.operands
    d.emit("bulk.prefetch", src=d.address_slot(src, 8), bytes=d.src(size, "u32"))


@instruction(
    "cp.async.bulk.commit_group",
    group="asynchronous copies",
    forms=" @sm_90 @ptx8.0",
    section="9.7.9.25.5.1",
)
def commit(d: Decoder, i: Instruction, m: Modifiers) -> None:
    d.emit("bulk.commit")


@instruction(
    "cp.async.bulk.wait_group",
    group="asynchronous copies",
    forms="[.read] @sm_90 @ptx8.0",
    section="9.7.9.25.5.2",
    note=".read waits for the sources only; writes may still be outstanding",
)
def wait(d: Decoder, i: Instruction, m: Modifiers) -> None:
    read = m.take("read")
    (count,) = i.operands
    # ptxas takes -1 for 63, the most that its wait can count: not what anybody wrote.
    if not isinstance(count, Immediate) or count.value < 0:
        raise ValueError("an immediate count is needed, 0 or more")
    d.emit("bulk.wait", reads_only=int(bool(read)), imm=count.value)
