"""Dictionaries that the C++ engine takes and returns: bindings.cpp, hang_state.cpp, schedule_state.cpp."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from tileproof.spec.machine.certificate import Reason

Triple = tuple[int, int, int]


class EngineSchedule(TypedDict):
    """A schedule."""

    depth: int
    points: int
    environment: int
    alone: bool
    together: int
    base: int
    record: bool
    record_base: int
    decisions: bytes


class LaunchRequest(TypedDict):
    """What the shape, the schedule and the options of a launch determine."""

    grid: Triple
    block: Triple
    cluster: Triple
    dynamic_shared: int
    policy: int
    seed: int
    schedule: EngineSchedule
    mma: int
    livelock_limit: int
    instruction_limit: int
    seconds_limit: float
    taps: list[tuple[str, int, bool, int, int, int, int]]
    trace_limit: int
    path: bool
    races: bool
    grant_claims: bool
    strict: list[tuple[str, int, bool]] | None
    outputs: list[int]
    resident: int
    room: int
    threads: int
    clusters: list[int] | None
    recorded: list[int]


# ---- findings


class RawPlace(TypedDict):
    """The place of an instruction, and the lanes that executed it."""

    line: int
    source: str
    instruction: str
    cta: Triple
    rank: int
    warp: int
    lane: int


class RawWaiter(RawPlace):
    """A group of lanes that waits."""

    lanes: int
    waits_for: str
    barrier: int
    parity: int
    phase: int
    pending: int
    tx: int


class RawRace(RawPlace):
    """The first access of a race, and what is known of the second."""

    lanes: int
    nth: int
    writes: bool
    then_nth: int
    then_writes: bool
    missing: str
    hold: NotRequired[tuple[int, int]]
    space: str
    space_rank: int
    tmem_base: int
    buffer: str
    after: tuple[int, int]
    then_after: tuple[int, int]


class RawFinding(RawPlace):
    """A finding."""

    severity: int
    code: str
    message: str
    address: int
    count: int
    waiters: list[RawWaiter]
    race: NotRequired[RawRace]


class RawDoubt(RawPlace):
    """Why a launch is not certified."""

    reason: Reason
    text: str
    other: RawPlace
    count: int
    first_column: bool
    hold: NotRequired[tuple[int, int]]


# ---- a cluster that hangs


class RawProducer(TypedDict):
    """What an instruction of a warp has done for an mbarrier, in its phase and in the phase before."""

    pc: int
    rank: int
    warp: int
    deed: int
    phase: int
    lanes: int
    amount: int
    lanes_before: int
    amount_before: int
    last_lanes: int
    last_amount: int
    deeds: int
    last: int


class RawMbarrier(TypedDict):
    """An mbarrier and its history; `passed`: instruction, phase and order stamp of each warp's last wait."""

    offset: int
    phase: int
    expected: int
    pending: int
    tx: int
    init: int
    producers: list[RawProducer]
    passed: list[Triple]


class RawNamedBarrier(TypedDict):
    """A named barrier; `warps` and `before` are bits by warp, `parts` lanes by warp."""

    generation: int
    arrived: int
    expected: int
    warps: int
    before: int
    parts: list[int]


class RawGroup(TypedDict):
    """Lanes of a warp at the same instruction."""

    pc: int
    lanes: int
    wait: int
    offset: int
    parity: int
    token: int
    wanted: int


class RawWarp(TypedDict):
    """A warp; `exits`: lanes and instruction; `passes`: instruction and order stamp."""

    live: int
    maxnreg: int
    cluster_arrived: int
    wgmma: int
    exits: list[tuple[int, int]]
    passes: list[tuple[int, int]]
    groups: list[RawGroup]
    registers: bytes


class RawCta(TypedDict):
    """A CTA; `allocations` of tensor memory: column, columns, instruction, warp."""

    cta: Triple
    register_pool: int
    barriers: list[RawMbarrier]
    named: list[RawNamedBarrier]
    allocations: list[tuple[int, int, int, int]]
    held: list[bool]
    warps: list[RawWarp]


class RawHang(TypedDict):
    """The state of a cluster in which nothing moves."""

    ctas: list[RawCta]
    cluster_arrived: int
    live_threads: int


# ---- a run


class RawCapture(TypedDict):
    """What a tap captured when its barrier completed a phase."""

    tap: int
    cta: Triple
    rank: int
    phase: int
    data: bytes
    valid: bytes


# A decision that a replay reached.
RawHold = TypedDict(
    "RawHold",
    {
        "actor": int, "step": int, "pc": int, "engine": str, "gave_up": bool, "visible": bool, "wait": int,
        "barrier": int, "phase": int, "from": int, "to": int,
    },
)  # fmt: skip


class RawRun(TypedDict):
    """The result of a launch."""

    findings: list[RawFinding]
    host_threads: int
    printf: bytes
    limited: list[tuple[str, int]]
    counters: dict[str, int]
    executed: bytes
    stored: list[int]
    taps: list[RawCapture]
    recorded: list[tuple[int, bytes]]
    mbarriers: list[Triple]
    announced: list[Triple]
    obligations: dict[Literal["arrivals", "waits", "held", "announcements"], int]
    doubts: list[RawDoubt]
    sums: bool
    additions: tuple[int, int]
    events: bytes
    events_dropped: int
    hang: NotRequired[RawHang]
    decisions: bytes
    holds: list[RawHold]
