"""Why a launch hung: the wait-for graph of its last state, and its root."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tileproof.emulator.engine_types import RawCta, RawHang, RawMbarrier
from tileproof.emulator.enumerations import enumeration
from tileproof.emulator.reach import ProgramView
from tileproof.spec.machine.finding import Graph

# `lanes`: a .sync instruction waits for other lanes that it names; `join`: arrived at a post-dominator before
# the other lanes; `registers`: setmaxnreg.inc, the pool has too few; `copies`: cp.async.wait_group;
# `warpgroup`: wgmma.wait_group.
WAITS = enumeration(
    "Wait",
    "none mbarrier named cluster bulk alloc lanes join registers copies warpgroup",
    names="None MbarrierParity NamedBarrier ClusterBarrier BulkGroup TmemAlloc WarpLanes Join "
    "Registers CopyGroup WarpgroupMmas",
    bits=8,
)


class Names:
    """How a report calls warps and barriers; a plan's names replace these (see `Hang.explain`)."""

    def warp(self, rank: int, warp: int) -> str:
        """A warp of the cluster's CTA `rank`."""
        return f"warp {warp} of CTA {rank}"

    def mbarrier(self, rank: int, offset: int) -> str:
        """An mbarrier by its byte offset in the shared memory of CTA `rank`."""
        return f"the mbarrier at shared offset {offset:#x} of CTA {rank}"

    def phase(self, offset: int, phase: int) -> str:
        """What a phase of an mbarrier is about."""
        del offset
        return f"phase {phase}"


@dataclass
class Group:
    """Lanes of one warp that share a pc."""

    id: str
    rank: int
    warp: int
    pc: int
    lanes: int
    wait: str
    offset: int
    parity: int
    token: int
    wanted: int
    registers: bytes


@dataclass
class WaitDiagnosis:
    """Whether a node's wait can still be satisfied: edges to possible producers, and the evidence."""

    dead: bool
    message: str
    evidence: list[str] = field(default_factory=list)
    edges: list[tuple[str, str]] = field(default_factory=list)
    last: int = 0  # order stamp of the last thing that happened to it
    # Groups that may act on it by an instruction that never ran and whose address is not known yet.
    perhaps: int = 0


class Hang:
    """The state of a cluster in which nothing moves, as the engine reports it."""

    def __init__(self, raw: RawHang, view: ProgramView) -> None:
        self.raw = raw
        self.view = view
        self.ctas: list[RawCta] = raw["ctas"]
        self.groups = [
            Group(
                id=f"warp {rank}.{index}" + (f".{k}" if len(warp["groups"]) > 1 else ""),
                rank=rank,
                warp=index,
                pc=group["pc"],
                lanes=group["lanes"],
                wait=WAITS[group["wait"]],
                offset=group["offset"],
                parity=group["parity"],
                token=group["token"],
                wanted=group["wanted"],
                registers=warp["registers"],
            )
            for rank, cta in enumerate(self.ctas)
            for index, warp in enumerate(cta["warps"])
            for k, group in enumerate(warp["groups"])
        ]
        self.barriers: dict[tuple[int, int], RawMbarrier] = {
            (rank, b["offset"]): b for rank, cta in enumerate(self.ctas) for b in cta["barriers"]
        }

    def explain(self, names: Names | None = None) -> Graph:
        """The graph and its roots, in the words of `names`."""
        from tileproof.emulator.hang_graph import build

        return build(self, names or Names())

    def live(self, rank: int, warp: int, lanes: int) -> list[Group]:
        """The groups of a warp that hold some of `lanes`."""
        return [g for g in self.groups if (g.rank, g.warp) == (rank, warp) and g.lanes & lanes]

    def some_registers(self, rank: int) -> bytes:
        """The registers of a live warp of that CTA, for addresses that all its warps share."""
        return next((g.registers for g in self.groups if g.rank == rank), b"")

    def last_pass(self, group: Group) -> int:
        """The order stamp at which the group's warp last passed its present wait, 0 for never."""
        cta = self.ctas[group.rank]
        stamps = [last for pc, last in cta["warps"][group.warp]["passes"] if pc == group.pc]
        for barrier in cta["barriers"]:
            stamps += [
                last for pc, _, last in barrier["passed"][group.warp : group.warp + 1] if pc == group.pc
            ]
        return max(stamps, default=0)

    def exit_of(self, rank: int, warp: int, lanes: int) -> int | None:
        """The instruction at which some of `lanes` exited, None when none did."""
        if 0 <= rank < len(self.ctas) and 0 <= warp < len(self.ctas[rank]["warps"]):
            for gone, pc in self.ctas[rank]["warps"][warp]["exits"]:
                if gone & lanes:
                    return int(pc)
        return None


def lanes_text(lanes: int) -> str:
    """Lanes of a mask in words: "lane 9", "lanes 0-3 and 9", empty for a whole warp."""
    if lanes == 0xFFFFFFFF or not lanes:
        return ""
    numbers = [lane for lane in range(32) if lanes >> lane & 1]
    runs: list[list[int]] = []
    for lane in numbers:
        if runs and runs[-1][1] == lane - 1:
            runs[-1][1] = lane
        else:
            runs.append([lane, lane])
    parts = [str(a) if a == b else f"{a}-{b}" for a, b in runs]
    return ("lane " if len(numbers) == 1 else "lanes ") + join(parts)


def join(parts: Iterable[str], limit: int = 6) -> str:
    """Words in a row: "a, b and c"; what exceeds `limit` is counted."""
    words = list(dict.fromkeys(parts))
    if len(words) > limit:
        words = [*words[: limit - 1], f"{len(words) - limit + 1} more"]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1] if words else ""


def count_text(count: int, what: str) -> str:
    """A number with its noun in the right form."""
    return f"{count} {what}" + ("" if count == 1 else "s")
