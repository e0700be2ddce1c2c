"""Compares exact products on vectors with those of each element by itself, bit for bit.

`python -m tests.kit.exact_words --words 1e8 --seed 1` draws operands of every kind and class, and prints for
each level of the processor how many words differ.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from tileproof.emulator import _engine
from tileproof.emulator.products import F32
from tileproof.spec.machine import kinds, tensor_core

from tests.kit.mma import DTYPES

LEVELS = ("v2", "v3", "v4")
CLASSES = ("normal", "wide", "bits", "subnormal", "huge", "tiny", "edge", "powers", "largest", "cancelling")
SPECIAL = np.array([0, -0.0, 2.0**-149, -(2.0**-127), np.inf, -np.inf, np.nan, 2.0**127, 2.0**-101, 2.0**120])
ROWS, COLUMNS = 12, 252  # a rest of every width


@dataclass(frozen=True)
class Kind:
    """Element types of an instruction and of its accumulator."""

    format: str
    a: str
    b: str
    half: bool = False
    scale: str = ""

    @property
    def emin(self) -> dict[str, int]:
        scale = tensor_core.UE4M3_EMIN if self.scale == "ue4m3" else tensor_core.UE8M0_EMIN
        return {"a_emin": kinds.EMIN[self.a], "b_emin": kinds.EMIN[self.b], "scale_emin": scale}


@dataclass(frozen=True)
class Words:
    """Operands: c [m, n], a [m, k], b [k, n], scale factors [m, s] and [s, n]."""

    kind: Kind
    c: F32
    a: F32
    b: F32
    scale_a: F32
    scale_b: F32


KINDS = (
    Kind("f16", "bf16", "bf16"),
    Kind("f16", "f16", "f16"),
    Kind("f16", "f16", "bf16"),
    Kind("f16", "f16", "f16", half=True),
    Kind("tf32", "tf32", "tf32"),
    Kind("f8f6f4", "e4m3", "e4m3"),
    Kind("f8f6f4", "e5m2", "e3m2"),
    Kind("f8f6f4", "e2m3", "e2m1"),
    Kind("f8f6f4", "e5m2", "e4m3", half=True),
    Kind("mxf8f6f4", "e4m3", "e5m2", scale="ue8m0"),
    Kind("mxf8f6f4", "e2m3", "e2m1", scale="ue8m0"),
    Kind("mxf4", "e2m1", "e2m1", scale="ue8m0"),
    Kind("mxf4nvf4.4X", "e2m1", "e2m1", scale="ue4m3"),
)


def typed(x: np.ndarray, type_: str) -> F32:
    """Return x in the values of a type."""
    if type_ == "tf32":
        return np.asarray((x.astype(np.float32).view(np.uint32) & ~np.uint32(0x1FFF)).view(np.float32))
    with np.errstate(all="ignore"):
        return np.asarray(x.astype(DTYPES[type_]).astype(np.float32))


def _values(rng: np.random.Generator, class_: str, type_: str, shape: tuple[int, ...]) -> F32:
    emin, bits = kinds.EMIN[type_], kinds.BITS[type_]
    normal = rng.standard_normal(shape)
    sign = rng.choice((-1.0, 1.0), shape)
    reach = 127 if emin == -126 else -emin
    if class_ == "wide":
        return typed(normal * np.exp2(rng.integers(-reach // 2, reach // 2 + 1, shape)), type_)
    if class_ == "bits":
        codes = rng.integers(0, 1 << bits, shape, dtype=np.uint32)
        if type_ == "tf32":
            return typed(codes.view(np.float32), type_)
        code = codes.astype(np.uint16 if bits == 16 else np.uint8)
        return np.asarray(code.view(DTYPES[type_]).astype(np.float32))
    if class_ == "subnormal":
        return typed(sign * rng.random(shape) * 2.0 ** (emin + 1), type_)
    if class_ in ("huge", "tiny", "edge"):  # exponents of products about 127, -149, and where the loops stop
        about = {"huge": 63, "tiny": -74, "edge": 60 if rng.random() < 0.5 else -50}[class_]
        about = max(min(about, reach), emin)
        return typed(normal * np.exp2(about + rng.integers(-3, 4, shape).astype(np.float64)), type_)
    if class_ == "powers":  # ties, and addends that decide a tie
        reach = min(reach // 2, 30)
        powers = np.exp2(rng.integers(-reach, reach // 3 + 1, shape).astype(np.float64))
        return typed(np.where(rng.random(shape) < 0.6, 0.0, sign * powers), type_)
    if class_ == "largest":  # sums near 2^31 places
        return typed(
            np.where(rng.random() < 0.5, 1.0, sign) * (2 - 2.0**-7 * rng.integers(0, 3, shape)), type_
        )
    return typed(normal, type_)


def _scales(rng: np.random.Generator, type_: str, shape: tuple[int, ...]) -> F32:
    if rng.random() < 0.3:  # any code
        code = rng.integers(0, 128 if type_ == "ue4m3" else 256, shape).astype(np.uint8)
        return np.asarray(code.view(DTYPES[type_]).astype(np.float32))
    return typed(np.exp2(rng.integers(-5, 6, shape).astype(np.float64)), type_)


def _accumulators(rng: np.random.Generator, a: F32, b: F32, class_: str) -> F32:
    """Return about minus the sum of the products, and values from far below to above it."""
    with np.errstate(all="ignore"):
        total, size = a @ b, np.abs(a) @ np.abs(b)
        near = -total * np.exp2(rng.choice((0, 0, 1, -1, 8, -20, 24), total.shape))
        spread = rng.standard_normal(total.shape) * size * np.exp2(rng.integers(-30, 8, total.shape))
        c = np.where(rng.random(total.shape) < 0.5, near, spread)
        if class_ == "powers":
            c = np.copysign(np.exp2(np.floor(np.log2(np.abs(c)))), c)
        c = np.where(rng.random(total.shape) < 0.1, 0.0, c)
        columns = rng.random(COLUMNS) < 0.02
        special = rng.choice(SPECIAL, total.shape)
        return np.where(columns & (rng.random(total.shape) < 0.5), special, c).astype(np.float32)


def draw(rng: np.random.Generator, kind: Kind, class_: str) -> Words:
    """Return operands of a class."""
    form = kinds.format_of(kind.format)
    other = rng.choice(CLASSES) if rng.random() < 0.3 else class_
    a = _values(rng, class_, kind.a, (ROWS, form.k))
    b = _values(rng, str(other), kind.b, (form.k, COLUMNS))
    if class_ == "cancelling":  # the second half of k takes off what the first adds, but for a few
        half = form.k // 2
        a[:, half:] = a[:, :half]
        b[half:] = np.where(rng.random((half, COLUMNS)) < 0.1, b[half:], -b[:half])
    c = _accumulators(rng, a, b, class_)
    if kind.half:
        c = typed(c, "f16")
    s_a, s_b = (
        _scales(rng, kind.scale, shape) if kind.scale else np.full(shape, 1, np.float32)
        for shape in ((ROWS, form.scales), (form.scales, COLUMNS))
    )
    return Words(kind, c, a, np.ascontiguousarray(b), s_a, s_b)


def result(of: Words, level: str, *, carefully: bool, **emin: int) -> tuple[np.ndarray, int] | None:
    """Bits of the sums, and how many were computed singly; None where the processor lacks the level.

    emin: exponents instead of the kind's.
    """
    c = of.c.copy()
    of_kind = {**of.kind.emin, **emin}
    singly = _engine.product_exact(
        level,
        c,
        of.a,
        of.b,
        a_emin=of_kind["a_emin"],
        b_emin=of_kind["b_emin"],
        half=of.kind.half,
        scale_a=of.scale_a,
        scale_b=of.scale_b,
        scale_emin=of_kind["scale_emin"],
        carefully=carefully,
    )
    if singly is None:
        return None
    with np.errstate(all="ignore"):
        return (c.astype(np.float16).view(np.uint16) if of.kind.half else c.view(np.uint32)), singly


def drawn(seed: int, count: float) -> Iterator[Words]:
    """At least `count` words, of all kinds and classes in turn."""
    rng, got = np.random.default_rng(seed), 0
    while got < count:
        for kind in KINDS:
            for class_ in CLASSES:
                words = draw(rng, kind, class_)
                got += words.c.size
                yield words


def main() -> None:
    """Prints the count of a level, and fails where a word differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--words", type=float, default=1e8, help="words at each level")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    total, differ = 0, dict.fromkeys(LEVELS, 0)
    singly, seconds = dict.fromkeys(LEVELS, 0), dict.fromkeys((*LEVELS, "singly"), 0.0)
    for words in drawn(args.seed, args.words):
        want = timed(words, "v2", True, seconds, "singly")
        assert want is not None
        total += want[0].size
        for level in LEVELS:
            got = timed(words, level, False, seconds, level)
            if got is None:
                differ.pop(level, None)
                continue
            singly[level] += got[1]
            wrong = got[0] != want[0]
            if wrong.any() and not differ[level]:
                at = tuple(np.argwhere(wrong)[0])
                print(f"{level}, {words.kind}: word {at} is {got[0][at]:#x}, not {want[0][at]:#x}")
            differ[level] += int(wrong.sum())
    for level, bad in differ.items():
        share = 100 * singly[level] / total
        print(
            f"x86-64-{level}: {bad} of {total} words differ; {share:.0f}% were left to single elements; "
            f"{seconds[level]:.1f} s, single elements {seconds['singly']:.1f} s"
        )
    raise SystemExit(any(differ.values()))


def timed(
    words: Words, level: str, carefully: bool, seconds: dict[str, float], name: str
) -> tuple[np.ndarray, int] | None:
    """`result`, its processor time added to `seconds`."""
    start = time.process_time()
    got = result(words, level, carefully=carefully)
    seconds[name] += time.process_time() - start
    return got


if __name__ == "__main__":
    main()
