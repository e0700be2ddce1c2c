"""Build a kernel by name."""

from __future__ import annotations

from collections.abc import Mapping

from tileproof.kernels.compile import Built
from tileproof.kernels.registry import kernel


def build(
    name: str, d_qk: int, probe: bool = False, source_overrides: Mapping[str, str] | None = None
) -> Built:
    """Compile kernel `name` for `d_qk` (cached), with the text of some sources replaced.

    Raises TileproofError for an unknown kernel, d_qk or source, a missing compiler, or a source that does
    not compile.
    """
    return kernel(name).build(d_qk, probe, source_overrides)
