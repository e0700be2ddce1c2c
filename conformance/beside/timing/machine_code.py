"""Machine instructions as the model executes them: scoreboards, figures, units, steps of a warp."""

from __future__ import annotations

import re
from collections import defaultdict

from tileproof.conformance.beside.timing.sass import Sass
from tileproof.conformance.beside.timing.streams import MachineCode
from tileproof.conformance.beside.timing.work import Work

# Instructions whose result a scoreboard announces, by the figure that says when.
LATENCIES = {
    "shuffle": ("SHFL",),
    "vote": ("VOTE", "VOTEU", "MATCH", "REDUX", "CREDUX", "ELECT"),
    "shared_load": ("LDS", "LDSM", "LDL", "ATOMS"),
    "global_load": ("LDG", "LD", "ATOMG", "ATOM"),
    "constant_load": ("LDC", "LDCU", "ULDC"),
    "special_register": ("S2R", "S2UR", "CS2R", "B2R"),
    "uniform": ("R2UR",),
    "transcendental": ("MUFU", "I2F", "F2I", "F2F", "FRND", "POPC", "FLO", "BREV"),
    "barrier_look": ("SYNCS",),
    "fence": ("FENCE",),
    "tmem_alloc": ("UTCATOMSWS",),
    "register_change": ("USETMAXREG",),
}
SERVED = ("REDG", "RED", "LDTM", "STTM", "STS", "STSM", "STG", "ST", "STL", "LDGSTS", "LDGDEPBAR", "MEMBAR")
_ACTING = frozenset(SERVED) | {"LDG", "LD", "ATOMG", "ATOM", "LDS", "LDSM", "MUFU", "UCGABAR_WAIT"}
FIGURE = {root: name for name, roots in LATENCIES.items() for root in roots}
_MULTIPLE = re.compile(r"\.x(\d+)")
_WIDTH = re.compile(r"\.(?:F32x(\d)|(64|128|256))\b")
ONE_LANE = ("UBLKCP", "UBLKRED", "UTMALDG", "UTMASTG", "UTMAREDG")


class MachineInstruction:
    """`served`: by a unit, so that its clocks depend on more than `figure`, its latency. `stepped`: a warp
    may have a step here. `straight`: it only issues, and the next instruction of its block follows."""

    __slots__ = (
        "boards", "ends", "figure", "line", "loops", "plain", "sass", "served", "stall", "stepped",
        "straight",
    )  # fmt: skip

    def __init__(self, sass: Sass, stepped: bool, first: int | None) -> None:
        """`first`: the first instruction of the block that this instruction ends, if it does."""
        self.sass = sass
        self.line = sass.line
        self.stall = max(1, sass.stall)
        self.boards = tuple(board for board in range(6) if sass.waits >> board & 1)
        self.stepped = stepped or sass.root in ONE_LANE or sass.root == "UCGABAR_WAIT"
        self.plain = sass.writes >= 6 and sass.reads >= 6 and not self.stepped and sass.root not in _ACTING
        self.served = sass.root in _ACTING or sass.root == "MEMBAR"
        self.figure = FIGURE.get(sass.root, "other")
        self.ends = first is not None
        self.loops = first is not None and loops_over_lanes(sass, first)
        self.straight = self.plain and not self.boards and not self.ends


def codes(code: MachineCode, work: Work) -> list[MachineInstruction]:
    """The instructions of a program in a run with this work."""
    roots: dict[int, set[str]] = defaultdict(set)
    for lines in work.steps.values():
        for line, steps in lines.items():
            roots[line].update(root for step in steps for root in step.roots)
    first_of = {end - 1: first for first, end in code.blocks if first < end}
    return [
        MachineInstruction(sass, sass.root.startswith(tuple(roots.get(sass.line, ()))), first_of.get(at))
        for at, sass in enumerate(code.sass)
    ]


def loops_over_lanes(last: Sass, first: int) -> bool:
    """Whether a block, by its last instruction, comes again for each lane: what ptxas makes of an instruction
    of every lane that the machine has for a whole warp only."""
    return last.opcode.startswith("BRA.U.ANY") and last.targets == (first,)


def tmem_bytes(opcode: str) -> int:
    """The bytes that a warp's load or store of tensor memory moves."""
    count = _MULTIPLE.search(opcode)
    return 128 * int(count[1]) if count else 128


def width(opcode: str) -> int:
    """The words of 32 bits that each lane of a load or store moves."""
    match = _WIDTH.search(opcode)
    if match is None:
        return 1
    return int(match[1]) if match[1] else int(match[2]) // 32
