# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""tcgen05 on drawn descriptors and addresses: instruction and matrix descriptors, TMEM, scales, masks."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from tileproof.emulator import Memory
from tileproof.spec.machine.descriptors import BlockScaledDescriptor, InstructionDescriptor
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.kinds import FORMATS

from tests.kit.fuzz.case import case, flipped, launched, value, words
from tests.kit.ptx import CLUSTER_SYNC, alloc, dealloc, init_barrier

_KINDS = {"mxf4nvf4.2X": "mxf4nvf4.block_scale.scale_vec::2X", "mxf4nvf4.4X": "mxf4nvf4.block_scale.scale_vec::4X", "mxf8f6f4": "mxf8f6f4.block_scale.scale_vec::1X",
          "mxf4": "mxf4.block_scale.scale_vec::2X"}  # fmt: skip
_FILLED = """mov.b32 %r1, 0f3F800000; mad.lo.u32 %r2, %t, 16, 4096; mov.u32 %r3, 16; F: st.shared.v4.b32 [%r2], {%r1, %r1, %r1, %r1}; add.u32 %r2, %r2, 512;
    sub.u32 %r3, %r3, 1; setp.ne.u32 %p2, %r3, 0; @%p2 bra F; tcgen05.st.sync.aligned.32x32b.x4.b32 [%r100], {%r1, %r1, %r1, %r1}; tcgen05.wait::st.sync.aligned; fence.proxy.async;"""


def _instruction(rng: random.Random, name: str) -> int:
    """A legal instruction descriptor of a format, mostly, with bits flipped."""
    f = FORMATS[name]
    a, b = rng.choice(list(f.types)), rng.choice(list(f.types))
    m, n = rng.choice((32, 64, 128, 128, 256)), 8 * rng.choice((1, 2, 4, 8, 16, 24, 32))
    major = {"a_mn_major": rng.random() < 0.2, "b_mn_major": rng.random() < 0.2}
    try:
        if f.scales:
            word = BlockScaledDescriptor(
                m, n, f.name, a, b, scale_type=rng.choice(list(f.scale_types)), **major
            ).encode()  # type: ignore[arg-type]
        else:
            word = InstructionDescriptor(
                m, n, a, b, rng.choice(list(f.d_types)), format=f.name, **major
            ).encode()  # type: ignore[arg-type]
    except TileproofError:
        word = 0x08200490
    return flipped(rng, word, 32) if rng.random() < 0.6 else word


def _matrix(rng: random.Random) -> int:
    """A shared-memory descriptor."""
    if rng.random() < 0.15:
        return value(rng)
    start = rng.choice((0x1000, 0x1000, 0x2000, 0x2400, 0x400, 0x3FFF0, 0x7FF0)) >> 4
    lead, stride = rng.choice((1, 8, 16, 64, 0x3FFF)), rng.choice((8, 16, 32, 64, 128, 0x3FFF))
    word = (
        start
        | lead << 16
        | stride << 32
        | 1 << 46
        | rng.choice((0, 0, 0, rng.randrange(8))) << 49
        | rng.choice((0, 1, 2, 4, 6, 2, 2)) << 61
    )
    return flipped(rng, word, 64) if rng.random() < 0.4 else word


@case
def mma(rng: random.Random) -> None:
    """tcgen05.mma in every form."""
    name = rng.choice(list(FORMATS))
    scaled = bool(FORMATS[name].scales)
    group, ws = rng.choice((1, 1, 2)), not scaled and rng.random() < 0.25
    group = 1 if ws else group
    in_tmem = not ws and rng.random() < 0.25
    a = "[%r10]" if in_tmem else "%rd10"
    tail = ", %rd12" if ws and rng.random() < 0.5 else ""
    masked = not ws and not scaled and rng.random() < 0.2
    lanes = ", {" + ", ".join(f"%r{20 + k}" for k in range(4 * group)) + "}" if masked else ""
    scales = ", [%r12], [%r13]" if scaled else ""
    word = "tcgen05.mma.ws" if ws else "tcgen05.mma"
    line = f"{word}.cta_group::{group}.kind::{_KINDS.get(name, name)} [%r11], {a}, %rd11, %r14{scales}{lanes}, %p1{tail};"
    memory = Memory()
    loads = " ".join(f"ld.global.b64 %rd{10 + k}, [%a0+{8 * k}];" for k in range(3)) + " ".join(
        f"ld.global.b32 %r{10 + k}, [%a0+{24 + 4 * k}];" for k in range(18)
    )
    columns = rng.choice((512, 256, 128))
    commit = f"@%p0 tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster.b64 [1024];"
    body = f"""{init_barrier(1024)} {alloc(columns, group=group)} {_FILLED if rng.random() < 0.8 else ""} {loads} {CLUSTER_SYNC if group == 2 else "bar.sync 0;"} setp.eq.u32 %p1, %r20, 1;
    mov.u32 %r40, %cluster_ctarank; setp.eq.and.u32 %p3, %r40, 0, %p0; @%p3 {line} {commit.replace("%p0", "%p3")} @%p3 {line}
    {CLUSTER_SYNC if group == 2 else ""} {dealloc(columns, group=group)}"""
    tmem = lambda: rng.choice((0, 0, 16, 64, 128, 500, 511, 0x100000, value(rng, 32)))  # noqa: E731
    small = [
        tmem(),
        tmem(),
        rng.choice((64, tmem(), 0x40000040)),
        rng.choice((96, tmem())),
        _instruction(rng, name),
        *(value(rng, 32) for _ in range(13)),
    ]
    packed = [small[2 * k] | small[2 * k + 1] << 32 for k in range(9)]
    data: Any = words(memory, [_matrix(rng), _matrix(rng), rng.choice((0, value(rng), value(rng))), *packed])
    launched(rng, body, [data], memory, cluster=group, shared_bytes=rng.choice((16384, 32768)))


_SHAPES = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}


@case
def tensor_memory(rng: random.Random) -> None:
    """tcgen05.ld, st and cp at drawn addresses."""
    shape = rng.choice(list(_SHAPES))
    count = rng.choice(
        [
            n
            for n in (1, 2, 4, 8, 16, 32, 64, 128)
            if (n * _SHAPES[shape] <= 128 and n <= 32) or shape == "32x32b"
        ]
    )
    second = f", {rng.choice((0, 1, 16, 255, 511))}" if shape == "16x32bx2" else ""
    names = "{" + ", ".join(f"%r{k}" for k in range(count * _SHAPES[shape])) + "}"
    if rng.random() < 0.3:
        form = rng.choice(
            (
                "128x256b",
                "4x256b",
                "128x128b",
                "64x128b.warpx2::02_13",
                "64x128b.warpx2::01_23",
                "32x128b.warpx4",
            )
        )
        line = f"setp.eq.u32 %p1, %t, 0; @%p1 tcgen05.cp.cta_group::1.{form}{rng.choice(('', '', '.b8x16.b6x16_p32', '.b8x16.b4x16_p64'))} [%r130], %rd10;"
    elif rng.random() < 0.6:
        line = f"tcgen05.ld.sync.aligned.{shape}.x{count}{rng.choice(('', '.pack::16b'))}.b32 {names}, [%r130]{second}; tcgen05.wait::ld.sync.aligned;"
    else:
        line = f"tcgen05.st.sync.aligned.{shape}.x{count}{rng.choice(('', '.unpack::16b'))}.b32 [%r130]{second}, {names}; tcgen05.wait::st.sync.aligned;"
    zero = (
        " ".join(f"mov.u32 %r{k}, %t;" for k in range(count * _SHAPES[shape])) if rng.random() < 0.5 else ""
    )
    body = f"{init_barrier(1024)} {alloc(128).replace('%r100', '%r131').replace('%r101', '%r132')} ld.global.b64 %rd10, [%a0]; ld.global.b32 %r130, [%a0+8]; {zero} {line} {dealloc(128).replace('%r100', '%r131').replace('%r101', '%r132')}"
    memory = Memory()
    launched(rng, body, [words(memory, [_matrix(rng), rng.choice((0, 1, 64, 120, 127, 128, 0x200000, 0x100000, value(rng, 32)))])], memory,
             threads=rng.choice((32, 128)), shared_bytes=16384)  # fmt: skip


@case
def launch_control(rng: random.Random) -> None:
    """clusterlaunchcontrol.query_cancel of drawn bytes."""
    memory = Memory()
    given = [
        rng.choice((0, 0x30434C4300000000, 0x31434C4300000000, 0x31434C43, value(rng))) for _ in range(2)
    ]
    out = memory.empty(64, np.uint32)
    body = """ld.global.b64 %rd1, [%a0]; ld.global.b64 %rd2, [%a0+8]; mov.b128 %q1, {%rd1, %rd2}; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q1;
    clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r1, %r2, %r3, _}, %q1; mad.wide.u32 %rd3, %t, 4, %a1; @%p1 add.u32 %r1, %r1, %r2; st.global.b32 [%rd3], %r1;"""
    launched(rng, body, [words(memory, given), out], memory, clc=rng.choice(("grant", "refuse")))
