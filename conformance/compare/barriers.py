"""The plan's mbarriers against what the kernel initialises and announces."""

from __future__ import annotations

from tileproof.conformance.drivers.plan_names import barrier_at, barrier_name
from tileproof.spec.machine.finding import Finding, MachinePlace, ProblemPlace
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.plan import KernelPlan


def barrier_findings(plan: KernelPlan, run_result: RunResult, build: str) -> list[Finding]:
    """Barriers with another arrival count than the plan's, with phases of another number of announced bytes,
    and barriers that no CTA of a rank initialises; the latter are not reported if the machine found an
    error, which may have stopped the launch early, or if the driver lists no mbarriers.

    An mbarrier that is not in the plan is ignored.
    """

    def finding(code: str, rank: int, offset: int, what: str) -> Finding:
        name = barrier_name(plan, offset)
        machine = MachinePlace(cluster_rank=rank, barrier=name)
        return Finding(code, f"{name} {what}", machine=machine, problem=ProblemPlace(build=build, cta=rank))

    found = []
    for rank, offset, count in run_result.mbarriers:
        known = barrier_at(plan, offset)
        if known and known[0].count != count:
            what = f"is initialised with {count} arrivals; the plan has {known[0].count}"
            found.append(finding("plan-barrier-count", rank, offset, what))
    for rank, offset, announced in run_result.announced:
        known = barrier_at(plan, offset)
        if known and announced not in (known[0].tx_bytes, known[0].first_tx_bytes or known[0].tx_bytes):
            what = f"expects {announced} bytes in a phase; the plan has {known[0].tx_bytes}"
            found.append(finding("plan-barrier-bytes", rank, offset, what))
    if not run_result.mbarriers or any(finding.severity == "error" for finding in run_result.findings):
        return found
    made = {(rank, offset) for rank, offset, _ in run_result.mbarriers}
    for barrier in plan.barriers:
        for stage in range(barrier.stages):
            for rank in barrier.ctas:
                if (rank, barrier.offset_of(stage)) not in made:
                    what = "is in the plan, but the kernel does not initialise it"
                    found.append(finding("plan-barrier-missing", rank, barrier.offset_of(stage), what))
    return found
