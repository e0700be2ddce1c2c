"""Ranks causes of symptoms: by the problem's stage graph, and by the bugs of the corpus."""

from __future__ import annotations

import math
import tomllib
from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path

from tileproof.conformance.beside.corpus.rows import ROWS
from tileproof.conformance.beside.symptoms.words import WORDS, Symptoms, concepts, final, plain, stems
from tileproof.spec.problems.base import ProblemType, upstream

FIRST = 3
STAGE = 5.0  # for a stage that explains which outputs are wrong
SEEN = 1  # words of a stage that stand for a wrong output
LOOKS = 1.6  # for each of its words
UNEXPLAINED, UNSAID = 1.0, 0.5
MIN_SCORE = 1.0
STRANGE = {"hang", "crash", "unstable"}  # no stage by itself makes them
DISTINCTIVE = {"hang", "crash", "nan", "zero", "unstable", "imprecise"}  # kinds that distinguish bugs
AGAINST = 2.5  # for a kind that the bug lacks
AMONG = 0.5  # a cause of the other source, or a row beside another, has at least this share of its score
MOST_ROWS = 2
STEM = 0.5  # for a word, beside a concept
HINT = 1.0  # for a condition that the table gives to a bug
DERIVED = {"single", "all"}  # conditions that follow from the outputs
# What the letter of a row's group means.
MAY = {
    "H": {"hang", "crash", "unstable", "nan"},
    "R": {"unstable", "nan", "crash", "hang"},
}  # undefined order
FAMILIES = {"H": {"hang"}, "R": {"unstable"}, "I": {"index"}, "L": {"build"}}


@dataclass(frozen=True)
class CorpusCause:
    """A cause of the table: see causes.toml."""

    cause: str
    rows: tuple[str, ...]
    needs: tuple[str, ...]
    hints: tuple[str, ...]
    check: str


@dataclass(frozen=True)
class RankedCause:
    """A cause with its score. `stages` is empty where the table names none, `rows` where no bug is named."""

    cause: str
    check: str
    score: float
    stages: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()


_DATA = tomllib.loads(Path(__file__).with_name("causes.toml").read_text())
SEEN_AS: Mapping[str, str] = _DATA["seen"]  # how bugs show, by row


def _table() -> tuple[CorpusCause, ...]:
    return tuple(
        CorpusCause(row["cause"], tuple(row["rows"]), tuple(row["needs"]), tuple(row["hints"]), row["check"])
        for row in _DATA["causes"]
    )


CAUSES = _table()


@dataclass(frozen=True)
class _Document:
    """What is known of a row of the corpus: the concepts of its own text, and of the cause in the table."""

    row: str
    concepts: frozenset[str]
    stems: frozenset[str]
    kinds: frozenset[str]
    cause: CorpusCause | None


def _documents() -> tuple[_Document, ...]:
    made = []
    for row in ROWS.values():
        own = [cause for cause in CAUSES if row.id in cause.rows]
        needs = {kind for cause in own for need in cause.needs for kind in need.split("|")}
        hints = {hint for cause in own for hint in cause.hints}
        text = plain(f"{row.bug}; {row.applies}; {SEEN_AS.get(row.id, '')}")
        had = concepts(text)
        had |= needs | hints | FAMILIES.get(row.id[0], set())
        made.append(
            _Document(
                row.id,
                had - {"wrong"},
                stems(text),
                (had & {*WORDS["kinds"], "nan", "zero"}) | MAY.get(row.id[0], set()),
                own[0] if own else None,
            )
        )
    return tuple(made)


DOCUMENTS = _documents()
_OFTEN = Counter(name for document in DOCUMENTS for name in document.concepts)
RARITY: Mapping[str, float] = {name: math.log(1 + len(DOCUMENTS) / often) for name, often in _OFTEN.items()}
_SPOKEN = Counter(stem for document in DOCUMENTS for stem in document.stems)
RARE: Mapping[str, float] = {stem: math.log(1 + len(DOCUMENTS) / often) for stem, often in _SPOKEN.items()}
_USUAL = sum(len(document.concepts) for document in DOCUMENTS) / len(DOCUMENTS)


def ranked(problem: ProblemType, symptoms: Symptoms) -> list[RankedCause]:
    """Causes that fit, the likeliest first."""
    bugs = sorted(_corpus_causes(symptoms), key=lambda item: -item.score)
    stages = sorted(stage_causes(problem, symptoms), key=lambda item: -item.score)
    found = sorted([*bugs, *stages], key=lambda item: -item.score)
    # Both sources are among the first: what one cannot know, the other may.
    for best in (bugs[:1], stages[:1]):
        if best and best[0] not in found[:FIRST] and best[0].score >= AMONG * found[0].score:
            found.remove(best[0])
            found.insert(FIRST - 1, best[0])
    return found


def _corpus_causes(symptoms: Symptoms) -> list[RankedCause]:
    """Bugs of the corpus by the concepts that they share with the symptoms: rare ones count more."""
    scores: dict[str, float] = {}
    for document in DOCUMENTS:
        shared = (symptoms.concepts & document.concepts) - DERIVED
        spoken = symptoms.stems & document.stems
        if not shared and not spoken:
            continue
        score = sum(RARITY[name] for name in shared) + STEM * sum(RARE[stem] for stem in spoken)
        score /= 0.7 + 0.3 * len(document.concepts) / _USUAL
        seen = symptoms.kinds & DISTINCTIVE
        score -= AGAINST * len(seen - document.kinds)
        if document.cause is not None:
            score += HINT * len(symptoms.concepts & {*document.cause.hints})
        if "hang" in document.kinds and not seen & {"hang", "crash", "unstable"}:
            score -= AGAINST / 2
        scores[document.row] = score
    made: list[RankedCause] = []
    done = set[str]()
    by_row = {document.row: document for document in DOCUMENTS}
    for row in sorted(scores, key=lambda row: -scores[row]):
        if row in done or scores[row] < MIN_SCORE:
            continue
        cause = by_row[row].cause
        near = [row]
        if cause is not None:
            near += [
                other for other in cause.rows
                if other != row and other not in done and scores.get(other, 0) >= AMONG * scores[row]
            ][: MOST_ROWS - 1]  # fmt: skip
        done |= {*near}
        text, check = (cause.cause, cause.check) if cause is not None else (ROWS[row].bug, ROWS[row].applies)
        made.append(RankedCause(text, check, scores[row], rows=tuple(near)))
    return made


def stage_causes(problem: ProblemType, symptoms: Symptoms) -> list[RankedCause]:
    """Stages whose error makes exactly the wrong outputs wrong, nearest to the outputs first. Of stages that
    the outputs do not distinguish, those that the description looks like come first.
    """
    looks = symptoms.looks or {}
    strange = len(symptoms.kinds & STRANGE)
    if not symptoms.wrong and (symptoms.right or max(looks.values(), default=0) < SEEN or strange):
        return []
    made = []
    for group in reversed(_groups(problem, symptoms.outputs)):
        reached = {
            name for name in problem.stages if name in group or set(group) & set(upstream(problem, name))
        }
        if not symptoms.wrong <= reached or symptoms.right & reached:
            continue
        unsaid = [name for name in final(problem) if name in reached and name not in symptoms.outputs]
        score = STAGE - UNSAID * len(unsaid) - UNEXPLAINED * strange
        likely = [name for name in group if looks.get(name)]
        top = max((looks[name] for name in likely), default=0)
        first = tuple(name for name in likely if looks[name] == top)
        if first and len(first) < len(group):
            made.append(_stage_cause(problem, first, reached, score + LOOKS * top))
            group = tuple(name for name in group if name not in first)
            top = max((looks.get(name, 0) for name in group), default=0)
        made.append(_stage_cause(problem, group, reached, score + LOOKS * top))
    return made


def _stage_cause(
    problem: ProblemType, group: tuple[str, ...], reached: Container[str], score: float
) -> RankedCause:
    read = list(dict.fromkeys(name for stage in group for name in problem.stages[stage].inputs))
    after = [name for name in final(problem) if name in reached]
    words = " or ".join(group)
    sources = ", ".join(name for name in read if name not in group)
    return RankedCause(
        f"{words} is wrong, or what it reads ({sources}): it reaches {' and '.join(after)}",
        f"dump {words}; `tileproof tensors` compares it with the reference",
        score,
        group,
    )


def _groups(problem: ProblemType, known: Container[str]) -> list[tuple[str, ...]]:
    """The stages in graph order, grouped if the outputs cannot distinguish them: one is read by the other
    alone, or the same stage reads both. Outputs, and stages of which something is known, stay alone.
    """
    readers = {
        name: frozenset(other for other, stage in problem.stages.items() if name in stage.inputs)
        for name in problem.stages
    }
    group_of: dict[str, tuple[str, ...]] = {name: (name,) for name in problem.stages}
    alone = {name for name in problem.stages if name in known or not readers[name]}

    def join(first: str, second: str) -> None:
        if not {first, second} & alone:
            both = {*group_of[first], *group_of[second]}
            whole = tuple(name for name in problem.stages if name in both)
            group_of.update(dict.fromkeys(whole, whole))

    def same_inputs(first: str, second: str) -> bool:
        return problem.stages[first].inputs == problem.stages[second].inputs

    for name, by in readers.items():
        for only in by if len(by) == 1 else ():
            if {other for other in problem.stages[only].inputs if other in problem.stages} == {name}:
                join(name, only)
            for other, also in readers.items():
                ready = upstream(problem, name) or upstream(problem, other)
                if also == by and (not ready or same_inputs(name, other)):
                    join(name, other)
    return list(dict.fromkeys(group_of[name] for name in problem.stages))
