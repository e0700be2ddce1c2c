"""Atomic operations and reductions on memory (PTX ISA 9.7.13.5, 9.7.13.6)."""

from __future__ import annotations

from tileproof.emulator.decode import Decoder
from tileproof.emulator.enumerations import enumeration
from tileproof.emulator.isa.memory import SPACES, access_order
from tileproof.emulator.program import NONE
from tileproof.emulator.ptx import Instruction, Operand, Sink
from tileproof.emulator.registry import Modifiers, Unknown, instruction, refused
from tileproof.emulator.slots import slots

slots(
    "atom",
    operands="dst address",
    modifiers="space type elements operation order scope width",
    visible=True,
    writes="dst",
)

OPERATIONS = enumeration("Reduction", "add min max and or xor exch inc dec cas")
TYPES = enumeration("AtomicType", "u32 s32 u64 s64 f32 f64 f16 bf16 f16x2 bf16x2 b16 b32 b64 b128")
HALVES = ("f16", "bf16", "f16x2", "bf16x2")
# 0: the default scope (.gpu of atom and red).
SCOPES = ("", "cta", "cluster", "gpu", "sys")
_ALLOWED = {
    "add": ("u32", "s32", "u64", "f32", "f64", *HALVES),
    **dict.fromkeys(("min", "max"), ("u32", "s32", "u64", "s64")),
    **dict.fromkeys(("and", "or", "xor"), ("b32", "b64")),
    "exch": ("b32", "b64", "b128"),
    "cas": ("b16", "b32", "b64", "b128"),
    **dict.fromkeys(("inc", "dec"), ("u32",)),
}
_SCALAR = (
    "{.add.{u32,s32,u64,f32,f64},.add.noftz.{f16,f16x2},.{min,max}.{u32,s32,u64,s64},"
    ".{and,or,xor}.{b32,b64},.{inc,dec}.u32"
)
_BRAIN = ".add.noftz.{bf16,bf16x2}"
_VECTOR = (
    "{.add.{v2,v4}.f32,.{add,min,max}.noftz.{v2,v4,v8}.{f16,bf16},"
    ".{add,min,max}.noftz.{v2,v4}.{f16x2,bf16x2}}"
)
_ANY = ".{global,shared,shared::cta,shared::cluster}"
_RED = "[.{relaxed,release}][.{cta,cluster,gpu,sys}]"
_RED_FORMS = (
    f"{_RED}[{_ANY}]{_SCALAR}}}; {_RED}[.global]{_SCALAR}}}.L2::cache_hint; "
    f"{_RED}[{_ANY}]{_BRAIN} @sm_90 @ptx7.8; "
    f"{_RED}[.global]{_BRAIN}.L2::cache_hint @sm_90 @ptx7.8; "
    f"{_RED}[.global]{_VECTOR}[.L2::cache_hint] @sm_90 @ptx8.1"
)
_SEM = "[.{relaxed,acquire,release,acq_rel}]"
_ATOM = f"{_SEM}[.{{cta,cluster,gpu,sys}}]"
_ATOM_FORMS = (
    f"{_ATOM}[{_ANY}]{_SCALAR},.exch.{{b32,b64}},.cas.{{b16,b32,b64}}}}; "
    f"{_ATOM}[.global]{_SCALAR},.exch.{{b32,b64}}}}.L2::cache_hint; {_ATOM}[{_ANY}]{_BRAIN} @sm_90 @ptx7.8; "
    f"{_ATOM}[.global]{_BRAIN}.L2::cache_hint @sm_90 @ptx7.8; "
    f"{_ATOM}[.global]{_VECTOR}[.L2::cache_hint] @sm_90 @ptx8.1; "
    f"{_SEM}[.{{cta,cluster,gpu}}]{{[{_ANY}].{{exch,cas}}.b128,[.global].exch.b128.L2::cache_hint}} "
    f"@sm_90 @ptx8.3; "
    f"{_SEM}.sys{{[{_ANY}].{{exch,cas}}.b128,[.global].exch.b128.L2::cache_hint}} @sm_90 @ptx8.4"
)


def elements_of(m: Modifiers, operation: str, type_: str, scalars: tuple[str, ...]) -> int:
    """Elements of a reduction, 1 without a vector modifier; raises Unknown if the ISA has no such form."""
    vector = m.take("v2", "v4", "v8")
    noftz = bool(m.take("noftz"))
    if noftz != (type_ in HALVES):
        raise Unknown(f"needs .noftz on {', '.join(HALVES)}, and only there")
    if not vector:
        if type_ not in scalars:
            raise Unknown(f"does not support .{operation} on .{type_}")
        return 1
    count = int(vector[1:])
    limit = {"f32": 4, "f16": 8, "bf16": 8, "f16x2": 4, "bf16x2": 4}.get(type_, 0)
    if count > limit or operation not in (("add",) if type_ == "f32" else ("add", "min", "max")):
        raise Unknown(f"does not support .{operation} on .{vector}.{type_}")
    return count


def _slot(d: Decoder, part: Operand, type_: str) -> int:
    return NONE if isinstance(part, Sink) else d.dst(part, type_)


@instruction(
    "red",
    group="memory",
    forms=_RED_FORMS,
    section="9.7.13.6",
    note="atomic, in the order in which warps run; global f32 adds flush subnormals, as on silicon",
)
@instruction(
    "atom",
    group="memory",
    forms=_ATOM_FORMS,
    section="9.7.13.5",
    note="as red, and returns the old value",
)
def atomic(d: Decoder, i: Instruction, m: Modifiers) -> None:
    returns = i.opcode.startswith("atom")
    order = access_order(m) & 7  # its scope stands in a slot of its own
    m.take("relaxed", "release", *(("acquire", "acq_rel") if returns else ()))
    scope = m.take(*SCOPES[1:]) or ""
    space = m.take("global", "shared", "shared::cta", "shared::cluster")
    hint = m.take("L2::cache_hint")
    operation = m.need(*(OPERATIONS if returns else (o for o in OPERATIONS if o not in ("exch", "cas"))))
    type_ = m.need(*TYPES)
    elements = elements_of(m, operation, type_, _ALLOWED[operation])
    if elements > 1 and space not in (None, "global"):
        raise Unknown("takes vectors in global memory only")
    operands = list(i.operands)
    if hint:
        d.src(operands.pop(), "b64")
    results = d.vector(operands.pop(0)) if returns else ()
    target, *sources = operands
    if len(sources) != (2 if operation == "cas" else 1):
        raise ValueError("a value is missing or surplus")
    values = [d.src(part, type_) for source in sources for part in d.vector(source)]
    dropped = len(results) == 1 and isinstance(results[0], Sink)
    if len(values) != elements * len(sources) or len(results) not in (0, elements, int(dropped)):
        raise ValueError(f"{elements} values are needed")
    out = [_slot(d, part, type_) for part in results]
    out += [NONE] * (elements - len(out))
    base, displacement, width = d.address(target)
    d.emit(
        "atom",
        vec=[*values, *out],
        written=(len(values), len(values) + len(out)),
        imm=displacement,
        dst=next((slot for slot in out if slot != NONE), NONE),
        address=base,
        space=SPACES[space or "generic"],
        type=TYPES.index(type_),
        elements=elements,
        operation=OPERATIONS.index(operation),
        order=order,
        scope=SCOPES.index(scope),
        width=width,
    )


refused("multimem", group="memory", forms="*", section="9.7.9.13", note="multicast memory")
