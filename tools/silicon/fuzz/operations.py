# ruff: noqa: E501 - tables are kept whole
"""The operations of a random kernel: C++ expressions, their argument types and their result type.

`{u32}` in a template is an operand of that type. Left out: what PTX leaves open (approximate functions,
divisions by zero, shifts and conversions that C++ does not define) and results that depend on the order of
threads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

TYPES = {
    "s16": "short",
    "u16": "unsigned short",
    "s32": "int",
    "u32": "unsigned",
    "s64": "long long",
    "u64": "unsigned long long",
    "f16": "__half",
    "bf16": "__nv_bfloat16",
    "f16x2": "__half2",
    "bf16x2": "__nv_bfloat162",
    "f32": "float",
    "f64": "double",
    "bool": "bool",
}
WIDTH = {
    "s16": 16, "u16": 16, "s32": 32, "u32": 32, "s64": 64, "u64": 64, "f16": 16, "bf16": 16, "f16x2": 32,
    "bf16x2": 32, "f32": 32, "f64": 64, "bool": 1,
}  # fmt: skip
_OPERAND = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class CudaOperation:
    """An expression. `collective`: every lane of the warp executes it, so it stays outside of branches."""

    family: str
    result: str
    template: str
    collective: bool = False

    @property
    def operands(self) -> tuple[str, ...]:
        """The types of its operands, in order."""
        return tuple(_OPERAND.findall(self.template))

    def text(self, operands: list[str]) -> str:
        """The expression with these operands."""
        values = iter(operands)
        return _OPERAND.sub(lambda _: next(values), self.template)


def _split(text: str) -> list[str]:
    return text.split()


def _integers() -> list[tuple[str, str]]:
    out = []
    for t in ("s16", "u16", "s32", "u32", "s64", "u64"):
        u = "u" + t[1:]
        c, cu, bits = TYPES[t], TYPES[u], WIDTH[t]
        x = "{" + t + "}"
        out += [(t, f"({c})(({cu}){x} {op} ({cu}){x})") for op in ["+", "-", "*", "&", "|", "^"]]
        out += [(t, f"({c})(~({cu}){x})"), (t, f"({c})(0u - ({cu}){x})")]
        out += [
            (t, f"({c})(({cu}){x} << ({{u32}} & {bits - 1}))"),
            (t, f"({c})({x} >> ({{u32}} & {bits - 1}))"),
        ]
        out += [(t, f"({x} {op} {x} ? {x} : {x})") for op in ("<", "==", ">=")]
        out += [("bool", f"({x} {op} {x})") for op in ("<", "<=", "==", "!=")]
        out += [(t, f"min({x}, {x})"), (t, f"max({x}, {x})")] if bits > 16 else []
        out += [(t, f"({c})({x} / ({c})(({x} & 0x7f) | 1))"), (t, f"({c})({x} % ({c})(({x} & 0xff) | 1))")]
        out += [(o, f"({TYPES[o]}){x}") for o in ("s16", "u16", "s32", "u32", "s64", "u64") if o != t]
        out += [(t, f"({c})(signed char){x}"), (t, f"({c})(unsigned char){x}")]
    calls = """
        s32 __mulhi({s32},{s32}) u32 __umulhi({u32},{u32}) s64 __mul64hi({s64},{s64}) u64 __umul64hi({u64},{u64})
        s32 __mul24({s32},{s32}) u32 __umul24({u32},{u32}) u32 __sad({s32},{s32},{u32}) u32 __usad({u32},{u32},{u32})
        s32 __popc({u32}) s32 __popcll({u64}) s32 __clz({s32}) s32 __clzll({s64}) s32 __ffs({s32}) s32 __ffsll({s64})
        u32 __brev({u32}) u64 __brevll({u64}) u32 __byte_perm({u32},{u32},{u32}) s32 __hadd({s32},{s32})
        s32 __rhadd({s32},{s32}) u32 __uhadd({u32},{u32}) u32 __urhadd({u32},{u32})
        u32 __funnelshift_l({u32},{u32},{u32}) u32 __funnelshift_lc({u32},{u32},{u32})
        u32 __funnelshift_r({u32},{u32},{u32}) u32 __funnelshift_rc({u32},{u32},{u32})
        s32 __dp4a((int){s32},(int){s32},(int){s32}) u32 __dp4a((unsigned){u32},(unsigned){u32},(unsigned){u32})
        s32 __dp2a_lo((int){s32},(int){s32},(int){s32}) u32 __dp2a_hi((unsigned){u32},(unsigned){u32},(unsigned){u32})
        s64 ((long_long){s32}*{s32}) u64 ((unsigned_long_long){u32}*{u32}+{u64})
        u32 asm3("bfe.u32",{u32},{u32},{u32}) s32 (int)asm3("bfe.s32",{u32},{u32},{u32})
        u32 asm4("bfi.b32",{u32},{u32},{u32},{u32}) u32 asm3("prmt.b32.f4e",{u32},{u32},{u32})
        u32 asm3("prmt.b32.rc16",{u32},{u32},{u32}) u32 lop3({u32},{u32},{u32})
        u32 asm2("szext.clamp.s32",{u32},{u32}) u32 asm2("bmsk.wrap.b32",{u32},{u32})
        u32 asm2("add.sat.s32",{u32},{u32}) u32 asm2("sub.sat.s32",{u32},{u32}) u32 asm3("mad.hi.u32",{u32},{u32},{u32})
        u32 asm2("shl.b32",{u32},{u32}) u32 asm2("shr.u32",{u32},{u32}) u32 asm2("shr.s32",{u32},{u32})
        u32 asm1("neg.s32",{u32}) u32 asm1("abs.s32",{u32}) u32 asm1("bfind.u32",{u32}) u32 asm1("bfind.shiftamt.s32",{u32})
        u16 asm1h("neg.s16",{u16}) u16 asm1h("abs.s16",{u16}) u16 asm1h("not.b16",{u16})
        u16 asm2h("min.s16",{u16},{u16}) u16 asm2h("max.u16",{u16},{u16}) u16 asm2h("mul.hi.s16",{u16},{u16})
        u16 asm2h("mul.hi.u16",{u16},{u16}) u16 asm2h("sub.s16",{u16},{u16}) u16 asm2h("add.u16",{u16},{u16})
        u32 wide16("mul.wide.s16",{u16},{u16}) u32 wide16("mul.wide.u16",{u16},{u16})
    """
    return out + _calls(calls)


def _packed() -> list[tuple[str, str]]:
    two = _split("""vadd2 vsub2 vaddss2 vaddus2 vsubss2 vsubus2 vmaxs2 vmaxu2 vmins2 vminu2 vavgs2 vavgu2 vhaddu2
        vabsdiffs2 vabsdiffu2 vsads2 vsadu2 vcmpeq2 vcmpges2 vcmpgtu2 vcmplts2 vcmpleu2 vcmpne2 vseteq2 vsetgts2
        vsetltu2 vsetne2 vadd4 vsub4 vaddss4 vaddus4 vsubss4 vsubus4 vmaxs4 vmaxu4 vmins4 vminu4 vavgs4 vavgu4
        vhaddu4 vabsdiffs4 vabsdiffu4 vsads4 vsadu4 vcmpeq4 vcmpges4 vcmpgtu4 vcmplts4 vcmpne4 vseteq4 vsetgts4
        vsetltu4 vsetne4""")
    single = _split("vabs2 vabsss2 vneg2 vnegss2 vabs4 vabsss4 vneg4 vnegss4")
    three = _split("""viaddmax_s16x2 viaddmax_u16x2 viaddmin_s16x2 viaddmin_u16x2 viaddmax_s16x2_relu
        viaddmin_s16x2_relu vimax3_s16x2 vimax3_u16x2 vimin3_s16x2 vimin3_u16x2 vimax3_s16x2_relu""")
    wide = _split("""vimax3_s32 vimin3_s32 vimax3_s32_relu vimin3_s32_relu viaddmax_s32 viaddmin_s32
        viaddmax_s32_relu viaddmin_s32_relu""")
    out = [("u32", f"__{name}({{u32}}, {{u32}})") for name in [*two, "vimax_s16x2_relu", "vimin_s16x2_relu"]]
    out += [("u32", f"__{name}({{u32}})") for name in single]
    out += [
        ("u32", f"__{name}({{u32}}, {{u32}}, {{u32}})") for name in [*three, "vimax3_u32", "viaddmin_u32"]
    ]
    out += [("s32", f"__{name}({{s32}}, {{s32}}, {{s32}})") for name in wide]
    out += [("f32", f"(float)(short)__{name}({{u32}}, {{u32}})") for name in ("vadd2", "vsub2", "vmaxs2")]
    return out + [("s32", f"(int)(short)(__{name}({{u32}}, {{u32}}) >> 16)") for name in ("vadd2", "vsub2")]


def _floats() -> list[tuple[str, str]]:
    out = []
    for t, prefix in (("f32", "__f"), ("f64", "__d")):
        x = "{" + t + "}"
        for way in ("rn", "rz", "ru", "rd"):
            out += [(t, f"{prefix}{op}_{way}({x}, {x})") for op in ("add", "mul")]
            out += [(t, f"{'__fmaf' if t == 'f32' else '__fma'}_{way}({x}, {x}, {x})")]
            out += [(o, f"__{n}2{i}_{way}({x})") for n in [{"f32": "float", "f64": "double"}[t]]
                    for o, i in (("s32", "int"), ("u32", "uint"), ("s64", "ll"), ("u64", "ull"))]  # fmt: skip
        tail = "f" if t == "f32" else ""
        out += [(t, f"{name}{tail}({x}, {x})") for name in ("fmin", "fmax", "copysign")]
        out += [(t, f"{name}{tail}({x})") for name in ("fabs", "trunc", "rint", "floor", "ceil")]
        out += [(t, f"(-{x})"), (t, f"({x} < {x} ? {x} : {x})"), (t, f"({x} == {x} ? {x} : {x})")]
        out += [("bool", f"({x} {op} {x})") for op in ("<", "<=", "==", "!=", ">")]
        out += [(t, f"({TYPES[t]}){{{i}}}") for i in ("s16", "u16", "s32", "u32", "s64", "u64")]
    calls = """
        f32 __fdiv_rn({f32},{f32}) f32 __frcp_rn({f32}) f32 __fsqrt_rn({f32}) f32 __saturatef({f32})
        f64 __ddiv_rn({f64},{f64}) f64 __dsqrt_rn({f64}) f32 __double2float_rn({f64}) f32 __double2float_rz({f64})
        f32 __double2float_ru({f64}) f64 ((double){f32}) f32 __int2float_rz({s32}) f32 __uint2float_ru({u32})
        f32 __ll2float_rd({s64}) f32 __ull2float_rz({u64}) f64 __ll2double_ru({s64}) f64 __ull2double_rd({u64})
        u32 __float_as_uint({f32}) f32 __uint_as_float({u32}) s64 __double_as_longlong({f64})
        f64 __longlong_as_double({s64}) f64 __hiloint2double({s32},{s32}) s32 __double2hiint({f64})
        f32 asm2f("add.rn.ftz.f32",{f32},{f32}) f32 asm2f("mul.rn.ftz.sat.f32",{f32},{f32})
        f32 asm2f("min.NaN.f32",{f32},{f32}) f32 asm2f("max.ftz.NaN.f32",{f32},{f32})
        f32 asm2f("min.xorsign.abs.f32",{f32},{f32}) f32 asm2f("max.NaN.xorsign.abs.f32",{f32},{f32})
        f32 asm2f("set.lt.f32.f32",{f32},{f32}) f32 asm2f("set.neu.ftz.f32.f32",{f32},{f32})
        u32 asm2fu("set.ge.u32.f32",{f32},{f32}) u32 asm2fu("set.num.u32.f32",{f32},{f32})
        f32 asm3f("fma.rn.sat.f32",{f32},{f32},{f32}) f32 asm3f("fma.rz.ftz.f32",{f32},{f32},{f32})
        f32 ({f32}<-0.0f?-0.0f:1.0f) f32 ({bool}?-0.0f:1.0f) f32 ({bool}?1.0f:-0.0f) f32 ({bool}?1.0f:0.0f)
        f32 __uint_as_float(asm1fu("cvt.rna.tf32.f32",{f32})) f32 asm1f("neg.ftz.f32",{f32}) f32 asm1f("abs.ftz.f32",{f32})
    """
    return out + _calls(calls)


def _halves() -> list[tuple[str, str]]:
    out = []
    for t, full in (("f16", "half"), ("bf16", "bfloat16")):
        x, p = "{" + t + "}", "{" + t + "x2}"
        two = _split(
            "hadd hsub hmul hadd_rn hsub_rn hmul_rn hadd_sat hsub_sat hmul_sat hmin hmax hmin_nan hmax_nan"
        )
        out += [(t, f"__{name}({x}, {x})") for name in two]
        out += [(t + "x2", f"__{_two(name)}({p}, {p})") for name in two]
        out += [(t, f"__{name}({x}, {x}, {x})") for name in ("hfma", "hfma_sat", "hfma_relu")]
        out += [(t + "x2", f"__{name}({p}, {p}, {p})") for name in ("hfma2", "hfma2_sat", "hfma2_relu")]
        out += [(t, f"__{name}({x})") for name in ("hneg", "habs")]
        out += [(t + "x2", f"__{name}({p})") for name in ("hneg2", "habs2", "lowhigh2highlow", "low2half2", "high2half2")
                if t == "f16" or "half" not in name]  # fmt: skip
        out += [(t, f"{name}({x})") for name in ("htrunc", "hrint", "hfloor", "hceil")]
        out += [
            ("bool", f"__{name}({x}, {x})") for name in _split("heq hne hlt hle hgt hge hequ hneu hltu hgeu")
        ]
        out += [(t + "x2", f"__{name}({p}, {p})") for name in _split("heq2 hne2 hlt2 hge2 hequ2 hgtu2")]
        out += [
            ("u32", f"__{name}({p}, {p})") for name in ("heq2_mask", "hlt2_mask", "hgeu2_mask", "hneu2_mask")
        ]
        out += [("bool", f"__{name}({p}, {p})") for name in ("hbeq2", "hblt2", "hbneu2", "hbge2")]
        low, high = ("__low2half", "__high2half") if t == "f16" else ("__low2bfloat16", "__high2bfloat16")
        out += [(t, f"{low}({p})"), (t, f"{high}({p})")]
        join = "__halves2half2" if t == "f16" else "__halves2bfloat162"
        out += [(t + "x2", f"{join}({x}, {x})")]
        out += [("f32", f"__{full}2float({x})"), (t, f"__double2{full}({{f64}})")]
        out += [(t, f"__float2{full}_{way}({{f32}})") for way in ("rn", "rz", "ru", "rd")]
        out += [(o, f"__{full}2{n}_{way}({x})") for way in ("rn", "rz", "ru", "rd") for o, n in
                (("s16", "short"), ("u16", "ushort"), ("s32", "int"), ("u32", "uint"), ("s64", "ll"), ("u64", "ull"))]  # fmt: skip
        out += [(t, f"__{n}2{full}_{way}({{{o}}})") for way in ("rn", "rz", "ru", "rd") for o, n in
                (("s16", "short"), ("u16", "ushort"), ("s32", "int"), ("u32", "uint"), ("s64", "ll"), ("u64", "ull"))]  # fmt: skip
        as_u, u_as = f"__{full}_as_ushort", f"__ushort_as_{full}"
        out += [("u16", f"{as_u}({x})"), (t, f"{u_as}({{u16}})"), (t, f"({{bool}} ? {x} : {x})")]
        out += [("u32", f"pun<unsigned>({p})"), (t + "x2", f"pun<{TYPES[t + 'x2']}>({{u32}})")]
        out += [("u16", f'asm2h("set.lt.{t}.{t}", {as_u}({x}), {as_u}({x}))')]
    return out


def _two(name: str) -> str:
    stem, _, rest = name.partition("_")
    return f"{stem}2_{rest}" if rest else f"{stem}2"


def _small() -> list[tuple[str, str]]:
    calls = """
        u16 (unsigned_short)__nv_cvt_float_to_fp8({f32},__NV_SATFINITE,F8) u16 __nv_cvt_float2_to_fp8x2(pair({f32},{f32}),S8,F8)
        u16 (unsigned_short)__nv_cvt_halfraw_to_fp8(raw({f16}),S8,F8) u16 __nv_cvt_halfraw2_to_fp8x2(raw({f16x2}),S8,F8)
        u16 (unsigned_short)__nv_cvt_bfloat16raw_to_fp8(raw({bf16}),S8,F8) u16 __nv_cvt_bfloat16raw2_to_fp8x2(raw({bf16x2}),S8,F8)
        u16 (unsigned_short)__nv_cvt_double_to_fp8({f64},S8,F8) f16 __half(__nv_cvt_fp8_to_halfraw((unsigned_char){u16},F8))
        f16x2 __half2(__nv_cvt_fp8x2_to_halfraw2({u16},F8)) u16 (unsigned_short)__nv_cvt_float_to_fp6({f32},F6,cudaRoundNearest)
        u16 __nv_cvt_float2_to_fp6x2(pair({f32},{f32}),F6,cudaRoundNearest) f16x2 __half2(__nv_cvt_fp6x2_to_halfraw2({u16},F6))
        u16 (unsigned_short)__nv_cvt_halfraw_to_fp6(raw({f16}),F6,cudaRoundNearest)
        f16 __half(__nv_cvt_fp6_to_halfraw((unsigned_char){u16},F6))
        u16 (unsigned_short)__nv_cvt_float_to_fp4({f32},__NV_E2M1,cudaRoundNearest)
        u16 (unsigned_short)__nv_cvt_float2_to_fp4x2(pair({f32},{f32}),__NV_E2M1,cudaRoundNearest)
        f16 __half(__nv_cvt_fp4_to_halfraw((unsigned_char){u16},__NV_E2M1))
        f16x2 __half2(__nv_cvt_fp4x2_to_halfraw2((unsigned_char){u16},__NV_E2M1))
        u16 (unsigned_short)__nv_cvt_float_to_e8m0({f32},__NV_SATFINITE,cudaRoundPosInf)
        u16 (unsigned_short)__nv_cvt_float_to_e8m0({f32},__NV_SATFINITE,cudaRoundZero)
        bf16 __nv_bfloat16(__nv_cvt_e8m0_to_bf16raw((unsigned_char){u16}))
    """
    found = []
    for f8, s8, f6 in (
        ("__NV_E4M3", "__NV_SATFINITE", "__NV_E2M3"),
        ("__NV_E5M2", "__NV_NOSAT", "__NV_E3M2"),
    ):
        text = calls.replace("S8", s8).replace("F8", f8).replace("F6", f6)
        found += _calls(text)
    return list(dict.fromkeys(found))


def _warp() -> list[tuple[str, str]]:
    out = []
    for t in ("s32", "u32", "s64", "u64", "f32", "f64"):
        x = "{" + t + "}"
        out += [
            (t, f"__shfl_sync(~0u, {x}, {{u32}} & 31)"),
            (t, f"__shfl_xor_sync(~0u, {x}, {{u32}} & 31, 16)"),
        ]
        out += [
            (t, f"__shfl_up_sync(~0u, {x}, {{u32}} & 15)"),
            (t, f"__shfl_down_sync(~0u, {x}, {{u32}} & 15, 8)"),
        ]
    for t in ("f16x2", "bf16x2", "f16"):
        out += [(t, f"__shfl_xor_sync(~0u, {{{t}}}, {{u32}} & 31)")]
    calls = """
        u32 __ballot_sync(~0u,{bool}) bool __any_sync(~0u,{bool}) bool __all_sync(~0u,{bool})
        u32 __match_any_sync(~0u,{u32}&3) u32 __match_any_sync(~0u,{u64}&7) u32 __reduce_add_sync(~0u,{u32})
        s32 __reduce_min_sync(~0u,{s32}) u32 __reduce_max_sync(~0u,{u32}) u32 __reduce_and_sync(~0u,{u32})
        u32 __reduce_or_sync(~0u,{u32}) u32 __reduce_xor_sync(~0u,{u32}) u32 divergent_sum({bool},{u32})
        u32 divergent_ballot({bool},{bool})
    """
    return out + _calls(calls)


def _atomics() -> list[tuple[str, str]]:
    out = [("u32", f"all_{op}({{u32}})") for op in ("add", "min", "max", "and", "or", "xor")]
    for space in ("SHARED", "GLOBAL"):
        for t in ("u32", "u64"):
            for op in ("Add", "Min", "Max", "And", "Or", "Xor", "Exch"):
                name = f"own<{TYPES[t].replace(' ', '_')}>"
                out += [(t, f"{name}({space}, {{{t}}}, [=](auto* p) {{ return atomic{op}(p, {{{t}}}); }})")]
            out += [(t, f"own<{TYPES[t].replace(' ', '_')}>({space}, {{{t}}}, [=](auto* p) "
                        f"{{ return atomicCAS(p, {{{t}}}, {{{t}}}); }})")]  # fmt: skip
        for op in ("Inc", "Dec"):
            out += [
                ("u32", f"own<unsigned>({space}, {{u32}}, [=](auto* p) {{ return atomic{op}(p, {{u32}}); }})")
            ]
        for t in ("s32", "f32", "f64", "f16x2", "bf16x2", "s64"):
            op = "Add" if t != "s64" else "Max"
            out += [(t, f"own<{TYPES[t].replace(' ', '_')}>({space}, {{{t}}}, [=](auto* p) "
                        f"{{ return atomic{op}(p, {{{t}}}); }})")]  # fmt: skip
    return out


def _calls(text: str) -> list[tuple[str, str]]:
    words = text.split()
    return [(t, call) for t, call in zip(words[::2], words[1::2], strict=True)]


@cache
def operations() -> tuple[CudaOperation, ...]:
    """Every operation, by family."""
    families = {
        "integer": _integers(), "packed": _packed(), "float": _floats(), "half": _halves(), "small": _small(),
        "warp": _warp(), "atomic": _atomics(),
    }  # fmt: skip
    return tuple(
        CudaOperation(family, result, _spaces(template), family == "warp" or template.startswith("all_"))
        for family, rows in families.items()
        for result, template in rows
    )


def _spaces(text: str) -> str:
    """C++ names of several words are joined by `_` in the tables, whose rows are split at blanks."""
    for name in ("unsigned_long_long", "long_long", "unsigned_short", "unsigned_char"):
        text = text.replace(name, name.replace("_", " "))
    return text
