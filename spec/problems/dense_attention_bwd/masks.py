"""Which keys a query may see: causal and sliding windows, as limits per query."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

Align = Literal["top left", "bottom right"]
I64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Mask:
    """Query i of M sees the keys j of N with ``d(i) - left <= j <= d(i) + right``, without a limit where it
    is None. The diagonal d(i) is i from the top left, i + N - M from the bottom right. Causal is right 0.
    """

    align: Align = "top left"
    left: int | None = None
    right: int | None = None

    def limits(self, queries: int, keys: int) -> tuple[I64, I64]:
        """First key that each query sees, and the key after its last key; equal if it sees none."""
        diagonal = np.arange(queries) + (keys - queries if self.align == "bottom right" else 0)
        low = np.zeros(queries, np.int64) if self.left is None else np.clip(diagonal - self.left, 0, keys)
        high = (
            np.full(queries, keys, np.int64)
            if self.right is None
            else np.clip(diagonal + self.right + 1, 0, keys)
        )
        return low.astype(np.int64), np.maximum(low, high).astype(np.int64)

    def seen(self, queries: int, keys: int) -> Bool:
        """``bool [queries, keys]``."""
        low, high = self.limits(queries, keys)
        key = np.arange(keys)[None, :]
        return (key >= low[:, None]) & (key < high[:, None])

    @property
    def words(self) -> str:
        """``none``, ``causal from the top left``, ``window (-3, 0) from the bottom right``."""
        if self.left is None and self.right is None:
            return "none"
        kind = "causal" if (self.left, self.right) == (None, 0) else f"window ({self.left}, {self.right})"
        return f"{kind} from the {self.align}"


@lru_cache(maxsize=256)
def blocks(mask: Mask, queries: int, keys: int, rows: int, cols: int) -> tuple[tuple[int, int], ...]:
    """The (query block, key block) pairs, of `rows` x `cols`, in which some query sees some key; key blocks
    outermost.
    """
    low, high = mask.limits(queries, keys)
    found = []
    for key_block in range(-(-keys // cols)):
        first, last = key_block * cols, min((key_block + 1) * cols, keys)
        some = (low < last) & (high > first) & (high > low)
        found += [(int(i), key_block) for i in np.unique(np.flatnonzero(some) // rows)]
    return tuple(found)
