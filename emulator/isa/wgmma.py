"""wgmma: matrix products of a warpgroup on Hopper, their groups and their fence (PTX ISA 9.7.15).

`mma_async` is an operation of four warps. Each warp brings its 16 rows of D, and of A where A is in
registers; the operation begins when all four have executed it, reads shared memory through the async proxy,
and is complete when a `wait_group` covers its group. From issue to that wait D and A are in flight: an access
by another instruction is a finding (engine/wgmma_registers.cpp).
"""

from __future__ import annotations

from tileproof.emulator.decode import Decoder
from tileproof.emulator.enumerations import enumeration
from tileproof.emulator.program import NONE
from tileproof.emulator.ptx import Immediate, Instruction, Operand, Vector
from tileproof.emulator.registry import Modifiers, instruction
from tileproof.emulator.slots import slots

# vec: registers of D, then those of A where A is in registers. `negated` and `transposed`: bit 0 A, bit 1 B.
# imm: 0, or of a sparse A its sparsity selector plus 1.
slots(
    "wgmma.mma_async",
    operands="b a enable metadata",
    modifiers="n a_type b_type d_type negated transposed enable_not saturates",
    visible=True,
)
slots("wgmma.fence", visible=True)
slots("wgmma.commit_group", visible=True)
slots("wgmma.wait_group", visible=True)  # imm: the groups that may stay pending

_TYPES = enumeration("WgmmaType", "f16 bf16 tf32 e4m3 e5m2 s8 u8 b1")
_RESULTS = enumeration("WgmmaResult", "f32 f16 s32")
_TRANSPOSES = {"f16", "bf16"}
_BYTES = {"e4m3", "e5m2", "s8", "u8"}
_FLOATS = {"f16", "bf16", "tf32", "e4m3", "e5m2"}
_NS = ",".join(str(n) for n in range(8, 257, 8))
_INTEGER_NS = ",".join(str(n) for n in (8, 16, 24, *range(32, 257, 16)))
_NEEDS, _SPARSE_NEEDS = "@sm_90a @ptx8.0", "@sm_90a @ptx8.2"
_FORMS = (
    f".m64n{{{_NS}}}k16.{{f32,f16}}.f16.f16 {_NEEDS}; .m64n{{{_NS}}}k16.f32.bf16.bf16 {_NEEDS}; "
    f".m64n{{{_NS}}}k8.f32.tf32.tf32 {_NEEDS}; "
    f".m64n{{{_NS}}}k32.{{f32,f16}}.{{e4m3,e5m2}}.{{e4m3,e5m2}} {_NEEDS}; "
    f".m64n{{{_INTEGER_NS}}}k32[.satfinite].s32.{{s8.s8,u8.u8}} {_NEEDS}; "
    f".m64n{{{_INTEGER_NS}}}k32[.satfinite].s32.{{s8.u8,u8.s8}} {_NEEDS} @ptx8.4; "
    f".m64n{{{_INTEGER_NS}}}k256.s32.b1.b1.and.popc {_NEEDS}"
)


_SPARSE = (
    f".m64n{{{_NS}}}k32.{{f32,f16}}.f16.f16 {_SPARSE_NEEDS}; "
    f".m64n{{{_NS}}}k32.f32.bf16.bf16 {_SPARSE_NEEDS}; "
    f".m64n{{{_NS}}}k16.f32.tf32.tf32 {_SPARSE_NEEDS}; "
    f".m64n{{{_NS}}}k64.{{f32,f16}}.{{e4m3,e5m2}}.{{e4m3,e5m2}} {_SPARSE_NEEDS}; "
    f".m64n{{{_INTEGER_NS}}}k64[.satfinite].s32.{{s8.s8,u8.u8}} {_SPARSE_NEEDS}; "
    f".m64n{{{_INTEGER_NS}}}k64[.satfinite].s32.{{s8.u8,u8.s8}} {_SPARSE_NEEDS} @ptx8.4"
)


@instruction(
    "wgmma.mma_async.sp",
    group="wgmma",
    forms="; ".join(f".sync.aligned{form.strip()}" for form in _SPARSE.split(";")),
    section="9.7.15.6",
    note="as mma_async, of the columns that the metadata chooses",
)
@instruction(
    "wgmma.mma_async",
    group="wgmma",
    forms="; ".join(f".sync.aligned{form.strip()}" for form in _FORMS.split(";")),
    section="9.7.15.5.2",
    note="D in registers, A in registers or shared memory; `exact` has the words of an H200 "
    "(spec/machine/wgmma.py); `fast` sums in f32 in order of k",
)
def mma_async(d: Decoder, i: Instruction, m: Modifiers) -> None:
    for word in ("sync", "aligned"):
        m.need(word)
    n = int(m.remaining.pop(0).partition("n")[2].partition("k")[0])
    saturates = m.take("satfinite")
    m.drop("and", "popc")
    result, a_type, b_type = m.types()
    operands = list(i.operands)
    target = d.vector(operands.pop(0))
    count = n // 4 if result == "f16" else n // 2
    if len(target) != count:
        raise ValueError(f"{count} registers of D are needed, not {len(target)}")
    registers = [d.dst(part, "b32") for part in target]
    if len(set(registers)) != len(registers):
        raise ValueError("the registers of D are not distinct")
    a = operands.pop(0)
    in_registers = isinstance(a, Vector)
    if isinstance(a, Vector):
        if len(a.parts) != 4:
            raise ValueError(f"4 registers of A are needed, not {len(a.parts)}")
        registers += [d.src(part, "b32") for part in a.parts]
    b = operands.pop(0)
    metadata, imm = NONE, 0
    if i.opcode.startswith("wgmma.mma_async.sp."):
        metadata = d.src(operands.pop(0), "b32")
        imm = 1 + _flag(operands.pop(0), (0,) if _BYTES & {a_type} else (0, 1), "the sparsity selector")
    enable, enable_not = _scale_d(d, operands.pop(0))
    negated = transposed = 0
    if a_type in _FLOATS:
        negated = sum(_flag(operands.pop(0), (1, -1), "imm-scale") << bit for bit in range(2))
    if a_type in _TRANSPOSES:
        transposed = sum(
            _flag(operands.pop(0), (0, 1), "imm-trans") << bit for bit in range(int(in_registers), 2)
        )
    if operands:
        raise ValueError("surplus operands")
    d.emit(
        "wgmma.mma_async",
        b=d.src(b, "b64"),
        a=NONE if in_registers else d.src(a, "b64"),
        enable=enable,
        metadata=metadata,
        imm=imm,
        n=n,
        a_type=_TYPES.index(a_type),
        b_type=_TYPES.index(b_type),
        d_type=_RESULTS.index(result),
        negated=negated,
        transposed=transposed,
        enable_not=enable_not,
        saturates=int(bool(saturates)),
        vec=registers,
        written=(0, count),
    )


def _scale_d(d: Decoder, operand: Operand) -> tuple[int, int]:
    """Slot and negation of scale-d, a predicate or an immediate."""
    if not isinstance(operand, Immediate):
        return d.predicate(operand)
    if operand.value not in (0, 1):
        raise ValueError("scale-d is a predicate, 0 or 1")
    return d.constant(-operand.value, 4), 0


def _flag(operand: Operand, legal: tuple[int, ...], name: str) -> int:
    """The place of an immediate among its legal values."""
    if not isinstance(operand, Immediate) or operand.value not in legal:
        raise ValueError(f"{name} is the immediate {' or '.join(map(str, legal))}")
    return legal.index(operand.value)


@instruction(
    "wgmma.fence",
    group="wgmma",
    forms=f".sync.aligned {_NEEDS}",
    section="9.7.15.7.1",
    note="needed before the first mma_async, and between another access to registers of D or A and mma_async",
)
@instruction("wgmma.commit_group", group="wgmma", forms=f".sync.aligned {_NEEDS}", section="9.7.15.7.2")
def order(d: Decoder, i: Instruction, m: Modifiers) -> None:
    for word in ("sync", "aligned"):
        m.need(word)
    if i.operands:
        raise ValueError("it takes none")
    d.emit(".".join(i.opcode.split(".")[:2]))


@instruction("wgmma.wait_group", group="wgmma", forms=f".sync.aligned {_NEEDS}", section="9.7.15.7.3")
def wait_group(d: Decoder, i: Instruction, m: Modifiers) -> None:
    for word in ("sync", "aligned"):
        m.need(word)
    (count,) = i.operands
    if not isinstance(count, Immediate) or count.value < 0:
        raise ValueError("an immediate count is needed, 0 or more")
    d.emit("wgmma.wait_group", imm=min(count.value, 1 << 31))
