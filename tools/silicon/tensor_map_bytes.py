"""The 128 bytes that NVIDIA's driver writes for arguments of cuTensorMapEncode*, in a table.

    python tools/silicon/tensor_map_bytes.py TABLE.jsonl.xz     # needs libcuda.so.1 alone

Each row of a table is the arguments of one call, enumerations as numbers, then CUresult and the bytes in
hexadecimal. The first part varies one argument at a time; "random" rows vary all at once, and serve to check
what is read from the first. The same calls are made before cuInit, without a context and in one; the table
holds those in a context, and how many of the others differ from them.
"""

from __future__ import annotations

import ctypes
import json
import lzma
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence

from tileproof.spec.machine.types import Json, UncheckedObject

ELEMENT_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)  # of CUtensorMapDataType up to TFLOAT32_FTZ
SPANS = (0, 32, 64, 128, 128, 128, 128)  # of CUtensorMapSwizzle; 0: any
ADDRESS = 0x7F1234560000

Call = UncheckedObject


def tiled(**changed: Json) -> Call:
    """The arguments of cuTensorMapEncodeTiled: three dimensions of 16-bit floats, or as changed."""
    return {
        "kind": "tiled", "type": 6, "address": ADDRESS, "dims": [512, 300, 77], "strides": [1024, 1024 * 300],
        "box": [64, 8, 4], "steps": [1, 1, 1], "interleave": 0, "swizzle": 0, "l2": 0, "fill": 0,
    } | changed  # fmt: skip


def im2col(**changed: Json) -> Call:
    """The arguments of cuTensorMapEncodeIm2col: images of two dimensions, or as changed."""
    return {
        "kind": "im2col", "type": 6, "address": ADDRESS, "dims": [64, 32, 28, 6],
        "strides": [128, 128 * 32, 128 * 32 * 28], "lower": [-1, -2], "upper": [-3, 2], "channels": 64,
        "pixels": 128, "steps": [1, 1, 1, 1], "interleave": 0, "swizzle": 0, "l2": 0, "fill": 0,
    } | changed  # fmt: skip


def of_rank(rank: int, **changed: Json) -> Call:
    """A tiled call of that rank with extents that differ in each dimension."""
    dims = [512, 300, 77, 19, 5][:rank]
    strides, at = [], 1024
    for extent in dims[1:]:
        strides.append(at)
        at *= extent
    return tiled(dims=dims, strides=strides, box=[64, 8, 4, 2, 1][:rank], steps=[1] * rank) | changed


def image_of_rank(rank: int, **changed: Json) -> Call:
    """An im2col call of that rank."""
    dims = [*[64, 32, 28, 12, 6][: rank - 1], 6]
    strides, at = [], 128
    for extent in dims[1:]:
        strides.append(at)
        at *= extent
    return (
        im2col(dims=dims, strides=strides, steps=[1] * rank)
        | {"lower": [-1, -2, -3][: rank - 2], "upper": [-3, 2, 1][: rank - 2]}
        | changed
    )


def put(values: Sequence[int], at: int, value: int) -> list[int]:
    """The list with one of its values changed."""
    return [*values[:at], value, *values[at + 1 :]]


def one_at_a_time() -> Iterator[tuple[str, Call]]:
    """Calls that vary one argument, also past what the driver takes."""
    for part in (_types_and_addresses, _extents, _layouts, _images, _image_layouts):
        yield from part()


def _types_and_addresses() -> Iterator[tuple[str, Call]]:
    for kind in range(18):
        for fill in (0, 1):
            yield "type", tiled(type=kind, box=[128, 2, 1], dims=[1024, 300, 77], fill=fill)
            yield "type im2col", im2col(type=kind, channels=128, dims=[128, 32, 28, 6], fill=fill)
    for rank in range(1, 6):
        yield "rank", of_rank(rank)
        for bit in range(0, 64, 1 if rank == 2 else 7):
            yield "address", of_rank(rank, address=1 << bit)
    for bit in range(4, 57):
        yield "address", tiled(address=ADDRESS ^ 1 << bit)
    yield "address", tiled(address=0)


def _extents() -> Iterator[tuple[str, Call]]:
    base = of_rank(5, type=0, box=[64, 2, 1, 1, 1])
    for at in range(5):
        for extent in sorted({(1 << n) + d for n in range(34) for d in (-1, 0, 1)}):
            if extent >= 0:
                yield "dims", base | {"dims": put(base["dims"], at, extent)}
    for at in range(4):
        for bit in range(42):
            yield "strides", base | {"strides": put([1 << 30] * 4, at, 1 << bit)}
        for stride in (0, 48, 1000, (1 << 40) - 16, 0xF0F0F0F0F0):
            yield "strides", base | {"strides": put(base["strides"], at, stride)}
    for at in range(5):
        for extent in range(260):
            yield "box", of_rank(5, type=0, box=put([16, 1, 1, 1, 1], at, extent))
    for extents in ([256, 256, 256], [256, 256, 4], [256, 128, 8], [256, 256, 1], [64, 256, 256]):
        yield "box", tiled(type=0, box=extents)
    for at in range(5):
        for step in range(10):
            yield "steps", of_rank(5, steps=put([1] * 5, at, step))


def _layouts() -> Iterator[tuple[str, Call]]:
    for rank in range(1, 6):
        for interleave in range(4):
            for swizzle in range(8):
                yield "interleave", of_rank(rank, interleave=interleave, swizzle=swizzle)
    for swizzle in range(9):
        for row in (8, 16, 32, 48, 64, 128, 256):
            yield "swizzle", tiled(type=0, box=[row, 8, 4], swizzle=swizzle)
            for kind in (13, 14, 15):
                yield "swizzle", tiled(type=kind, dims=[1024, 8, 4], box=[row, 8, 4], swizzle=swizzle)
    for l2 in range(5):
        yield "l2", tiled(l2=l2)
        yield "l2", im2col(l2=l2)
    for fill in range(3):
        yield "fill", tiled(fill=fill)
        yield "fill", im2col(fill=fill)


def _images() -> Iterator[tuple[str, Call]]:
    for rank in (3, 4, 5):
        yield "rank im2col", image_of_rank(rank)
        yield from _corners(rank)
        for at in range(rank):
            for step in range(10):
                yield "steps im2col", image_of_rank(rank, steps=put([1] * rank, at, step))


def _corners(rank: int) -> Iterator[tuple[str, Call]]:
    largest = {3: 1 << 15, 4: 1 << 7, 5: 1 << 4}[rank]
    plain = {"lower": [0] * (rank - 2), "upper": [0] * (rank - 2)}
    wide = 1 << (17 if rank == 3 else 8)
    strides = [128 * wide**n for n in range(rank - 1)]
    call = image_of_rank(rank, dims=[64, *[wide] * (rank - 2), 6], strides=strides) | plain
    values = sorted({s * (1 << n) + d for n in range(17) for s in (-1, 1) for d in (-1, 0)})
    for name in ("lower", "upper"):
        for at in range(rank - 2):
            for corner in values:
                if -largest - 2 <= corner <= largest + 2:
                    yield f"{name} im2col", call | {name: put(plain[name], at, corner)}


def _image_layouts() -> Iterator[tuple[str, Call]]:
    for channels in range(260):
        yield "channels im2col", im2col(type=0, channels=channels, dims=[512, 32, 28, 6])
    for pixels in sorted({(1 << n) + d for n in range(12) for d in (-1, 0, 1)}):
        yield "pixels im2col", im2col(pixels=pixels)
    for interleave in range(4):
        for swizzle in range(8):
            yield "interleave im2col", im2col(interleave=interleave, swizzle=swizzle)
    for mode in (0, 1):
        for swizzle in range(7):
            yield "wide", im2col(kind="wide", lower=[-1], upper=[-3], mode=mode, swizzle=swizzle)


def any_call(draw: random.Random) -> Call:
    """Arguments drawn all at once; mostly such that the driver takes them."""
    image = draw.random() < 0.3
    rank = draw.randint(3 if image else 1, 5)
    kind = draw.randrange(13) if draw.random() < 0.85 else draw.randrange(16)
    swizzle = draw.choice((0, 0, 1, 2, 3, 3, 4, 5, 6))
    interleave = draw.choice((0,) * 8 + (1, 2)) if rank >= 3 else 0
    strides = [16 * draw.randrange(1, 1 << draw.randint(1, 36)) for _ in range(rank - 1)]
    dims = [draw.randint(1, 1 << draw.randint(1, 32)) for _ in range(rank)]
    if kind > 12:
        dims[0] = 128 * draw.randint(1, 1 << 20)
        strides = [2 * stride % (1 << 40) for stride in strides]
        unit, limit = (32, 256) if kind == 13 else (128, 128)
    else:
        unit = max(16 // ELEMENT_BYTES[kind], 1)
        limit = min(256, SPANS[swizzle] // ELEMENT_BYTES[kind] or 256)
    inner = unit * draw.randint(1, max(limit // unit, 1))
    common = {
        "type": kind, "address": 32 * draw.randrange(1, 1 << 42), "dims": dims,
        "strides": strides if interleave < 2 else [2 * stride % (1 << 40) for stride in strides],
        "steps": [draw.randint(1, 8) for _ in range(rank)], "interleave": interleave, "swizzle": swizzle,
        "l2": draw.randrange(4), "fill": int(draw.random() < 0.2),
    }  # fmt: skip
    if image:
        limit = {3: 1 << 15, 4: 1 << 7, 5: 1 << 4}[rank]
        corners = {
            name: [draw.randint(-limit, limit - 1) for _ in range(rank - 2)] for name in ("lower", "upper")
        }
        return im2col(**common, **corners, channels=inner, pixels=draw.randint(1, 1024))
    box = [inner, *(draw.randint(1, 1 << draw.randint(0, 8)) for _ in range(rank - 1))]
    return tiled(**common, box=box)


def calls() -> Iterator[tuple[str, Call]]:
    """All calls with the group of each; the same on every machine."""
    yield from one_at_a_time()
    draw = random.Random(20261122)
    for _ in range(2500):
        yield "random", any_call(draw)


def encoded(library: ctypes.CDLL, call: Call) -> tuple[int, str]:
    """CUresult of the call and the bytes that it left, which begin as 0xA5."""

    def row(name: str, kind: type[ctypes._SimpleCData[int]]) -> ctypes.Array[ctypes._SimpleCData[int]]:
        return (kind * len(call[name]))(*call[name])

    out = ctypes.create_string_buffer(b"\xa5" * 256, 256)
    start = -ctypes.addressof(out) % 128
    place = ctypes.c_void_p(ctypes.addressof(out) + start)
    head = (
        place, ctypes.c_uint(call["type"]), ctypes.c_uint(len(call["dims"])),
        ctypes.c_void_p(call["address"]), row("dims", ctypes.c_uint64), row("strides", ctypes.c_uint64),
    )  # fmt: skip
    steps = row("steps", ctypes.c_uint32)
    tail = tuple(ctypes.c_uint(call[name]) for name in ("swizzle", "l2", "fill"))
    interleave = ctypes.c_uint(call["interleave"])
    if call["kind"] == "tiled":
        code = library.cuTensorMapEncodeTiled(*head, row("box", ctypes.c_uint32), steps, interleave, *tail)
    else:
        pixels = (ctypes.c_uint(call["channels"]), ctypes.c_uint(call["pixels"]), steps, interleave)
        if call["kind"] == "im2col":
            corners = (row("lower", ctypes.c_int), row("upper", ctypes.c_int))
            code = library.cuTensorMapEncodeIm2col(*head, *corners, *pixels, *tail)
        else:
            ends = (ctypes.c_int(call["lower"][0]), ctypes.c_int(call["upper"][0]))
            mode = ctypes.c_uint(call["mode"])
            code = library.cuTensorMapEncodeIm2colWide(*head, *ends, *pixels, mode, *tail)
    return int(code), out.raw[start : start + 128].hex()


def main() -> None:
    """Writes the table."""
    library = ctypes.CDLL("libcuda.so.1")
    work = list(calls())
    if sys.argv[1] == "-":
        print(json.dumps([encoded(library, call) for _, call in work]))
        return
    assert library.cuInit(0) == 0
    without = [encoded(library, call) for _, call in work]
    device, context, version = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
    assert library.cuDeviceGet(ctypes.byref(device), 0) == 0
    assert library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
    assert library.cuCtxSetCurrent(context) == 0
    library.cuDriverGetVersion(ctypes.byref(version))
    name = ctypes.create_string_buffer(128)
    library.cuDeviceGetName(name, 128, device)
    inside = [encoded(library, call) for _, call in work]
    fresh = subprocess.run([sys.executable, __file__, "-"], capture_output=True, text=True, check=False)
    before = [(code, raw) for code, raw in json.loads(fresh.stdout or "[]")]
    differ = {
        "before cuInit": sum(a != b for a, b in zip(before, inside, strict=False)) if before else "no answer",
        "without a context": sum(a != b for a, b in zip(without, inside, strict=True)),
    }
    rows = [
        {"group": group} | call | {"result": code, "bytes": raw if code == 0 else ""}
        for (group, call), (code, raw) in zip(work, inside, strict=True)
    ]
    table = {
        "device": name.value.decode(), "driver api": version.value, "differ from the table": differ,
        "results before cuInit": sorted({code for code, _ in before}), "rows": len(rows),
    }  # fmt: skip
    with lzma.open(sys.argv[1], "wt", preset=9) as out:
        out.write(json.dumps(table) + "\n")
        for line in rows:
            out.write(json.dumps(line) + "\n")
    print(table, {code: sum(c == code for c, _ in inside) for code in {c for c, _ in inside}})


if __name__ == "__main__":
    main()
