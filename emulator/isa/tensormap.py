"""Tensor maps that a kernel changes: tensormap.replace, cp_fenceproxy (PTX ISA 9.7.9.28, 9.7.13.17)."""

from __future__ import annotations

from tileproof.emulator.decode import Decoder
from tileproof.emulator.enumerations import enumeration
from tileproof.emulator.isa.memory import SPACES
from tileproof.emulator.ptx import Immediate, Instruction
from tileproof.emulator.registry import Modifiers, instruction
from tileproof.emulator.slots import slots

FIELDS = enumeration(
    "MapField",
    "global_address rank box_dim global_dim global_stride element_stride "
    "elemtype interleave_layout swizzle_mode swizzle_atomicity fill_mode",
)
_ORDINAL = ("box_dim", "global_dim", "global_stride", "element_stride")
_WIDE = ("global_address", "global_stride")
_LITERAL = FIELDS[6:]

slots("tensormap.replace", operands="map value", modifiers="field ordinal space", visible=True)
slots("tensormap.copy", operands="dst src", visible=True)
slots("tensormap.fence", operands="map", modifiers="acquires")

_SPACE = "[.{global,shared::cta}]"
# ptxas takes the two types in either order.
_B32, _B64 = "{.b1024.b32,.b32.b1024}", "{.b1024.b64,.b64.b1024}"


@instruction(
    "tensormap.replace",
    group="tensor maps",
    forms=f".tile.{{global_address,global_stride}}{_SPACE}{_B64} @sm_90a|sm_100a|sm_120a @ptx8.3; "
    f".tile.{{rank,box_dim,global_dim,element_stride,elemtype,interleave_layout,swizzle_mode,fill_mode}}{_SPACE}"
    f"{_B32} @sm_90a|sm_100a|sm_120a @ptx8.3; "
    f".tile.swizzle_atomicity{_SPACE}{_B32} @sm_100a|sm_120a @ptx8.6",
    section="9.7.9.28",
    note="on the emulator's own encoding; 128 bytes of zeros are a map to be filled",
)
def replace(d: Decoder, i: Instruction, m: Modifiers) -> None:
    m.need("tile")
    field = m.need(*FIELDS)
    space = m.take("global", "shared::cta") or "generic"
    m.types()
    target, *ordinal, value = i.operands
    if len(ordinal) != (field in _ORDINAL):
        raise ValueError("an ordinal is missing or surplus")
    number = 0
    if ordinal:
        (at,) = ordinal
        if not isinstance(at, Immediate) or at.value not in range(4 if field == "global_stride" else 5):
            raise ValueError("the ordinal is a literal from 0 on")
        number = int(at.value)
    if field in _LITERAL and not isinstance(value, Immediate):
        raise ValueError("the new value is a literal")
    d.emit(
        "tensormap.replace",
        map=d.address_slot(target, 8),
        value=d.src(value, "b64" if field in _WIDE else "b32"),
        field=FIELDS.index(field),
        ordinal=number,
        space=SPACES[space],
    )


@instruction(
    "tensormap.cp_fenceproxy",
    group="tensor maps",
    forms=".global.shared::cta.tensormap::generic.release.{cta,cluster,gpu,sys}.sync.aligned @sm_90 @ptx8.3",
    section="9.7.13.17",
    note=(
        "copies the 128 bytes; the race checker reports a missing .acquire, the other half of its proxy fence"
    ),
)
def copy(d: Decoder, i: Instruction, m: Modifiers) -> None:
    m.types()
    dst, src, size = i.operands
    if not isinstance(size, Immediate) or size.value != 128:
        raise ValueError("the size is 128")
    d.emit("tensormap.copy", dst=d.address_slot(dst, 8), src=d.address_slot(src, 4))
