"""What a check of a kernel on a driver leaves out, in words."""

from __future__ import annotations

from tileproof.conformance.drivers import driver as drivers
from tileproof.conformance.observe.capture import captured
from tileproof.spec.plan import KernelPlan, OutputObservation


def not_judged(plan: KernelPlan, driver: drivers.Driver, probe: bool) -> tuple[str, ...]:
    """What the driver lacks, that the kernel has no probe build, and the plan's stages that nothing shows."""
    can = driver.capabilities
    inside = {at.stage for at in captured(plan)}
    # A plan that observes nothing inside a launch loses nothing with the captures.
    words = drivers.not_judged(can if inside else can | {"capture"})
    if not probe:
        words += ("the probe build, which the kernel has not",)
    shown = {at.stage for at in plan.observations if isinstance(at, OutputObservation)}
    shown |= inside if "capture" in can else set()
    shown |= {at.stage for at in plan.probes} if probe else set()
    hidden = [name for name in (*plan.stages, *plan.unseen) if name not in shown]
    if hidden:
        words += (f"tiles of {', '.join(hidden)}, which no build shows here",)
    if plan.unordered:
        words += (f"whether {', '.join(plan.unordered)} repeat: their sums have no fixed order",)
    return words + tuple(f"problems with {feature}: {why}" for feature, why in plan.refuses)
