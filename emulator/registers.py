"""Registers of a launch: what setmaxnreg moves between the warps of a CTA."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tileproof.emulator.errors import LaunchError

REGISTERS = 65536  # of an SM, and so of a CTA (CUDA C++ Programming Guide, compute capability 10.0)
_UNIT, _MOST = 8, 256  # counts of a thread: multiples of 8 (PTX ISA 9.7.19.5)


_INC = re.compile(r"\bsetmaxnreg\.inc\.sync\.aligned\.u32\s+(\w+)")


def most_asked(body: str) -> int:
    """The largest count of the `setmaxnreg.inc` of a kernel's PTX, 0 without any."""
    return max((int(found[1], 0) for found in _INC.finditer(body)), default=0)


def launch_registers(
    directives: Mapping[str, tuple[int, ...]], threads: int, entry: str = "", asked: int = 0
) -> int:
    """Registers of each thread at launch, 0 when nothing fixes their number (setmaxnreg then does nothing).

    `.maxnreg`, or as many as `.maxntid` (`.reqntid`) and `.minnctapersm` leave room for, and not more than
    `asked`, the most that a setmaxnreg.inc of the kernel wants. So ptxas 13.0 takes them (blocks of 128, 256,
    384 and 512 threads; one program of several .inc got its second count, the smaller one). LaunchError when
    `threads` threads of that many do not fit into a CTA.
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
                do="lower .maxnreg or the block",
            )
        return count
    bound, ctas = directives.get("reqntid") or directives.get("maxntid"), directives.get("minnctapersm")
    if not bound or not ctas:
        return 0
    most = 1
    for extent in bound:
        most *= extent
    warps = -(-most // 32)
    return min(REGISTERS // (32 * warps * max(1, ctas[0])) // _UNIT * _UNIT, asked or _MOST)
