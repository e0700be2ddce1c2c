"""Shared memory by name: an offset in a CTA's shared memory as the PTX symbol's or the caller's name."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping

from tileproof.emulator.errors import LaunchError
from tileproof.emulator.hang import Names

_OFFSET = re.compile(r"\bshared (?:offset|bytes?)(?: at)? (0x[0-9a-f]+)")
_MANGLED = re.compile(r"(\d+)([A-Za-z_]\w*)$")


def short(symbol: str) -> str:
    """The variable's own name in a mangled name: "full" of "_ZZ6kernelPfE4full"."""
    if not symbol.startswith("_Z"):
        return symbol
    for at in range(len(symbol)):
        match = _MANGLED.match(symbol, at)
        if match and len(match.group(2)) == int(match.group(1)):
            return match.group(2)
    return symbol


def given_names(symbols: Mapping[int, str] | None, dynamic: int) -> dict[int, str]:
    """The caller's names by absolute offset; `dynamic` is where the dynamic part begins. LaunchError if it
    is not a mapping of offsets to names.
    """
    pairs = symbols.items() if isinstance(symbols, Mapping) else () if symbols is None else [(symbols, "")]
    for at, name in pairs:
        if not isinstance(at, int) or at < 0 or not isinstance(name, str):
            raise LaunchError(
                "symbols name offsets in dynamic shared memory",
                expected='{0x80: "full"}',
                found=repr(symbols),
            )
    return {dynamic + at: name for at, name in pairs}


class SharedNames(Names):
    """Names of shared memory by absolute offset in the CTA's shared memory.

    `symbols`: PTX name -> (offset, bytes; 0 for the dynamic part, which has no end). `given`: offset -> name,
    the caller's, which win.
    """

    def __init__(self, symbols: Mapping[str, tuple[int, int]], given: Mapping[int, str]) -> None:
        ranges = {at: (short(name), size) for name, (at, size) in symbols.items()}
        ranges |= {at: (name, 0) for at, name in given.items()}
        self._starts = sorted(ranges)
        self._ranges = [ranges[at] for at in self._starts]

    def name(self, offset: int) -> str:
        """`tile+0x40` for a byte inside `tile`; empty where nothing is named."""
        at = bisect_right(self._starts, offset) - 1
        if at < 0:
            return ""
        name, size = self._ranges[at]
        inside = offset - self._starts[at]
        if size and inside >= size:
            return ""
        return name + (f"+{inside:#x}" if inside else "")

    def annotate(self, text: str) -> str:
        """The text with the name after each shared offset that has a name."""

        def named(match: re.Match[str]) -> str:
            name = self.name(int(match.group(1), 16))
            return match.group(0) + (f" ({name})" if name else "")

        return _OFFSET.sub(named, text)

    def mbarrier(self, rank: int, offset: int) -> str:
        return self.annotate(super().mbarrier(rank, offset))
