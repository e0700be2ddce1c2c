"""Queries of the solver: whether two terms are equal under what is known of a path."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import z3
from tileproof.conformance.beside.equal.meaning import Term, number
from tileproof.emulator.ptx import Immediate, Operand, Sink

QUERY_MS = 5_000


class Differs(Exception):
    """Something differs, as far as is known."""


class Undecided(TimeoutError):
    """A query that the solver does not decide."""


@dataclass
class Solver:
    """`facts`: what holds in every thread. TimeoutError after `deadline`."""

    facts: Sequence[Term]
    deadline: float
    queries: int = 0

    def must_item(self, a: Term | Operand, b: Term | Operand, under: list[Term], where: str) -> None:
        if isinstance(a, Immediate | Sink) and isinstance(b, Immediate | Sink):
            if a != b:
                raise Differs(f"{where} is {b}, not {a}")
            return
        terms: list[Term] = [a, b]
        for place, (first, other) in enumerate(((a, terms[1]), (b, terms[0]))):
            if isinstance(first, Immediate) and not first.float_bits and z3.is_bv(other):
                terms[place] = number(first.value, other.size())
            elif isinstance(first, Immediate | Sink):
                raise Differs(f"{where} is of another kind")
        self.must(terms[0], terms[1], under, where)

    def must(self, a: Term, b: Term, under: list[Term], where: str) -> None:
        found = self._difference(a, b, under)
        if found:
            raise Differs(f"{where} differs, {found}")

    def same(self, a: Term, b: Term, under: list[Term]) -> bool:
        try:
            return not self._difference(a, b, under)
        except Undecided:
            return False  # then they may differ

    def _difference(self, a: Term, b: Term, under: list[Term]) -> str:
        """Values with which two terms differ, or "" if there are none; TimeoutError if undecided."""
        if a.eq(b):
            return ""
        if a.sort() != b.sort():
            return "in its width"
        if time.monotonic() > self.deadline:
            raise TimeoutError("the solver's time is over")
        solver = z3.SolverFor("QF_UFBV")
        solver.set("timeout", QUERY_MS)
        solver.add(*self.facts, *under, a != b)
        self.queries += 1
        result = solver.check()
        if result == z3.unsat:
            return ""
        if result != z3.sat:
            raise Undecided("the solver does not decide a query in time")
        model = solver.model()
        values = [f"{value.name()} = {model[value]}" for value in model.decls() if value.arity() == 0][:4]
        return f"{model.eval(a, True)} and {model.eval(b, True)}, with {', '.join(values) or 'any values'}"
