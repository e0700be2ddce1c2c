"""The plan of `head64`: all seven stages of the backward for 64 heads, one CTA per token."""

from __future__ import annotations

from tileproof.spec.plan import KernelPlan
from tileproof.spec.plans import head128

NAME = "head64"
D_QKS = head128.D_QKS


def plans() -> list[KernelPlan]:
    """Every plan there is."""
    return [plan(d_qk) for d_qk in D_QKS]


def plan(d_qk: int) -> KernelPlan:
    """The plan for rows of `d_qk` columns; TileproofError when there is none."""
    return head128.backward(NAME, 1, d_qk)
