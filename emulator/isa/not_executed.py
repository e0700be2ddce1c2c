"""Spellings that PTX has and the emulator does not execute, of families that it otherwise does.

A form that is also in an executed row is executed; the remaining forms distinguish spellings that ptxas
accepts from spellings that it rejects.
"""

from __future__ import annotations

from tileproof.emulator.isa.tcgen05 import MOVED
from tileproof.emulator.registry import refused

_STORED = "{b8,b16,b32,b64,u8,u16,u32,u64,s8,s16,s32,s64,f32,f64}"
_ADDED = "{.add.{u32,s32,u64,s64},.{min,max}.{u32,s32},.{inc,dec}.u32,.{and,or,xor}.b32}"
_KINDS = "kind::{tf32,f8f6f4}"
_A = "[.collector::a::{fill,use,lastuse,discard}]"
_B = "[.collector::b{0,1,2,3}::{fill,use,lastuse,discard}]"

for _base, _group, _forms, _section, _note in (
    (
        "fma",
        "arithmetic",
        ".rn.oob[.relu].{f16,f16x2,bf16,bf16x2} @sm_90 @ptx8.1",
        "9.7.4.4",
        "the NaN for out of bounds is not published",
    ),
    ("rcp", "arithmetic", ".{rn,rz,rm,rp}.ftz.f64", "9.7.3.13", "f64 with .ftz, which the ISA does not list"),
    ("testp", "arithmetic", ".{f32,f64}", "9.7.3.1", "without the property, which the ISA requires"),
    (
        "mapa",
        "memory",
        "[.shared::cluster].s{32,64} @sm_90 @ptx7.8",
        "9.7.9.23",
        "a signed address, which the ISA does not list",
    ),
    (
        "st.async",
        "asynchronous copies",
        f"{{[.weak],.{{gpu,sys}}}}.{_STORED} @sm_90 @ptx8.1; "
        f"{{[.weak],.{{gpu,sys}}}}.global.{_STORED} @sm_100 @ptx8.7",
        "9.7.9.12",
        "to global memory without .release, which the ISA requires",
    ),
    (
        "red.async",
        "asynchronous copies",
        f".relaxed.{{gpu,sys}}{_ADDED} @sm_90 @ptx8.1; .relaxed.{{gpu,sys}}.global{_ADDED} @sm_100 @ptx8.7",
        "9.7.13.7",
        "to global memory without .release, which the ISA requires",
    ),
    ("isspacep", "memory", ".const", "9.7.9.19", "constant memory has no separate window here"),
    (
        "cvt",
        "moves and conversions",
        ".bf16.f16 @sm_90 @ptx7.8; .f16.bf16 @sm_90 @ptx7.8",
        "9.7.9.21",
        "without the rounding that the ISA asks for",
    ),
    ("lop3", "logic", ".{and,or}.b32 @ptx8.2", "9.7.8.6", "with a predicate"),
    (
        "tcgen05.ld",
        "tcgen05",
        f".sync{MOVED}[.pack::16b].b32 @sm_100a @ptx8.6",
        "9.7.16.8.1",
        "without .aligned, which the ISA requires",
    ),
    (
        "tcgen05.st",
        "tcgen05",
        f".sync{MOVED}[.unpack::16b].b32 @sm_100a @ptx8.6",
        "9.7.16.8.2",
        "without .aligned, which the ISA requires",
    ),
    (
        "tcgen05.mma",
        "tcgen05",
        f".sp.cta_group::{{1,2}}.{{kind::f16,{_KINDS}}}{_A} @sm_100a @ptx8.6; "
        f".ws.sp.cta_group::1.{{kind::f16,{_KINDS}}}{_B} @sm_100a @ptx8.6; "
        f"{{.sp.cta_group::{{1,2}}.kind::i8{_A},.ws.sp.cta_group::1.kind::i8{_B}}} "
        f"@=sm_100a|=sm_101a|=sm_110a @ptx8.6",
        "9.7.16.10.9",
        "sparse MMA: the layout of its metadata in tensor memory is published only in pictures",
    ),
    (
        "tcgen05.mma",
        "tcgen05",
        ".cta_group::{1,2}.kind::{f16,tf32,f8f6f4}.ashift[.collector::a::{lastuse,discard}] @sm_100a "
        "@ptx8.6; "
        ".cta_group::{1,2}.kind::i8.ashift[.collector::a::{lastuse,discard}] "
        "@=sm_100a|=sm_101a|=sm_110a @ptx8.6",
        "9.7.16.10.9",
        ".ashift: the direction of the rows is not documented",
    ),
    *(
        (
            base,
            group,
            f"{forms} @=sm_107a|=sm_107f @ptx9.4",
            section,
            "a mask of 32 CTAs, which SM100 does not have",
        )
        for base, group, forms, section in (
            (
                "mbarrier.arrive",
                "mbarrier",
                "[.expect_tx][{.release,.relaxed}.cluster].shared::cluster.multicast::cluster::32b.b64",
                "9.7.13.15.13",
            ),
            (
                "cp.async.bulk",
                "asynchronous copies",
                ".shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster::32b[.L2::cache_hint]",
                "9.7.9.25.4.1",
            ),
            (
                "cp.async.bulk.tensor",
                "asynchronous copies",
                ".{1d,2d,3d,4d,5d}.shared::cluster.global[{.tile,.tile::gather4,.im2col}]"
                ".mbarrier::complete_tx::bytes.multicast::cluster::32b[.cta_group::{1,2}][.L2::cache_hint]",
                "9.7.9.25.5.2",
            ),
            (
                "tcgen05.commit",
                "tcgen05",
                ".cta_group::{1,2}.mbarrier::arrive::one[.shared::cluster].multicast::cluster::32b.b64",
                "9.7.16.12.1",
            ),
        )
    ),
):
    refused(_base, group=_group, forms=_forms, section=_section, note=_note)
