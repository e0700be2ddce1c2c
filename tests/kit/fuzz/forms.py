# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Every form of the instruction table on drawn registers, and what kernels print."""

from __future__ import annotations

import random
import re
from functools import lru_cache

import numpy as np
from tileproof.emulator import Memory, isa, registry
from tileproof.emulator.spelling import Target

from tests.kit.fuzz.case import case, launched, value, words
from tests.kit.ptx import alloc, dealloc, init_barrier
from tests.kit.spelling_operands import TABLE, operands

assert isa
_TARGET = Target.of("sm_100a", "8.8")
_BITS = {"r": 32, "rd": 64, "h": 16, "f": 32, "fd": 64, "q": 128}


@lru_cache
def spellings() -> tuple[str, ...]:
    """Some spellings of each row that is executed."""
    found = []
    for row in registry.ROWS:
        if row.decode is None or row.spellings.any:
            continue
        for spelling, _ in row.spellings.sample(40, seed=len(row.base)):
            opcode = row.base + spelling
            spelled = registry.spell(opcode, _TARGET)
            given = operands(opcode)
            if (
                spelled
                and not spelled.requires
                and given is not None
                and "%b" not in given
                and "slot" not in given
                and "whole" not in given
            ):
                found.append(f"{opcode} {given};")
    return tuple(found)


def _loads(line: str) -> tuple[str, int]:
    """Lines that fill every register of `line` from words at %a0, 64 bytes apart, and how many words there are."""
    out, at = [], 0
    for name in dict.fromkeys(re.findall(r"%(?:rd|fd|[rhfqp])\d+", line)):
        kind = name[1:].rstrip("0123456789")
        if kind == "p":
            out.append(f"ld.global.b32 %r139, [%rd39+{at}]; setp.lt.s32 {name}, %r139, 0;")
        elif kind == "q":
            out.append(
                f"ld.global.b64 %rd36, [%rd39+{at}]; ld.global.b64 %rd37, [%rd39+{at + 8}]; mov.b128 {name}, {{%rd36, %rd37}};"
            )
            at += 8
        else:
            out.append(f"ld.global.b{_BITS[kind]} {name}, [%rd39+{at}];")
        at += 8
    return " ".join(out), at // 8


@case
def forms(rng: random.Random) -> None:
    """An instruction, prepared or not: an mbarrier at 1024, tensor memory, and addresses that may be legal."""
    line = rng.choice(spellings())
    loads, count = _loads(line)
    memory = Memory()
    data = memory.buffer(np.arange(4096, dtype=np.uint32), "data")
    same = rng.random() < 0.6  # all lanes hold the same
    stride = 8 * max(count, 1)

    def drawn() -> int:
        where = rng.random()
        if where < 0.25:
            return data.address + rng.choice((0, 0, 16, 128, 4, 1, 16380, 16384, -4))
        return (
            rng.choice((1024, 2048, 2048 + 128 * rng.randint(0, 60), 2048 + 16, 0))
            if where < 0.45
            else value(rng)
        )

    values = (
        [drawn() & (1 << 64) - 1 for _ in range(count)] * 32
        if same
        else [drawn() & (1 << 64) - 1 for _ in range(32 * count)]
    )
    prepare = rng.random() < 0.7
    guard = "" if ".aligned" in line or ".sync" in line or rng.random() < 0.5 else "@%p15 "
    before = (
        f"{init_barrier(1024, rng.choice((1, 32, 1000)))} {alloc(256).replace('%r100', '%r137').replace('%r101', '%r138')}"
        if prepare
        else ""
    )
    after = dealloc(256).replace("%r100", "%r137").replace("%r101", "%r138") if prepare else ""
    if prepare and rng.random() < 0.5:
        before += "mad.lo.u32 %r138, %t, 16, 2048; st.shared.v4.b32 [%r138], {%t, %t, %t, %t}; st.shared.v4.b32 [%r138+512], {%t, %t, %t, %t}; bar.warp.sync -1;"
    table = TABLE if "table" in line else ""
    body = f"{table} {before} mad.wide.u32 %rd39, %t, {stride}, %a0; {loads} setp.eq.u32 %p15, %t, 0; {guard}{line}\nEND: {guard}{line.replace('END', 'LAST').replace('table', 'again')}\nLAST: {after}"
    if table:
        body = body.replace(table, f"{table} {TABLE.replace('table', 'again').replace('END', 'LAST')}")
    launched(
        rng,
        body,
        [words(memory, values or [0])],
        memory,
        module=".func nothing() { ret; }",
        cluster=rng.choice((1, 1, 2)),
        shared_bytes=16384,
    )


_FORMAT = "%%%%dxXcsfeEgGauopilhzjtqn*.0123456789-+ #ab\n"


@case
def printed(rng: random.Random) -> None:
    """vprintf and __assertfail of drawn formats, arguments and addresses."""
    memory = Memory()
    text = bytes(
        rng.choice(_FORMAT.encode()) if rng.random() < 0.97 else rng.getrandbits(8)
        for _ in range(rng.choice((3, 20, 200, 5000)))
    )
    form = memory.buffer(np.frombuffer(text + b"\0" * (rng.random() < 0.9), np.uint8).copy())
    arguments = [
        rng.choice((value(rng), form.address, form.address + 3, rng.getrandbits(64), 5)) for _ in range(64)
    ]
    given = words(memory, [rng.choice((form.address,) * 8 + (value(rng),)), *arguments])
    if rng.random() < 0.8:
        call = "{ .param .b64 p; st.param.b64 [p], %rd1; .param .b64 q; st.param.b64 [q], %rd2; .param .b32 r; call (r), vprintf, (p, q); }"
        where = rng.choice(("add.u64 %rd2, %a0, 8;", "add.u64 %rd2, %a0, 8;", "ld.global.b64 %rd2, [%a0+8];"))
    else:
        where = "ld.global.b64 %rd2, [%a0+8]; ld.global.b64 %rd3, [%a0+16];"
        call = """{ .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e; st.param.b64 [a], %rd1; st.param.b64 [b], %rd2; st.param.b32 [c], 77;
        st.param.b64 [d], %rd3; st.param.b64 [e], 1; call.uni __assertfail, (a, b, c, d, e); }"""
    launched(
        rng,
        f"ld.global.b64 %rd1, [%a0]; {where} {call} {call if rng.random() < 0.3 else ''}",
        [given],
        memory,
        threads=rng.choice((1, 3)),
    )
