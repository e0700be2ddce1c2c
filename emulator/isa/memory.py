"""Loads, stores and address conversion (PTX ISA 9.7.9)."""

from __future__ import annotations

from collections.abc import Sequence

from tileproof.emulator.decode import Decoder
from tileproof.emulator.enumerations import enumeration
from tileproof.emulator.program import LOCAL_WINDOW, NONE, PARAM_WINDOW, SHARED_WINDOW, TYPE_BYTES, Register
from tileproof.emulator.ptx import Address, Immediate, Instruction, Operand, Sink
from tileproof.emulator.registry import Modifiers, Unknown, instruction
from tileproof.emulator.slots import slots

# `ld` and `st` share their layout; registers stand in vec.
slots(
    "ld",
    operands="base",
    modifiers="space bytes elements register_bytes sign width order",
    visible=True,
    fills=True,
)
slots(
    "st",
    operands="base",
    modifiers="space bytes elements register_bytes sign width order",
    visible=True,
)

STATE_SPACES = enumeration("Space", "global shared::cta shared::cluster local param generic")
GLOBAL, SHARED, CLUSTER, LOCAL, PARAM, GENERIC = range(len(STATE_SPACES))
SPACES = {
    "global": GLOBAL,
    "const": GLOBAL,
    "shared": SHARED,
    "shared::cta": SHARED,
    "shared::cluster": CLUSTER,
    "local": LOCAL,
    "param": PARAM,
    "param::entry": PARAM,
    "generic": GENERIC,
}


_SCOPE = ".{cta,cluster,gpu,sys}"
_LOADED = "{.b128,.{b,u,s}{8,16,32,64},.f{32,64},.v{2,4}{.{b,u,s}{8,16,32},.f32},.v2{.{b,u,s}64,.f64}}"
_WIDE = "{.v8{.{b,u,s}32,.f32},.v4{.{b,u,s}64,.f64}}"
_EVICT = ".L1::{evict_normal,evict_unchanged,evict_first,evict_last,no_allocate}"
_EVICT_L2 = ".L2::{evict_last,evict_normal,evict_first}"
_PREFETCHED = "[.L2::cache_hint][.L2::{64B,128B,256B}]"
_SHARED = ".{shared,shared::cta,shared::cluster}"
_PARAM = ".{param,param::entry,param::func}"
_LOADS = (
    f"[.weak][.{{global,const,local,shared,shared::cta,param,param::entry,param::func}}]"
    f"[.{{ca,cg,cs,lu,cv}}]{_LOADED}; "
    f"[.weak][.global][.{{ca,cg,cs,lu,cv}}]{_PREFETCHED}{_LOADED}; "
    f"[.weak][.global][{_EVICT}]{_PREFETCHED}{_LOADED}; "
    f"[.weak].shared::cluster{_LOADED} @sm_90 @ptx7.8; "
    f".global[.{{ca,cg,cs}}].nc{_PREFETCHED}{_LOADED}; .global.nc[{_EVICT}]{_PREFETCHED}{_LOADED}; "
    f".volatile[.{{global,shared,shared::cta}}]{_LOADED}; .volatile[.global].L2::{{64B,128B,256B}}{_LOADED}; "
    f".{{relaxed,acquire}}{_SCOPE}[.global][{_EVICT}]{_PREFETCHED}{_LOADED}; "
    f".{{relaxed,acquire}}{_SCOPE}{_SHARED}{_LOADED}; "
    f"[.weak][.global]{{[.{{ca,cg,cs,lu,cv}}],{_EVICT}}}[{_EVICT_L2}]{_PREFETCHED}{_WIDE} @sm_100 @ptx8.8; "
    f".global{{[.{{ca,cg,cs}}],{_EVICT}}}.nc[{_EVICT_L2}]{_PREFETCHED}{_WIDE} @sm_100 @ptx8.8; "
    f"{{.volatile[.global],.{{relaxed,acquire}}{_SCOPE}[.global][{_EVICT}][.L2::cache_hint]}}[{_EVICT_L2}]"
    f"[.L2::{{64B,128B,256B}}]{_WIDE} @sm_100 @ptx8.8"
)
_STORES = (
    f"[.weak][.{{global,local,shared,shared::cta,param,param::func}}][.{{wb,cg,cs,wt}}]{_LOADED}; "
    f"[.weak][.global][.{{wb,cg,cs,wt}}][.L2::cache_hint]{_LOADED}; "
    f"[.weak][.global][{_EVICT}][.L2::cache_hint]{_LOADED}; "
    f"[.weak].shared::cluster{_LOADED} @sm_90 @ptx7.8; .volatile[.{{global,shared,shared::cta}}]{_LOADED}; "
    f".{{relaxed,release}}{_SCOPE}[.global][{_EVICT}][.L2::cache_hint]{_LOADED}; "
    f".{{relaxed,release}}{_SCOPE}{_SHARED}{_LOADED}; "
    f"[.weak][.global]{{[.{{wb,cg,cs,wt}}],{_EVICT}}}[{_EVICT_L2}][.L2::cache_hint]{_WIDE} @sm_100 @ptx8.8; "
    f"{{.volatile[.global],.{{relaxed,release}}{_SCOPE}[.global][{_EVICT}]"
    f"[.L2::cache_hint]}}[{_EVICT_L2}]{_WIDE} "
    "@sm_100 @ptx8.8"
)
# How strong an access is, as the race checker reads it: 1 strong, 2 acquires, 4 releases; scope from bit 8.
_ORDER = {"weak": 0, "relaxed": 1, "volatile": 1, "acquire": 3, "release": 5, "acq_rel": 7}


def access_order(m: Modifiers) -> int:
    """The strength of an access, from words that stay in `m`."""
    order = next((_ORDER[word] for word in m.remaining if word in _ORDER), 0)
    # .volatile: as .relaxed.sys (PTX ISA 9.7.9.8)
    return order | scope_of(m.remaining, "sys") << 8 if order else 0


_SCOPES = ("cta", "cluster", "gpu", "sys")


def scope_of(words: Sequence[str], default: str) -> int:
    """1 for .cta, 2 .cluster, 3 .gpu, 4 .sys: order of SCOPES in isa/atomics.py and of engine/machine.hpp."""
    return 1 + _SCOPES.index(next((word for word in words if word in _SCOPES), default))


def _operands(i: Instruction) -> tuple[Operand, ...]:
    """The operands without a cache policy, which changes nothing here."""
    return i.operands[:-1] if "L2::cache_hint" in i.opcode.split(".") else i.operands


def _access(m: Modifiers) -> tuple[int, int, str]:
    """(space, elements, type) of an ld or st; scopes and cache words change nothing in this machine."""
    m.drop(
        *_ORDER,
        "nc",
        "cta",
        "cluster",
        "gpu",
        "sys",
        "ca",
        "cg",
        "cs",
        "lu",
        "cv",
        "wb",
        "wt",
    )
    m.drop_prefix("L1::", "L2::")
    space = next((word for word in m.remaining if word in SPACES), None)
    if space:
        m.remaining.remove(space)
    vector = m.take("v2", "v4", "v8")
    types = m.types()
    if len(types) != 1 or types[0] not in TYPE_BYTES or types[0] in ("pred", "f32x2"):
        raise Unknown(f"does not support the type .{'.'.join(types)}")
    elements = int(vector[1:]) if vector else 1
    if elements * TYPE_BYTES[types[0]] > 32 or (elements > 1 and types[0] == "b128"):
        raise Unknown("more than 32 bytes per thread")
    return (SPACES[space] if space else GENERIC), elements, types[0]


def _register_size(d: Decoder, sizes: list[int], type_: str) -> int:
    """Bytes of each register of an access, which must be alike and hold the type."""
    size = sizes[0] if sizes else TYPE_BYTES[type_]
    if any(s != size for s in sizes) or size < TYPE_BYTES[type_] or (size == 16 and type_ != "b128"):
        raise d.bad(
            "the registers do not fit the type",
            f"registers of one size, at least {TYPE_BYTES[type_]} bytes",
            str(sizes),
        )
    return size


def _call_parameter(d: Decoder, operand: Operand) -> Register | None:
    """The register that stands for a call's .param variable, when `operand` addresses one."""
    if isinstance(operand, Address) and operand.base:
        found = d.lookup(operand.base)
        if isinstance(found, Register) and operand.base in d.call_parameters:
            if operand.offset:
                raise Unknown("a displaced call parameter")
            return found
    return None


@instruction(
    "ld",
    group="memory",
    forms=_LOADS,
    section="9.7.9.8",
    note="checked: bounds, alignment, never written, pending asynchronous writes; "
    "memory ordering is order only: each access takes effect at once",
)
def ld(d: Decoder, i: Instruction, m: Modifiers) -> None:
    order = access_order(m)
    space, elements, type_ = _access(m)
    dst, source = _operands(i)
    if space == PARAM and (parameter := _call_parameter(d, source)):
        d.emit(
            f"mov.{8 * parameter.bytes}",
            dst=d.register(dst, parameter.bytes).offset,
            a=parameter.offset,
        )
        return
    parts = d.vector(dst)
    if len(parts) != elements:
        raise ValueError(f"{elements} destinations are needed")
    registers = [None if isinstance(part, Sink) else d.register(part) for part in parts]
    size = _register_size(d, [r.bytes for r in registers if r], type_)
    base, displacement, width = d.address(source)
    signed = int(type_[0] == "s")
    d.emit(
        "ld",
        base=base,
        space=space,
        bytes=TYPE_BYTES[type_],
        elements=elements,
        register_bytes=size,
        sign=signed,
        width=width,
        order=order,
        vec=[r.offset if r else NONE for r in registers],
        imm=displacement,
    )


@instruction(
    "st",
    group="memory",
    forms=_STORES,
    section="9.7.9.11",
    note="checked: bounds, alignment, live mbarriers, pending asynchronous writes",
)
def st(d: Decoder, i: Instruction, m: Modifiers) -> None:
    order = access_order(m)
    space, elements, type_ = _access(m)
    target, source = _operands(i)
    if space == PARAM:
        parameter = _call_parameter(d, target)
        if not parameter:
            raise Unknown("a store to a kernel parameter")
        kind = f"b{8 * parameter.bytes}"
        d.emit(f"mov.{8 * parameter.bytes}", dst=parameter.offset, a=d.src(source, kind))
        return
    parts = d.vector(source)
    if len(parts) != elements:
        raise ValueError(f"{elements} sources are needed")
    sizes = [TYPE_BYTES[type_] if isinstance(part, Immediate) else d.register(part).bytes for part in parts]
    values = [
        d.src(part, type_) if isinstance(part, Immediate) else d.register(part).offset for part in parts
    ]
    size = _register_size(d, sizes, type_)
    base, displacement, width = d.address(target)
    d.emit(
        "st",
        base=base,
        space=space,
        bytes=TYPE_BYTES[type_],
        elements=elements,
        register_bytes=size,
        width=width,
        order=order,
        vec=values,
        imm=displacement,
    )


_WINDOWS = {
    "global": 0,
    "const": 0,
    "shared": SHARED_WINDOW,
    "shared::cta": SHARED_WINDOW,
    "shared::cluster": SHARED_WINDOW,
    "local": LOCAL_WINDOW,
    "param": PARAM_WINDOW,
    "param::entry": PARAM_WINDOW,
}


@instruction(
    "cvta",
    group="memory",
    forms="[.to].{global,const,shared,local,shared::cta,shared::cluster}.u64; "
    "[.to].{param,param::entry}.u64 @sm_70 @ptx7.7",
    section="9.7.9.20",
    note="generic windows are the emulator's own; shared addresses carry the CTA rank in bits 24 and up, "
    "as on silicon",
)
def cvta(d: Decoder, i: Instruction, m: Modifiers) -> None:
    to = m.take("to")
    space = m.need(*_WINDOWS)
    m.need("u64")
    dst, a = i.operands
    window = _WINDOWS[space]
    d.emit("cvta", dst=d.dst(dst, "u64"), a=d.src(a, "u64"), imm=-window if to else window)


@instruction("mapa", group="memory", forms="[.shared::cluster].{u32,u64} @sm_90 @ptx7.8", section="9.7.9.23")
def mapa(d: Decoder, i: Instruction, m: Modifiers) -> None:
    m.drop("shared::cluster")
    type_ = m.need("u32", "u64")
    dst, a, rank = i.operands
    d.emit(f"mapa.{type_}", dst=d.dst(dst, type_), a=d.src(a, type_), b=d.src(rank, "u32"))


slots("space.rank", operands="dst a", modifiers="bytes generic", writes="dst")
slots("space.test", operands="dst a", modifiers="space", writes="dst")


@instruction(
    "getctarank",
    group="memory",
    forms="[.shared::cluster].{u32,u64} @sm_90 @ptx7.8",
    section="9.7.9.24",
    note="a generic address outside shared memory is a finding",
)
def getctarank(d: Decoder, i: Instruction, m: Modifiers) -> None:
    generic = not m.take("shared::cluster")
    type_ = m.need("u32", "u64")
    dst, a = i.operands
    d.emit(
        "space.rank",
        dst=d.dst(dst, "u32"),
        a=d.src(a, type_),
        bytes=TYPE_BYTES[type_],
        generic=int(generic),
    )


# Order of the windows in handlers_memory.cpp; `.shared` is the own CTA's (PTX ISA 9.7.9.19).
_TESTED = ("global", "local", "shared::cta", "shared::cluster", "param")


@instruction(
    "isspacep",
    group="memory",
    forms=".{global,local,shared}; .shared::cta @ptx7.8; .shared::cluster @sm_90 @ptx7.8; "
    ".{param,param::entry} @sm_70 @ptx7.7",
    section="9.7.9.19",
    note="parameters lie in the global window; .global is rejected in a module with .const variables, "
    "which have no separate window here",
)
def isspacep(d: Decoder, i: Instruction, m: Modifiers) -> None:
    (space,) = m.types()
    space = {"shared": "shared::cta", "param::entry": "param"}.get(space, space)
    if space == "global" and any(v.space == "const" for v in d.module.variables.values()):
        raise Unknown("is not supported for .global in a module with .const variables")
    dst, a = i.operands
    d.emit("space.test", dst=d.dst(dst, "pred"), a=d.src(a, "u64"), space=_TESTED.index(space))


@instruction(
    "prefetch",
    group="hints",
    forms="[.{global,local}].{L1,L2}; [.global].L2::{evict_last,evict_normal} @sm_80 @ptx7.4; "
    "[.{const,param}].tensormap @sm_90 @ptx8.0",
    section="9.7.9.15",
    grade="order only",
    note="no effect",
)
@instruction(
    "prefetchu", group="hints", forms=".L1", section="9.7.9.15", grade="order only", note="no effect"
)
@instruction(
    "applypriority",
    group="hints",
    forms="[.global].L2::evict_normal @sm_80 @ptx7.4",
    section="9.7.9.16",
    grade="order only",
    note="no effect",
)
@instruction(
    "discard",
    group="hints",
    forms="[.global].L2 @sm_80 @ptx7.4",
    section="9.7.9.17",
    grade="order only",
    note="no effect",
)
def hint(d: Decoder, i: Instruction, m: Modifiers) -> None:
    m.types()
    d.emit("nop")
