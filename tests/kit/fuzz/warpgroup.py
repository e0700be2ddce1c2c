# ruff: noqa: E501 - PTX lines are kept whole
"""wgmma on drawn descriptors, in drawn order with its fences, groups and accesses to its registers."""

from __future__ import annotations

import random
from typing import Any

from tileproof.emulator import Memory

from tests.kit.fuzz.case import case, flipped, launched, value, words
from tests.kit.wgmma import Wgmma, listed

_TYPES = (("bf16", "f32"), ("f16", "f16"), ("tf32", "f32"), ("e4m3", "f32"), ("e5m2", "f16"), ("s8", "s32"), ("u8", "s32"), ("b1", "s32"))  # fmt: skip
_FILLED = """mov.b32 %r1, 0f3F800000; mad.lo.u32 %r2, %t, 16, 4096; mov.u32 %r3, 8; F: st.shared.v4.b32 [%r2], {%r1, %r1, %r1, %r1}; add.u32 %r2, %r2, 2048;
    sub.u32 %r3, %r3, 1; setp.ne.u32 %p2, %r3, 0; @%p2 bra F; fence.proxy.async; bar.sync 0;"""


def _matrix(rng: random.Random) -> int:
    """A matrix descriptor of sm_90a."""
    if rng.random() < 0.1:
        return value(rng)
    start = rng.choice((0x1000, 0x1000, 0x2000, 0x2410, 0x400, 0x3FFF0, 0x7FF0)) >> 4
    lead, stride = rng.choice((0, 1, 8, 16, 64, 0x3FFF)), rng.choice((0, 8, 16, 32, 64, 0x3FFF))
    word = start | lead << 16 | stride << 32 | rng.choice((0, 0, rng.randrange(8))) << 49
    word |= rng.randrange(4) << 62
    return flipped(rng, word, 64) if rng.random() < 0.2 else word


@case
def wgmma(rng: random.Random) -> None:
    """wgmma in every form."""
    type_, d_type = rng.choice(_TYPES)
    majors: list[Any] = [rng.choice(("K", "MN")) if type_ in ("bf16", "f16") else "K" for _ in range(2)]
    selector = -1 if type_ == "b1" else rng.choice((-1, -1, 0, int(type_ in ("bf16", "f16", "tf32"))))
    form = Wgmma(
        rng.choice((8, 16, 24, 32)),
        type_,
        "",
        d_type,
        rng.random() < 0.3,
        majors[0],
        majors[1],
        selector=selector,
    )
    d, other = listed("%r", form.registers), listed("%f", form.registers)
    a = "{%r60, %r61, %r62, %r63}" if form.a_in_registers else "%rd10"
    products = [form.line(d, a, "%rd11", rng.choice(("0", "1", "%p1"))), form.line(other, a, "%rd11", "1")]
    lines = [
        "wgmma.fence.sync.aligned;",
        "wgmma.commit_group.sync.aligned;",
        "bar.sync 0;",
        "mov.b32 %r1, %r60;",
    ]
    lines += [
        f"wgmma.wait_group.sync.aligned {rng.randrange(3)};",
        "add.u32 %r60, %r2, 1;",
        "st.shared.b32 [4096], %t;",
    ]
    lines += ["@%p1 bra END;", "@%p1 wgmma.commit_group.sync.aligned;", f"@%p2 {products[0]}"]
    chosen = ["wgmma.fence.sync.aligned;"] * (rng.random() < 0.8)
    chosen += [rng.choice((*products, *lines)) for _ in range(rng.randrange(1, 10))]
    memory = Memory()
    given = words(memory, [_matrix(rng), _matrix(rng), rng.choice((0x4E4E4E4E4E4E4E4E, value(rng)))])
    body = f"""{_FILLED if rng.random() < 0.8 else ""} ld.global.b64 %rd10, [%a0]; ld.global.b64 %rd11, [%a0+8]; ld.global.b32 %m0, [%a0+16];
    setp.eq.u32 %p1, %t, {rng.choice((999, 0, 33))}; setp.lt.u32 %p2, %t, {rng.choice((999, 32, 64))};
    {" ".join(chosen)} END: {"wgmma.wait_group.sync.aligned 0;" * (rng.random() < 0.7)}"""
    launched(
        rng, ".reg .b32 %m<1>; " + body, [given], memory, threads=rng.choice((128, 128, 256, 96, 100)),
        shared_bytes=rng.choice((16384, 32768)), target="sm_90a",
    )  # fmt: skip
