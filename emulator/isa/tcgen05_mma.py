"""tcgen05.mma: dense matrix products of all kinds (PTX ISA 9.7.16.10.9)."""

from __future__ import annotations

from tileproof.emulator.decode import Decoder
from tileproof.emulator.enumerations import enumeration
from tileproof.emulator.isa.tcgen05 import group_of
from tileproof.emulator.program import NONE
from tileproof.emulator.ptx import Address, Immediate, Instruction, Operand, Vector
from tileproof.emulator.registry import Modifiers, Unknown, instruction
from tileproof.emulator.slots import slots
from tileproof.spec.machine.kinds import FORMATS

_NUMBER = {name: number for number, name in enumerate(FORMATS)}
_USAGE = enumeration("CollectorUsage", "discard fill use lastuse")
# The formats of spec/machine/kinds.py: a kind, for mxf4nvf4 with its scale vector.
MMA_FORMATS = enumeration(
    "Format",
    "f16 tf32 f8f6f4 i8 mxf8f6f4 mxf4 mxf4nvf4.2X mxf4nvf4.4X",
    names="F16 Tf32 F8F6F4 I8 Mxf8f6f4 Mxf4 Mxf4nvf4x2 Mxf4nvf4x4",
    spelled=True,
)
_VECTORS = ("scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32")
# kind -> scale vector -> format; "": not written (tables 56 and 57).
_SCALED = {
    "mxf8f6f4": {"": "mxf8f6f4", "scale_vec::1X": "mxf8f6f4", "block32": "mxf8f6f4"},
    "mxf4": {"": "mxf4", "scale_vec::2X": "mxf4", "block32": "mxf4"},
    "mxf4nvf4": {
        "scale_vec::2X": "mxf4nvf4.2X",
        "block32": "mxf4nvf4.2X",
        "scale_vec::4X": "mxf4nvf4.4X",
        "block16": "mxf4nvf4.4X",
    },
}
_A = "[.collector::a::{fill,use,lastuse,discard}]"
_B = "[.collector::b{0,1,2,3}::{fill,use,lastuse,discard}]"
_ALL, _OLD, _I8 = "@sm_100a @ptx8.6", "@=sm_100a|=sm_101a|=sm_103a|=sm_110a", "@=sm_100a|=sm_101a|=sm_110a"
_FORMS = "; ".join(
    (
        f".cta_group::{{1,2}}.kind::{{f16,tf32,f8f6f4}}{_A} {_ALL}",
        f".cta_group::{{1,2}}.kind::i8{_A} {_I8} @ptx8.6",
        f".cta_group::{{1,2}}.kind::mxf8f6f4.block_scale[.block32]{_A} @sm_100a @ptx8.8",
        f".cta_group::{{1,2}}.kind::mxf8f6f4.block_scale.scale_vec::1X{_A} {_OLD} @ptx8.6",
        f".cta_group::{{1,2}}.kind::mxf4.block_scale[.block32]{_A} @sm_100a @ptx8.8",
        f".cta_group::{{1,2}}.kind::mxf4.block_scale.scale_vec::2X{_A} {_OLD} @ptx8.6",
        f".cta_group::{{1,2}}.kind::mxf4nvf4.block_scale.block{{16,32}}{_A} @sm_100a @ptx8.8",
        f".cta_group::{{1,2}}.kind::mxf4nvf4.block_scale.scale_vec::{{2,4}}X{_A} {_OLD} @ptx8.7",
        f".ws.cta_group::1.kind::{{f16,tf32,f8f6f4}}{_B} {_ALL}",
        f".ws.cta_group::1.kind::i8{_B} {_I8} @ptx8.6",
    )
)

slots(
    "tcgen05.mma",
    operands="d a b idesc enable scale_a scale_b zero_mask",
    modifiers="cta_group ws a_in_tmem format collector enable_not",
    visible=True,
)


@instruction(
    "tcgen05.mma",
    group="tcgen05",
    forms=_FORMS,
    section="9.7.16.10.9",
    note="all dense kinds, A in shared or tensor memory, lane mask, scale-input-d, zero-column mask; fast "
    "mode: f32 products and sums; exact mode: the published block arithmetic (arXiv 2512.07004). Sparse A "
    "and .ashift are rejected",
)
def mma(d: Decoder, i: Instruction, m: Modifiers) -> None:
    ws = bool(m.take("ws"))
    group = group_of(d, m)
    if ws and group == 2:
        raise Unknown("tcgen05.mma.ws has no cta_group::2")
    format_ = _format(m, ws)
    collector = _collector(m, ws)
    operands = list(i.operands)
    target, a, b, idesc = operands[:4]
    rest = operands[4:]
    scale_a = scale_b = NONE
    if FORMATS[format_].scales:
        scale_a, scale_b = (d.address_slot(rest.pop(0), 4) for _ in "AB")
    masks: list[int] = []
    if rest and isinstance(rest[0], Vector):
        masks = [d.src(part, "b32") for part in rest.pop(0).parts]  # type: ignore[union-attr]
        if len(masks) != 4 * group or ws or scale_a != NONE:
            raise ValueError(f"{4 * group} lane-mask registers are needed, and no scales")
    enable = _enable(d, rest.pop(0))
    zero_mask, scale = NONE, 0
    if ws and rest:
        zero_mask = d.src(rest.pop(0), "b64")
    elif rest:
        scale = _scale_input_d(rest.pop(0), format_)
    if rest:
        raise ValueError("surplus operands")
    in_tmem = isinstance(a, Address)
    d.emit(
        "tcgen05.mma",
        d=d.address_slot(target, 4),
        a=d.address_slot(a, 4) if in_tmem else d.src(a, "b64"),
        b=d.src(b, "b64"),
        idesc=d.src(idesc, "b32"),
        enable=enable[0],
        enable_not=enable[1],
        zero_mask=zero_mask,
        cta_group=group,
        ws=int(ws),
        a_in_tmem=int(in_tmem),
        format=_NUMBER[format_],
        collector=collector,
        vec=masks,
        imm=scale,
        scale_a=scale_a,
        scale_b=scale_b,
    )


def _format(m: Modifiers, ws: bool) -> str:
    kind = next((word for word in m.remaining if word.startswith("kind::")), "")
    if kind:
        m.remaining.remove(kind)
    name = kind.removeprefix("kind::")
    if name in ("f16", "tf32", "f8f6f4", "i8"):
        return name
    if name not in _SCALED or ws:
        raise Unknown(f"does not support .{kind or 'no kind'}{' with .ws' if ws else ''}")
    m.need("block_scale")
    vector = m.take(*_VECTORS) or ""
    if vector not in _SCALED[name]:
        legal = ", ".join(f".{word}" for word in _SCALED[name] if word)
        raise Unknown(f".{kind} takes {legal}, not {f'.{vector}' if vector else 'nothing'}")
    return _SCALED[name][vector]


def _collector(m: Modifiers, ws: bool) -> int:
    """Buffer * 4 + usage; buffers a, b0 .. b3. Without the word: the buffer's contents are discarded."""
    words = [word for word in m.remaining if word.startswith("collector::")]
    if not words:
        return 4 if ws else 0
    m.remaining.remove(words[0])
    _, buffer, usage = (*words[0].split("::"), "", "")[:3]
    buffers = ("b0", "b1", "b2", "b3") if ws else ("a",)
    if buffer not in buffers or usage not in _USAGE:
        raise Unknown(f"does not support .{words[0]}")
    return 4 * (1 + buffers.index(buffer) if ws else 0) + _USAGE.index(usage)


def _enable(d: Decoder, operand: Operand) -> tuple[int, int]:
    """Slot and negation of enable-input-d, a predicate or an immediate."""
    if isinstance(operand, Immediate):
        return d.constant(0, 4), int(bool(operand.value))
    return d.predicate(operand)


def _scale_input_d(operand: Operand, format_: str) -> int:
    if format_ not in ("f16", "tf32"):
        raise Unknown("scale-input-d is for kinds f16 and tf32")
    if not isinstance(operand, Immediate) or not 0 <= operand.value <= 15:
        raise ValueError("scale-input-d is an immediate from 0 to 15")
    return operand.value
