"""TMA tensor copies, bulk copies and their groups (PTX ISA 9.7.9.25 to 9.7.9.27)."""

from __future__ import annotations

from tileproof.emulator.decode import Decoder
from tileproof.emulator.program import NONE
from tileproof.emulator.ptx import Address, Immediate, Instruction
from tileproof.emulator.registry import Modifiers, Unknown, instruction

_DIMENSIONS = ("1d", "2d", "3d", "4d", "5d")


_TENSOR = (
    ".{1,2,3,4,5}d.shared::cluster.global[.tile].mbarrier::complete_tx::bytes[.multicast::cluster]"
    "[.L2::cache_hint] "
    "@sm_90 @ptx8.0; "
    ".{1,2,3,4,5}d.shared::cta.global[.tile].mbarrier::complete_tx::bytes[.L2::cache_hint] @sm_90 @ptx8.6; "
    ".{1,2,3,4,5}d.{shared::cluster.global[.tile].mbarrier::complete_tx::bytes[.multicast::cluster],"
    "shared::cta.global[.tile].mbarrier::complete_tx::bytes}.cta_group::{1,2}[.L2::cache_hint] @sm_100a "
    "@ptx8.6; "
    ".2d.{shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes[.multicast::cluster][.cta_group::{1,2}],"
    "shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes.cta_group::{1,2}}[.L2::cache_hint] "
    "@sm_100a @ptx8.6; "
    ".2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes[.L2::cache_hint] @sm_100 @ptx8.6; "
    ".{1,2,3,4,5}d.global.shared::cta[.tile].bulk_group[.L2::cache_hint] @sm_90 @ptx8.0; "
    ".2d.global.shared::cta.tile::scatter4.bulk_group[.L2::cache_hint] @sm_100a @ptx8.6"
)


def _tensor(d: Decoder, operand: object) -> tuple[int, list[int]]:
    """Slot of the tensor map's generic address, and the coordinates' slots."""
    if not isinstance(operand, Address) or not operand.coordinates:
        raise ValueError("[map, {coordinates}] is needed")
    return d.address_slot(Address(operand.base, operand.offset), 8), [
        d.src(c, "s32") for c in operand.coordinates
    ]


@instruction(
    "cp.async.bulk.tensor",
    group="asynchronous copies",
    forms=_TENSOR,
    section="9.7.9.27.1",
    note="completes when the schedule policy says; until then its bytes read as poison; "
    "cache hints have no effect",
)
def tensor(d: Decoder, i: Instruction, m: Modifiers) -> None:
    dimensions = int(m.need(*_DIMENSIONS)[0])
    hint = m.take("L2::cache_hint")
    if m.take("im2col", "im2col::w", "im2col::w::128", "im2col_no_offs"):
        raise Unknown("im2col modes")
    first = next((word for word in m.left if word in ("shared::cluster", "shared::cta", "global")), "")
    m.need(first or "global")
    operands = list(i.operands)
    if hint:
        operands.pop()
    if first == "global":
        m.need("shared::cta")
        m.need("bulk_group")
        scatter = bool(m.take("tile::scatter4"))
        m.drop("tile")
        target, source = operands
        slot, coordinates = _tensor(d, target)
        _count(coordinates, dimensions, scatter)
        d.emit(
            "tma.store",
            [NONE, d.address_slot(source, 4), slot],
            m=[dimensions, int(scatter), 0],
            vec=coordinates,
        )
        return
    m.need("global")
    m.need("mbarrier::complete_tx::bytes")
    multicast = m.take("multicast::cluster")
    group = m.take("cta_group::1", "cta_group::2")
    gather = bool(m.take("tile::gather4"))
    m.drop("tile")
    if group == "cta_group::2":
        d.uses_pairs = True
    dst, source, barrier, *mask = operands
    if len(mask) != bool(multicast):
        raise ValueError("a CTA mask is missing or surplus")
    slot, coordinates = _tensor(d, source)
    _count(coordinates, dimensions, gather)
    o = [
        NONE,
        d.address_slot(dst, 4),
        slot,
        d.address_slot(barrier, 4),
        d.src(mask[0], "b16") if mask else NONE,
    ]
    d.emit(
        "tma.load",
        o,
        m=[
            dimensions,
            int(gather),
            int(bool(multicast)),
            int(group[-1]) if group else 0,
            int(first == "shared::cta"),
        ],
        vec=coordinates,
    )


def _count(coordinates: list[int], dimensions: int, gather: bool) -> None:
    wanted = 5 if gather else dimensions
    if len(coordinates) != wanted or (gather and dimensions != 2):
        raise ValueError(f"{wanted} coordinates are needed")


@instruction(
    "cp.reduce.async.bulk.tensor",
    group="asynchronous copies",
    forms=".{1,2,3,4,5}d.global.shared::cta.add[.tile].bulk_group[.L2::cache_hint] @sm_90 @ptx8.0",
    section="9.7.9.27.1.3",
    note="subnormals are flushed, as the manual says for f32 add",
)
def reduce_tensor(d: Decoder, i: Instruction, m: Modifiers) -> None:
    dimensions = int(m.need(*_DIMENSIONS)[0])
    hint = m.take("L2::cache_hint")
    for word in ("global", "shared::cta", "add", "bulk_group"):
        m.need(word)
    m.drop("tile")
    operands = list(i.operands)
    if hint:
        operands.pop()
    slot, coordinates = _tensor(d, operands[0])
    _count(coordinates, dimensions, False)
    d.emit("tma.store", [NONE, d.address_slot(operands[1], 4), slot], m=[dimensions, 0, 1], vec=coordinates)


@instruction(
    "cp.async.bulk",
    group="asynchronous copies",
    forms=".shared::cluster.{global,shared::cta}.mbarrier::complete_tx::bytes @sm_90 @ptx8.0; "
    ".shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint @sm_90 @ptx8.0; "
    ".shared::cta.global.mbarrier::complete_tx::bytes[.L2::cache_hint] @sm_90 @ptx8.6; "
    ".global.shared::cta.bulk_group[.L2::cache_hint] @sm_90 @ptx8.0",
    section="9.7.9.25.4.1",
)
def bulk(d: Decoder, i: Instruction, m: Modifiers) -> None:
    hint = m.take("L2::cache_hint")
    m.drop_prefix("L2::")
    if m.take("multicast::cluster", "cp_mask"):
        raise Unknown("multicast or masked flat copies")
    operands = list(i.operands)
    if hint:
        operands.pop()
    to, source, *completion = m.types()
    if (to, source) == ("global", "shared::cta") and completion == ["bulk_group"]:
        dst, src, size = operands
        o = [NONE, d.address_slot(dst, 8), d.address_slot(src, 4), d.src(size, "u32")]
        d.emit("bulk.copy", o, m=[2])
        return
    kind = {
        ("shared::cluster", "global"): 0,
        ("shared::cta", "global"): 0,
        ("shared::cluster", "shared::cta"): 1,
    }.get((to, source))
    if kind is None or completion != ["mbarrier::complete_tx::bytes"]:
        raise Unknown(f"does not know the copy .{to}.{source}.{'.'.join(completion)}")
    dst, src, size, barrier = operands
    o = [
        NONE,
        d.address_slot(dst, 4),
        d.address_slot(src, 8 if kind == 0 else 4),
        d.src(size, "u32"),
        d.address_slot(barrier, 4),
    ]
    d.emit("bulk.copy", o, m=[kind, int(to == "shared::cta")])


@instruction(
    "cp.reduce.async.bulk",
    group="asynchronous copies",
    forms=".global.shared::cta.bulk_group[.L2::cache_hint].add.f32 @sm_90 @ptx8.0",
    section="9.7.9.25.4.2",
    note="subnormals are kept, as seen on silicon (the manual says they are flushed)",
)
def reduce_bulk(d: Decoder, i: Instruction, m: Modifiers) -> None:
    hint = m.take("L2::cache_hint")
    for word in ("global", "shared::cta", "bulk_group", "add", "f32"):
        m.need(word)
    operands = list(i.operands)
    if hint:
        operands.pop()
    dst, src, size = operands
    d.emit("bulk.copy", [NONE, d.address_slot(dst, 8), d.address_slot(src, 4), d.src(size, "u32")], m=[3])


@instruction(
    "cp.async.bulk.commit_group", group="asynchronous copies", forms="@sm_90 @ptx8.0", section="9.7.9.25.5.1"
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
    if not isinstance(count, Immediate):
        raise ValueError("an immediate count is needed")
    d.emit("bulk.wait", m=[int(bool(read))], imm=count.value)
