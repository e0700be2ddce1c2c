"""Registers per thread at launch, which setmaxnreg redistributes between the warps of a CTA."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from tileproof.emulator.errors import LaunchError

REGISTERS = 65536  # per SM, and therefore per CTA (CUDA C++ Programming Guide, compute capability 10.0)
_UNIT, _MOST = 8, 256  # registers per thread: multiples of 8 (PTX ISA 9.7.19.5)


_INC = re.compile(r"\bsetmaxnreg\.inc\.sync\.aligned\.u32\s+(\w+)")


@lru_cache(maxsize=64)
def largest_request(body: str) -> int:
    """Return the largest count of a `setmaxnreg.inc` in a kernel's PTX, 0 without any."""
    return max((int(found[1], 0) for found in _INC.finditer(body)), default=0)


def launch_registers(
    directives: Mapping[str, tuple[int, ...]], threads: int, entry: str = "", asked: int = 0
) -> int:
    """Return the registers per thread at launch, 0 when no directive fixes them (setmaxnreg then has no
    effect).

    The count is `.maxnreg`, or what `.maxntid` (`.reqntid`) and `.minnctapersm` allow, limited to `asked`,
    the largest count of a setmaxnreg.inc of the kernel. ptxas 13.0 does this (measured with blocks of 128,
    256, 384 and 512 threads; a program with several .inc got its second count, the smaller). LaunchError when
    `threads` threads with this count do not fit into a CTA.
    """
    warps = -(-threads // 32)
    if stated := directives.get("maxnreg"):
        count = -(-stated[0] // _UNIT) * _UNIT
        if 32 * warps * count > REGISTERS:
            raise LaunchError(
                "the block needs more registers than a CTA can have",
                where=entry[:80],
                expected=f"at most {REGISTERS} for all threads",
                found=f"{32 * warps} threads of {count}",
                do="reduce .maxnreg or the block",
            )
        return count
    bound, ctas = directives.get("reqntid") or directives.get("maxntid"), directives.get("minnctapersm")
    if not bound or not ctas:
        return 0
    threads = 1
    for extent in bound:
        threads *= extent
    warps = -(-threads // 32)
    return min(REGISTERS // (32 * warps * max(1, ctas[0])) // _UNIT * _UNIT, asked or _MOST)
