# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Damaged PTX and random operand values: errors of this package or findings, never a crash, a traceback or an endless run.

EMULATOR_FUZZ sets the number of examples (default 150 per test).
"""

from __future__ import annotations

import os
import random
import re
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tileproof.emulator import Module, Schedule, TensorMap
from tileproof.spec.machine.errors import TileproofError

from tests.kit.ptx import Memory, kernel_text, run

COUNT = int(os.environ.get("EMULATOR_FUZZ", "150"))
FUZZ = settings(max_examples=COUNT, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SEEDS = st.integers(0, 2**63)

# No backward branch spans a store or an arrival: a mutation cannot make a loop that works for ever.
KERNEL = kernel_text(
    """
    .local .align 8 .b8 mine[16];
    .shared .align 16 .b32 tile[64];
    .loc 1 10 3
    mov.u32 %r1, 3;
    LOOP: sub.u32 %r1, %r1, 1; setp.ne.u32 %p1|%p2, %r1, 0; @%p1 bra LOOP;
    mov.u32 %r2, tile; mad.lo.u32 %r3, %t, 4, %r2; and.b32 %r4, %t, 7; shl.b32 %r5, %r4, 2;
    { .reg .b32 %z<4>; mov.b64 %rd1, {%r3, %r4}; mov.b64 {%z0, _}, %rd1; cvt.rn.bf16x2.f32 %z1, 0f3F800000, 1.5; }
    st.shared.u32 [%r3], %t; bar.sync 0; ld.shared.v2.u32 {%r6, %r7}, [tile+8];
    elect.sync _|%p3, -1; @!%p3 bra SKIP;
    mbarrier.init.shared::cta.b64 [tile+128], 1; mbarrier.arrive.expect_tx.shared.b64 _, [tile+128], 16;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile+144], [%a0], 16, [tile+128];
    mbarrier.try_wait.parity.shared.b64 %p4, [tile+128], 0;
    tcgen05.fence::after_thread_sync;
    SKIP: shfl.sync.bfly.b32 %r8|%p5, %r6, 1, 31, -1; vote.sync.ballot.b32 %r9, %p5, -1; selp.b32 %r10, %r8, %r9, %p5;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [tile+160], 32; ld.shared.u32 %r11, [tile+160];
    tcgen05.st.sync.aligned.32x32b.x4.b32 [%r11], {%r6, %r7, %r8, %r9}; tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.16x64b.x1.pack::16b.b32 {%r12}, [%r11]; tcgen05.wait::ld.sync.aligned;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r11, 32;
    atom.global.add.u32 %r13, [%a0], %r10; red.shared.max.u32 [%r3], 5; st.local.u32 [mine+4], %r13;
    mad.wide.u32 %rd3, %t, 4, %a0; @%p2 st.global.u32 [%rd3], %r13;""",
    [False],
    '.file 1 "x.cu"\n.global .align 8 .u64 table[2] = {1, 0x10};\n.const .align 4 .f32 half = 0f3F000000;\n',
)
TOKENS = re.findall(r"\s+|[\w.%:$]+|.", KERNEL)
SPARE = ["", ";", "{", "}", "[", "]", ",", "|", "!", "@", "_", "-1", "0", "0xffffffff", "99999999999999999999", "1.5", "0f7F800000", "%p1", "%r1",
         "%rd1", "%f1", "%h1", "%q1", "tile", "LOOP", "SKIP", ".b64", ".v4", ".global", ".reg", ".align", "<", ">", "//", "/*", '"', "(", ")", "+", "=",
         "%tid.x", "ret", "tcgen05.mma.cta_group::1.kind::f16", "é", "\0", "~", "<<", "((1))", "(" * 99, " .L2::cache_hint", ".v4 .b32", "%r1.x", "WARP_SZ", ".branchtargets", "1+2*3", "/0", "inf", "nan", "0x", "1e400"]  # fmt: skip


def memory_and_args() -> tuple[Memory, list[Any]]:
    memory = Memory()
    return memory, [memory.buffer(np.zeros(64, np.uint32))]


def attempt(text: str, seed: int = 0) -> str:
    """What came of a text: "error" or "ran"; anything but an error of this package escapes."""
    memory, args = memory_and_args()
    try:
        module = Module.from_ptx(text)
        for name in module.entries:
            module.launch(
                name,
                grid=(1,),
                block=(32,),
                args=args,
                memory=memory,
                livelock_limit=2000,
                schedule=Schedule(("early", "late", "random")[seed % 3], seed),
            )
    except TileproofError as error:
        assert error.what
        return "error"
    return "ran"


def test_the_kernel_of_the_fuzz_runs() -> None:
    memory, args = memory_and_args()
    for policy in ("early", "late", "random"):
        result = Module.from_ptx(KERNEL).launch(
            "k", grid=(1,), block=(32,), args=args, memory=memory, schedule=Schedule(policy)
        )  # type: ignore[arg-type]
        assert not result.errors, result.errors


@FUZZ
@given(SEEDS)
def test_mutated_tokens(seed: int) -> None:
    rng = random.Random(seed)
    tokens = list(TOKENS)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(tokens))
        action = rng.randrange(5)
        if action == 0:
            del tokens[at]
        elif action == 1:
            tokens.insert(at, tokens[at])
        elif action == 2:
            tokens[at] = rng.choice(SPARE)
        elif action == 3:
            tokens[at] = rng.choice(TOKENS)
        else:
            other = rng.randrange(len(tokens))
            tokens[at], tokens[other] = tokens[other], tokens[at]
    attempt("".join(tokens), seed)


@FUZZ
@given(SEEDS)
def test_mutated_characters(seed: int) -> None:
    rng = random.Random(seed)
    text = list(KERNEL)
    for _ in range(rng.randint(1, 6)):
        text[rng.randrange(len(text))] = rng.choice("{}[]();:.,%_|!@<>=+-*/\"'0123456789abcdefxpruvt \n\0")
    attempt("".join(text), seed)


@given(st.binary(max_size=300))
def test_binary_garbage(data: bytes) -> None:
    assert attempt(data.decode("latin-1")) == "error"


def test_mutations_reach_both_ends() -> None:
    """The fuzz is no fuzz if everything fails in the parser."""
    rng = random.Random(1)
    outcomes = []
    for _ in range(60):
        tokens = list(TOKENS)
        tokens[rng.randrange(len(tokens))] = rng.choice(TOKENS)
        outcomes.append(attempt("".join(tokens)))
    assert {"error", "ran"} == set(outcomes)


HOT = [0, 1, 15, 16, 31, 32, 128, 1024, 1040, 2048, 4096, 0x3FFF, 0x4000, 0xFFFF, 0x10000, 0x100000, 0x1000400, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
       0xFFFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFF8, 0x700000000400, 0x700001000400, 0x710000000000, 0x720000000000, 0x720000000040, 0x4000404000010400, 1 << 46, 0x08200490, 0x04100490,
       0x10400490, 0x8000000000000000]  # fmt: skip
LINES = [
    "ld.{s}.b32 %r1, [X];", "st.{s}.b64 [X], %rd1;", "ld.{s}.v4.b32 {{%r1, %r2, %r3, %r4}}, [X];", "ld.b64 %rd1, [X];", "st.v2.b64 [X], {{%rd1, %rd2}};",
    "atom.{a}.add.u64 %rd1, [X], %rd2;", "red.{a}.add.v4.f32 [X], {{%f1, %f2, %f3, %f4}};", "mbarrier.init.b64 [X], W;", "mbarrier.inval.b64 [X];",
    "mbarrier.arrive.shared::cluster.b64 _, [X], W;", "mbarrier.arrive.expect_tx.b64 _, [X], W;", "mbarrier.complete_tx.shared.b64 [X], W;",
    "mbarrier.try_wait.parity.b64 %p1, [X], W;", "mbarrier.test_wait.shared.b64 %p1, [X], Y;", "mapa.shared::cluster.u32 %r1, W, V;", "mapa.u64 %rd1, X, W;",
    "bar.sync W, V;", "bar.arrive W, V;", "bar.warp.sync W;", "shfl.sync.idx.b32 %r1, W, V, W, -1;", "elect.sync %r1|%p1, W;",
    "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [X], [Y], W, [V];", "cp.async.bulk.global.shared::cta.bulk_group [X], [W], V;",
    "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [W], [V], W, [V];", "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [X], [W], V;",
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [W], [%a0, {{W, V}}], [V];",
    "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [2048], [%a2, {{W, V, W, V, W}}], [1024];",
    "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [2048], [%a0, {{W, V}}], [1024], %h1;",
    "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [2048], [X, {{W, V}}], [1024];",
    "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%a0, {{W, V}}], [W];", "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%a0, {{W, V}}], [V];",
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [W], V;", "tcgen05.dealloc.cta_group::1.sync.aligned.b32 W, V;",
    "tcgen05.ld.sync.aligned.16x256b.x2.b32 {{%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}}, [W];", "tcgen05.st.sync.aligned.16x32bx2.x2.b32 [W], 500, {{%r1, %r2}};",
    "tcgen05.ld.sync.aligned.32x32b.x4.pack::16b.b32 {{%r1, %r2, %r3, %r4}}, [W];", "tcgen05.wait::ld.sync.aligned;",
    "tcgen05.mma.cta_group::1.kind::f16 [W], X, Y, V, %p0;", "tcgen05.mma.cta_group::1.kind::f16 [W], [V], Y, W, {{W, V, W, V}}, %p0, 3;",
    "tcgen05.mma.ws.cta_group::1.kind::f16 [0], X, Y, V, %p0;", "tcgen05.mma.ws.cta_group::1.kind::f16 [0], [W], Y, V, %p0;", "tcgen05.cp.cta_group::1.128x256b [W], X;",
    "tcgen05.cp.cta_group::1.32x128b.warpx4 [0], X;", "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [W];",
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [W], %h1;", "cp.async.bulk.commit_group;", "cp.async.bulk.wait_group.read 0;",
]  # fmt: skip


@FUZZ
@given(SEEDS)
def test_random_operand_values(seed: int) -> None:
    rng = random.Random(seed)

    def value(bits: int) -> int:
        v = rng.choice(HOT) if rng.random() < 0.8 else rng.getrandbits(64)
        if rng.random() < 0.3:
            v ^= 1 << rng.randrange(64)
        return v & ((1 << bits) - 1)

    lines = []
    for _ in range(rng.randint(1, 5)):
        lines.append(
            f"mov.b64 %rd10, {value(64)}; mov.b64 %rd11, {value(64)}; mov.b32 %r20, {value(32)}; mov.b32 %r21, {value(32)}; mov.b16 %h1, {value(16)};"
        )
        if rng.random() < 0.2:
            lines.append(f"add.u64 %rd10, %a1, {rng.randrange(-64, 600)};")
        line = rng.choice(LINES).format(
            s=rng.choice(["global", "shared", "shared::cluster", "local", "param"]),
            a=rng.choice(["global", "shared", "shared::cluster"]),
        )
        if line.startswith(("st.param", "ld.param.v")):
            continue
        for name, register in (("X", "%rd10"), ("Y", "%rd11"), ("W", "%r20"), ("V", "%r21")):
            line = re.sub(rf"\b{name}\b", register, line)
        guard = "" if ".aligned" in line or rng.random() < 0.3 else "@%p0 "
        lines.append(guard + line)
    prepare = rng.random() < 0.5
    text = f"""
    .local .align 16 .b8 mine[64];
    setp.eq.u32 %p0, %t, 0;
    {"@%p0 mbarrier.init.shared.b64 [1024], 1; bar.sync 0; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [1088], 256;" if prepare else ""}
    {chr(10).join(lines)}
    {"tcgen05.dealloc.cta_group::1.sync.aligned.b32 0, 256;" if prepare else ""}"""
    memory = Memory()
    m = TensorMap.tiled(
        memory.buffer(np.zeros((8, 32), np.float32)),
        shape=(32, 8),
        strides=(128,),
        box=(16, 4),
        swizzle="64B",
    )
    row = TensorMap.tiled(
        memory.buffer(np.zeros((8, 32), np.float32)), shape=(32, 8), strides=(2**39 + 16,), box=(16, 1)
    )
    try:
        result = run(text, [m, memory.buffer(np.zeros(512, np.uint8)), row], memory=memory, shared_bytes=8192, livelock_limit=2000, cluster=rng.choice([1, 2]),
                     mma=rng.choice(["fast", "exact"]), schedule=Schedule(rng.choice(["early", "late", "random"]), seed))  # fmt: skip
        assert all(f.severity in ("error", "warning", "note") for f in result.findings)
    except TileproofError as error:
        assert error.what
