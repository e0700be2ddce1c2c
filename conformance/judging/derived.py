"""Expected outputs of a problem type: its stages in float64, with the derived bound of the whole chain."""

from __future__ import annotations

from collections.abc import Mapping

from tileproof.conformance.compare.endtoend import EndToEnd
from tileproof.conformance.judging.expected import Expected
from tileproof.spec.problems import problem_type
from tileproof.spec.problems.base import ProblemType, Tiling, known_stage
from tileproof.spec.problems.cases import ProblemInputs


def derived(
    problem: str | ProblemType,
    inputs: ProblemInputs,
    outputs: Mapping[str, str],
    *,
    block: int = 64,
    ctas: int = 1,
    shape: tuple[tuple[str, int, int], ...] = (),
) -> dict[str, Expected]:
    """Return what a reference returns for `outputs` (output: stage) of a problem's `inputs`.

    The bound of each element is derived from the roundings of every stage, from the ground data on; the
    default bound of references is a rule of thumb. `problem`: the name of a type, or a type with a rounding
    plan of its own. `block`, `ctas`, `shape`: how the kernel cuts the problem (`spec.problems.base.Tiling`).

    TileproofError for unknown problem types and stages.
    """
    kind = problem_type(problem) if isinstance(problem, str) else problem
    whole = EndToEnd(kind, inputs, Tiling(block, ctas, shape))
    known = {output: whole.known(known_stage(kind, stage).name) for output, stage in outputs.items()}
    return {output: Expected(reference.value, reference.error) for output, reference in known.items()}
