"""Reads symptoms in words: which outputs are wrong, what happens, under which conditions."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tileproof.conformance.beside.symptoms.names import gradients_named, names
from tileproof.spec.problems.base import ProblemType

WORDS: Mapping[str, Mapping[str, str]] = {
    table: {
        name: (" " if name == "words" else "").join(line.strip() for line in text.splitlines())
        for name, text in rows.items()
    }
    for table, rows in tomllib.loads(Path(__file__).with_name("words.toml").read_text()).items()
}
CONCEPTS = {**WORDS["kinds"], **WORDS["conditions"], **WORDS["concepts"]}
_NOT = re.compile(r"(?:\bnot|\bnever|n't|\bno longer|\bno|\bwithout(?: any)?|\bkeine?|\bnicht|\bnon)[ -]*$")
_CLAUSES = re.compile(
    r"[,;:()\n]|\.(?![\d\w])|\b(?:but|while|whereas|aber)\b|\band(?= only\b)|\band(?= the (?:rest|other))"
)
_EXCEPT = (
    r"(?:everything|anything|all|alles|alle|nothing|any) (?:but|except|ausser)|except(?: for)?|apart from|"
    r"other than|ausser|bis auf"
)
_ELLIPSIS = re.compile(r"(?:isn't|aren't|doesn't|don't|\b(?:is|are|does|do) not)\s*$")
_NOTHING = r"(?:nothing|none(?: of \w+)?|neither|nichts|keiner?)"
_ONLY = r"(?:only|nur|just|solely)(?: the| der| die)?"


@dataclass(frozen=True)
class Symptoms:
    """What was understood. `outputs`: stage to "wrong", "nan", "zero" or "right"; `unknown`: other words.

    `concepts` are those of the description, kinds and conditions among them; `looks` are the stages whose
    own words or whose errors' looks it has, with their number.
    """

    outputs: Mapping[str, str]
    kinds: frozenset[str]
    conditions: frozenset[str]
    unknown: tuple[str, ...]
    concepts: frozenset[str] = frozenset()
    stems: frozenset[str] = frozenset()
    looks: Mapping[str, int] | None = None

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


@cache
def _whole(pattern: str) -> re.Pattern[str]:
    """The pattern as whole words."""
    return re.compile(rf"(?<![\w'-])(?:{pattern})(?!\w)")


def concepts(text: str) -> frozenset[str]:
    """The concepts that a text has; a kind behind a negation is none."""
    found = set[str]()
    for name, pattern in CONCEPTS.items():
        for match in _whole(pattern).finditer(text):
            if name not in WORDS["kinds"] or not _NOT.search(text[: match.start()]):
                found.add(name)
                break
    return frozenset(found)


_ENDINGS = re.compile(
    r"(?:izations?|isations?|ations?|nesses|ness|ments?|ingly|ings?|edly|ed|ers?|ors?|ies|es|s|ly|ally|al|ive|ible|able|"
    r"ence|ance|ity|e|y|ungen|ung|en|t)$"
)


def stems(text: str) -> frozenset[str]:
    """The words of a text without their endings, and the parts of names such as `block_size`."""
    ignored = {*WORDS["ignored"]["words"].split()}
    for pattern in WORDS["states"].values():
        text = _whole(pattern).sub(" ", text)
    words = {word for word in re.findall(r"[a-z]{4,}", text) if word not in ignored}
    return frozenset(_ENDINGS.sub("", word) if len(word) > 5 else word.removesuffix("s") for word in words)


def plain(text: str, keep_case: bool = False) -> str:
    """The text in lower case and ASCII."""
    for written, here in {
        "ä": "ae",
        "ö": "oe",
        "ü": "ue",
        "ß": "ss",
        "\u2019": "'",
        "`": "",
        "\u00d7": "x",
    }.items():
        text = text.replace(written, here)
    return text if keep_case else text.lower()


def read_symptoms(text: str, problem: ProblemType) -> Symptoms:
    """The symptoms of `text`; words without a meaning here are kept in `unknown`."""
    reader = _Reader(problem)
    said = gradients_named(plain(text, keep_case=True), problem).lower()
    reader.read(said)
    outputs = reader.outputs
    had = concepts(said)
    kinds = set(had & {*WORDS["kinds"]}) | reader.kinds
    conditions = set(had & {*WORDS["conditions"]})
    ends = final(problem)
    not_right = [name for name in ends if outputs.get(name, "right") != "right"]
    if len(not_right) == 1 and len(ends) > 1 and (reader.exclusive or all(name in outputs for name in ends)):
        conditions.add("single")
    if ends and set(not_right) == set(ends):
        conditions.add("all")
    kinds |= {state for state in outputs.values() if state != "right"}
    if kinds & {"nan", "zero", "imprecise"} or (outputs and any(s != "right" for s in outputs.values())):
        kinds.add("wrong")
    looks = {
        name: len({match[0] for match in _whole(pattern).finditer(said)})
        for name, pattern in WORDS["stages"].items()
        if name in problem.stages
    }
    return Symptoms(
        outputs,
        frozenset(kinds),
        frozenset(conditions),
        reader.not_understood(said),
        had | kinds | conditions,
        stems(said),
        looks,
    )


class _Reader:
    """Collects the states of outputs, clause by clause."""

    def __init__(self, problem: ProblemType) -> None:
        self.ends = final(problem)
        known = names(problem)
        self.known = {f"<{name.lower()}>": name for name in problem.stages}
        self.spelled = {spelled: f"<{name.lower()}>" for spelled, name in known.items()}
        self.outputs: dict[str, str] = {}
        self.kinds = set[str]()
        self.exclusive = False
        self.open: list[str] = []  # names without a state
        self.carried: list[str] = []  # of a clause of names alone, which the next clause goes on with
        self.rest: list[str] = []  # states of "the others"
        self.every: list[str] = []  # states of all outputs
        self.excepted: list[str] = []
        self.bare = self.all_carried = False
        self.last = ""

    def note(self, of: Iterable[str], state: str) -> None:
        """Sets a state; wrong in a part is not right."""
        for name in of:
            if state != "right" or self.outputs.get(name, "right") == "right":
                self.outputs[name] = state

    def read(self, text: str) -> None:
        for spelled in sorted(self.spelled, key=len, reverse=True):
            text = re.sub(rf"(?<![\w'<-]){re.escape(spelled)}(?![\w>^])", self.spelled[spelled], text)
        output = r"(?:<\w+>)"
        several = rf"{output}(?:\s*(?:,|and|und|or|/|&|\+)\s*(?:the )?{output})*"

        def excepted(match: re.Match[str]) -> str:
            self.excepted += [self.known[name] for name in re.findall(output, match[1])]
            return " the others "

        def exclusive(match: re.Match[str]) -> str:
            self.exclusive = True
            return f" {match[1]} "

        text = re.sub(
            rf"\b(?:{_EXCEPT}) (?:the )?({several})(?:,? (?:all|everything|alles|alle))?", excepted, text
        )
        text = re.sub(rf"\b{_ONLY} ({several})", exclusive, text)
        wrong = WORDS["states"]["wrong"]
        text = re.sub(
            rf"\b{_ONLY} (?:{wrong}|thing|issue)\b[\w ]*? (?:is|are|ist|in) ({several})",
            lambda match: f"{exclusive(match)} wrong ", text,
        )  # fmt: skip
        right = WORDS["states"]["right"]
        text = re.sub(rf"\b{_NOTHING}\b[\w ]*?\b(?:{right})(?!\w)", "all outputs are wrong", text)
        for clause in _CLAUSES.split(text):
            self._clause(clause)
        self.open += self.carried
        self._conclude()

    def _conclude(self) -> None:
        """What the states of single outputs, of all and of the others mean together."""

        def some() -> bool:
            return any(state != "right" for state in self.outputs.values())

        # Who names an output and nothing that is wrong means that the output is.
        if self.exclusive or not some():
            self.note([name for name in self.open if name not in self.outputs], "wrong")
            self.open = [name for name in self.open if name not in self.outputs]
        # "All right" beside something wrong speaks of another case.
        for state in [state for state in self.every if state != "right" or not some()]:
            self.note(self.ends, state)
        for state in self.rest:
            self.note([name for name in self.ends if name not in {*self.excepted, *self.outputs}], state)
        if self.excepted:
            right = "right" in self.rest or not self.rest
            self.note(self.excepted, "wrong" if right else "right")
            self.exclusive |= right
        # Who names only what is right complains about the others.
        others = [name for name in self.ends if name not in self.outputs]
        if {*self.outputs} & {*self.ends} and not some():
            self.note(others, "wrong")
        elif self.exclusive and some():
            self.note(others, "right")

    def _tokens(self, clause: str) -> tuple[list[tuple[int, str, tuple[str, ...]]], str]:
        """Names and states of a clause with their places, and what is left of it beside the names."""
        tokens: list[tuple[int, str, tuple[str, ...]]] = []
        remainder = clause

        def take(kind: str, pattern: re.Pattern[str]) -> None:
            nonlocal remainder
            for match in pattern.finditer(remainder):
                of: tuple[str, ...] = ()
                if kind == "name":
                    of = (self.known[match[0]],)
                elif kind not in ("all", "others"):
                    denied = _NOT.search(remainder[: match.start()]) is not None
                    of = (({"right": "wrong"}.get(kind, "right") if denied else kind),)
                tokens.append((match.start(), kind, of))
            remainder = pattern.sub(lambda match: " " * len(match[0]), remainder)

        take("name", re.compile("|".join(map(re.escape, self.known))))
        take("zero", _whole(WORDS["states"]["zero"]))
        take("others", _whole(WORDS["ignored"]["others"]))
        take("all", _whole(WORDS["ignored"]["all"]))
        if not any(kind == "name" for _, kind, _ in tokens):
            take("all", _whole(r"(?:the |backward )?(?:gradients?|grads)"))
        beside = remainder
        remainder = re.sub(r"\bnot (?:right|ok|okay|fine|correct|good|exact|equal)\b", "wrong", remainder)
        for state in ("right", "nan", "wrong"):
            take(state, _whole(WORDS["states"][state]))
        if self.last and tokens and (match := _ELLIPSIS.search(clause)):  # "dk is wrong, dv isn't"
            tokens.append((match.start(), "state", ("wrong" if self.last == "right" else "right",)))
        return sorted(tokens), beside

    def _clause(self, clause: str) -> None:
        """The states of a clause, for the outputs that it names before a state, else behind it."""
        tokens, beside = self._tokens(clause)
        bare = bool(tokens) and not re.sub(r"\b(?:and|und|or|the|both)\b|[&/+ ]", "", beside)
        named = any(kind in ("name", "all") for _, kind, _ in tokens)
        waiting: list[str] = [] if named and not bare and not self.bare else self.carried
        self.open += [] if waiting is self.carried else self.carried
        others, every, last = False, self.all_carried and not named, ""
        self.carried, self.bare, self.all_carried = [], bare, False
        subjects: list[str] = []
        for _, kind, of in tokens:
            if kind == "name":
                waiting += of
            elif kind in ("all", "others"):
                every, others = every or kind == "all", others or kind == "others"
            else:
                (last,) = of
                self.last = last
                self.every += [last] * every
                self.rest += [last] * others
                subjects = waiting or subjects
                # A state without a name goes on with the names before it: "right below 64 and wrong above".
                self.note(subjects if last != "right" else waiting, last)
                if last != "right" and not (subjects or others or every):
                    self.kinds.add(last)
                waiting, others, every = [], False, False
        if last:  # the state came first
            self.note(waiting, last)
            self.every += [last] * every
            self.rest += [last] * others
        elif waiting and not bare and concepts(clause) & IMPLY_WRONG:
            self.note(waiting, "wrong")
        else:
            self.carried, self.all_carried = waiting, every

    def not_understood(self, text: str) -> tuple[str, ...]:
        """The words that no pattern has, and the names without a state."""
        ignored = {*WORDS["ignored"]["words"].split(), *self.spelled}
        patterns = [*CONCEPTS.values(), *WORDS["states"].values(), *WORDS["stages"].values()]
        patterns += [WORDS["ignored"]["all"], WORDS["ignored"]["others"], _EXCEPT]
        for pattern in patterns:
            text = _whole(pattern).sub(" ", text)
        words = [word.strip("?!.") for word in re.findall(r"[^\s()\"':,;/&+]+", text)]
        plain = [word for word in words if re.search(r"[a-z]", word) and word not in ignored]
        unsaid = [f"{name} (neither right nor wrong)" for name in self.open if name not in self.outputs]
        return tuple(dict.fromkeys([*plain, *unsaid]))


IMPLY_WRONG = {"unstable", "imprecise", "pattern", "half", "factor"}
