"""The cases of a released set of vectors, by problem."""

from __future__ import annotations

from tileproof.spec.problems import problem_types
from tileproof.spec.problems.cases import VectorCase


def cases() -> dict[str, list[VectorCase]]:
    """Every case of the set, by problem."""
    found = {}
    for name, problem in problem_types().items():
        forms = problem.tensors
        if forms is not None and (made := list(forms.vector_cases())):
            found[name] = made
    return found
