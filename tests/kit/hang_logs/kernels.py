"""Runs of this repository's kernels with planted hangs, as what one thread of each role would print."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tileproof.conformance.cases.generators import small
from tileproof.conformance.drivers import emulator
from tileproof.conformance.drivers.plan_names import barrier_at, k_block, role_of
from tileproof.conformance.planted.defects import build_planted, planted_on
from tileproof.emulator.trace import Event, Trace
from tileproof.kernels.registry import kernel as find_kernel
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.plan import KernelPlan

from tests.kit.hang_logs.emulated import Emulated
from tests.kit.hang_logs.programs import Truth
from tests.kit.hang_logs.score import HangLog
from tests.kit.hang_logs.wordings import WORDINGS, lines
from tests.kit.pipelines import Op, Said, Who

# Kernel and planted defect: what a right answer says; the waits at which it may be seen.
PLANTS: dict[tuple[str, str], Truth] = {
    ("head128-part0", "p0-p-ready-to-one-cta"): Truth(
        ("one-cta",), ("p_ready",), (("mma", 0), ("p_consumer", 1))
    ),
    ("head128-part0", "p0-too-many-bytes"): Truth(
        ("bytes-missing",), ("kv_ready",), (("mma", 0), ("mma", 1), ("load", 0), ("load", 1))
    ),
    ("head128-part0", "p0-wrong-parity"): Truth(
        ("wrong-parity", "never-arrived"), ("kv_free",), (("load", 0), ("load", 1))
    ),
    ("head128-part0", "p0-one-lane-frees"): Truth(
        ("too-few-arrivals", "wrong-copy"), ("p_free",), (("mma", 0), ("mma", 1))
    ),
    ("head128-part0", "p0-keys-freed-in-one-cta"): Truth(
        ("one-cta", "too-few-arrivals"), ("kv_free",), (("mma", 0), ("load", 1))
    ),
    ("head64", "h64-count-too-large"): Truth(("too-few-arrivals",), ("s_ready",), (("mma", 0),)),
}


CLEAN = ("head128-part0", "head64")


def kernel_logs() -> Iterator[HangLog]:
    """A log of each plant in each of some wordings, and of clean runs."""
    for name, plant in [*PLANTS, *((name, "") for name in CLEAN)]:
        said, roles = run(name, plant).said, roles_of(name)
        for wording in ("bracketed", "keys", "bytes", "json"):
            how = WORDINGS[wording]
            text = "\n".join(line for block in lines(said, how, roles) for line in block) + "\n"
            labels = {role: how.label(role, roles) for role in roles}
            truth = PLANTS[name, plant] if plant else None
            yield HangLog(f"{name} {plant} {wording}", text, truth, labels, wording, "none", plant or name)


def roles_of(name: str) -> tuple[str, ...]:
    """The roles of a kernel."""
    found = find_kernel(name)
    return tuple(role.name for role in found.plan(found.variants[0]).roles)


def run(name: str, plant: str, seed: int = 0, blocks: int = 3) -> Emulated:
    """One token of `blocks` k-blocks on the emulator."""
    found = find_kernel(name)
    variant = found.variants[0]
    plan = found.plan(variant)
    built = build_planted(found, variant, planted_on(found, plant or None))
    launch = found.launch(small(plan, blocks).inputs(), built)
    _, trace = emulator.run_traced(launch, plan, schedule=Schedule("random", seed))
    return told(trace, plan)


def told(trace: Trace, plan: KernelPlan) -> Emulated:
    """What the first warp of each role says: each wait, its end, and each arrival once per phase."""
    said: list[Said] = []
    open_: dict[Who, Op] = {}
    once: set[tuple[object, ...]] = set()
    leaders = {role.first_warp for role in plan.roles}
    for event in _on_barriers(trace, leaders):
        found = barrier_at(plan, event.barrier)
        if found is None:
            continue
        barrier, stage = found
        who: Who = role_of(plan, event.warp, event.rank), event.rank
        at = stage if barrier.stages > 1 else None
        k = k_block(plan, event.barrier, event.phase)
        if event.kind in ("arrive", "expect"):
            key = who, barrier.name, stage, event.phase, "arrive"
            if key not in once:
                size = event.value if event.kind == "expect" else 0
                said.append(Said(who, "arrive", barrier.name, at, k, tx=size > 0, bytes=size))
            once.add(key)
        elif event.kind == "wait" and who not in open_:
            open_[who] = Op("wait", barrier.name, k, at, event.value)
            said.append(Said(who, "wait", barrier.name, at, k, event.value))
        elif event.kind == "pass":
            key = who, barrier.name, stage, event.phase, "pass"
            if key not in once:
                if who not in open_:
                    said.append(Said(who, "wait", barrier.name, at, k, event.phase & 1))
                said.append(Said(who, "done", barrier.name, at, k, event.phase & 1))
            once.add(key)
            open_.pop(who, None)
    return Emulated(tuple(said), tuple(open_.items()))


@dataclass(frozen=True)
class _BarrierEvent:
    kind: str
    warp: int
    rank: int
    barrier: int
    phase: int
    value: int


def _on_barriers(trace: Trace, leaders: set[int]) -> Iterator[_BarrierEvent]:
    """What the leaders do; a commit is told where it is issued, not where it arrives."""
    events = [event for event in trace if event.warp in leaders]
    commits: dict[int, Event] = {}  # by operation: one of its arrivals, which stand before its completion
    late: set[int] = set()
    since: list[int] = []
    for at, event in enumerate(events):
        if event.kind == "arrive" and event.object == "mbarrier":
            since.append(at)
        elif event.kind == "commit-complete":
            own = [
                n
                for n in since
                if (events[n].time, events[n].warp, events[n].rank) == (event.time, event.warp, event.rank)
            ]
            late |= set(own)
            if own:
                commits[event.op] = events[own[0]]
            since = []
    for at, event in enumerate(events):
        if event.kind == "commit-issue" and event.op in commits:
            reached = commits[event.op]
            yield _BarrierEvent("arrive", event.warp, event.rank, reached.barrier or 0, reached.phase, 0)
        elif (
            event.object == "mbarrier"
            and event.kind in ("wait", "pass", "arrive", "expect")
            and at not in late
        ):
            yield _BarrierEvent(
                event.kind, event.warp, event.rank, event.barrier or 0, event.phase, event.value
            )
