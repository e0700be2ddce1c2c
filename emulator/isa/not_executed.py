"""Spellings that PTX has and the emulator does not execute, of families that it otherwise does."""

from __future__ import annotations

from tileproof.emulator.registry import refused

# (base, forms, section, note); a form that an executed row has too is executed.
for _base, _group, _forms, _section, _note in (
    ("bar", "barriers", "[.cta].red{.popc.u32,.{and,or}.pred}", "9.7.13.1", "barrier reductions"),
    (
        "barrier",
        "barriers",
        "[.cta].red{.popc[.aligned].u32,.{and,or}[.aligned].pred}",
        "9.7.13.1",
        "barrier reductions",
    ),
    (
        "tcgen05.mma",
        "tcgen05",
        ".sp.cta_group::{1,2}.kind::{f16,tf32,f8f6f4}[.collector::a::{fill,use,lastuse,discard}] "
        "@sm_100a @ptx8.6; "
        ".ws.sp.cta_group::1.kind::{f16,tf32,f8f6f4,i8}[.collector::b{0,1,2,3}::{fill,use,lastuse,discard}] "
        "@sm_100a @ptx8.6",
        "9.7.16.10.9",
        "sparse MMA",
    ),
):
    refused(_base, group=_group, forms=_forms, section=_section, note=_note)
