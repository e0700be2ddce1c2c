"""Designs of kernels of which only resources are known, and their published figures.

A design lists the work of each role in a block of keys; `conformance/beside/timing/design.py` computes its
time.
"""

from __future__ import annotations

from dataclasses import dataclass

from tileproof.spec.machine.timing import Timing


@dataclass(frozen=True)
class MmaRow:
    """`count` instructions of one shape; m and n as the instruction states them."""

    m: int
    n: int
    count: int
    ws: bool = False
    a_in_tmem: bool = False
    pair: bool = False

    @property
    def amount(self) -> int:
        """The amount of an MMA's event in a trace."""
        return self.m << 16 | self.n | self.ws << 32 | self.a_in_tmem << 33 | self.pair << 34


@dataclass(frozen=True)
class Part:
    """The work of a role in a block, one part after the other; a role that only issues continues at once.

    Bytes of one CTA: `gathered` by cp.async of 16 bytes, `loaded` by TMA, `added` to f32 in L2, `stored` in
    bulk, `exchanged` with the other CTA; `tmem` and `shared` are what the warps read and write there.
    `instructions`: of one warp, of `warps`. `after`: (part, blocks back) that must be complete.
    """

    name: str
    role: str
    mmas: tuple[MmaRow, ...] = ()
    gathered: int = 0
    loaded: int = 0
    added: int = 0
    stored: int = 0
    exchanged: int = 0
    tmem: int = 0
    shared: int = 0
    exp2: int = 0
    instructions: int = 0
    warps: int = 0
    after: tuple[tuple[str, int], ...] = ()

    @property
    def issues(self) -> bool:
        """Whether the role continues while the part is in progress."""
        return bool(self.mmas or self.gathered or self.loaded or self.exchanged)


@dataclass(frozen=True)
class Design:
    """One kernel. A CTA works on `before` once, `block` for each of its blocks, `behind` once; `ctas` per
    query token, in clusters that finish together. `keys`: of a block."""

    name: str
    block: tuple[Part, ...]
    keys: int
    ctas: int
    before: tuple[Part, ...] = ()
    behind: tuple[Part, ...] = ()


@dataclass(frozen=True)
class Peer:
    """A published kernel, one problem and its time. `memory`: bytes that the helper kernels move."""

    name: str
    designs: tuple[Design, ...]
    heads: int
    topk: int
    tokens: int
    published_ms: float
    machine: Timing
    memory: float
    launches: int
    source: str
    flop: float
    fitted: str = ""
    """The figure that was chosen to fit this row, so that the row does not test it."""
