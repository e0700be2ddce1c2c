"""Outputs whose rows are sums over many groups: added up group after group, then compared."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from tileproof.conformance.compare.compare import StageScore, score, within_bound
from tileproof.conformance.compare.patterns import arrangement
from tileproof.conformance.observe.tiles import F64, Chain
from tileproof.spec.arithmetic import BF16, F16, F32
from tileproof.spec.arithmetic.sums import RowSums, stored
from tileproof.spec.machine.finding import Finding, ProblemPlace
from tileproof.spec.machine.types import Array
from tileproof.spec.problems.base import ProblemType
from tileproof.spec.problems.tensors import TensorForm

FORM_OF = {"bfloat16": BF16, "float16": F16}  # of an output that its dump has rounded
SETTLE = 16  # groups between two additions of what waits


@dataclass
class SummedOutput:
    """An output of this kind. Rows that groups outside the comparison add to are not judged.

    Of each row of `sums`, `open_rows` says whether a group that is not compared adds to it;
    `groups` how many groups add to it. After `compare`: `wrong_rows`, their numbers.
    """

    problem: ProblemType
    form: TensorForm
    sums: RowSums
    open_rows: npt.NDArray[np.bool_]
    groups: npt.NDArray[np.int64]
    wrong_rows: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    _wrong: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 0), bool))
    _added: int = 0

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """The rows that some group adds to, ascending."""
        return self.sums.rows

    def add(self, chain: Chain) -> None:
        """Add the tiles of the chain's only group."""
        chain.scatter(self.form.stage, self.sums)
        self._added += 1
        if self._added % SETTLE == 0:
            _ = self.sums.value

    def compare(self, found: Array) -> tuple[StageScore, list[Finding], int]:
        """Score and findings of rows that only compared groups add to, and how many rows were skipped."""
        closed = np.flatnonzero(~self.open_rows)
        here = np.asarray(found[self.rows[closed]])
        value, bound = self.sums.value[closed], self.sums.bound()[closed]
        declared = self.problem.stages[self.form.stage].stored
        form = declared if declared != F32 else FORM_OF.get(here.dtype.name, F32)
        value, bound = stored(form, value, bound)
        right = within_bound(here, value, bound)
        findings = []
        some = ~right.all(axis=1)
        self.wrong_rows, self._wrong = self.rows[closed][some], ~right[some]
        if not right.all():
            findings.append(self._finding(here, value, bound, ~right, self.rows[closed]))
        findings += self._untouched(found)
        made = score(here, np.ones(here.shape, bool), value, bound)
        made.wrong = int((~right).sum())
        return made, findings, int(self.open_rows.sum())

    def groups_of(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """How many groups add to each of the rows."""
        found: npt.NDArray[np.int64] = self.groups[np.searchsorted(self.rows, rows)]
        return found

    def is_wrong(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """``bool [rows, columns]``: which elements of wrong rows are wrong."""
        found: npt.NDArray[np.bool_] = self._wrong[np.searchsorted(self.wrong_rows, rows)]
        return found

    def _untouched(self, found: Array) -> list[Finding]:
        """A finding where a row that no group adds to is not 0."""
        rest = np.ones(len(found), bool)
        rest[self.rows] = False
        if not rest.any():
            return []
        numbers = np.flatnonzero(rest)
        dirty = np.zeros(len(numbers), bool)
        for first in range(0, len(numbers), 4096):
            some = slice(first, first + 4096)
            dirty[some] = (np.asarray(found[numbers[some]]) != 0).any(axis=1)
        if not dirty.any():
            return []
        row = int(numbers[dirty][0])
        values = np.asarray(found[row])
        column = int(np.flatnonzero(values != 0)[0])
        return [
            Finding(
                "surplus",
                f"a row of {self.form.name} that {self.problem.unselected} is not 0",
                problem=self._place(row, column),
                expected=0.0,
                found=float(values[column]),
                wrong=int(dirty.sum()),
                elements=len(numbers),
                pattern=f"{int(dirty.sum())} of {len(numbers)} such rows",
            )
        ]

    def _place(self, row: int, column: int) -> ProblemPlace:
        axes = (self.problem.words.get(self.form.axes[0], "row"), "column")
        return ProblemPlace(self.form.stage, row=row, column=column, axes=axes, tile=self.form.name)

    def _finding(
        self,
        found: Array,
        value: F64,
        bound: F64,
        wrong: npt.NDArray[np.bool_],
        rows: npt.NDArray[np.int64],
    ) -> Finding:
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        axes = (self.problem.words.get(self.form.axes[0], "row"), "column")
        return Finding(
            "value",
            f"rows of {self.form.name} are not the sums over all groups",
            problem=self._place(int(rows[row]), column),
            expected=float(value[row, column]),
            found=float(found[row, column]),
            bound=float(bound[row, column]),
            wrong=int(wrong.sum()),
            elements=int(wrong.size),
            pattern=arrangement(
                wrong, rows_first=0, cols_first=0, units=axes, part=self.problem.fault_hypotheses.part
            )
            if len(rows) == len(found) == int(rows[-1]) + 1
            else "",
            cause=_cause(found.astype(np.float64), value, bound, wrong),
        )


def _cause(found: F64, value: F64, bound: F64, wrong: npt.NDArray[np.bool_]) -> str:
    """The simple mistakes of a sum."""
    if not found[wrong].any():
        return "nothing was added there"
    for factor, words in ((2.0, "every contribution was added twice"), (-1.0, "the sign is wrong")):
        if (np.abs(found - factor * value) <= 4 * bound + 1e-45)[wrong].all():
            return words
    return ""
