# ruff: noqa: E501 - PTX lines are kept whole
"""Kernels that execute spellings of a form on edges and random bits, and write every register and byte that they named."""

from __future__ import annotations

import re
import zlib

import numpy as np
from tileproof.emulator.registry import Row
from tileproof.emulator.spelling import Pattern, Target

from tests.kit.ptx import HEADER, kernel_text
from tests.kit.spelling_operands import operands
from tests.kit.values import F32_EDGES

THREADS, SLOTS, SPELLINGS = 128, 32, 16
MEMORY = {"ld", "st", "atom", "red"}
# Registers alone decide what these write, or registers and the thread's own bytes. What the ISA leaves open is not here.
_BASES = """abs add addc and bfe bfi bfind bmsk brev clz cnot copysign cos cvt cvt.pack div dp2a dp4a ex2
fma fns lg2 lop3 mad mad24 madc max min mma mov mul mul24 neg not or popc prmt rcp rem rsqrt
sad selp set setp shf shl shr sin sqrt sub subc szext tanh testp vabsdiff2 vabsdiff4 xor
movmatrix"""
BASES = MEMORY | set(_BASES.split())
TARGETS = tuple(Target.of(name, "8.8") for name in ("sm_90a", "sm_100a"))
_BITS = {"r": 32, "rd": 64, "h": 16, "f": 32, "fd": 64, "b": 8}
_REGISTER = re.compile(r"%(?:rd|fd|[rhfqpb])\d+")
_OWN = """.reg .b8 %b<9>; .reg .b64 %in; .reg .b64 %out; .reg .b64 %low; .reg .b64 %high; .reg .b32 %word; .reg .pred %flag;
mad.wide.u32 %in, %t, 8, %a0; mad.wide.u32 %out, %t, 8, %a1;"""
# 64 bytes of the thread in shared memory at %r8 and in global memory at %rd8, filled with the same words.
_BYTES = """createpolicy.fractional.L2::evict_last.b64 %rd9, 1.0;
mov.u32 %r8, bytes; mad.lo.u32 %r8, %t, 64, %r8;"""
_PLACE = "mad.wide.u32 %rd8, %t, 64, %a2;"
_DUMP = "".join(f"ld.shared.b64 %low, [%r8+{8 * k}]; st.global.b64 [%rd7+{8 * k}], %low;\n" for k in range(8))


def lines(row: Row, pattern: Pattern) -> list[str]:
    """Instructions, spread over the spellings of the form, whose operands have an entry."""
    count = min(SPELLINGS, pattern.count)
    numbers = dict.fromkeys(int(k) for k in np.linspace(0, pattern.count - 1, count))
    opcodes = [row.base + pattern.spelling(number) for number in numbers]
    found = [
        (opcode, operands(opcode))
        for opcode in opcodes
        if not {"const", "local"} & set(re.split(r"\.", opcode))
    ]
    return [
        f"{opcode} {given};"
        for opcode, given in found
        if given and "slot" not in given and "whole" not in given
    ]


def _load(name: str, at: int) -> str:
    kind = name[1:].rstrip("0123456789")
    where = f"[%in+{8 * THREADS * at}]"
    if kind == "p":
        return f"ld.global.b32 %word, {where}; setp.lt.s32 {name}, %word, 0;"
    if kind == "q":
        return f"ld.global.b64 %low, {where}; ld.global.b64 %high, [%in+{8 * THREADS * (at + 1)}]; mov.b128 {name}, {{%low, %high}};"
    return f"ld.global.b{_BITS[kind]} {name}, {where};"


def _store(name: str, at: int) -> str:
    kind = name[1:].rstrip("0123456789")
    where = f"[%out+{8 * THREADS * at}]"
    if kind == "p":
        return f"selp.b32 %word, 1, 0, {name}; st.global.b32 {where}, %word;"
    if kind == "q":
        return f"mov.b128 {{%low, %high}}, {name}; st.global.b64 {where}, %low; st.global.b64 [%out+{8 * THREADS * (at + 1)}], %high;"
    return f"st.global.b{_BITS[kind]} {where}, {name};"


def _one(line: str, number: int, memory: bool) -> str:
    base = line.split(".")[0]
    names = list(dict.fromkeys(_REGISTER.findall(line)))
    kept = {"%r8", "%rd8", "%rd9"} if memory else set()
    places = {name: 2 * (number + 5 * k) % SLOTS for k, name in enumerate(n for n in names if n not in kept)}
    before = [_load(name, at) for name, at in places.items()]
    if base in ("div", "rem") and re.search(r"\.[su]\d+ ", line):  # a quotient by 0 is not specified
        divisor = names[-1]
        before.append(f"or.b{_BITS[divisor[1:].rstrip('0123456789')]} {divisor}, {divisor}, 1;")
    if base in ("addc", "madc"):
        before.append("setp.lt.s32 %flag, %t, 64; selp.b32 %word, 1, -1, %flag; add.cc.u32 %word, %word, 1;")
    if base == "subc":  # code of ptxas takes the carry of a sum for the absence of a borrow
        before.append("setp.lt.s32 %flag, %t, 64; selp.b32 %word, 1, 0, %flag; sub.cc.u32 %word, %word, 1;")
    if memory:
        words = (
            f"ld.global.b64 %low, [%in+{8 * THREADS * k}]; st.shared.b64 [%r8+{8 * k}], %low; st.global.b64 [%rd8+{8 * k}], %low;"
            for k in range(8)
        )
        before += [_PLACE, *words]
    if ".nc." in line:  # of bytes that nobody writes
        before.append("mad.wide.u32 %rd8, %t, 64, %a0;")
    first = 40 * number
    after = [_store(name, first + 2 * k) for k, name in enumerate(places)]
    if memory:
        after.append(
            f"mad.wide.u32 %rd7, %t, 64, %a3; add.u64 %rd7, %rd7, {64 * THREADS * 2 * number};\n{_DUMP}"
        )
        after.append(
            f"add.u64 %rd7, %rd7, {64 * THREADS};\n{_DUMP.replace('ld.shared.b64 %low, [%r8', 'ld.global.b64 %low, [%rd8')}"
        )
    return "\n".join([*before, line, *after])


def kernel(row: Row, pattern: Pattern) -> str | None:
    """The text that executes a form; None where no spelling has operands, or no target here has the form."""
    target = next((t for t in TARGETS if all(t.meets(need) for need in pattern.requires)), None)
    found = lines(row, pattern)
    if target is None or not found:
        return None
    memory = row.base in MEMORY
    body = [_OWN, _BYTES if memory else "", *(_one(line, k, memory) for k, line in enumerate(found))]
    text = kernel_text(
        "\n".join(body), [False] * 4, f".shared .align 64 .b8 bytes[{64 * THREADS}];" if memory else ""
    )
    text = text.replace(HEADER, HEADER.replace("sm_100a", f"sm_{target.number}{target.suffix}"))
    return text.replace("%fd<8>", "%fd<40>").replace("%q<4>", "%q<9>")


def inputs(row: Row, pattern: Pattern) -> np.ndarray:
    """Words [SLOTS, THREADS] of a form: edges of every type, and random bits."""
    rng = np.random.default_rng(zlib.crc32(f"{row.base}{pattern.text}".encode()))
    words = rng.integers(0, 1 << 64, (SLOTS, THREADS), dtype=np.uint64)
    small = rng.integers(-40, 41, (SLOTS, THREADS)).view(np.uint64)
    f32 = rng.choice(F32_EDGES.view(np.uint32), (SLOTS, THREADS)).astype(np.uint64)
    with np.errstate(all="ignore"):
        f64 = rng.choice(F32_EDGES, (SLOTS, THREADS)).astype(np.float64).view(np.uint64)
    f16 = rng.choice(
        np.array(
            [0, 0x8000, 1, 0x3FF, 0x400, 0x3C00, 0xBC00, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0x3555], np.uint64
        ),
        (2, SLOTS, THREADS),
    )
    kinds = rng.integers(0, 5, (SLOTS, THREADS))
    return np.choose(
        kinds, [words, small, f32 | (f32 << np.uint64(32)), f64, f16[0] | f16[1] << np.uint64(16)]
    )
