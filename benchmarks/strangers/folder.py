"""Logs of a folder with their truths: `*.log`, and `truth.jsonl` with `name`, `kind`, `barrier`, `role`.

An answer is right when its first cause is of the kind, its barrier is the truth's (the stage is not compared)
and, where the cause names a culprit, that culprit or the waiting role is the truth's role. A kind:

| kind | causes |
|---|---|
| missing-arrival | skipped-arrive, never-arrived, k-count |
| wrong-parity | wrong-parity |
| count | too-few-arrivals |
| bytes | bytes-missing |
| wrong-barrier | wrong-barrier, wrong-stage |
| not-multicast | one-cta, wrong-copy |
| early-exit | producer-stopped, k-count |
| circular | cycle |

`printed`, if present, is the barrier as the log spells it: it is accepted too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.strangers.score import Tally

CODES = {
    "missing-arrival": {"skipped-arrive", "never-arrived", "k-count"},
    "wrong-parity": {"wrong-parity"},
    "count": {"too-few-arrivals"},
    "bytes": {"bytes-missing"},
    "wrong-barrier": {"wrong-barrier", "wrong-stage"},
    "not-multicast": {"one-cta", "wrong-copy"},
    "early-exit": {"producer-stopped", "k-count"},
    "circular": {"cycle"},
}


@dataclass(frozen=True)
class FolderLog:
    """A log and the row of its truth."""

    name: str
    text: str
    truth: dict[str, Any]


def read(folder: Path) -> Iterator[FolderLog]:
    """The logs that have a truth, in its order."""
    for line in (folder / "truth.jsonl").read_text(encoding="utf-8").splitlines():
        truth = json.loads(line)
        path = folder / f"{truth['name'].removesuffix('.log')}.log"
        yield FolderLog(truth["name"], path.read_text(encoding="utf-8"), truth)


def flat(name: str) -> str:
    """A barrier without its stage, case and signs."""
    return re.sub(r"[\W_]", "", re.sub(r"[\[(#/ .]+(?:s|slot|stage)?\s*\d+[\])]?$", "", name.lower()))


def is_right(truth: dict[str, Any], found: dict[str, Any] | None) -> bool:
    """Whether a diagnosis says what the truth says."""
    if found is None or found["outcome"] != "hang" or not found["causes"] or found["root"] is None:
        return False
    cause, root = found["causes"][0], found["root"]
    if cause["code"] not in CODES[truth["kind"]]:
        return False
    names = {flat(truth[key]) for key in ("barrier", "printed") if truth.get(key)}
    told = {flat(root["barrier"]), flat(root["copy"].split(" in CTA")[0])}
    bare = {re.sub(r"^m?bar(?:rier)?(?=\w)|m?bar(?:rier)?$", "", name) for name in names | told}
    if not names & told and len(bare) == len({*names, *told}):
        return False
    if cause["culprit"] is None or not truth.get("role"):
        return True
    roles = " ".join(actor["role"].lower() for actor in (root["actor"], cause["culprit"]))
    return truth["role"].lower() in roles


class FolderScore(Tally):
    """Counts of answers to logs of a folder."""

    def add(self, log: FolderLog, found: dict[str, Any] | None) -> bool:
        """Count an answer; None: the log was refused."""
        code = f"{found['outcome']} {[c['code'] for c in found['causes'][:1]]}" if found else "refused"
        name = f"{log.name} {log.truth['kind']} {log.truth.get('style', '')}: {code}"
        labels = {key: log.truth[key] for key in ("kind", "style") if key in log.truth}
        return self.count(name, found, is_right(log.truth, found), labels)
