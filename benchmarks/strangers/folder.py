"""Logs of a folder with their truths: `*.log`, and `truth.jsonl` with `name`, `kind`, `barrier`, `role`.

An answer is right when its first cause is of the kind, its barrier is the truth's (the stage is not compared)
and, where the cause names a culprit, that culprit or the waiting role is the truth's role. A kind:

| kind | causes |
|---|---|
| missing-arrival | skipped-arrive, never-arrived, k-count |
| wrong-parity | wrong-parity |
| count | too-few-arrivals; skipped-arrive of one warp or thread of the role |
| bytes | bytes-missing |
| wrong-barrier | wrong-barrier, wrong-stage, wrong-copy (another CTA's barrier) |
| not-multicast | one-cta, wrong-copy |
| early-exit | producer-stopped, k-count |
| circular | cycle |

`printed`, if present, is the barrier as the log spells it, and `also` has the other barriers of a cycle: they
are accepted too.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tileproof.spec.machine.types import UncheckedObject

from benchmarks.strangers.score import Tally

CODES = {
    "missing-arrival": {"skipped-arrive", "never-arrived", "k-count"},
    "wrong-parity": {"wrong-parity"},
    "count": {"too-few-arrivals"},
    "bytes": {"bytes-missing"},
    "wrong-barrier": {"wrong-barrier", "wrong-stage", "wrong-copy"},
    "not-multicast": {"one-cta", "wrong-copy"},
    "early-exit": {"producer-stopped", "k-count"},
    "circular": {"cycle"},
}


@dataclass(frozen=True)
class FolderLog:
    """A log and the row of its truth."""

    name: str
    text: str
    truth: UncheckedObject

    @property
    def style(self) -> str:
        """The wording: the name before the seed and the number."""
        return str(self.truth.get("style", re.sub(r"-\d+-\d+$", "", self.name)))


def read(folder: Path) -> Iterator[FolderLog]:
    """The logs that have a truth, in its order."""
    for line in (folder / "truth.jsonl").read_text(encoding="utf-8").splitlines():
        truth = json.loads(line)
        path = folder / f"{truth['name'].removesuffix('.log')}.log"
        yield FolderLog(truth["name"], path.read_text(encoding="utf-8"), truth)


LOSSES = ("line", "lines", "head", "tail")
HEAD = 16  # lines that state the barriers and roles are kept


def lose(log: FolderLog, how: str) -> FolderLog:
    """The log without a line, without some lines, its first events or its last lines."""
    draw, lines = random.Random(f"{how} {log.name}"), log.text.splitlines()
    if how == "line":
        lines.pop(draw.randrange(len(lines)))
    elif how == "lines":
        lines = [line for line in lines if draw.random() > 0.03]
    elif how == "head":
        lines = lines[:HEAD] + lines[HEAD + len(lines) // 5 :]
    else:
        lines = lines[: len(lines) - len(lines) // 10]
    return replace(log, text="\n".join(lines) + "\n")


def flat(name: str) -> str:
    """A barrier without its stage, case and signs."""
    short = re.sub(r"(?:\.index)?[\[(#/ .{+]+(?:s|slot|stage)?\s*\d+[\])}]?$", "", name.lower())
    return re.sub(r"[\W_]", "", short)


def is_right(truth: UncheckedObject, found: UncheckedObject | None, lenient: bool = False) -> bool:
    """Whether a diagnosis says what the truth says; `lenient`: in any of its causes."""
    if found is None or found["outcome"] != "hang" or not found["causes"] or found["root"] is None:
        return False
    root = found["root"]
    names = {flat(root["barrier"]), flat(root["copy"].split(" in CTA")[0])}
    if root["stage"] is not None:
        names.add(flat(f"{root['barrier']}{root['stage']}"))  # `B2`: stage 2 of B
    if _says(truth, found["causes"][0], root, names):
        return True
    if not lenient:
        return False
    for cause in found["causes"][1:]:
        words = {flat(word) for word in re.split(r"[,;:]? ", cause["what"])}
        if _says(truth, cause, root, names | words):
            return True
    return False


def _says(truth: UncheckedObject, cause: UncheckedObject, root: UncheckedObject, words: set[str]) -> bool:
    alone = truth["kind"] == "count" and cause["code"] == "skipped-arrive" and cause["culprit"] is not None
    alone = alone and bool(re.search(r" (?:warp|thread) \d+$", cause["culprit"]["role"]))
    if cause["code"] not in CODES[truth["kind"]] and not alone:
        return False
    spelled = [truth["barrier"], truth.get("printed"), *truth.get("also", ())]
    names = {flat(name) for name in spelled if name}
    if not {_bare(name) for name in names} & {_bare(name) for name in words}:
        return False
    if cause["culprit"] is None or not truth.get("role"):
        return True
    roles = " ".join(actor["role"].lower() for actor in (root["actor"], cause["culprit"]))
    name = re.sub(r"@\d+$", "", str(truth.get("role_name") or truth["role"]))  # by the log's legend
    return truth["role"].lower() in roles or name.lower() in roles


def _bare(name: str) -> str:
    return re.sub(r"^m?bar(?:rier)?(?=\w)|m?bar(?:rier)?$", "", name)


class FolderScore(Tally):
    """Counts of answers to logs of a folder; `lenient`: answers of which some cause is right."""

    def __init__(self) -> None:
        super().__init__()
        self.lenient = 0
        self.refused = 0

    def add(self, log: FolderLog, found: UncheckedObject | None) -> bool:
        """Count an answer; None: the log was refused."""
        code = f"{found['outcome']} {[c['code'] for c in found['causes'][:1]]}" if found else "refused"
        name = f"{log.name} {log.truth['kind']} {log.truth.get('style', '')}: {code}"
        labels = {"style": log.style, "kind": log.truth["kind"]}
        self.lenient += is_right(log.truth, found, lenient=True)
        self.refused += found is None or found["outcome"] != "hang"
        return self.count(name, found, is_right(log.truth, found), labels)

    def table(self) -> str:
        """Right answers by label."""
        more = f"{self.lenient} right in some cause; {self.refused} without an answer"
        first, _, rest = super().table().partition("\n")
        return f"{first}; {more}\n{rest}"
