"""A finding: a defect, or a remark, with its place on the machine, its place in the problem, and its cause.

The emulator, or the comparison, creates a finding; every later step adds fields with `dataclasses.replace`:
the driver names barriers and warps by the plan, the comparison adds the place in the problem, the diagnosis
adds the cause, the verdict publishes it as JSON. `finding_text` prints it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["error", "warning", "note"]
NodeKind = Literal["warp", "mbarrier", "named barrier", "cluster barrier", "TMEM", "registers", "warpgroup"]
RootKind = Literal["unsatisfiable", "lapped", "cycle", "spin"]

# Codes that no table of the emulator has (`tileproof.emulator.codes`), and what they mean.
VALUE_CODES = {
    "value": "an element is further from its reference than the derived bound",
    "missing": "an element that must be written was not written",
    "surplus": "an element was written that must not be written",
    "disagree": "two builds, or two schedules, give different results on the same inputs",
    "chain": "an output is outside the bound of the whole float64 chain",
}
OTHER_CODES = {
    "schedule-dependent-output": "an output's bits depend on the schedule",
    "plan-barrier-count": "an mbarrier is initialised with another arrival count than the plan's",
    "plan-barrier-bytes": "a phase of an mbarrier expects another number of bytes than the plan's",
    "plan-barrier-missing": "the kernel does not initialise an mbarrier of the plan",
    "card-guard": "the kernel wrote guard bytes beside a buffer (CUDA driver)",
    "card-fault": "the launch faulted on the card (CUDA driver)",
    "card-hang": "the launch gave no answer within its time limit (CUDA driver)",
    "host-fault": "the Python function raised an exception (host driver)",
}


@dataclass(frozen=True)
class Waiting:
    """A group of lanes that could not proceed when the launch hung.

    `lanes`: mask of the lanes. `barrier`: byte offset of the mbarrier in the CTA's shared memory, None when
    the group waits for something else; `pending` arrivals and `tx` bytes are missing from its phase `phase`
    (of `parity`). `name` and `role`: the barrier and the warp by the kernel's plan.
    """

    ptx_line: int
    source: str
    instruction: str
    cta: tuple[int, int, int]
    cluster_rank: int
    warp: int
    lanes: int
    waits_for: str
    barrier: int | None
    parity: int | None
    phase: int
    pending: int
    tx: int
    name: str = ""
    role: str = ""

    def __str__(self) -> str:
        place = f"line {self.ptx_line}" + (f" ({self.source})" if self.source else "")
        return (
            f"CTA {self.cta} warp {self.warp} lanes {self.lanes:#010x} at {place}: waits for {self.waits_for}"
        )


@dataclass(frozen=True)
class Race:
    """The other side of a race: the earlier access in this run, and the missing edge between the two.

    `execution` counts the executions of its instruction by its warp from 1, `then_execution` those of the
    finding's own instruction; `lanes` is the mask of the lanes that executed it. `after` is the mbarrier
    phase that its warp had last waited for (byte offset in the CTA's shared memory, phase from 0, -1 before
    the first phase), `then_after` the same of the finding's own warp.

    In `race-grids` it stands in an earlier grid of the stream, in `race-launches` in a launch of another
    stream or a copy of the host; executions are not counted there (0).

    `space` is "shared", "tmem" or "global", `space_rank` the CTA whose memory it is, `buffer` the global
    buffer, `tmem_base` the first column of that CTA's first allocation; the finding's `address` is the byte
    offset in shared memory, TMEM lane << 16 | column, or the global address.

    `reversed_by`: of two events at a barrier, the schedule that holds back the first (docs/certificate.md).
    """

    ptx_line: int
    source: str
    instruction: str
    cta: tuple[int, int, int]
    cluster_rank: int
    warp: int
    lanes: int
    writes: bool
    execution: int
    then_writes: bool
    then_execution: int
    missing: str
    after: tuple[int, int] | None = None
    then_after: tuple[int, int] | None = None
    space: str = ""
    space_rank: int = 0
    tmem_base: int = 0
    buffer: str = ""
    reversed_by: str = ""

    def __str__(self) -> str:
        place = f"PTX line {self.ptx_line}" + (f", {self.source}" if self.source else "")
        if not self.execution and self.space in ("mbarrier", "barrier"):
            return f"{place}, CTA {self.cta} warp {self.warp} lanes {self.lanes:#010x}: {self.instruction}"
        return (
            f"{'write' if self.writes else 'read'} at {place}, CTA {self.cta} warp {self.warp} lanes "
            f"{self.lanes:#010x}, execution {self.execution}: {self.instruction}"
        )


@dataclass(frozen=True)
class Node:
    """A waiting group of lanes, or what it waits for. `rank` is the CTA's in its cluster."""

    id: str
    kind: NodeKind
    what: str
    rank: int
    warp: int | None = None
    lanes: int = 0
    offset: int | None = None
    phase: int | None = None
    ptx_line: int = 0
    source: str = ""


@dataclass(frozen=True)
class Edge:
    """`waiter` cannot continue before `needs` does; `why` gives the evidence."""

    waiter: str
    needs: str
    why: str


@dataclass(frozen=True)
class Root:
    """What nothing can still bring about. `followers` counts the groups of lanes that wait for it, directly
    or through others.
    """

    kind: RootKind
    node: Node
    message: str
    evidence: tuple[str, ...]
    followers: int

    def lines(self) -> list[str]:
        """The root in words, one fact per line."""
        return [self.message, *self.evidence]


@dataclass(frozen=True)
class Graph:
    """The wait-for graph of a hung cluster; `roots` are its causes, the likeliest first."""

    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()
    roots: tuple[Root, ...] = ()

    def node(self, id: str) -> Node:
        """The node of that id; KeyError when there is none."""
        return next(node for node in self.nodes if node.id == id)


@dataclass(frozen=True)
class MachinePlace:
    """Where a finding is on the machine; a field that is not known has its default.

    `launch` numbers the launch in a sequence from 1. `ptx_line` counts from 1; `source` is "file:line", with
    "(inlined at ...)" for inlined code; `isa_section` is the PTX ISA's on `instruction`. `cta` is the grid
    coordinate, `cluster_rank` the rank in the cluster; `warp` and `lane` are None where the finding is about
    a whole CTA. `role` is the warp's by the plan, `barrier` and `phase` (from 0) what the finding is about.
    `address`: see `Race`.
    """

    launch: int | None = None
    kernel: str = ""
    ptx_line: int = 0
    source: str = ""
    instruction: str = ""
    isa_section: str = ""
    cta: tuple[int, int, int] | None = None
    cluster_rank: int | None = None
    warp: int | None = None
    lane: int | None = None
    role: str = ""
    barrier: str = ""
    phase: int | None = None
    address: int = 0
    race: Race | None = None
    waiting: tuple[Waiting, ...] = ()
    graph: Graph = field(default_factory=Graph)

    @property
    def root(self) -> Root | None:
        """Of a hang or livelock: its likeliest cause."""
        return self.graph.roots[0] if self.graph.roots else None


@dataclass(frozen=True)
class ProblemPlace:
    """Where a finding is in the problem; a field that is not known has its default.

    `group` is the group of tiles, which the problem calls `unit` (of attention a token); `cta` the rank of
    the CTA in its cluster. `row` and `column` are the first wrong element's, counted along what `axes` names.
    `lane` and `tmem_column` are where that element lies in tensor memory, `smem` its byte offset in the CTA's
    dynamic shared memory, when it was read there; `tile` is the plan's TMEM or SMEM tile, or its output.
    `build`: "production" or "probe". `array` and `index`: of a launch file, the output or captured stage and
    the first wrong element; `moment`: which capture. `words`: the place in words, where only that is known.
    """

    stage: str = ""
    build: str = ""
    group: int | None = None
    unit: str = "group"
    cta: int | None = None
    k_block: int | None = None
    row: int | None = None
    column: int | None = None
    axes: tuple[str, str] = ("row", "column")
    lane: int | None = None
    tmem_column: int | None = None
    smem: int | None = None
    tile: str = ""
    array: str = ""
    index: tuple[int, ...] = ()
    moment: str = ""
    words: str = ""


@dataclass(frozen=True)
class Finding:
    """A defect, or a remark. `severity`: "error", "warning" or "note".

    `code` names the class: of the machine's table of codes, or of `VALUE_CODES` and `OTHER_CODES`. `check`:
    the check that found it. `expected`, `found` and `bound` are the first wrong element's; `wrong` of
    `elements` are wrong; `pattern` says how they are arranged, `names` what a value that encodes coordinates
    says of itself. `cause`: what explains the finding, with its `evidence`, a fact each. `count`: how often
    the same instruction of the same CTA rank did it; `others`: further findings with the same cause, or
    further wrong tiles of the stage. `replay`: a command that shows the finding again.
    """

    code: str
    message: str
    severity: Severity = "error"
    check: str = ""
    machine: MachinePlace = field(default_factory=MachinePlace)
    problem: ProblemPlace = field(default_factory=ProblemPlace)
    expected: float | None = None
    found: float | None = None
    bound: float | None = None
    wrong: int = 0
    elements: int = 0
    pattern: str = ""
    names: str = ""
    cause: str = ""
    evidence: tuple[str, ...] = ()
    count: int = 1
    others: int = 0
    replay: str = ""

    @property
    def kind(self) -> str:
        """ "value", "missing", "surplus", "disagree", "chain", or "machine" for all other codes."""
        return self.code if self.code in VALUE_CODES else "machine"

    def __str__(self) -> str:
        from tileproof.spec.machine.finding_text import report

        return report(self)
