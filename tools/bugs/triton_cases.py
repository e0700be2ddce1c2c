# ruff: noqa: E501 - a case's words are kept whole
"""Cases in Triton and Gluon: common mistakes in kernels of our own, of which no public thread is the source."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tileproof.conformance.planted.synchronisation.run import SCHEDULES
from tileproof.kernels.launch.model import LaunchFile
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.schedule import Schedule
from tileproof.tools.bugs.case import BugCase, Detection, place_of, severe

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE, RACES = ("global-out-of-bounds",), ("race-unordered", "race-clusters")
# Program, mistake, what is wrong, and the codes of a right finding.
MISTAKES = (
    ("add", "mask", "the mask of a store is missing: elements past the end are written", OUTSIDE),
    ("add", "stride", "a store has twice the stride", OUTSIDE),
    ("add", "block", "each program works on the block after its own, and its load has no mask", OUTSIDE),
    ("add", "race", "several elements are stored to a single place", RACES),
    ("softmax", "mask", "the mask of a load is missing: the row's end reads past the storage", OUTSIDE),
    ("softmax", "stride", "rows are stored with twice the stride", OUTSIDE),
    ("softmax", "block", "each program stores to the row after its own", OUTSIDE),
    ("softmax", "race", "two programs store to the same row", RACES),
    ("product", "race", "two programs load, add and store a tile: no atomic addition", RACES),
    ("product", "stride", "rows are added with the stride of a wider matrix", OUTSIDE),
    ("product", "block", "each program adds to the tile after its own", OUTSIDE),
    ("persistent", "race", "programs load, add and store a counter", RACES),
    ("persistent", "block", "the loop over tiles runs once too often", OUTSIDE),
    ("attention", "mask", "the mask of the log-sums is missing: rows past the end are written", OUTSIDE),
    ("attention", "stride", "rows of O are stored with a wider stride", OUTSIDE),
    ("attention", "block", "each program works on the rows after its own", OUTSIDE),
    ("attention", "race", "rows of O are stored modulo 64", RACES),
    ("gluon", "early", "the product does not wait for its tiles", ("race-copy-unwaited",)),
    (
        "gluon",
        "reused",
        "copies do not wait until their buffer is free",
        ("mbarrier-over-arrival", "race-copy-unwaited"),
    ),
)
COPIES = 2  # lines behind the mark of `reused`: the announcement of bytes is marked, two copies follow


@dataclass(frozen=True)
class TritonCase(BugCase):
    """`program` of `triton_programs` with a mistake; a finding must have a code of `codes` at its line."""

    program: str
    mistake: str
    codes: tuple[str, ...]

    @property
    def skip(self) -> str:
        missing = [name for name in ("triton", "torch") if find_spec(name) is None]
        return f"{' and '.join(missing)} not installed (requirements-outside.txt)" if missing else ""

    @property
    def right_key(self) -> object:
        return self.program

    def _ran(self, wrong: bool, schedule: Schedule, races: bool) -> tuple[bool, list[Finding], LaunchFile]:
        """Whether the values are right, errors and warnings, and the launch."""
        os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
        os.environ.setdefault("TRITON_CACHE_DIR", str(ROOT / "build" / "triton"))
        from tileproof.tools.bugs import triton_programs
        from tileproof.triton import emulate

        call = triton_programs.gluon if self.program == "gluon" else triton_programs.CASES[self.program][0]
        with emulate(policy=str(schedule), races=races, raises=False) as run:
            right = call(self.mistake if wrong else "")
        return right, severe(run.findings), run.last.file()

    def launch(self, wrong: bool) -> LaunchFile:
        return self._ran(wrong, SCHEDULES[0], races=False)[2]

    def lines(self) -> list[str]:
        """Where the mistake stands: "FILE:LINE"."""
        from tileproof.tools.bugs import gluon_kernels, triton_kernels, triton_programs

        name, module = (
            ("matmul", gluon_kernels) if self.program == "gluon" else (self.program, triton_kernels)
        )
        file, _, number = triton_programs.planted_line(name, self.mistake, module).partition(":")
        behind = COPIES if self.mistake == "reused" else 0
        return [f"{file}:{int(number) + step}" for step in range(behind + 1)]

    def differs(self, finding: Finding) -> str:
        """What of a finding is not as the case states; empty: nothing."""
        if finding.code not in self.codes:
            return f"found as {finding.code}, expected {', '.join(self.codes)}"
        at = finding.machine.source
        return "" if at.split(" ")[0] in self.lines() else f"it is at {at}, not {self.lines()}"

    def detected(self) -> Detection:
        for schedule in SCHEDULES:
            right, found, _ = self._ran(True, schedule, races=True)
            if found:
                named = [self.differs(each) for each in found]
                best = named.index("") if "" in named else 0
                first = found[best]
                return Detection(first.code, place_of(first), first.message, named[best], str(schedule))
            if not right:
                return Detection("value", "", "wrong values", "no finding", str(schedule))
        return Detection()

    def alarms(self, schedules: Sequence[Schedule] = SCHEDULES) -> list[str]:
        alarms = []
        for schedule in schedules:
            right, found, _ = self._ran(False, schedule, races=True)
            alarms += [f"{schedule}: {each.code}: {each.message}" for each in found]
            alarms += [] if right else [f"{schedule}: wrong values"]
        return alarms


@cache
def cases() -> tuple[TritonCase, ...]:
    """All cases in Triton and Gluon."""
    return tuple(
        TritonCase(
            f"triton-{program}-{mistake}" if program != "gluon" else f"gluon-{mistake}",
            (),
            wrong,
            "matrix product" if program == "gluon" else program,
            "Gluon" if program == "gluon" else "Triton",
            program,
            mistake,
            codes,
        )
        for program, mistake, wrong, codes in MISTAKES
    )
