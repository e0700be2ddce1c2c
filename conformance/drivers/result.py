"""What a driver hands back from one launch, in a form that does not say which driver ran it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Policy = Literal["early", "late", "late-random", "random", "starve", "pct"]
SEEDED: tuple[Policy, ...] = ("late-random", "random", "starve", "pct")  # policies that take a seed


@dataclass(frozen=True)
class RunSchedule:
    """When asynchronous operations complete, among the moments that the ISA allows, and who moves
    (`tileproof.emulator.Schedule`); `seed` is for `SEEDED` policies.
    """

    policy: Policy = "early"
    seed: int = 0


@dataclass(frozen=True)
class Capture:
    """A tile of one CTA as an mbarrier of it completed phase `phase` (0 is the first).

    `tile` names the plan's TMEM or SMEM tile, `stage` the barrier's; `data` is uint32 [128 lanes, columns] of
    TMEM or uint8 [bytes] of SMEM, `valid` says which cells held a value that was legally visible at that
    moment.
    """

    tile: str
    stage: int
    cta: tuple[int, int, int]
    cluster_rank: int
    phase: int
    data: npt.NDArray[Any]
    valid: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Waiter:
    """A warp that could not go on when the launch hung.

    `barrier` is the mbarrier's byte offset in the dynamic shared memory, None when it
    waits for something else; `pending` arrivals and `tx_bytes` were still missing from the phase with
    `parity`.
    """

    cta: tuple[int, int, int]
    warp: int
    waits_for: str
    ptx_line: int = 0
    source: str = ""
    barrier: int | None = None
    parity: int | None = None
    pending: int = 0
    tx_bytes: int = 0


@dataclass(frozen=True)
class MachineFinding:
    """A defect that the machine itself saw (out of bounds, never-written memory, a hang, ...)."""

    severity: str  # "error", "warning" or "note"
    code: str
    message: str
    ptx_line: int = 0
    source: str = ""
    cta: tuple[int, int, int] | None = None
    warp: int | None = None
    lane: int | None = None
    address: int | None = None
    count: int = 1
    waiting: tuple[Waiter, ...] = ()
    root: tuple[str, ...] = ()  # of a hang or a race: its cause in words, and the evidence
    tile: str = ""  # of a race: the plan's tile or the output that both accesses have in common
    k_block: int | None = None  # of a race: that of the last barrier phase its warp waited for
    before: str = ""  # of a race: where the earlier access stands
    missing: str = ""  # of a race: the edge that should stand between
    instruction: str = ""
    cause: tuple[str, ...] = ()  # what findings of one cause have in common


@dataclass(frozen=True)
class Output:
    """One output parameter: its values and, element by element, whether the kernel wrote it."""

    values: npt.NDArray[Any]
    written: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class RunResult:
    """One launch as seen from outside."""

    outputs: Mapping[str, Output]
    captures: tuple[Capture, ...] = ()
    findings: tuple[MachineFinding, ...] = ()
    printf: str = ""
    counters: Mapping[str, int] = field(default_factory=dict)
    mbarriers: tuple[tuple[int, int, int], ...] = ()  # of each init: rank, dynamic offset, count
    announced: tuple[tuple[int, int, int], ...] = ()  # of complete phases: rank, dynamic offset, bytes
    allowed: tuple[MachineFinding, ...] = ()  # accepted on purpose: no defects, but reported
    executed: bytes = b""  # what ran of the program (tileproof.emulator.coverage); empty where nobody knows
