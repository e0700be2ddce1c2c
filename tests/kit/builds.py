"""Builds of a kernel by name and width."""

from __future__ import annotations

from collections.abc import Mapping

from tileproof.kernels.compile import Built
from tileproof.kernels.registry import kernel


def build(
    name: str, d_qk: int, probe: bool = False, source_overrides: Mapping[str, str] | None = None
) -> Built:
    """The kernel's first variant of this width."""
    found = kernel(name)
    return found.build(found.variant(d_qk=d_qk), probe, source_overrides=source_overrides)
