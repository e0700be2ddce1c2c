"""Signs, approximate functions, roots and tests of floats (PTX ISA 9.7.1, 9.7.3, 9.7.4)."""

from __future__ import annotations

from tileproof.emulator.decode import Decoder
from tileproof.emulator.isa.arithmetic import HALVES, NEED_ROUND, emit, half, only_type
from tileproof.emulator.isa.convert import DIRECTED
from tileproof.emulator.program import TYPE_BYTES
from tileproof.emulator.ptx import Instruction
from tileproof.emulator.registry import Modifiers, Unknown, instruction

_SIGN_FORMS = ".s{16,32,64}; [.ftz].f32; .f64; [.ftz].{f16,f16x2}; .{bf16,bf16x2} @sm_80 @ptx7.0"


@instruction("neg", group="arithmetic", forms=_SIGN_FORMS, section="9.7.1.9, 9.7.3.10, 9.7.4.5")
@instruction("abs", group="arithmetic", forms=_SIGN_FORMS, section="9.7.1.10, 9.7.3.9, 9.7.4.6")
def neg_abs(d: Decoder, i: Instruction, m: Modifiers) -> None:
    base = i.opcode.split(".")[0]
    ftz = m.take("ftz")
    floats = {"f32", "f16", "f16x2"} if ftz else {"f32", "f64"} | HALVES
    type_ = only_type(m, floats if ftz else floats | {"s16", "s32", "s64"})
    dst, a = i.operands
    if type_ in HALVES:
        half(d, base, type_, (dst, a), ftz=ftz)
    elif type_[0] == "f":
        emit(d, f"{base}.{'ftz.' if ftz else ''}{type_}", dst, (a,), type_)
    else:
        emit(d, f"neg.{8 * TYPE_BYTES[type_]}" if base == "neg" else f"abs.{type_}", dst, (a,), type_)


_APPROXIMATE = "computed in float64 and rounded once: inside the documented error, not the hardware's bits"


@instruction(
    "ex2",
    group="arithmetic",
    forms=".approx[.ftz].f32; .approx.{f16,f16x2}; .approx.ftz.{bf16,bf16x2} @sm_90 @ptx7.8",
    section="9.7.3.21, 9.7.4.10",
    note=_APPROXIMATE,
)
@instruction(
    "tanh",
    group="arithmetic",
    forms=".approx.f32; .approx.{f16,f16x2}; .approx.{bf16,bf16x2} @sm_90 @ptx7.8",
    section="9.7.3.22, 9.7.4.9",
    note=_APPROXIMATE,
)
@instruction("lg2", group="arithmetic", forms=".approx[.ftz].f32", section="9.7.3.20", note=_APPROXIMATE)
@instruction("sin", group="arithmetic", forms=".approx[.ftz].f32", section="9.7.3.18", note=_APPROXIMATE)
@instruction("cos", group="arithmetic", forms=".approx[.ftz].f32", section="9.7.3.19", note=_APPROXIMATE)
def approximate(d: Decoder, i: Instruction, m: Modifiers) -> None:
    base = i.opcode.split(".")[0]
    m.need("approx")
    ftz = m.take("ftz")
    dst, a = i.operands
    type_ = only_type(m, {"f32"} | (HALVES if base in ("ex2", "tanh") else set()))
    brain = type_.startswith("b")
    if (ftz and (base == "tanh" or type_ in ("f16", "f16x2"))) or (brain and base == "ex2" and not ftz):
        raise Unknown("takes .ftz with f32 and needs it with bf16")
    if type_ in HALVES:
        half(d, base, type_, (dst, a), ftz=ftz)
    else:
        emit(d, f"{base}.{'ftz.' if ftz else ''}f32", dst, (a,), "f32")


@instruction(
    "rsqrt", group="arithmetic", forms=".approx[.ftz].f32; .approx[.ftz].f64", section="9.7.3.16, 9.7.3.17",
    note=f"{_APPROXIMATE}; .ftz.f64 gives the upper 32 bits",
)  # fmt: skip
@instruction(
    "rcp", group="arithmetic", forms=f".approx[.ftz].f32; {NEED_ROUND}[.ftz].f32; "
    f"{NEED_ROUND}.f64; .approx.ftz.f64",
    section="9.7.3.13", note=f"{_APPROXIMATE}; .approx.ftz.f64 gives the upper 32 bits",
)  # fmt: skip
@instruction(
    "sqrt", group="arithmetic", forms=f".approx[.ftz].f32; {NEED_ROUND}[.ftz].f32; {NEED_ROUND}.f64",
    section="9.7.3.14", note=_APPROXIMATE,
)  # fmt: skip
def roots(d: Decoder, i: Instruction, m: Modifiers) -> None:
    base = i.opcode.split(".")[0]
    rounding = m.need("approx") if base == "rsqrt" else m.need("approx", *DIRECTED)
    ftz = m.take("ftz")
    type_ = only_type(m, {"f32", "f64"})
    dst, a = i.operands
    directed = f"{rounding}." if rounding in ("rz", "rm", "rp") else ""
    if type_ == "f64":
        if (
            (rounding == "approx" and base == "sqrt")
            or (rounding != "approx" and ftz)
            or (rounding == "approx" and base == "rcp" and not ftz)
        ):
            raise Unknown("does not support these modifiers of .f64")
        emit(d, f"{base}.gross.f64" if ftz else f"{base}.{directed}f64", dst, (a,), "f64")
    else:
        emit(d, f"{base}.{directed}{'ftz.' if ftz else ''}f32", dst, (a,), "f32")


@instruction(
    "testp", group="arithmetic", forms=".{finite,infinite,number,notanumber,normal,subnormal}.{f32,f64}",
    section="9.7.3.1",
)  # fmt: skip
def testp(d: Decoder, i: Instruction, m: Modifiers) -> None:
    what = m.need("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    type_ = only_type(m, {"f32", "f64"})
    p, a = i.operands
    d.emit(f"testp.{what}.{type_}", dst=d.dst(p, "pred"), a=d.src(a, type_))


@instruction("copysign", group="arithmetic", forms=".{f32,f64}", section="9.7.3.2")
def copysign(d: Decoder, i: Instruction, m: Modifiers) -> None:
    type_ = only_type(m, {"f32", "f64"})
    dst, a, b = i.operands
    emit(d, f"copysign.{type_}", dst, (a, b), type_)
