"""Integer instructions on bits, bytes and carries (PTX ISA 9.7.1, 9.7.2, 9.7.8.7, 9.7.9.7)."""

from __future__ import annotations

from tileproof.emulator.decode import Decoder
from tileproof.emulator.program import TYPE_BYTES
from tileproof.emulator.ptx import Instruction
from tileproof.emulator.registry import Modifiers, Unknown, instruction
from tileproof.emulator.slots import slots

# `carry` is the thread's CC.CF, a predicate.
slots("carry", operands="dst a b carry", modifiers="bytes subtracts reads writes", writes="dst")
slots("prmt.mode", operands="dst a b c", modifiers="mode", writes="dst")
slots("dp", operands="dst a b c", modifiers="a_signed b_signed pairs high", writes="dst")

_WORDS = {"s32", "u32", "s64", "u64"}


def _one(m: Modifiers, allowed: set[str]) -> str:
    types = m.types()
    if len(types) != 1 or types[0] not in allowed:
        raise Unknown(f"does not support the type .{'.'.join(types)}")
    return types[0]


@instruction("bfe", group="integer", forms=".{s,u}{32,64}", section="9.7.1.19")
def bfe(d: Decoder, i: Instruction, m: Modifiers) -> None:
    type_ = _one(m, _WORDS)
    dst, a, b, c = i.operands
    d.emit(f"bfe.{type_}", dst=d.dst(dst, type_), a=d.src(a, type_), b=d.src(b, "u32"), c=d.src(c, "u32"))


@instruction("bfi", group="integer", forms=".b{32,64}", section="9.7.1.20")
def bfi(d: Decoder, i: Instruction, m: Modifiers) -> None:
    type_ = _one(m, {"b32", "b64"})
    dst, a, b, at, length = i.operands
    d.emit(
        f"bfi.{type_}",
        dst=d.dst(dst, type_),
        a=d.src(a, type_),
        b=d.src(b, type_),
        c=d.src(at, "u32"),
        d=d.src(length, "u32"),
    )


@instruction("shf", group="logic", forms=".{l,r}.{clamp,wrap}.b32", section="9.7.8.7")
def shf(d: Decoder, i: Instruction, m: Modifiers) -> None:
    way, mode = m.need("l", "r"), m.need("clamp", "wrap")
    _one(m, {"b32"})
    dst, *sources = i.operands
    low, high, amount = sources
    d.emit(
        f"shf.{way}.{mode}",
        dst=d.dst(dst, "b32"),
        a=d.src(low, "b32"),
        b=d.src(high, "b32"),
        c=d.src(amount, "u32"),
    )


_CARRY_NOTE = "one carry flag per thread"


@instruction("add", group="integer", forms=".cc.{s,u}{32,64}", section="9.7.2.1", note=_CARRY_NOTE)
@instruction("addc", group="integer", forms="[.cc].{s,u}{32,64}", section="9.7.2.2", note=_CARRY_NOTE)
@instruction("sub", group="integer", forms=".cc.{s,u}{32,64}", section="9.7.2.3", note=_CARRY_NOTE)
@instruction("subc", group="integer", forms="[.cc].{s,u}{32,64}", section="9.7.2.4", note=_CARRY_NOTE)
def with_carry(d: Decoder, i: Instruction, m: Modifiers) -> None:
    base = i.opcode.split(".")[0]
    writes = bool(m.take("cc"))
    type_ = _one(m, _WORDS)
    dst, a, b = i.operands
    _carry(
        d,
        d.dst(dst, type_),
        d.src(a, type_),
        d.src(b, type_),
        type_,
        base.startswith("sub"),
        base[-1] == "c",
        writes,
    )


def _carry(
    d: Decoder, dst: int, a: int, b: int, type_: str, subtracts: bool, reads: bool, writes: bool
) -> None:
    d.emit(
        "carry", dst=dst, a=a, b=b, carry=d.carry_flag(), bytes=TYPE_BYTES[type_], subtracts=int(subtracts),
        reads=int(reads), writes=int(writes),
    )  # fmt: skip


@instruction("mad", group="integer", forms=".{lo,hi}.cc.{s,u}{32,64}", section="9.7.2.5", note=_CARRY_NOTE)
@instruction("madc", group="integer", forms=".{lo,hi}[.cc].{s,u}{32,64}", section="9.7.2.6", note=_CARRY_NOTE)
def mad_with_carry(d: Decoder, i: Instruction, m: Modifiers) -> None:
    reads = i.opcode.startswith("madc")
    part = m.need("lo", "hi")
    writes = bool(m.take("cc"))
    type_ = _one(m, _WORDS)
    dst, a, b, c = i.operands
    product = d.temporary(TYPE_BYTES[type_])
    name = f"mul.lo.{8 * TYPE_BYTES[type_]}" if part == "lo" else f"mul.hi.{type_}"
    addend = d.src(c, type_)
    d.emit(name, dst=product, a=d.src(a, type_), b=d.src(b, type_))
    _carry(d, d.dst(dst, type_), product, addend, type_, False, reads, writes)


@instruction("mul24", group="integer", forms=".{lo,hi}.{s,u}32", section="9.7.1.5")
@instruction("mad24", group="integer", forms=".{lo,hi}.{s,u}32; .hi.sat.s32", section="9.7.1.6")
def of_24_bits(d: Decoder, i: Instruction, m: Modifiers) -> None:
    part = m.need("lo", "hi")
    saturates = m.take("sat")
    type_ = _one(m, {"s32"} if saturates else {"s32", "u32"})
    dst, a, b, *c = i.operands
    added = i.opcode.startswith("mad")
    if len(c) != int(added) or (saturates and (not added or part == "lo")):
        raise Unknown("does not support this form")
    if not added:
        d.emit(f"mul24.{part}.{type_}", dst=d.dst(dst, type_), a=d.src(a, type_), b=d.src(b, type_))
        return
    product = d.temporary(4)
    d.emit(f"mul24.{part}.{type_}", dst=product, a=d.src(a, type_), b=d.src(b, type_))
    d.emit("add.sat.s32" if saturates else "add.32", dst=d.dst(dst, type_), a=product, b=d.src(c[0], type_))


@instruction("sad", group="integer", forms=".{s,u}{16,32,64}", section="9.7.1.7")
def sad(d: Decoder, i: Instruction, m: Modifiers) -> None:
    type_ = _one(m, _WORDS | {"s16", "u16"})
    dst, *sources = i.operands
    a, b, c = (d.src(s, type_) for s in sources)
    d.emit(f"sad.{type_}", dst=d.dst(dst, type_), a=a, b=b, c=c)


@instruction("popc", group="integer", forms=".b{32,64}", section="9.7.1.16")
@instruction("clz", group="integer", forms=".b{32,64}", section="9.7.1.17")
@instruction("bfind", group="integer", forms="[.shiftamt].{s,u}{32,64}", section="9.7.1.18")
@instruction("brev", group="integer", forms=".b{32,64}", section="9.7.1.21")
def count_bits(d: Decoder, i: Instruction, m: Modifiers) -> None:
    base = i.opcode.split(".")[0]
    shift = "shiftamt." if base == "bfind" and m.take("shiftamt") else ""
    type_ = _one(m, _WORDS if base == "bfind" else {"b32", "b64"})
    dst, a = i.operands
    d.emit(f"{base}.{shift}{type_}", dst=d.dst(dst, type_ if base == "brev" else "u32"), a=d.src(a, type_))


_MODES = ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")


@instruction("prmt", group="logic", forms=".b32[.{f4e,b4e,rc8,ecl,ecr,rc16}]", section="9.7.9.7")
def prmt(d: Decoder, i: Instruction, m: Modifiers) -> None:
    m.need("b32")
    mode = m.take(*_MODES)
    dst, a, b, c = i.operands
    to, low, high, choice = d.dst(dst, "b32"), d.src(a, "b32"), d.src(b, "b32"), d.src(c, "b32")
    if mode:
        d.emit("prmt.mode", dst=to, a=low, b=high, c=choice, mode=_MODES.index(mode))
    else:
        d.emit("prmt.b32", dst=to, a=low, b=high, c=choice)


@instruction("dp4a", group="integer", forms=".{s,u}32.{s,u}32", section="9.7.1.24")
@instruction("dp2a", group="integer", forms=".{lo,hi}.{s,u}32.{s,u}32", section="9.7.1.25")
def dot_product(d: Decoder, i: Instruction, m: Modifiers) -> None:
    pairs = i.opcode.startswith("dp2a")
    high = pairs and m.need("lo", "hi") == "hi"
    types = m.types()
    if len(types) != 2 or not set(types) <= {"s32", "u32"}:
        raise Unknown(f"does not support the types .{'.'.join(types)}")
    dst, a, b, c = i.operands
    d.emit(
        "dp",
        dst=d.dst(dst, "b32"),
        a=d.src(a, "b32"),
        b=d.src(b, "b32"),
        c=d.src(c, "b32"),
        a_signed=int(types[0] == "s32"),
        b_signed=int(types[1] == "s32"),
        pairs=int(pairs),
        high=int(high),
    )


@instruction("fns", group="integer", forms=".b32", section="9.7.1.22", note="the n-th set bit")
def fns(d: Decoder, i: Instruction, m: Modifiers) -> None:
    _one(m, {"b32"})
    dst, mask, base, offset = i.operands
    d.emit("fns", dst=d.dst(dst, "b32"), a=d.src(mask, "b32"), b=d.src(base, "u32"), c=d.src(offset, "s32"))


@instruction("szext", group="integer", forms=".{clamp,wrap}.{s,u}32 @sm_70 @ptx7.6", section="9.7.1.23")
@instruction("bmsk", group="integer", forms=".{clamp,wrap}.b32 @sm_70 @ptx7.6", section="9.7.1.23")
def masks(d: Decoder, i: Instruction, m: Modifiers) -> None:
    base = i.opcode.split(".")[0]
    mode = m.need("clamp", "wrap")
    type_ = _one(m, {"s32", "u32"} if base == "szext" else {"b32"})
    dst, a, b = i.operands
    d.emit(f"{base}.{mode}.{type_}", dst=d.dst(dst, type_), a=d.src(a, type_), b=d.src(b, "u32"))


@instruction("cnot", group="logic", forms=".b{16,32,64}", section="9.7.8.5")
def cnot(d: Decoder, i: Instruction, m: Modifiers) -> None:
    type_ = _one(m, {"b16", "b32", "b64"})
    dst, a = i.operands
    d.emit(f"cnot.{type_}", dst=d.dst(dst, type_), a=d.src(a, type_))
