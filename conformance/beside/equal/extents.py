"""The sizes of a launch that a proof may use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Extents:
    """The declared sizes of a launch: threads per CTA, CTAs per cluster; None: not known."""

    block: tuple[int, int, int] | None = None
    cluster: int | None = None

    @property
    def warps_in_a_row(self) -> bool:
        """Whether lane numbers are those of `%tid.x`, and every warp is full."""
        return self.block is not None and self.block[1:] == (1, 1) and self.block[0] % 32 == 0
