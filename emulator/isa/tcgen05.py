"""tcgen05: tensor memory and the fifth-generation tensor core (PTX ISA 9.7.16)."""

from __future__ import annotations

from tileproof.emulator.decode import Decoder
from tileproof.emulator.enumerations import enumeration
from tileproof.emulator.isa.fences import AFTER_FENCE, BEFORE_FENCE
from tileproof.emulator.program import NONE
from tileproof.emulator.ptx import Immediate, Instruction, Operand
from tileproof.emulator.registry import Modifiers, Unknown, instruction, refused
from tileproof.emulator.slots import slots

MOVED = (
    "{{.32x32b,.16x64b,.16x32bx2}.{x1,x2,x4,x8,x16,x32,x64,x128},.16x128b.{x1,x2,x4,x8,x16,x32,x64},"
    ".16x256b.{x1,x2,x4,x8,x16,x32}}"
)
_LD = f".sync.aligned{MOVED}[.pack::16b].b32 @sm_100a @ptx8.6"
_ST = f".sync.aligned{MOVED}[.unpack::16b].b32 @sm_100a @ptx8.6"

slots("tcgen05.alloc", operands="base columns", modifiers="cta_group", visible=True)
slots("tcgen05.dealloc", operands="address columns", modifiers="cta_group", visible=True)
slots("tcgen05.relinquish", modifiers="cta_group", visible=True)
# Registers stand in vec; imm: the second column offset of .16x32bx2. The two share their layout.
# `reduced` and what follows `packed` are of .red.
slots(
    "tcgen05.ld",
    operands="address reduced",
    modifiers="shape count packed type max absolute nan",
    visible=True,
    writes="reduced",
    fills=True,
)
slots("tcgen05.st", operands="address", modifiers="shape count packed", visible=True)
slots("tcgen05.wait.ld", visible=True)
slots("tcgen05.wait.st", visible=True)
slots("tcgen05.commit", operands="barrier mask", modifiers="cta_group address_bytes", visible=True)
slots(
    "tcgen05.cp",
    operands="address descriptor",
    modifiers="cta_group rows chunks copies packed_bits",
    visible=True,
)


def group_of(d: Decoder, m: Modifiers) -> int:
    group = int(m.need("cta_group::1", "cta_group::2")[-1])
    d.uses_pairs |= group == 2
    return group


def _collective(m: Modifiers) -> None:
    m.need("sync")
    m.need("aligned")


@instruction(
    "tcgen05.alloc",
    group="tcgen05",
    forms=".cta_group::{1,2}.sync.aligned[.shared::cta].b32 @sm_100a @ptx8.6",
    section="9.7.16.7.1",
    note="blocks while columns are missing; random schedules also return non-zero bases",
)
def alloc(d: Decoder, i: Instruction, m: Modifiers) -> None:
    group = group_of(d, m)
    _collective(m)
    m.drop("shared::cta")
    m.need("b32")
    target, columns = i.operands
    d.emit("tcgen05.alloc", base=d.address_slot(target, 4), columns=d.src(columns, "u32"), cta_group=group)


@instruction(
    "tcgen05.dealloc",
    group="tcgen05",
    forms=".cta_group::{1,2}.sync.aligned.b32 @sm_100a @ptx8.6",
    section="9.7.16.7.1",
    note="columns still allocated at exit are a finding",
)
def dealloc(d: Decoder, i: Instruction, m: Modifiers) -> None:
    group = group_of(d, m)
    _collective(m)
    m.need("b32")
    address, columns = i.operands
    d.emit("tcgen05.dealloc", address=d.src(address, "b32"), columns=d.src(columns, "u32"), cta_group=group)


@instruction(
    "tcgen05.relinquish_alloc_permit",
    group="tcgen05",
    forms=".cta_group::{1,2}.sync.aligned @sm_100a @ptx8.6",
    section="9.7.16.7.1",
)
def relinquish(d: Decoder, i: Instruction, m: Modifiers) -> None:
    group = group_of(d, m)
    _collective(m)
    d.emit("tcgen05.relinquish", cta_group=group)


_SHAPES = enumeration("TmemShape", "32x32b 16x64b 16x128b 16x256b 16x32bx2")
_COUNTS = ("x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128")


def _movement(
    d: Decoder,
    m: Modifiers,
    handler: str,
    address: Operand,
    second: list[Operand],
    registers: Operand,
    pack: str,
    **more: int,
) -> None:
    """tcgen05.ld or .st; `second` is .16x32bx2's second column offset, `pack` the word that moves halves."""
    _collective(m)
    shape = m.need(*_SHAPES)
    count = int(m.need(*_COUNTS)[1:])
    packed = bool(m.take(pack))
    m.need(*([_LOADED[more["type"]]] if more else ["b32"]))
    wanted = {"16x128b": 2 * count, "16x256b": 4 * count}.get(shape, count)
    if wanted > 128:
        raise Unknown(f".{shape}.x{count}: more than 128 registers")
    parts = [d.dst(part, "b32") for part in d.vector(registers)]
    if len(parts) != wanted:
        raise ValueError(f"{wanted} registers are needed")
    d.emit(
        handler,
        address=d.address_slot(address, 4),
        shape=_SHAPES.index(shape),
        count=count,
        packed=int(packed),
        vec=parts,
        imm=_second(shape, second),
        label=None,
        predicate=None,
        written=None,
        **more,
    )


@instruction(
    "tcgen05.ld",
    group="tcgen05",
    forms=_LD,
    section="9.7.16.8.1",
    note="late and random schedules read TMEM only at wait::ld or at the first use of a register",
)
def ld(d: Decoder, i: Instruction, m: Modifiers) -> None:
    registers, address, *second = i.operands
    _movement(d, m, "tcgen05.ld", address, second, registers, "pack::16b")


_LOADED = enumeration("LoadedType", "u32 s32 f32")
_REDUCE = (
    "sync.aligned.SHAPE{.x2,.x4,.x8,.x16,.x32,.x64,.x128}.{min,max}{[.abs][.NaN].f32,.u32,.s32} "
    "@=sm_101a|=sm_101f|=sm_103a|=sm_103f|=sm_110a|=sm_110f @ptx8.8"
)


@instruction(
    "tcgen05.ld.red",
    group="tcgen05",
    forms="." + _REDUCE.replace("SHAPE", "32x32b"),
    section="9.7.16.8.1",
    note="as tcgen05.ld; not on sm_100a",
)
def ld_red(d: Decoder, i: Instruction, m: Modifiers) -> None:
    registers, reduced, address, *second = i.operands
    type_ = next(word for word in _LOADED if word in m.remaining)
    maximum = m.need("min", "max") == "max"
    absolute, nan = m.take("abs"), m.take("NaN")
    _movement(
        d,
        m,
        "tcgen05.ld",
        address,
        second,
        registers,
        "pack::16b",
        reduced=d.dst(reduced, type_),
        type=_LOADED.index(type_),
        max=int(maximum),
        absolute=int(bool(absolute)),
        nan=int(bool(nan)),
    )


@instruction(
    "tcgen05.st",
    group="tcgen05",
    forms=_ST,
    section="9.7.16.8.2",
    note="the cells are pending until wait::st or the schedule completes the store; unpack::16b leaves the "
    "upper half of a cell undefined (0xffff)",
)
def st(d: Decoder, i: Instruction, m: Modifiers) -> None:
    address, *second, registers = i.operands
    _movement(d, m, "tcgen05.st", address, second, registers, "unpack::16b")


def _second(shape: str, operands: list[Operand]) -> int:
    """The immediate second column offset of .16x32bx2, which no other shape has."""
    if len(operands) != (shape == "16x32bx2"):
        raise ValueError("a second column offset is missing or surplus")
    if not operands:
        return 0
    if not isinstance(operands[0], Immediate) or not 0 <= operands[0].value < 512:
        raise ValueError("the second column offset must be an immediate from 0 to 511")
    return operands[0].value


@instruction(
    "tcgen05.wait::ld", group="tcgen05", forms=".sync.aligned @sm_100a @ptx8.6", section="9.7.16.8.3"
)
def wait_ld(d: Decoder, i: Instruction, m: Modifiers) -> None:
    _collective(m)
    d.emit("tcgen05.wait.ld")


@instruction(
    "tcgen05.wait::st", group="tcgen05", forms=".sync.aligned @sm_100a @ptx8.6", section="9.7.16.8.3"
)
def wait_st(d: Decoder, i: Instruction, m: Modifiers) -> None:
    _collective(m)
    d.emit("tcgen05.wait.st")


@instruction(
    "tcgen05.commit",
    group="tcgen05",
    forms=".cta_group::{1,2}.mbarrier::arrive::one[.shared::cluster][.multicast::cluster].b64 @sm_100a "
    "@ptx8.6",
    section="9.7.16.11",
    note="arrives when all earlier mma and cp of the issuing thread are complete",
)
def commit(d: Decoder, i: Instruction, m: Modifiers) -> None:
    group = group_of(d, m)
    m.need("mbarrier::arrive::one")
    m.drop("shared::cluster")
    multicast = m.take("multicast::cluster")
    m.need("b64")
    target, *mask = i.operands
    if len(mask) != bool(multicast):
        raise ValueError("a CTA mask is missing or surplus")
    slot, displacement, width = d.address(target)
    if displacement or slot == NONE:
        slot, width = d.address_slot(target, width), width
    d.emit(
        "tcgen05.commit",
        barrier=slot,
        mask=d.src(mask[0], "b16") if mask else NONE,
        cta_group=group,
        address_bytes=width,
    )


# Source rows, and chunks of 16 bytes per row.
_CP = {"128x256b": (128, 2), "4x256b": (4, 2), "128x128b": (128, 1), "64x128b": (64, 1), "32x128b": (32, 1)}
_COPIES = enumeration("TmemCopies", ("", "warpx2::02_13", "warpx2::01_23", "warpx4", "quarters"))
_PACKED = {"b6x16_p32": 6, "b4x16_p64": 4}


@instruction(
    "tcgen05.cp",
    group="tcgen05",
    forms=".cta_group::{1,2}{.128x256b,.4x256b,.128x128b,.64x128b.warpx2::{02_13,01_23},.32x128b.warpx4}"
    "[.b8x16.{b6x16_p32,b4x16_p64}] @sm_100a @ptx8.6",
    section="9.7.16.9.2",
    note="4x256b: row r to lane 32 r, counted from the address; decompressed: 6 bits to bits 0-5 of a byte, "
    "4 bits to bits 2-5, as tcgen05.mma reads them",
)
def cp(d: Decoder, i: Instruction, m: Modifiers) -> None:
    group = group_of(d, m)
    shape = m.need(*_CP)
    copies = m.take(*_COPIES[1:4]) or ""
    if (shape in ("64x128b", "32x128b")) != bool(copies):
        raise Unknown("this shape without its warp multicast")
    packed = m.need(*_PACKED) if m.take("b8x16") else ""
    rows, chunks = _CP[shape]
    target, descriptor = i.operands
    d.emit(
        "tcgen05.cp",
        address=d.address_slot(target, 4),
        descriptor=d.src(descriptor, "b64"),
        cta_group=group,
        rows=rows,
        chunks=chunks,
        copies=_COPIES.index("quarters" if shape == "4x256b" else copies),
        packed_bits=_PACKED.get(packed, 0),
    )


@instruction(
    "tcgen05.fence::before_thread_sync",
    group="tcgen05",
    forms="@sm_100a @ptx8.6",
    section="9.7.16.12",
    grade="order only",
    note=(
        "changes no value: asynchronous operations complete as a whole; the race checker reports a "
        "missing fence"
    ),
)
@instruction(
    "tcgen05.fence::after_thread_sync",
    group="tcgen05",
    forms="@sm_100a @ptx8.6",
    section="9.7.16.12",
    grade="order only",
    note="as before_thread_sync",
)
def fence(d: Decoder, i: Instruction, m: Modifiers) -> None:
    m.types()
    d.emit("fence", kind=BEFORE_FENCE if "before_thread_sync" in i.opcode else AFTER_FENCE)


refused(
    "tcgen05.shift",
    group="tcgen05",
    forms=".cta_group::{1,2}.down @=sm_100a|=sm_101a|=sm_103a|=sm_110a @ptx8.6",
    section="9.7.16.9.3",
    note="it is not documented whether row r goes to lane r + 1 or r - 1, or whether rows cross the "
    "quarters of the lanes",
)
refused(
    "tcgen05.ld.red",
    group="tcgen05",
    forms="." + _REDUCE.replace("SHAPE", "16x32bx2"),
    section="9.7.16.8.1",
    note="it is not documented whether a value covers both halves of the columns or only the thread's half",
)
