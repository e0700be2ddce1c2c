"""Which spellings a card has executed as the emulator does, from evidence files.

A row of a file of `tools/card` counts, for each spelling, the launches of the instruction tests on the card:
every buffer as the emulator's, bit for bit ("same"), or not. A file of words of `wgmma`
(`tools/silicon/wgmma_words.py`, `wgmma_layouts.py`) counts the words of each form that differ.
"""

from __future__ import annotations

import json
import lzma
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tileproof.emulator.registry import Row, spell
from tileproof.emulator.spelling import Pattern
from tileproof.spec.machine.types import UncheckedObject
from tileproof.spec.machine.wgmma import K

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "evidence"
LAUNCHES, WORDS = "*-card.json.xz", "*-wgmma*.json.xz"
NONE = "no evidence"
# A form of a file of words: types of D, A and B, a limit, N (64 where it is not named), and sparsity.
_FORM = re.compile(
    r"(?P<d>f32|f16|s32)_(?P<a>[a-z]+\d+(?:m\d)?)(?:_(?P<b>[a-z]+\d+(?:m\d)?))?(?:_(?P<limit>satfinite))?"
    r"(?:_n(?P<n>\d+)_\w\d)?(?P<sparse>_sp\d)?$"
)
_ORDER = ("wgmma.fence.sync.aligned", "wgmma.commit_group.sync.aligned", "wgmma.wait_group.sync.aligned")


Verdicts = dict[tuple[str, str], Counter[str]]  # of a spelling, by a test


@dataclass
class CardRun:
    """Evidence files of a card and a day: for each row and pattern the launches, or forms of a file of words,
    by verdict of each spelling and test, from the newest file that has both. `words`: digests of launches,
    and of the buffers that they left on the card.
    """

    card: str
    date: str
    files: list[str] = field(default_factory=list)
    forms: dict[tuple[str, str], Verdicts] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)

    def set(self, opcode: str, test: str, verdicts: dict[str, int]) -> None:
        """The launches of a spelling by a test, at every pattern that has it, in place of older launches."""
        spelled = spell(opcode, None)
        if spelled is None:
            return
        text = spelled.opcode.removeprefix(spelled.row.base)
        for pattern in spelled.row.spellings.patterns:
            if pattern.has(text):
                self.forms.setdefault((spelled.row.base, pattern.text), {})[text, test] = Counter(verdicts)


def card_runs(folder: Path = FOLDER) -> list[CardRun]:
    """The evidence in `folder`, a run for each card and day, the newest first. Of the files of a day the last
    by name is the newest.
    """
    found: dict[tuple[str, str], CardRun] = {}
    for path in sorted([*folder.glob(LAUNCHES), *folder.glob(WORDS)]):
        body = json.loads(lzma.decompress(path.read_bytes()))
        card, counted = _of_words(body) if "forms" in body else _of_launches(body)
        if card and counted:
            run = found.setdefault((card, path.name[:10]), CardRun(card, path.name[:10]))
            run.files.append(path.name)
            for test, data in counted:
                run.words |= data.get("words", {})
                for opcode, verdicts in data["spellings"].items():
                    run.set(opcode, test, verdicts)
    return sorted(found.values(), key=lambda run: (run.date, run.card), reverse=True)


def _of_launches(body: UncheckedObject) -> tuple[str, list[tuple[str, UncheckedObject]]]:
    """The card of a file of `tools/card`, and the names and data of its rows that count spellings."""
    data = [row["data"] or {} for row in body["rows"]]
    names = [
        counts["name"]
        for row, counts in zip(body["rows"], data, strict=True)
        if row["row"] == "facts" and counts
    ]
    counted = [
        (row["row"], counts) for row, counts in zip(body["rows"], data, strict=True) if "spellings" in counts
    ]
    return short(names[0]) if names else "", counted


def _of_words(body: UncheckedObject) -> tuple[str, list[tuple[str, UncheckedObject]]]:
    """The card of a file of words, and its forms in the same shape; all need fence, commit and wait."""
    out = []
    for form in body["forms"]:
        verdict = {"differs": 1} if form["differ"] else {"same": 1}
        spellings = dict.fromkeys((opcode_of(form["form"]), *_ORDER), verdict)
        out.append((form["form"], {"spellings": spellings}))
    return short(body["card"].strip()), out


def short(card: str) -> str:
    """The name of a card in the table."""
    return card.removeprefix("NVIDIA ")


def opcode_of(form: str) -> str:
    """The spelling of wgmma.mma_async that a form of a file of words names; ValueError for any other name."""
    found = _FORM.match(form)
    if not found:
        raise ValueError(f"{form!r} is not a form of wgmma")
    a, b, sparse = found["a"], found["b"] or found["a"], bool(found["sparse"])
    k = K[a] * (1 + sparse)
    words = (
        f"m64n{found['n'] or 64}k{k}",
        found["limit"],
        found["d"],
        a,
        b,
        "and.popc" if a == "b1" else None,
    )
    return f"wgmma.mma_async{'.sp' if sparse else ''}.sync.aligned." + ".".join(filter(None, words))


def seen(row: Row, pattern: Pattern, runs: Iterable[CardRun]) -> str:
    """The table's cell of a form: of each card, and of each spelling by a test, the newest evidence."""
    newest: dict[str, tuple[str, Verdicts]] = {}
    for run in runs:
        if found := run.forms.get((row.base, pattern.text)):
            date, verdicts = newest.get(run.card, (run.date, {}))
            newest[run.card] = date, found | verdicts
    cells = [_cell(f"{card} {date}", pattern, verdicts) for card, (date, verdicts) in newest.items()]
    return "; ".join(cells) or NONE


def _cell(shown: str, pattern: Pattern, verdicts: Verdicts) -> str:
    same = len({spelling for (spelling, _), counts in verdicts.items() if counts["same"]})
    differ = sum(counts["differs"] + counts["failed"] for counts in verdicts.values())
    count = f"{same} of {pattern.count}" if pattern.count > 1 or not same else ""
    differs = f"{differ} {'launch differs' if differ == 1 else 'launches differ'}" if differ else ""
    return ", ".join(part for part in (shown, count, differs) if part)
