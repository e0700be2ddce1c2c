"""Proves that two entries with the same control flow do the same: in each thread the same effects with the
same operands, in the same order.

docs/mutate.md, "Equality by the solver", has the argument.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import z3
from tileproof.conformance.beside.equal.entry import (
    LATE,
    WAITS,
    CodeBlock,
    EntryCode,
    Unsupported,
    entry_of,
    pure,
    results,
    sources,
    written,
)
from tileproof.conformance.beside.equal.extents import Extents
from tileproof.conformance.beside.equal.flow import dominators, leaving_kind, unlike
from tileproof.conformance.beside.equal.meaning import Term, number
from tileproof.conformance.beside.equal.operands import shape, used
from tileproof.conformance.beside.equal.side import Look, Side, Thread, variable
from tileproof.conformance.beside.equal.solver import Differs, Solver
from tileproof.emulator.errors import PtxError
from tileproof.emulator.ptx import Address, Immediate, Instruction, Name, Operand, Pair, Sink, Vector

Kind = Literal["proved", "differs", "unknown"]


@dataclass(frozen=True)
class Equality:
    """The result. `why`: what was proved; where and for which values something may differ; or what was not
    covered. "unknown" is never equality.
    """

    kind: Kind
    why: str
    queries: int = 0


def equal(original: str, mutant: str, entry: str, extents: Extents, seconds: float = 60) -> Equality:
    """Compare the entry of two PTX texts; `seconds`: the most that the solver may take."""
    try:
        first, second = entry_of(original, entry), entry_of(mutant, entry)
        proof = _Proof((first, second), extents, time.monotonic() + seconds)
        proof.run()
    except Differs as found:
        return Equality("differs", str(found))
    except (Unsupported, PtxError) as why:
        return Equality("unknown", f"not covered: {why}")
    except (TimeoutError, RecursionError) as why:
        return Equality("unknown", str(why))
    return Equality(
        "proved", f"every effect has equal operands; {proof.solver.queries} queries", proof.solver.queries
    )


@dataclass
class _State:
    """A point of both entries: what their registers hold, and what is known of the path."""

    head: int
    holds: tuple[dict[str, Term], dict[str, Term]]
    path: list[Term]
    waits: int = 0

    def copy(self) -> _State:
        return _State(self.head, (dict(self.holds[0]), dict(self.holds[1])), list(self.path), self.waits)


@dataclass
class _Proof:
    """The relation between the entries: registers that hold the same, but those of `differ`, at the head of
    each tree of blocks. It begins with every register and loses those that a path to the head does not
    preserve, until nothing changes.
    """

    entries: tuple[EntryCode, EntryCode]
    extents: Extents
    deadline: float
    arrivals: int = 0
    differ: dict[int, set[str]] = field(default_factory=dict)

    def run(self) -> None:
        first, second = self.entries
        if first.declared != second.declared or any(
            width != second.widths.get(name, width) for name, width in first.widths.items()
        ):
            raise Unsupported("other declarations")
        if len(first.blocks) != len(second.blocks):
            raise Unsupported("another control flow: other basic blocks")
        aligned = {name: min(align, second.aligned.get(name, 1)) for name, align in first.aligned.items()}
        self.thread = Thread(self._declared(), aligned)
        self.solver = Solver(self.thread.facts, self.deadline)
        successors = [
            tuple(dict.fromkeys((*a.successors, *b.successors)))
            for a, b in zip(first.blocks, second.blocks, strict=True)
        ]
        self.before: list[list[int]] = [[] for _ in successors]
        for block, then in enumerate(successors):
            for behind in then:
                self.before[behind].append(block)
        self.dominates = dominators(successors, self.before)
        self.sides = tuple(Side(code, self.thread, self.dominates) for code in self.entries)
        self.live = self._live(successors)
        self.late = {
            name
            for code in self.entries
            for block in code.blocks
            for step in block.steps
            if LATE.match(step.opcode)
            for name in written(step)
        }
        self.differ[0] = set(self.live[0])  # what nobody wrote is not known to be the same
        changed = {n for n, pair in enumerate(zip(first.blocks, second.blocks, strict=True)) if unlike(*pair)}
        self.pending = list(dict.fromkeys(self._head(block) for block in sorted(changed)))
        if self.differ[0] and 0 not in self.pending:
            self.pending.append(0)
        while self.pending:
            self._tree(self.pending.pop())

    def _declared(self) -> Extents:
        exact = self.entries[0].directives.get("reqntid")
        if self.extents.block is None and exact:
            x, y, z = (*exact, 1, 1)[:3]
            return Extents((x, y, z), self.extents.cluster)
        return self.extents

    def _live(self, successors: Sequence[tuple[int, ...]]) -> list[set[str]]:
        alive: list[set[str]] = [set() for _ in successors]
        changed = True
        while changed:
            changed = False
            for block in reversed(range(len(successors))):
                behind = set().union(*(alive[then] for then in successors[block]))
                now = set().union(*(code.live(block, behind) for code in self.entries))
                changed |= now != alive[block]
                alive[block] = now
        return alive

    def _head(self, block: int) -> int:
        seen = set()
        while block and len(self.before[block]) == 1 and block not in seen:
            seen.add(block)  # blocks that nothing reaches may go round
            block = self.before[block][0]
        return block

    # ---- a tree of blocks: a head, and the blocks that have a single way into them

    def _tree(self, head: int) -> None:
        pending = [(head, _State(head, ({}, {}), self._conditions(head)))]
        while pending:
            block, state = pending.pop()
            self._block(block, state)
            ways = list(self._ways(block, state))
            for number_, (target, condition) in enumerate(ways):
                then = state if number_ == len(ways) - 1 else state.copy()
                if condition is not None:
                    then.path.append(condition)
                if self._head(target) == target:
                    self._arrive(target, then)
                else:
                    pending.append((target, then))

    def _conditions(self, head: int) -> list[Term]:
        """Branches on kept values that every path to a block takes one way."""
        found = []
        for block in self.dominates[head]:
            ways = self.before[block]
            if len(ways) != 1 or block == 0:
                continue
            for side in self.sides:
                leaving = side.code.blocks[ways[0]]
                condition = self._invariant_guard(side, leaving, ways[0], head)
                taken, behind = block in leaving.targets, block == leaving.behind
                if condition is not None and taken != behind:
                    found.append(condition if taken else z3.Not(condition))
        return found

    def _invariant_guard(self, side: Side, leaving: CodeBlock, block: int, head: int) -> Term | None:
        end = leaving.leaves
        if end is None or not end.guard:
            return None
        term = side.invariant(end.guard, head)
        made = side.code.definitions.get(end.guard, [])
        if term is None or (made[0][0] != block and made[0][0] not in self.dominates[block]):
            return None
        return z3.Not(term) if end.guard_negated else term

    def _look(self, which: int, state: _State) -> Look:
        holds = state.holds[which]

        def look(name: str) -> Term:
            if name not in holds:
                holds[name] = self._first(which, name, state)
            return holds[name]

        return look

    def _first(self, which: int, name: str, state: _State) -> Term:
        """What a register holds at the head of a tree."""
        own = name in self.live[state.head] and name not in self.differ.get(state.head, set())
        values = [side.invariant(name, state.head) for side in self.sides]
        if values[0] is not None and values[1] is not None and own and not values[0].eq(values[1]):
            state.path.append(values[0] == values[1])
        term = values[which]
        if term is None and own:
            term = values[1 - which]
        if term is not None and name not in self.late:
            return term
        suffix = "" if own else f" of {('the original', 'the mutant')[which]}"
        width = self.sides[which].code.widths[name]
        waits = state.waits if name in self.late else 0
        return variable(f"{name} in block {state.head}, {waits}{suffix} :{width}", width)

    def _block(self, number_: int, state: _State) -> None:
        """Both blocks, effect by effect."""
        walks = [self._walk(which, number_, state) for which in (0, 1)]
        count = 0
        while True:
            first, second = (next(walk, None) for walk in walks)
            if first is None or second is None:
                break
            self._effect(first, second, state, f"{number_}.{count}")
            count += 1
        unmatched = first or second
        if unmatched is not None:
            raise Differs(f"line {unmatched.line}: {unmatched.opcode} is an effect of one of them alone")

    def _walk(self, which: int, number_: int, state: _State) -> Iterator[Instruction]:
        """The effects of a block; pure steps between them are computed."""
        side, look = self.sides[which], self._look(which, state)
        for step in side.code.blocks[number_].steps:
            if not pure(step):
                yield step
            else:
                self._write(which, step, side.compute(step, look), state)

    def _write(self, which: int, step: Instruction, terms: Sequence[Term], state: _State) -> None:
        look, holds = self._look(which, state), state.holds[which]
        guard = self._guard(which, step, state)
        new = {}
        for first, term in zip(results(step), terms, strict=True):
            if isinstance(first, Name):
                new[first.name] = term if guard is None else z3.If(guard, term, look(first.name))
        holds.update(new)

    def _guard(self, which: int, step: Instruction, state: _State) -> Term | None:
        if not step.guard:
            return None
        term = self._look(which, state)(step.guard)
        return z3.Not(term) if step.guard_negated else term

    def _effect(self, first: Instruction, second: Instruction, state: _State, name: str) -> None:
        where = f"line {first.line}: {first.opcode}"
        if first.opcode != second.opcode:
            raise Differs(f"{where} is {second.opcode}, line {second.line}")
        guards = [self._guard(which, step, state) for which, step in enumerate((first, second))]
        under = list(state.path)
        if guards != [None, None]:
            terms = [z3.BoolVal(True) if guard is None else guard for guard in guards]
            self.solver.must(terms[0], terms[1], under, f"{where}, guard")
            under.append(terms[0])
        items = [list(self._of_step(which, step, state)) for which, step in enumerate((first, second))]
        shapes = [[shape(operand) for operand in sources(step)] for step in (first, second)]
        if shapes[0] != shapes[1] or len(items[0]) != len(items[1]):
            raise Differs(f"{where} has other operands")
        for place, (a, b) in enumerate(zip(*items, strict=True)):
            self.solver.must_item(a, b, under, f"{where}, operand {place}")
        if [type(first) for first in results(first)] != [type(first) for first in results(second)]:
            raise Differs(f"{where} has other results")
        made = []
        for which, step in enumerate((first, second)):
            side = self.sides[which]
            widths = [side.code.widths[r.name] if isinstance(r, Name) else 32 for r in results(step)]
            made.append([variable(f"result {n} of effect {name} :{w}", w) for n, w in enumerate(widths)])
        shuffled = [side.shuffled(step) for side, step in zip(self.sides, (first, second), strict=True)]
        if known := [term for term in shuffled if term is not None]:
            made = [[known[0]]] * 2  # what both find where they find the same operands
        for which, step in enumerate((first, second)):
            self._write(which, step, made[which], state)
        if WAITS.match(first.opcode):
            self._arrived(state)

    def _arrived(self, state: _State) -> None:
        """Behind a wait registers of loads that were in flight hold something else."""
        for name in self.late:
            if not any(name in holds for holds in state.holds):
                continue
            known = [which for which in (0, 1) if name in self.sides[which].code.widths]
            terms = [self._look(which, state)(name) for which in known]
            same = len(terms) == 2 and self.solver.same(terms[0], terms[1], state.path)
            self.arrivals += 1
            for which in known:
                apart = "" if same else f" {which}"
                width = self.sides[which].code.widths[name]
                state.holds[which][name] = variable(f"{name} behind wait {self.arrivals}{apart}", width)
        state.waits += 1

    def _of_step(self, which: int, step: Instruction, state: _State) -> Iterator[Term | Operand]:
        """What an effect uses of its operands, flattened."""
        operands = sources(step)
        each = [list(self._items(which, (first,), state)) for first in operands]
        if step.opcode.startswith("tcgen05.mma.cta_group") and len(operands) > 3:
            for place in (1, 2):
                registers = isinstance(operands[place], Name) and isinstance(operands[3], Name)
                if registers:
                    each[place] = [used(step.opcode, place, each[place][0], each[3][0])]
        for items in each:
            yield from items

    def _items(self, which: int, operands: Sequence[Operand], state: _State) -> Iterator[Term | Operand]:
        side, look = self.sides[which], self._look(which, state)
        for first in operands:
            if isinstance(first, Vector):
                yield number(len(first.parts), 32)
                yield from self._items(which, first.parts, state)
            elif isinstance(first, Pair):
                yield from self._items(which, (first.first, first.second), state)
            elif isinstance(first, Address):
                yield side.address(first, look)
                yield number(len(first.coordinates), 32)
                yield from self._items(which, first.coordinates, state)
            elif isinstance(first, Immediate | Sink):
                yield first
            else:
                yield side.any_value(first, look)

    # ---- the ways out of a block

    def _ways(self, number_: int, state: _State) -> Iterator[tuple[int, Term | None]]:
        """The blocks that may follow, each with its condition, which is the same in both."""
        blocks = [code.blocks[number_] for code in self.entries]
        taken = []
        for which, block in enumerate(blocks):
            guard = None if block.leaves is None else self._guard(which, block.leaves, state)
            known = z3.BoolVal(block.leaves is not None)
            taken.append(known if guard is None else guard)
        leaving = [block for block in blocks if block.leaves is not None]
        where = f"line {leaving[0].leaves.line}: " if leaving and leaving[0].leaves else ""
        self.solver.must(taken[0], taken[1], state.path, f"{where}whether the branch is taken")
        if (
            len({block.targets for block in leaving}) > 1
            or len({leaving_kind(block) for block in leaving}) > 1
        ):
            raise Unsupported("another control flow: other targets")
        if len({block.behind for block in blocks if block.behind is not None}) > 1:
            raise Unsupported("another control flow")
        if leaving and leaving[0].leaves is not None and leaving[0].leaves.opcode.startswith("brx"):
            if len(leaving) != 2:
                raise Unsupported("another control flow: a list of targets")
            under = [*state.path, taken[0]]
            indices = [
                self.sides[which].any_value(block.leaves.operands[0], self._look(which, state))
                for which, block in enumerate(blocks)
                if block.leaves is not None
            ]
            self.solver.must(indices[0], indices[1], under, f"{where}the target")
        for target in dict.fromkeys(leaving[0].targets if leaving else ()):
            if target >= 0:
                alone = len(leaving[0].targets) == 1
                yield target, taken[0] if alone else None
        behind = next((block.behind for block in blocks if block.behind is not None), None)
        if behind is not None and behind >= 0:
            yield behind, z3.Not(taken[0])

    def _arrive(self, head: int, state: _State) -> None:
        """What is not the same at the end of a way into a head differs at the head."""
        lost = set()
        known = self.differ.setdefault(head, set())
        for name in sorted(self.live[head] - known):
            if any(name not in side.code.widths for side in self.sides):
                lost.add(name)
                continue
            first, second = (self._look(which, state)(name) for which in (0, 1))
            if not self.solver.same(first, second, state.path):
                lost.add(name)
        if lost:
            known |= lost
            if head not in self.pending:
                self.pending.append(head)
