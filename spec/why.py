"""Why a stage has its bound: its operations that round, down to the data that are given.

A stage's explanation lists each such operation with its error as a formula, where it rounds and who gives the
figure, then the explanations of the stages that it reads.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tileproof.spec.arithmetic.terms import Bounded, Sum
from tileproof.spec.arithmetic.traced import TextStep, TracedText
from tileproof.spec.numerics import CONSTANTS
from tileproof.spec.problems.base import ProblemType, known_stage, upstream
from tileproof.spec.stage import Stage

WIDTH = 96
NAMES = "a, b: operands; e_a: error of a; M_a = |a| + e_a; u = U_F32, w = U_F64; n: number of terms"


@dataclass(frozen=True)
class ErrorSize:
    """Of an operation on a case: the largest magnitude and error, and what operands add to a sum's error."""

    value: float
    error: float
    carried: float | None = None

    @staticmethod
    def of(term: Bounded) -> ErrorSize:
        """The sizes of a term."""
        carried = float(np.max(term.carried)) if isinstance(term, Sum) else None
        return ErrorSize(float(np.abs(term.value).max()), float(np.max(term.errors)), carried)


def steps(stage: Stage) -> list[TextStep]:
    """The operations of a stage that state an error, in order."""
    traced = TracedText()
    stage.text_over(traced)
    return traced.steps


def order(problem: ProblemType, name: str) -> tuple[str, ...]:
    """The stage, then the stages that it depends on, nearest first; TileproofError for an unknown stage."""
    known_stage(problem, name)
    return (name, *reversed(upstream(problem, name)))


def _reads(problem: ProblemType, stage: Stage) -> str:
    said = []
    for source in stage.inputs:
        form = stage.reads[source].name
        known = f"stage, {form}, error below" if source in problem.stages else f"given, {form}, exact"
        said.append(f"{source} ({known})")
    return "; ".join(said)


def _stage_lines(problem: ProblemType, stage: Stage, sizes: Sequence[ErrorSize] | None) -> Iterable[str]:
    yield f"{stage.name} = {stage.formula}"
    yield f"  tile:    [{', '.join(stage.tile)}], kept in {stage.at_rest}"
    yield f"  reads:   {_reads(problem, stage)}"
    for number, step in enumerate(steps(stage)):
        if not step.roundings:
            continue
        yield f"  {step.operation.name}: {step.result.plain}"
        yield f"    rounds: {'; '.join(step.roundings)}"
        yield f"    error:  {step.operation.error}"
        yield f"    source: {step.operation.source.replace('`', '').replace(' above', '')}"
        if sizes is not None:
            size = sizes[number]
            part = "" if size.carried is None else f", of which {size.carried:.3g} from its operands"
            yield f"    here:   values up to {size.value:.3g}, error up to {size.error:.3g}{part}"


def lines(
    problem: ProblemType, name: str, sizes: Mapping[str, Sequence[ErrorSize]] | None = None
) -> list[str]:
    """The explanation of a stage's bound; `sizes`: the errors of each stage's `steps` on a case."""
    text: list[str] = [f"bound of {name}, problem {problem.name}, from the given data", NAMES, ""]
    used = ""
    for each in order(problem, name):
        stage = problem.stages[each]
        text += [*_stage_lines(problem, stage, None if sizes is None else sizes[each]), ""]
        used += "".join(step.operation.error + step.operation.source for step in steps(stage))
    text.append("constants")
    for constant in CONSTANTS:
        word = constant.name.partition("(")[0]
        if re.search(rf"\b{word}\b", used + " U_F32 U_F64"):
            text.append(f"  {constant.name} = {constant.value}: {constant.meaning} [{constant.source}]")
    return [part for line in text for part in _folded(line)]


def _folded(line: str) -> list[str]:
    """A line in parts of at most `WIDTH` characters, aligned below the text of the first part."""
    indent = len(line) - len(line.lstrip())
    label = re.match(r"\s*(?:tile|reads|rounds|error|source|here):\s*", line)
    hang = " " * (len(label[0]) if label else indent + 4)
    return textwrap.wrap(line, WIDTH, subsequent_indent=hang, break_long_words=False) or [""]
