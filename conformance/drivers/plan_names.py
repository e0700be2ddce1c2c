"""A plan's names of barriers and warps, by number."""

from __future__ import annotations

from tileproof.spec.plan import Barrier, KernelPlan


def barrier_at(plan: KernelPlan, offset: int) -> tuple[Barrier, int] | None:
    """The plan's barrier and its stage at byte `offset` of the dynamic shared memory."""
    return plan.barrier_offsets.get(offset)


def barrier_name(plan: KernelPlan, offset: int) -> str:
    """`name[stage]` of the barrier at `offset`, empty when the plan has none there."""
    found = barrier_at(plan, offset)
    if found is None:
        return ""
    barrier, stage = found
    return f"{barrier.name}[{stage}]" if barrier.stages > 1 else barrier.name


def k_block(plan: KernelPlan, offset: int, phase: int) -> int | None:
    """The k-block that `phase` of a barrier belongs to, None when it belongs to none."""
    found = barrier_at(plan, offset)
    if found is None or not found[0].per_k_block or phase < 0:
        return None
    return (phase * found[0].stages + found[1]) // found[0].parts


def role_of(plan: KernelPlan, warp: int, rank: int | None = None) -> str:
    """The role of a warp, in the CTA of that rank where roles differ; empty when it has none."""
    for role in plan.roles:
        here = rank is None or rank in role.ctas
        if here and role.first_warp <= warp < role.first_warp + role.warps:
            return role.name
    return ""
