"""The sizes for which a kernel has a plan."""

from __future__ import annotations

from collections.abc import Sequence

from tileproof.spec.machine.errors import TileproofError


def require_size(kernel: str, axis: str, size: int, known: Sequence[int]) -> None:
    """Raise TileproofError unless `size` is one of the known sizes of the axis."""
    if size not in known:
        raise TileproofError(
            f"{kernel} has no plan for this {axis}", where=axis, expected=" or ".join(map(str, known)),
            found=str(size), do="choose one of the supported sizes",
        )  # fmt: skip
