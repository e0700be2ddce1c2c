"""tcgen05: tensor memory and the fifth-generation tensor core (PTX ISA 9.7.16)."""

from __future__ import annotations

from tileproof.emulator.decode import Decoder
from tileproof.emulator.program import NONE
from tileproof.emulator.ptx import Immediate, Instruction, Operand
from tileproof.emulator.registry import Modifiers, Unknown, instruction, refused

MOVED = (
    "{{.32x32b,.16x64b,.16x32bx2}.{x1,x2,x4,x8,x16,x32,x64,x128},.16x128b.{x1,x2,x4,x8,x16,x32,x64},"
    ".16x256b.{x1,x2,x4,x8,x16,x32}}"
)
_LD = f".sync.aligned{MOVED}[.pack::16b].b32 @sm_100a @ptx8.6"
_ST = f".sync.aligned{MOVED}.b32 @sm_100a @ptx8.6"


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
    note="blocks while columns are missing; a random schedule returns non-zero bases too",
)
def alloc(d: Decoder, i: Instruction, m: Modifiers) -> None:
    group = group_of(d, m)
    _collective(m)
    m.drop("shared::cta")
    m.need("b32")
    target, columns = i.operands
    d.emit("tcgen05.alloc", [NONE, d.address_slot(target, 4), d.src(columns, "u32")], m=[group])


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
    d.emit("tcgen05.dealloc", [NONE, d.src(address, "b32"), d.src(columns, "u32")], m=[group])


@instruction(
    "tcgen05.relinquish_alloc_permit",
    group="tcgen05",
    forms=".cta_group::{1,2}.sync.aligned @sm_100a @ptx8.6",
    section="9.7.16.7.1",
)
def relinquish(d: Decoder, i: Instruction, m: Modifiers) -> None:
    group = group_of(d, m)
    _collective(m)
    d.emit("tcgen05.relinquish", m=[group])


_SHAPES = ("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2")
_COUNTS = ("x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128")


def _movement(d: Decoder, m: Modifiers, registers: Operand, pack: str) -> tuple[list[int], list[int]]:
    """(modifiers, register slots) of tcgen05.ld or .st."""
    _collective(m)
    shape = m.need(*_SHAPES)
    count = int(m.need(*_COUNTS)[1:])
    packed = bool(m.take(pack))
    m.need("b32")
    wanted = {"16x128b": 2 * count, "16x256b": 4 * count}.get(shape, count)
    if wanted > 128:
        raise Unknown(f".{shape}.x{count}: more than 128 registers")
    slots = [d.dst(part, "b32") for part in d.vector(registers)]
    if len(slots) != wanted:
        raise ValueError(f"{wanted} registers are needed")
    return [_SHAPES.index(shape), count, int(packed)], slots


@instruction(
    "tcgen05.ld",
    group="tcgen05",
    forms=_LD,
    section="9.7.16.8.1",
    note="late and random schedules read TMEM only at wait::ld or at the first use of a register",
)
def ld(d: Decoder, i: Instruction, m: Modifiers) -> None:
    registers, address, *second = i.operands
    modifiers, slots = _movement(d, m, registers, "pack::16b")
    d.emit(
        "tcgen05.ld",
        [NONE, d.address_slot(address, 4)],
        m=modifiers,
        vec=slots,
        imm=_second(modifiers, second),
    )


@instruction(
    "tcgen05.st",
    group="tcgen05",
    forms=_ST,
    section="9.7.16.8.2",
    note="the cells are pending until wait::st or the schedule completes the store; unpack::16b is refused",
)
def st(d: Decoder, i: Instruction, m: Modifiers) -> None:
    address, *second, registers = i.operands
    modifiers, slots = _movement(d, m, registers, "")
    d.emit(
        "tcgen05.st",
        [NONE, d.address_slot(address, 4)],
        m=modifiers,
        vec=slots,
        imm=_second(modifiers, second),
    )


def _second(modifiers: list[int], operands: list[Operand]) -> int:
    """The immediate second column offset of .16x32bx2, which no other shape has."""
    if len(operands) != (_SHAPES[modifiers[0]] == "16x32bx2"):
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
        "tcgen05.commit", [NONE, slot, d.src(mask[0], "b16") if mask else NONE], m=[group, 0, 0, 0, 0, width]
    )


_CP = {"128x256b": (128, 2), "128x128b": (128, 1), "64x128b": (64, 1), "32x128b": (32, 1)}
_COPIES = {"warpx2::02_13": 1, "warpx2::01_23": 2, "warpx4": 3}


@instruction(
    "tcgen05.cp",
    group="tcgen05",
    forms=".cta_group::{1,2}{.128x256b,.128x128b,.64x128b.warpx2::{02_13,01_23},.32x128b.warpx4} "
    "@sm_100a @ptx8.6",
    section="9.7.16.9.2",
    note="4x256b and decompression are refused",
)
def cp(d: Decoder, i: Instruction, m: Modifiers) -> None:
    group = group_of(d, m)
    shape = m.need(*_CP)
    copies = m.take(*_COPIES)
    if (shape in ("64x128b", "32x128b")) != bool(copies):
        raise Unknown("this shape without its warp multicast")
    rows, chunks = _CP[shape]
    target, descriptor = i.operands
    o = [NONE, d.address_slot(target, 4), d.src(descriptor, "b64")]
    d.emit("tcgen05.cp", o, m=[group, rows, chunks, _COPIES.get(copies or "", 0)])


@instruction(
    "tcgen05.fence::before_thread_sync",
    group="tcgen05",
    forms="@sm_100a @ptx8.6",
    section="9.7.16.12",
    grade="order only",
    note="changes no value: asynchronous operations complete whole; the race checker misses it where needed",
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
    d.emit("fence", m=[4 if "before_thread_sync" in i.opcode else 5, 0])


refused("tcgen05.shift", group="tcgen05", forms="*", section="9.7.16.9.3", note="row shifts of TMEM")
refused("tcgen05.ld.red", group="tcgen05", forms="*", section="9.7.16.8.1", note="not on sm_100a")
