"""Lists what a check of a kernel does not judge on a driver."""

from __future__ import annotations

from tileproof.conformance.drivers import driver as drivers
from tileproof.conformance.observe.capture import captured
from tileproof.conformance.observe.partial import unpublished_sums
from tileproof.spec.plan import KernelPlan, OutputObservation


def not_judged(plan: KernelPlan, driver: drivers.Driver, probe: bool) -> tuple[str, ...]:
    """Return what is not judged: for lack of a capability, of a probe build, or of an observation."""
    can = driver.capabilities
    inside = {at.stage for at in captured(plan)}
    # A plan that observes nothing inside a launch loses nothing with the captures.
    words = drivers.not_judged(can if inside else can | {"capture"})
    if not probe:
        words += ("the probe build: the kernel has none",)
    shown = {at.stage for at in plan.observations if isinstance(at, OutputObservation)}
    shown |= inside if "capture" in can else set()
    shown |= {at.stage for at in plan.probes} if probe else set()
    hidden = [name for name in (*plan.stages, *plan.unseen) if name not in shown]
    if hidden:
        words += (f"tiles of {', '.join(hidden)}: no build shows them on this driver",)
    words += tuple(f"partial sums of {name}: no barrier publishes them" for name in unpublished_sums(plan))
    if plan.unordered:
        words += (f"reproducibility of {', '.join(plan.unordered)}: the order of their sums is not fixed",)
    return words + tuple(f"problems with {feature}: {why}" for feature, why in plan.refuses)
