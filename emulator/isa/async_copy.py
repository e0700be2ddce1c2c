"""TMA tensor copies, reductions and prefetches (PTX ISA 9.7.9.27)."""

from __future__ import annotations

from tileproof.emulator.decode import Decoder
from tileproof.emulator.enumerations import enumeration
from tileproof.emulator.isa.atomics import OPERATIONS
from tileproof.emulator.program import NONE
from tileproof.emulator.ptx import Address, Instruction, Operand
from tileproof.emulator.registry import Modifiers, instruction
from tileproof.emulator.slots import slots

# `mode` is the place in MODES; vec holds the coordinates, then the im2col offsets; `operation` is as in
# bulk.copy.
slots(
    "tma.load",
    operands="dst map barrier mask",
    modifiers="dimensions mode cta_group own_window",
    visible=True,
)
slots("tma.store", operands="src map", modifiers="dimensions mode operation", visible=True)
slots("tma.prefetch", operands="map", modifiers="dimensions mode", visible=True)

MODES = enumeration("TensorMode", "tile four im2col im2col_no_offs")
_DIMENSIONS = ("1d", "2d", "3d", "4d", "5d")
_DONE = "mbarrier::complete_tx::bytes"
_HINT = "[.L2::cache_hint]"
_LOAD = (
    f"{{.{{1,2,3,4,5}}d.SPACE.global[.tile].{_DONE},.{{3,4,5}}d.SPACE.global.im2col.{_DONE}}}"  # a pattern
)
_FORMS = (
    f"{_LOAD.replace('SPACE', 'shared::cluster')}[.multicast::cluster]{_HINT} @sm_90 @ptx8.0; "
    f"{_LOAD.replace('SPACE', 'shared::cta')}{_HINT} @sm_90 @ptx8.6; "
    f"{{{_LOAD.replace('SPACE', 'shared::cluster')}[.multicast::cluster],"
    f"{_LOAD.replace('SPACE', 'shared::cta')}}}.cta_group::{{1,2}}{_HINT} @sm_100a @ptx8.6; "
    f".2d.{{shared::cluster.global.tile::gather4.{_DONE}[.multicast::cluster][.cta_group::{{1,2}}],"
    f"shared::cta.global.tile::gather4.{_DONE}.cta_group::{{1,2}}}}{_HINT} @sm_100a @ptx8.6; "
    f".2d.shared::cta.global.tile::gather4.{_DONE}{_HINT} @sm_100 @ptx8.6; "
    f"{{.{{1,2,3,4,5}}d.global.shared::cta[.tile],.{{3,4,5}}d.global.shared::cta.im2col_no_offs}}"
    f".bulk_group{_HINT} @sm_90 @ptx8.0; "
    f".2d.global.shared::cta.tile::scatter4.bulk_group{_HINT} @sm_100a @ptx8.6"
)


def _mode(m: Modifiers) -> str:
    word = m.take("tile", "tile::gather4", "tile::scatter4", "im2col", "im2col_no_offs") or "tile"
    return "four" if word in ("tile::gather4", "tile::scatter4") else word


def _tensor(d: Decoder, operand: Operand, dimensions: int, mode: str) -> tuple[int, list[int]]:
    """Slot of the tensor map's generic address, and the coordinates' slots."""
    if not isinstance(operand, Address) or not operand.coordinates:
        raise ValueError("[map, {coordinates}] is needed")
    wanted = 5 if mode == "four" else dimensions
    if len(operand.coordinates) != wanted:
        raise ValueError(f"{wanted} coordinates are needed")
    coordinates = [d.src(c, "s32") for c in operand.coordinates]
    return d.address_slot(Address(operand.base, operand.offset), 8), coordinates


def _offsets(d: Decoder, rest: list[Operand], dimensions: int, mode: str) -> list[int]:
    """The im2col offsets, taken off the front of `rest`."""
    if mode != "im2col":
        return []
    parts = d.vector(rest.pop(0))
    if len(parts) != dimensions - 2:
        raise ValueError(f"{dimensions - 2} im2col offsets are needed")
    return [d.src(part, "u16") for part in parts]


@instruction(
    "cp.async.bulk.tensor",
    group="asynchronous copies",
    forms=_FORMS,
    section="9.7.9.27.1",
    note="the schedule policy determines its completion; until then its bytes read as poison; if several "
    "lanes execute it, it is issued once per lane, as on silicon; cache hints have no effect; the "
    "im2col::w modes are rejected",
)
def tensor(d: Decoder, i: Instruction, m: Modifiers) -> None:
    dimensions = int(m.need(*_DIMENSIONS)[0])
    hint = m.take("L2::cache_hint")
    mode = _mode(m)
    operands = list(i.operands)
    if hint:
        d.src(operands.pop(), "b64")
    first = next((word for word in m.remaining if word in ("shared::cluster", "shared::cta", "global")), "")
    m.need(first or "global")
    if first == "global":
        m.need("shared::cta")
        m.need("bulk_group")
        target, source = operands
        slot, coordinates = _tensor(d, target, dimensions, mode)
        d.emit(
            "tma.store",
            src=d.address_slot(source, 4),
            map=slot,
            dimensions=dimensions,
            mode=MODES.index(mode),
            vec=coordinates,
        )
        return
    m.need("global")
    m.need(_DONE)
    multicast = m.take("multicast::cluster")
    group = m.take("cta_group::1", "cta_group::2")
    if group == "cta_group::2":
        d.uses_pairs = True
    dst, source, barrier, *rest = operands
    slot, coordinates = _tensor(d, source, dimensions, mode)
    coordinates += _offsets(d, rest, dimensions, mode)
    if len(rest) != bool(multicast):
        raise ValueError("a CTA mask is missing or surplus")
    d.emit(
        "tma.load",
        dst=d.address_slot(dst, 4),
        map=slot,
        barrier=d.address_slot(barrier, 4),
        mask=d.src(rest[0], "b16") if rest else NONE,
        dimensions=dimensions,
        mode=MODES.index(mode),
        cta_group=int(group[-1]) if group else 0,
        own_window=int(first == "shared::cta"),
        vec=coordinates,
    )


@instruction(
    "cp.reduce.async.bulk.tensor",
    group="asynchronous copies",
    forms=f"{{.{{1,2,3,4,5}}d.global.shared::cta.{{add,min,max,inc,dec,and,or,xor}}[.tile],"
    f".{{3,4,5}}d.global.shared::cta.{{add,min,max,inc,dec,and,or,xor}}.im2col_no_offs}}.bulk_group{_HINT} "
    "@sm_90 @ptx8.0",
    section="9.7.9.27.1.3",
    note="in the map's type; subnormals are flushed, as the manual says for f32 add",
)
def reduce_tensor(d: Decoder, i: Instruction, m: Modifiers) -> None:
    dimensions = int(m.need(*_DIMENSIONS)[0])
    hint = m.take("L2::cache_hint")
    mode = _mode(m)
    operation = m.need(*OPERATIONS)
    for word in ("global", "shared::cta", "bulk_group"):
        m.need(word)
    target, source, *rest = i.operands
    if len(rest) != bool(hint):
        raise ValueError("a cache policy is missing or surplus")
    slot, coordinates = _tensor(d, target, dimensions, mode)
    d.emit(
        "tma.store",
        src=d.address_slot(source, 4),
        map=slot,
        dimensions=dimensions,
        mode=MODES.index(mode),
        operation=1 + OPERATIONS.index(operation),
        vec=coordinates,
    )


@instruction(
    "cp.async.bulk.prefetch.tensor",
    group="hints",
    forms=f"{{.{{1,2,3,4,5}}d.L2.global[.tile],.{{3,4,5}}d.L2.global.im2col}}{_HINT} @sm_90 @ptx8.0; "
    f".2d.L2.global.tile::gather4{_HINT} @sm_100a @ptx8.6",
    section="9.7.9.27.1.4",
    note="the map is checked as for a copy; no effect",
)
def prefetch_tensor(d: Decoder, i: Instruction, m: Modifiers) -> None:
    dimensions = int(m.need(*_DIMENSIONS)[0])
    m.take("L2::cache_hint")
    mode = _mode(m)
    m.types()
    source, *rest = i.operands
    slot, coordinates = _tensor(d, source, dimensions, mode)
    coordinates += _offsets(d, rest, dimensions, mode)
    d.emit("tma.prefetch", map=slot, dimensions=dimensions, mode=MODES.index(mode), vec=coordinates)
