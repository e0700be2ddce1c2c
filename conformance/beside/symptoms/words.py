"""Reads symptoms in words: which outputs are wrong, what happens, under which conditions."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tileproof.spec.problems.base import ProblemType

WORDS: Mapping[str, Mapping[str, str]] = {
    table: {
        name: (" " if name == "words" else "").join(line.strip() for line in text.splitlines())
        for name, text in rows.items()
    }
    for table, rows in tomllib.loads(Path(__file__).with_name("words.toml").read_text()).items()
}
_STATES, _KINDS, _CONDITIONS = WORDS["states"], WORDS["kinds"], WORDS["conditions"]
IMPLY_WRONG = {"unstable", "imprecise", "pattern", "half", "factor"}
_NOT = re.compile(r"(?:\bnot|\bnever|n't|\bno longer)\s*$")


@dataclass(frozen=True)
class Symptoms:
    """What was understood. `outputs`: stage to "wrong", "nan", "zero" or "right"; `unknown`: other words."""

    outputs: Mapping[str, str]
    kinds: frozenset[str]
    conditions: frozenset[str]
    unknown: tuple[str, ...]

    @property
    def wrong(self) -> frozenset[str]:
        """Outputs and stages that are not right."""
        return frozenset(name for name, state in self.outputs.items() if state != "right")

    @property
    def right(self) -> frozenset[str]:
        return frozenset(name for name, state in self.outputs.items() if state == "right")


def final(problem: ProblemType) -> tuple[str, ...]:
    """The stages that no stage reads: the outputs."""
    read = {name for stage in problem.stages.values() for name in stage.inputs}
    return tuple(name for name in problem.stages if name not in read)


def names(problem: ProblemType) -> dict[str, str]:
    """Every name of a stage, lower case: its own, and those of the conventions."""
    found = {name.lower(): name for name in problem.stages}
    forms = problem.tensors
    for convention in forms.conventions if forms is not None else ():
        assert forms is not None
        by_form = {form.name: form.stage for form in forms.forms if form.role != "input"}
        for own, theirs in convention.names.items():
            if own in by_form:
                found.setdefault(theirs.lower(), by_form[own])
    return found


def read_symptoms(text: str, problem: ProblemType) -> Symptoms:
    """The symptoms of `text`; words without a meaning here are kept in `unknown`."""
    outputs: dict[str, str] = {}
    kinds, conditions, unknown = set[str](), set[str](), list[str]()
    rest: list[str] = []  # states of "the others"
    for clause in re.split(r"[,;\n]|\.(?!\d)|\bbut\b|\bwhile\b|\bwhereas\b|\band(?= only\b)", text.lower()):
        left, here = clause, set[str]()
        for found, patterns in ((conditions, _CONDITIONS), (kinds, _KINDS)):
            for name, pattern in patterns.items():
                left, seen = _take(left, pattern)
                if seen:
                    found.add(name)
                    here.add(name)
        _outputs(left, problem, outputs, kinds, rest, unknown, bool(here & IMPLY_WRONG))
    ends = final(problem)
    for state in rest:
        for name in ends:
            outputs.setdefault(name, state)
    not_right = [name for name in ends if outputs.get(name, "right") != "right"]
    told = all(name in outputs for name in ends) or re.search(r"\bonly\b", text.lower())
    if len(not_right) == 1 and len(ends) > 1 and told:
        conditions.add("single")
        for name in ends:
            outputs.setdefault(name, "right")
    if ends and set(not_right) == set(ends):
        conditions.add("all")
    kinds |= {state for state in outputs.values() if state != "right"}
    if kinds & {"nan", "zero", "imprecise"} or (outputs and any(s != "right" for s in outputs.values())):
        kinds.add("wrong")
    return Symptoms(outputs, frozenset(kinds), frozenset(conditions), tuple(dict.fromkeys(unknown)))


def _take(clause: str, pattern: str) -> tuple[str, bool]:
    """The clause without what the pattern matches, and whether it does."""
    return _whole(pattern).sub(" ", clause), _whole(pattern).search(clause) is not None


def _whole(pattern: str) -> re.Pattern[str]:
    """The pattern as whole words."""
    return re.compile(rf"(?<![\w-])(?:{pattern})(?!\w)")


def _outputs(
    clause: str,
    problem: ProblemType,
    outputs: dict[str, str],
    kinds: set[str],
    rest: list[str],
    unknown: list[str],
    implied: bool,
) -> None:
    """The states of a clause, for the outputs that it names: those before a state, else those behind it.
    `implied`: without a state, they are wrong.
    """
    known = names(problem)
    ends = final(problem)
    tokens: list[tuple[int, str, Sequence[str]]] = []
    left = clause

    def note(kind: str, pattern: str, of: Sequence[str]) -> None:
        nonlocal left
        tokens.extend((match.start(), kind, of) for match in _whole(pattern).finditer(left))
        left = _whole(pattern).sub(lambda match: " " * len(match[0]), left)

    # What was found is blanked, so that no shorter phrase is read in it.
    note("others", WORDS["ignored"]["others"], ())
    for theirs, own in sorted(known.items(), key=lambda item: -len(item[0])):
        note("name", re.escape(theirs), (own,))
    note("name", WORDS["ignored"]["all"], ends)
    for state, pattern in _STATES.items():
        for match in _whole(pattern).finditer(left):
            denied = _NOT.search(left[: match.start()]) is not None
            said = {"right": "wrong"}.get(state, "right") if denied else state
            tokens.append((match.start(), "state", (said,)))
        left = _whole(pattern).sub(lambda match: " " * len(match[0]), left)
    ignored = set(WORDS["ignored"]["words"].split())
    unknown += [word for word in re.findall(r"[^\s()\"':]+", left) if word not in ignored]
    waiting: list[str] = []
    others, last = False, ""
    for _, kind, of in sorted(tokens):
        if kind == "state":
            (last,) = of
            outputs.update(dict.fromkeys(waiting, last))
            if others:
                rest.append(last)
            if not waiting and not others and last != "right":
                kinds.add(last)
            waiting, others = [], False
        elif kind == "others":
            others = True
        else:
            waiting += of
    if implied and waiting and not last:
        last = "wrong"
    if last:  # the state came first
        outputs.update(dict.fromkeys(waiting, last))
        if others:
            rest.append(last)
    else:
        unknown += [f"{name} (neither right nor wrong)" for name in waiting]
