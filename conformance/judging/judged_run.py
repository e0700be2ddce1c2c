"""A run of a case with its findings, small enough to be sent to another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tileproof.conformance.compare.compare import StageScore
from tileproof.spec.machine.certificate import Certificate
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.machine.schedule import Schedule

if TYPE_CHECKING:
    from tileproof.conformance.judging.values import WrongArray
    from tileproof.emulator import Schedule


@dataclass
class JudgedRun:
    """What one run showed. `findings` are errors, the finding that explains most first; `scores` are by stage
    or output; `remarks` are all other findings, as text, with their number.

    `executed`: (module, entry, one byte per instruction; `tileproof.emulator.coverage`) of each launch, empty
    where the driver does not report it. `finished`: every launch ran to its end; `ended_by`: the limit that
    stopped it, as `RunResult.ended_by`. `points`: scheduling points. `agreed`: tiles that two builds show
    with equal bits. `again`: the production build was launched again; `unrepeated`: only its outputs are
    wrong. `certificate`: of a run with race checking.
    `wrong`: arrays that a reference function may explain. `result` is kept of the first run of a case.
    """

    schedule: Schedule = field(default_factory=Schedule)
    findings: list[Finding] = field(default_factory=list)
    scores: dict[str, StageScore] = field(default_factory=dict)
    remarks: dict[str, int] = field(default_factory=dict)
    executed: tuple[tuple[str, str, bytes], ...] = field(default=(), repr=False)
    finished: bool = True
    ended_by: str = ""
    points: int = 0
    seconds: float = 0.0
    agreed: int = 0
    again: bool = False
    unrepeated: bool = False
    certificate: Certificate | None = field(default=None, repr=False)
    wrong: tuple[WrongArray, ...] = field(default=(), repr=False)
    result: RunResult | None = field(default=None, repr=False)

    def count(self, scores: Mapping[str, StageScore]) -> None:
        """Add scores."""
        for name, score in scores.items():
            self.scores.setdefault(name, StageScore()).add(score)

    def remark(self, text: str, number: int = 1) -> None:
        """Add a remark."""
        self.remarks[text] = self.remarks.get(text, 0) + number
