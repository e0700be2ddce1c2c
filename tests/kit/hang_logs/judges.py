"""Judges for the score: `explain` itself, and bad ones that the score must not let pass."""

from __future__ import annotations

from tileproof.conformance.beside.logs.hangs.as_data import ActorName
from tileproof.conformance.beside.logs.hangs.reader import read_text
from tileproof.conformance.beside.logs.hangs.render import diagnosis
from tileproof.conformance.beside.logs.hangs.rewrite import parse_words
from tileproof.spec.machine.errors import TileproofError

from tests.kit.hang_logs.score import Answer, HangLog
from tests.kit.pipelines import Who


def _who(actor: ActorName) -> Who:
    return actor["role"], -1 if actor["cta"] is None else actor["cta"]


def explain(log: HangLog) -> Answer:
    """What `tileproof explain` answers."""
    try:
        found = diagnosis(read_text(log.text, words=parse_words(log.words)))
    except TileproofError:
        return Answer("unclear")
    if found["outcome"] != "hang":
        return Answer(found["outcome"])
    root, cause = found["root"], found["causes"][0]
    assert root is not None
    sure = found["certainty"]
    blamed = _who(cause["culprit"]) if cause["culprit"] else None
    actors = (_who(root["actor"]),)
    return Answer("hang", sure == "certain", sure == "open", cause["code"], root["barrier"], actors, blamed)


def always_clear(log: HangLog) -> Answer:
    """Says of every log that it is certain."""
    answer = explain(log)
    return Answer(answer.verdict, True, False, answer.code, answer.barrier, answer.actors, answer.culprit)
