# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Cases of the fuzzer: each draws bytes from a seed, launches a kernel on them, and ends in findings or an error."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tileproof.emulator import Memory, Schedule, SmemRegion, Stream, Tap, TmemRegion
from tileproof.spec.machine.errors import TileproofError

from tests.kit.ptx import kernel_text, parsed

Case = Callable[[random.Random], None]
CASES: dict[str, Case] = {}

# Values at which decoding changes: sizes, windows, descriptors, limits of types.
HOT = [
    0, 1, 2, 7, 8, 15, 16, 31, 32, 33, 63, 64, 127, 128, 255, 256, 511, 512, 1023, 1024, 1040, 2047, 2048, 2064, 4096, 8192, 0x3FFF, 0x4000, 0x7FFF, 0xFFFF, 0x10000, 0x100000,
    0xFFFFF, 0x1000400, 0x1000800, 0x7FFFFFFF, 0x80000000, 0xFFFFFFF0, 0xFFFFFFFF, 0x100000000, 0x700000000400, 0x700001000400, 0x710000000000, 0x72000000_0000, 0x72000000_0040,
    0x100000000000, 0x100000100000, 1 << 46, 1 << 57, 0x4000404000010400, 0x4000404000010480, 0x08200490, 0x04100490, 0x10400490, 0x30434C43, 0x31434C43,
    0x7F800000, 0xFF800000, 0x7FC00000, 0x7FF0000000000000, 0x8000000000000000, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFF0, 0xFFFFFFFFFFFFFFFF,
]  # fmt: skip
LIMITS: dict[str, Any] = {"livelock_limit": 3000, "instruction_limit": 100_000, "seconds_limit": 5.0}


def case(made: Case) -> Case:
    """Add a case, by its name."""
    CASES[made.__name__] = made
    return made


def value(rng: random.Random, bits: int = 64) -> int:
    """A hot value, sometimes with a bit flipped or something near it, or any value."""
    v = rng.choice(HOT) if rng.random() < 0.8 else rng.getrandbits(64)
    if rng.random() < 0.2:
        v ^= 1 << rng.randrange(64)
    if rng.random() < 0.1:
        v += rng.choice((-16, -8, -1, 1, 8, 16))
    return v & ((1 << bits) - 1)


def flipped(rng: random.Random, word: int, bits: int) -> int:
    """The word with none to three of its bits flipped."""
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        word ^= 1 << rng.randrange(bits)
    return word


def summed(data: bytes) -> bytes:
    """A tensor map with the sum that its first 120 bytes have."""
    total = 2166136261
    for byte in data[:120]:
        total = (total ^ byte) * 16777619 & 0xFFFFFFFF
    return data[:120] + struct.pack("<I", total) + data[124:]


def schedule(rng: random.Random) -> Schedule:
    """Any policy."""
    policy = rng.choice(("early", "early", "late", "late-newest", "late-random", "random", "starve", "pct"))
    return Schedule(policy, rng.getrandbits(16))  # type: ignore[arg-type]


def launched(
    rng: random.Random, body: str, args: Sequence[Any], memory: Memory, module: str = "", **how: Any
) -> None:
    """Run the body as a kernel; errors of this package are an answer."""
    maps = [isinstance(arg, bytes) for arg in args]
    options: dict[str, Any] = {"threads": 32, "cluster": 1, "shared_bytes": 8192, "target": "sm_100a"} | how
    threads, cluster, target = (options.pop(name) for name in ("threads", "cluster", "target"))
    options |= {
        "grid": (cluster * rng.choice((1, 1, 1, 3)),), "block": (threads,), "cluster": (cluster,), "args": list(args), "schedule": schedule(rng),
        "races": rng.random() < 0.3, "strict": rng.random() < 0.1, "trace": rng.random() < 0.1, "path": rng.random() < 0.5,
        "mma": rng.choice(("fast", "exact")), "taps": _taps(rng) if rng.random() < 0.2 else (),
    }  # fmt: skip
    if options["schedule"].policy != "early" and rng.random() < 0.1:
        options["record"] = rng.choice(("late", "early", "late-newest"))
    module_ = parsed(kernel_text(body, maps, module).replace("sm_100a", target, 1))
    try:
        if rng.random() < 0.9:
            result = module_.launch("k", memory=memory, **LIMITS, **options)
        else:  # again, in a stream beside it and over it
            stream, other = Stream(memory), Stream(memory)
            first = stream.launch(module_, "k", **LIMITS, **options)
            assert first and stream.last
            result = other.launch(module_, "k", unordered=[stream.last], **LIMITS, **options)
            stream.launch(module_, "k", programmatic=True, **LIMITS, **options)
    except TileproofError as error:
        assert error.what
        return
    assert all(f.severity in ("error", "warning", "note") and f.message for f in result.findings)
    assert len(result.printf) <= 1 << 20


def _taps(rng: random.Random) -> list[Tap]:
    """Captures at the mbarrier that most cases have, of anything that a launch takes."""
    column, offset = rng.choice((0, 1, 500, 511)), rng.choice((-1024, 0, 8192, 200_000))
    regions = (
        TmemRegion(column, rng.randint(1, 512 - column)),
        SmemRegion(offset, rng.choice((1, 4096, 30_000))),
    )
    return [Tap("t", 0, regions[0]), Tap("s", 0, regions[1])]


def words(memory: Memory, values: Sequence[int]) -> Any:
    """A buffer of 64-bit words."""
    return memory.buffer(np.array(values, np.uint64))
