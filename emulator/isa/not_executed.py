"""Spellings that PTX has and the emulator does not execute, of families that it otherwise does.

A form that an executed row has too is executed; what is left over here tells a spelling that ptxas takes from
one that it refuses.
"""

from __future__ import annotations

from tileproof.emulator.isa.tcgen05 import MOVED
from tileproof.emulator.registry import refused

_ARITHMETIC = "integer and f32 arithmetic"
_ROUNDED = "[.{rn,rz,rm,rp}]"
_MIXED = "[.{rn,rz,rm,rp}][.sat].f32.{f16,bf16} @sm_100 @ptx8.6"
_HALF = "[.rn][.ftz][.sat].{f16,f16x2} @sm_53; [.rn].{bf16,bf16x2} @sm_90 @ptx7.8"
_SUM = (
    f".sat.s32; .cc.{{u,s}}{{32,64}}; {_ROUNDED}[.ftz][.sat].f32; "
    f"{_ROUNDED}.f64; "
    f"{_ROUNDED}[.ftz].f32x2 @sm_100 @ptx8.6; {_HALF}; {_MIXED}"
)
_EXTREME = (
    ".relu.s32 @sm_90 @ptx8.0; .u16x2 @sm_90 @ptx8.0; .s16x2[.relu] @sm_90 @ptx8.0; "
    "[.ftz][.NaN].xorsign.abs.f32 @sm_86 @ptx7.2; .f64; "
    "[.ftz][.NaN].{f16,f16x2} @sm_80 @ptx7.0; [.NaN].{bf16,bf16x2} @sm_80 @ptx7.0; "
    "[.ftz][.NaN].xorsign.abs.{f16,f16x2} @sm_86 @ptx7.2; [.NaN].xorsign.abs.{bf16,bf16x2} @sm_86 @ptx7.2"
)
_SIGN = ".f64; [.ftz].{f16,f16x2}; .{bf16,bf16x2} @sm_80 @ptx7.0"
_INVERSE = "{.approx,.rn,.rz,.rm,.rp}[.ftz].f32; .{rn,rz,rm,rp}.f64"
_COMPARED = "{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}[.{and,or,xor}]"
_KINDS = "kind::{tf32,f8f6f4}"
_A = "[.collector::a::{fill,use,lastuse,discard}]"
_B = "[.collector::b{0,1,2,3}::{fill,use,lastuse,discard}]"

for _base, _group, _forms, _section, _note in (
    (
        "add",
        _ARITHMETIC,
        f".{{u16x2,s16x2}} @sm_90 @ptx8.0; {_SUM}",
        "9.7.1.1, 9.7.3.3",
        "other types, roundings and carries",
    ),
    ("sub", _ARITHMETIC, _SUM, "9.7.1.2, 9.7.3.4", "other types, roundings and carries"),
    (
        "mul",
        _ARITHMETIC,
        f"{_ROUNDED}[.ftz][.sat].f32; {_ROUNDED}.f64; {_ROUNDED}[.ftz].f32x2 @sm_100 @ptx8.6; {_HALF}",
        "9.7.1.3, 9.7.3.5",
        "other types and roundings",
    ),
    (
        "mad",
        _ARITHMETIC,
        ".hi.{s,u}{16,32,64}; .hi.sat.s32; .{lo,hi}.cc.{s,u}{32,64}; "
        ".{rn,rz,rm,rp}[.ftz][.sat].f32; .{rn,rz,rm,rp}.f64",
        "9.7.1.4",
        "high halves, carries, f32 and f64",
    ),
    (
        "fma",
        _ARITHMETIC,
        ".{rn,rz,rm,rp}[.ftz][.sat].f32; .{rn,rz,rm,rp}.f64; .{rn,rz,rm,rp}[.ftz].f32x2 @sm_100 @ptx8.6; "
        ".rn[.ftz][.{sat,relu}].{f16,f16x2} @sm_53; .{rn,rz,rm,rp}[.relu].{bf16,bf16x2} @sm_80 @ptx7.0; "
        ".{rn,rz,rm,rp}[.sat].f32.{f16,bf16} @sm_100 @ptx8.6",
        "9.7.3.6",
        "other types and roundings",
    ),
    ("div", _ARITHMETIC, ".{rn,rz,rm,rp}[.ftz].f32; .{rn,rz,rm,rp}.f64", "9.7.3.8", "other roundings, f64"),
    ("min", _ARITHMETIC, _EXTREME, "9.7.1.11, 9.7.3.11", "other types, .relu and .xorsign.abs"),
    ("max", _ARITHMETIC, _EXTREME, "9.7.1.12, 9.7.3.12", "other types, .relu and .xorsign.abs"),
    ("neg", _ARITHMETIC, _SIGN, "9.7.3.10", "f64 and half precision"),
    ("abs", _ARITHMETIC, _SIGN, "9.7.3.9", "f64 and half precision"),
    (
        "ex2",
        _ARITHMETIC,
        ".approx.{f16,f16x2} @sm_75 @ptx7.0; .approx.ftz.{bf16,bf16x2} @sm_90 @ptx7.8",
        "9.7.3.21",
        "half precision",
    ),
    ("rsqrt", _ARITHMETIC, ".approx[.ftz].f64", "9.7.3.16", "f64"),
    ("sqrt", _ARITHMETIC, _INVERSE.replace(",.approx", ""), "9.7.3.14", "other roundings, f64"),
    (
        "rcp",
        _ARITHMETIC,
        f"{_INVERSE}; .approx.ftz.f64; .{{rn,rz,rm,rp}}.ftz.f64",
        "9.7.3.13",
        "other roundings, f64",
    ),
    (
        "cvt",
        "moves and conversions",
        ".{rn,rz,rm,rp}.f32.bf16 @sm_80 @ptx7.1; .{rn,rz,rm,rp}.{f16,f64}.bf16 @sm_90 @ptx7.8; "
        ".{rn,rz,rm,rp}.bf16.{f16,f64,{s,u}{16,32,64}} @sm_90 @ptx7.8; "
        ".{rz,rm,rp}.bf16.f32 @sm_80 @ptx7.0; .{f16,f64}.bf16 @sm_90 @ptx7.8; .bf16.f16 @sm_90 @ptx7.8; "
        ".{rn,rz,rm,rp}.f{16,32,64}.{s,u}{8,16,32,64}",
        "9.7.9.21",
        "this conversion",
    ),
    (
        "mapa",
        "memory",
        "[.shared::cluster].s{32,64} @sm_90 @ptx7.8",
        "9.7.9.23",
        "a signed address, which the ISA does not list",
    ),
    ("popc", "logic", ".b64", "9.7.1.16", "64 bits"),
    ("clz", "logic", ".b64", "9.7.1.17", "64 bits"),
    ("brev", "logic", ".b64", "9.7.1.20", "64 bits"),
    ("prmt", "logic", ".b32.{f4e,b4e,rc8,ecl,ecr,rc16}", "9.7.9.7", "the named modes"),
    ("lop3", "logic", ".{and,or}.b32 @ptx8.2", "9.7.8.6", "with a predicate"),
    (
        "setp",
        "comparison and selection",
        f".{_COMPARED}.f64; .{_COMPARED}[.ftz].{{f16,f16x2}} @sm_53; "
        f".{_COMPARED}.{{bf16,bf16x2}} @sm_90 @ptx7.8",
        "9.7.6.2",
        "f64 and half precision",
    ),
    (
        "bar",
        "barriers",
        ".red{.popc.u32,.{and,or}.pred}; .cta.red{.popc.u32,.{and,or}.pred} @ptx7.8",
        "9.7.13.1",
        "barrier reductions",
    ),
    (
        "barrier",
        "barriers",
        ".red{.popc[.aligned].u32,.{and,or}[.aligned].pred}; "
        ".cta.red{.popc[.aligned].u32,.{and,or}[.aligned].pred} @ptx7.8",
        "9.7.13.1",
        "barrier reductions",
    ),
    (
        "tcgen05.ld",
        "tcgen05",
        f".sync{MOVED}[.pack::16b].b32 @sm_100a @ptx8.6",
        "9.7.16.8.1",
        "without .aligned, which the ISA asks for",
    ),
    (
        "tcgen05.st",
        "tcgen05",
        f".sync{MOVED}[.unpack::16b].b32 @sm_100a @ptx8.6",
        "9.7.16.8.2",
        "without .aligned, which the ISA asks for",
    ),
    (
        "tcgen05.st",
        "tcgen05",
        f".sync.aligned{MOVED}.unpack::16b.b32 @sm_100a @ptx8.6",
        "9.7.16.8.2",
        "unpacking stores",
    ),
    (
        "tcgen05.mma",
        "tcgen05",
        f".sp.cta_group::{{1,2}}.{{kind::f16,{_KINDS}}}{_A} @sm_100a @ptx8.6; "
        f".ws.sp.cta_group::1.{{kind::f16,{_KINDS}}}{_B} @sm_100a @ptx8.6; "
        f"{{.sp.cta_group::{{1,2}}.kind::i8{_A},.ws.sp.cta_group::1.kind::i8{_B}}} "
        f"@=sm_100a|=sm_101a|=sm_110a @ptx8.6",
        "9.7.16.10.9",
        "sparse MMA",
    ),
    (
        "tcgen05.mma",
        "tcgen05",
        f".cta_group::{{1,2}}.{_KINDS}{_A} @sm_100a @ptx8.6; .ws.cta_group::1.{_KINDS}{_B} @sm_100a @ptx8.6; "
        f"{{.cta_group::{{1,2}}.kind::i8{_A},.ws.cta_group::1.kind::i8{_B}}} @=sm_100a|=sm_101a|=sm_110a "
        f"@ptx8.6",
        "9.7.16.10.9",
        "MMA of this kind",
    ),
):
    refused(_base, group=_group, forms=_forms, section=_section, note=_note)
