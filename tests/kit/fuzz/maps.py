# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Tensor maps whose bytes are drawn: legal maps, forged maps, and what tensormap.replace makes."""

from __future__ import annotations

import random
import struct
from typing import Any

import numpy as np
from tileproof.emulator import Memory, TensorMap

from tests.kit.fuzz.case import case, launched, summed, value, words
from tests.kit.ptx import init_barrier

_BAR, _TILE = 1024, 2048
_DONE = "mbarrier::complete_tx::bytes"
_PLACES = [(8, "Q"), *[(at, "B") for at in range(16, 24)], *[(at, "I") for at in range(24, 48, 4)], *[(at, "Q") for at in range(48, 80, 8)],
           *[(at, "H") for at in range(80, 90, 2)], *[(at, "B") for at in range(90, 96)], *[(at, "H") for at in range(96, 120, 2)], (124, "I")]  # fmt: skip
_TYPES = ("uint8", "uint16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64", "bfloat16", "float32_ftz", "tfloat32", "tfloat32_ftz",
          "16u4_align8b", "16u4_align16b", "16u6_align16b")  # fmt: skip
_SWIZZLES = ("none", "none", "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B")


def drawn_map(rng: random.Random, address: int, rank: int, im2col: bool) -> bytes:
    """A small map over a buffer; mostly legal."""
    dtype = rng.choice(_TYPES)
    packed = dtype.startswith("16u")
    inner = 128 if packed else rng.choice((16, 16, 32, 64, 8, 4))
    box = (inner, rng.randint(1, 40)) if im2col else (inner, *(rng.randint(1, 4) for _ in range(rank - 1)))
    corners = [tuple(rng.randint(-3, 3) for _ in range(rank - 2)) if im2col else () for _ in range(2)]
    return TensorMap(
        address=address + rng.choice((0, 0, 0, 32, 96)),
        dtype=dtype,
        shape=(128 * rng.randint(1, 2) if packed else rng.choice((64, 61, 16, 7)), *(rng.randint(1, 8) for _ in range(rank - 1))),
        strides=tuple(rng.choice((64, 128, 512, 2048)) for _ in range(rank - 1)),
        box=box,
        element_strides=tuple(rng.choice((1, 1, 1, 2, 3, 8)) for _ in range(rank)),
        swizzle=rng.choice(_SWIZZLES),
        oob_fill="nan" if dtype in ("float16", "float32", "bfloat16") and rng.random() < 0.5 else "zero",
        lower=corners[0],
        upper=corners[1],
    ).encode()  # fmt: skip


def forged(rng: random.Random, data: bytes) -> bytes:
    """With some fields changed, mostly under a sum that fits."""
    out = bytearray(data)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 4))):
        at, code = rng.choice(_PLACES)
        size = struct.calcsize(code)
        old = int.from_bytes(out[at : at + size], "little")
        new = rng.choice(
            (
                value(rng, 8 * size),
                old ^ 1 << rng.randrange(8 * size),
                (old + rng.choice((-1, 1))) % (1 << 8 * size),
            )
        )
        out[at : at + size] = new.to_bytes(size, "little")
    return summed(bytes(out)) if rng.random() < 0.95 else bytes(out)


def _line(rng: random.Random, rank: int, where: str) -> tuple[str, bool]:
    """A tensor copy through the map at `where`, and whether it is an im2col copy."""
    coordinates = "{" + ", ".join(f"%r{10 + k}" for k in range(rank)) + "}"
    kinds = ["load", "load", "store", "reduce", "prefetch"]
    kinds += ["gather4", "scatter4"] if rank == 2 else ["im2col", "im2col"] if rank >= 3 else []
    kind = rng.choice(kinds)
    space = rng.choice(("shared::cta", "shared::cluster"))
    if kind == "load":
        return (
            f"cp.async.bulk.tensor.{rank}d.{space}.global.{_DONE} [%r20], [{where}, {coordinates}], [%r21];",
            False,
        )
    if kind == "im2col":
        offsets = "{" + ", ".join(f"%h{2 + k}" for k in range(rank - 2)) + "}"
        return (
            f"cp.async.bulk.tensor.{rank}d.{space}.global.im2col.{_DONE} [%r20], [{where}, {coordinates}], [%r21], {offsets};",
            True,
        )
    if kind == "prefetch":
        return f"cp.async.bulk.prefetch.tensor.{rank}d.L2.global [{where}, {coordinates}];", False
    five = "{%r10, %r11, %r12, %r13, %r14}"
    if kind == "gather4":
        return (
            f"cp.async.bulk.tensor.2d.{space}.global.tile::gather4.{_DONE} [%r20], [{where}, {five}], [%r21];",
            False,
        )
    if kind == "scatter4":
        return (
            f"cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [{where}, {five}], [%r20];",
            False,
        )
    if kind == "store":
        return (
            f"cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [{where}, {coordinates}], [%r20];",
            False,
        )
    op = rng.choice(("add", "min", "max", "inc", "dec", "and", "or", "xor"))
    return (
        f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{op}.bulk_group [{where}, {coordinates}], [%r20];",
        False,
    )


_LOADED = """
    ld.global.b32 %r10, [%a1]; ld.global.b32 %r11, [%a1+8]; ld.global.b32 %r12, [%a1+16]; ld.global.b32 %r13, [%a1+24]; ld.global.b32 %r14, [%a1+32];
    ld.global.b32 %r20, [%a1+40]; ld.global.b32 %r21, [%a1+48]; ld.global.b16 %h2, [%a1+56]; ld.global.b16 %h3, [%a1+64]; ld.global.b16 %h4, [%a1+72];"""
_FILLED = "mad.lo.u32 %r1, %t, 128, 2048; mov.u32 %r2, 8; F: st.shared.v4.b32 [%r1], {%r2, %r2, %t, %t}; add.u32 %r1, %r1, 16; sub.u32 %r2, %r2, 1; setp.ne.u32 %p2, %r2, 0; @%p2 bra F;"
_AFTER = "@%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group 0;"


def _operands(rng: random.Random) -> list[int]:
    near = [
        rng.choice((0, 0, 0, 16, 32, 64, 128, rng.randint(-40, 80), value(rng, 32))) & 0xFFFFFFFF
        for _ in range(5)
    ]
    place = [
        rng.choice((_TILE, _TILE, _TILE + 128, 8192, 9000, 9088, value(rng, 32))),
        rng.choice((_BAR, _BAR, _BAR, value(rng, 32))),
    ]
    return [*near, *place, *(rng.choice((0, 1, value(rng, 16))) for _ in range(3))]


def _memory(rng: random.Random) -> tuple[Memory, Any]:
    memory = Memory()
    return memory, memory.buffer(
        np.full(4096, rng.getrandbits(32), np.uint32), "data"
    ) if rng.random() < 0.8 else memory.empty(4096, np.uint32)


@case
def copies(rng: random.Random) -> None:
    """A tensor copy through drawn bytes, in global memory, in a parameter or in a struct of them."""
    rank = rng.randint(1, 5)
    in_memory = rng.random() < 0.6
    memory, data = _memory(rng)
    line, im2col = _line(rng, rank, "%a0")
    encoded = forged(
        rng,
        drawn_map(
            rng, data.address, rank if rng.random() < 0.97 else rng.randint(3, 5), im2col and rank >= 3
        ),
    )
    own: Any = memory.buffer(np.frombuffer(encoded, np.uint8).copy()) if in_memory else encoded
    body = f"{init_barrier(_BAR)} {_LOADED} {_FILLED if rng.random() < 0.5 else ''} bar.sync 0; @%p0 {line} {_AFTER}"
    launched(rng, body, [own, words(memory, _operands(rng))], memory)


_FIELDS = ("global_address", "rank", "box_dim", "global_dim", "global_stride", "element_stride")
_LITERALS = {
    "elemtype": 18,
    "interleave_layout": 4,
    "swizzle_mode": 6,
    "swizzle_atomicity": 6,
    "fill_mode": 4,
}


@case
def replaced(rng: random.Random) -> None:
    """tensormap.replace of drawn fields by drawn values, in global or shared memory; then a copy through the map."""
    rank, shared = rng.randint(1, 3), rng.random() < 0.3
    memory, data = _memory(rng)
    at, space = ("1152", "shared::cta") if shared else ("%a0", rng.choice(("global", "global", "")))
    lines = []
    for k in range(rng.randint(1, 3)):
        if rng.random() < 0.6:
            field = rng.choice(_FIELDS)
            wide = field in ("global_address", "global_stride")
            ordinal = f"{rng.randrange(4)}, " if field not in ("global_address", "rank") else ""
            lines.append(
                f"tensormap.replace.tile.{field}{'.' * bool(space)}{space}.b1024.b{64 if wide else 32} [{at}], {ordinal}{f'%rd{10 + k}' if wide else f'%r{30 + k}'};"
            )
        else:
            field = rng.choice(list(_LITERALS))
            lines.append(
                f"tensormap.replace.tile.{field}{'.' * bool(space)}{space}.b1024.b32 [{at}], {rng.randrange(_LITERALS[field])};"
            )
    values = " ".join(
        f"ld.global.b64 %rd{10 + k}, [%a1+{80 + 8 * k}]; cvt.u32.u64 %r{30 + k}, %rd{10 + k};"
        for k in range(3)
    )
    copied = (
        "mad.lo.u32 %r1, %t, 4, 1152; mad.wide.u32 %rd1, %t, 4, %a0; ld.global.b32 %r2, [%rd1]; st.shared.b32 [%r1], %r2; bar.sync 0;"
        if shared
        else ""
    )
    back = (
        "bar.warp.sync -1; tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%a0], [1152], 128;"
        if shared
        else ""
    )
    line, im2col = _line(rng, rank, "%a0")
    encoded = bytes(128) if rng.random() < 0.2 else forged(rng, drawn_map(rng, data.address, rank, im2col))
    own = memory.buffer(np.frombuffer(encoded, np.uint8).copy())
    body = (
        f"{init_barrier(_BAR)} {_LOADED} {values} {copied} "
        + " ".join(f"@%p0 {line}" for line in lines)
        + f" {back} bar.sync 0; @%p0 {line} {_AFTER}"
    )
    drawn = [
        rng.choice(
            (value(rng), rng.randint(0, 300), 16 * rng.randint(0, 64), data.address + 16 * rng.randint(0, 9))
        )
        for _ in range(3)
    ]
    launched(rng, body, [own, words(memory, [*_operands(rng), *drawn])], memory)
