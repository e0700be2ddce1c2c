"""The items of a row: words, and numbers with the field that names them or the place that they have."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tileproof.conformance.beside.logs.hangs.forms import CLUSTER, NAMED, SYNCTHREADS, TMEM, operations
from tileproof.conformance.beside.logs.hangs.general import lexicon
from tileproof.conformance.beside.logs.hangs.general.lexicon import WIDE

# Vowel signs and accents that scripts write as characters of their own.
_MARKS = "".join(char for char in map(chr, range(0x300, 0x1200)) if unicodedata.category(char)[0] == "M")
_TOKEN = re.compile(
    rf"0[xX][0-9a-fA-F]+|\d+\.\d+|\d+|[{WIDE}]+\d*|(?:(?![{WIDE}])[^\W\d])(?:(?![{WIDE}])[\w{_MARKS}])*"
    r"|->|=>|[^\w\s]"
)
_NUMBERED = re.compile(r"(?P<stem>[^\W\d]+(?:_[^\W\d]+)*?)_?(?P<number>\d{1,5})$")
_SHORT = {
    "k": "k",
    "p": "phase",
    "w": "warp",
    "b": "cta",
    "c": "cta",
    "t": "thread",
    "s": "stage",
    "i": "k",
    "n": "",
}
# Places in source files, and levels of a logger.
_SOURCE = re.compile(
    r"\[?\b[\w./-]+\.(?:hpp|hxx|h|cuh?|cpp|cc|py|rs):\d+\]?|\b(?:info|debug|trace|warn(?:ing)?|verbose|dbg)\b[]:]?",
    re.IGNORECASE,
)
_NTH = re.compile(r"第\s*(?P<number>\d+)\s*(?:个)?(?P<what>槽|级|轮|次|步|块|阶段|缓冲区|迭代|回|段)")
# Indices of a block or of a thread: `pid (1, 0, 0) idx (128, 0, 0)`, or the block's alone in front.
_TUPLE = re.compile(
    r"(?:(?P<label>\b(?:pid|bid|block|blk|blockidx|ctaid|idx|tid|thread|threadidx)\b|^)\W{0,3}|:)"
    r"\(\s*(?P<x>\d+),\s*\d+,\s*\d+\s*\)",
    re.IGNORECASE,
)
_CLOCK = re.compile(r"[A-Za-z]\d{6,}")
# A tuple of a field and its value: `{parity,1}`, `(stage, 0)`, `{ctas,[0,1]}`.
_PAIR = re.compile(r"(?<=[{(])\s*:?(?P<label>[^\W\d]\w*)\s*,\s*(?=\[?\d)")
_NO = re.compile(r"(?<=[\w\])])\s+n[or]\.\s*(?P<number>\d+)", re.IGNORECASE)  # an index: `full no. 0`
# An owner, `(cta 1's)`; and what a barrier lacks in the words of PTX.
_FILLERS = re.compile(r"(?<=\d)['\u2019]s\b|\bpending (?:arrival |tx[ -]?)?(?=count\b)", re.IGNORECASE)
_TIME = re.compile(r"^\W{0,2}(?P<time>\d\d:\d\d)(?![\d:])\W?")
_LETTERS = {"r": "role", "b": "barrier", "e": "", "m": ""}  # keys whose value is a word
KNOWN = 0.9  # of the words in a place: where more have the names of fields, they are labels
_SAMPLE, _FRONT = 3000, 6  # rows, and tokens of a row, that are compared for what stands where
_INDEX = {"[": "]", "(": ")", "<": ">", "{": "}"}
_JOIN = {".", "/", "+", "#", ":", "@", "_"}
SYNC = (SYNCTHREADS, CLUSTER, TMEM)


@dataclass(eq=False)
class RowWord:
    """A word: the label before it (`role=`), the sign before it, and whether an index follows it."""

    text: str
    key: str = ""  # the field that names it
    raw: str = ""  # the label as printed
    indexed: bool = False
    glued: bool = False  # no space is before it
    at: int = 0


@dataclass(eq=False)
class Num:
    """A number: its field (empty: unknown), its label or place, and the word that it is the index of."""

    value: int
    field: str
    label: str
    hexed: bool = False
    of: RowWord | None = None
    at: int = 0
    given: str = ""  # the field before a reading decides


@dataclass(eq=False)
class Row:
    """A row: its words and numbers in order."""

    number: int
    words: list[RowWord] = field(default_factory=list)
    nums: list[Num] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    text: str = ""
    tokens: list[str] = field(default_factory=list)

    def labelled(self, name: str) -> list[Num]:
        """The numbers of a field."""
        return [num for num in self.nums if num.field == name]


def is_sync(word: str) -> bool:
    """Whether a word is a barrier of threads or of a cluster, or an allocation."""
    return word in SYNC or word.startswith(NAMED)


def scan(rows: Sequence[tuple[int, str]]) -> list[Row]:
    """The items of every row."""
    texts = [(number, _plain(text)) for number, text in _timeless(rows)]
    short = _short_stems([text for _, text in texts])
    names = _names_in_place([text for _, text in texts])
    return [_Scan(number, text, short, names).run() for number, text in texts]


def _names_in_place(texts: list[str]) -> set[str]:
    """Identifiers with the name of a field that stand where other words do: `b0 nextTile #0`."""
    found: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for text in texts[:_SAMPLE]:
        tokens = [re.sub(r"\d+", "0", token) for token in _TOKEN.findall(text)[:_FRONT]]
        for at, token in enumerate(tokens[:-1]):
            if token[0].isalpha() and tokens[at + 1] != "=":
                found[(*tokens[:at], "", tokens[at + 1])][token] += 1
            labels = token[-1] == "0" or (lexicon.field(token) and tokens[at + 1] in ("0", "="))
            if token[0].isalpha() and not labels:
                break
    names: set[str] = set()
    for words in found.values():
        known = {word for word in words if lexicon.field(word)}
        if sum(words[word] for word in known) < KNOWN * words.total():
            names |= {word for word in known if len(lexicon.split(word)) > 1}
    return names


def _plain(text: str) -> str:
    """A row with tuples, ordinals and operations as labels and words."""
    text = _NTH.sub(r" \g<what>=\g<number> ", _NO.sub(r"[\g<number>]", _FILLERS.sub("", text)))
    text = _PAIR.sub(_labelled, _SOURCE.sub(" ", text))
    return operations(_TUPLE.sub(_indices, text))


def _labelled(found: re.Match[str]) -> str:
    known = lexicon.field(found["label"]) not in ("", "role", "barrier", "ignored")
    return f"{found['label']}=" if known else found[0]


def _timeless(rows: Sequence[tuple[int, str]]) -> Sequence[tuple[int, str]]:
    """The rows without the time of day at their beginning, which never falls: `[09:14]`."""
    times = [found["time"] for _, text in rows if (found := _TIME.match(text)) is not None]
    if 2 * len(times) < len(rows) or any(a > b for a, b in pairwise(times)):
        return rows
    return [(number, _TIME.sub("", text)) for number, text in rows]


def _short_stems(texts: list[str]) -> dict[str, str]:
    """Single letters that name a field, by the numbers behind them: `k3`, `p0`, `W04`."""
    seen: dict[str, set[int]] = {}
    for text in texts[:_SAMPLE]:
        for stem, number in re.findall(r"(?<!\w)([A-Za-z])(\d{1,5})(?!\w|\.\d)", text):
            seen.setdefault(stem.lower(), set()).add(int(number))
    found = {}
    for stem, numbers in seen.items():
        known = _SHORT.get(stem, "")
        if known == "phase" and not numbers <= {0, 1}:
            continue
        if known == "cta" and max(numbers) > 500:
            continue
        if known:
            found[stem] = known
    return found


def _indices(found: re.Match[str]) -> str:
    label = (found["label"] or "").lower()
    thread = label in ("idx", "tid", "thread", "threadidx") or found[0].startswith(":")
    return f" {'thread' if thread else 'block'}={found['x']} "


class _Scan:
    """A single pass over the tokens of a row."""

    def __init__(self, number: int, text: str, short: dict[str, str], names: set[str]) -> None:
        found = list(_TOKEN.finditer(text))
        self.tokens = [each[0] for each in found]
        self.starts = [each.start() for each in found]
        self.row = Row(number, text=text, tokens=self.tokens)
        self.short, self.names = short, names
        self.label, self.field, self.gap = "", "", ""
        self.last: RowWord | None = None
        self.listing = False  # the number before has more of its kind behind it
        self.lone = 0  # numbers without a label since the last word

    def run(self) -> Row:
        at = 0
        while at < len(self.tokens):
            at = self._step(at)
        return self.row

    def _step(self, at: int) -> int:
        token = self.tokens[at]
        if token[0].isdecimal():
            self._number(at, token)
            return at + 1
        if token[0].isalpha() or token[0] == "_":
            return self._word(at, token)
        self.gap += token
        if token == "," and self.listing:  # between the numbers of a list
            self.listing = False
            return at + 1
        if token in (";", "|") or (token == "," and "[" not in self.gap):
            self.label = self.field = ""
            if token != ",":
                self.last = None
        return at + 1

    def _glued(self, at: int) -> bool:
        return 0 < at < len(self.tokens) and self.starts[at] == self.starts[at - 1] + len(self.tokens[at - 1])

    def _word(self, at: int, token: str) -> int:
        then = self.tokens[at + 1] if at + 1 < len(self.tokens) else ""
        low = token.lower()
        numbered = _NUMBERED.match(token)
        if _CLOCK.fullmatch(token):
            return at + 1
        if numbered and not is_sync(token):
            stem = numbered["stem"].lower()
            letter = len(stem) == 1 and stem.isascii()
            known = self.short.get(stem, "") if letter else lexicon.field(numbered["stem"])
            if not known and not stem.isascii() and lexicon.verbs(stem):
                self._word(at, numbered["stem"])
                self._number(at, numbered["number"])
                return at + 1
            if known and known not in ("role", "barrier", "ignored", "bytes"):
                self._add(int(numbered["number"]), known, stem, at)
                after = self.tokens[at + 1 : at + 3]
                further = known == "cta" and len(self.row.labelled("cta")) > 1
                joined = after[:1] == ["+"] or (further and after[:1] == [","] and self._glued(at + 2))
                more = known == "cta" and joined and after[1:2] != [] and after[1].isdecimal()
                self.label, self.field, self.gap = (stem, known, "") if more else ("", "", "")
                self.listing = more and after[0] == ","
                return at + 1
        known = "" if token in self.names else lexicon.field(token)
        signed = then in ("=", ":")
        if low in ("and", "und", "et", "y", "e") and self.field in ("target", "owner", "cta"):
            self.gap = ","
            return at + 1
        if len(token) == 1 and then == "=":  # keys of one letter
            value = self.tokens[at + 2] if at + 2 < len(self.tokens) else ""
            letters = _SHORT if value[:1].isdecimal() else _LETTERS
            known = letters.get(low, known)
        if low in ("peer", "remote") and not signed and not then[:1].isdecimal():
            known = ""
        if known and not signed and {*lexicon.verbs(low)} & {"wait", "arrive", "copy"}:
            known = ""
        if known and (self._names(at, known) or not (signed or self._labels(at))):
            known = ""
        if signed or known:
            behind = self._phrase(at)
            if behind:
                return behind
        key, raw = (self.field, self.label) if self.gap and set(self.gap) & set("=:") else ("", "")
        word = RowWord(token, key, raw, glued=self._glued(at), at=at)
        after = self.tokens[at + 1 : at + 4]
        word.indexed = (
            len(after) > 1
            and not known
            and (after[0] in "[(.+/#<" or lexicon.field(after[0]) == "stage")
            and after[1][0].isdecimal()
        ) or (
            len(after) > 2
            and not known
            and after[0] == ","
            and lexicon.field(after[1]) == "stage"
            and after[2][0].isdecimal()
        )
        if (then == "=" or (then == ":" and known)) and key not in ("role", "barrier"):
            self.row.labels.append(low)
        elif not known or key in ("role", "barrier"):
            self.row.words.append(word)
        else:
            self.row.labels.append(low)
        self.last = word if not known else self.last
        self.label, self.field, self.gap, self.lone = low, known, "", 0
        return at + 1

    def _labels(self, at: int) -> bool:
        """Whether an identifier of several parts may be a label: `tma_loop` without a number is none."""
        if len(lexicon.split(self.tokens[at])) < 2:
            return True
        behind = [token for token in self.tokens[at + 1 : at + 4] if token not in "#([{=: \"'"]
        return not behind or behind[0] not in "<>|/)]},;." or behind[0][:1].isdecimal()

    def _names(self, at: int, known: str) -> bool:
        """Whether an identifier of fields is a name, where no number is behind it: `st_warp: wait`."""
        behind = [token for token in self.tokens[at + 1 : at + 4] if token not in "#([{: \"'"][:1]
        wide = re.match(f"[{WIDE}]", self.tokens[at]) is not None  # its parts have no spaces
        several = (wide or len(lexicon.split(self.tokens[at])) > 1) and known in ("warp", "wg", "thread")
        return (
            several
            and behind != []
            and re.match(r"[^\W\d]|[_,;|)\]\u3011\uff09\u300d\u300f]", behind[0]) is not None
        )

    def _phrase(self, at: int) -> int:
        """A label of two words before `=` or `:`, such as `parity bit: 1`; 0: none."""
        tokens = self.tokens
        then = at + 1
        alike = then < len(tokens) and tokens[at].isascii() == tokens[then].isascii()
        if alike and then + 1 < len(tokens) and tokens[then][0].isalpha() and tokens[then + 1] in ("=", ":"):
            known = lexicon.field(tokens[at] + "_" + tokens[then])
            if known:
                self.label, self.field, self.gap = f"{tokens[at]}_{tokens[then]}".lower(), known, ""
                return then + 1
        return 0

    def _number(self, at: int, token: str) -> None:
        if "." in token:
            return
        hexed = token[:2] in ("0x", "0X")
        value = int(token, 16) if hexed else int(token)
        then = self.tokens[at + 1] if at + 1 < len(self.tokens) else ""
        signed = self.tokens[at + 2 : at + 3] in (["="], [":"]) or then in ("=", ":")
        labels = "".join(self.tokens[at + 2 : at + 3])[:1].isdecimal()  # `stage 0 tx 4096`
        called = {*lexicon.verbs(then)} & {"wait", "arrive"}  # `cta 0 arrive_and_expect_tx`
        unit = (lexicon.field(then) == "bytes" or then == "B") and not labels and not called
        if unit and not signed and self.field != "bytes":
            self._add(value, "bytes", "bytes", at, hexed)
            return
        if then.lower() in ("arrival", "arrivals") and not signed and not self.field:
            self._add(value, "count", "count", at, hexed)
            return
        gap = set(self.gap)
        last = self.last
        many = self.field in ("target", "owner") or (
            self.field == "cta" and any(word.indexed for word in self.row.words)
        )
        listed = (
            many and self.gap[:1] in (",", "+") and self.row.nums and self.row.nums[-1].label == self.label
        )
        again = self.field == "cta" and sum(num.field == "cta" for num in self.row.nums) > 1
        near = again and self.gap == "," and self._glued(at) and self._glued(at - 1)
        listed = (near or bool(listed)) and value < 64 and not unit
        if self.field and (listed or (not gap - set("=:#({[-. \"'") and self.gap != ";")):
            self._add(value, self.field, self.label, at, hexed)
            follows = (many or again or self._second_cta(at)) and then in (",", "and", "+")
            self.gap = "" if follows else ";"
            self.listing = follows and then == ","
            if not follows:
                self.field = ""
            return
        opened = self.gap[:1]
        if (
            last is not None
            and not self.lone
            and opened in _INDEX
            and len(self.gap) == 1
            and not lexicon.field(last.text)
        ):
            num = self._add(value, "stage?", "[]", at, hexed)
            num.of = last
        elif last is not None and not self.lone and self.gap in _JOIN and (last.indexed or self.gap in "+@."):
            num = self._add(value, "stage?" if self.gap != "@" else "owner?", self.gap, at, hexed)
            num.of = last
        else:
            named = bool(self.gap) or (
                last is not None and not last.indexed and not lexicon.is_state(last.text)
            )
            label = self.label if named and gap <= set("=:") else ""
            self._add(value, "", label, at, hexed)
        self.lone += 1
        self.gap = ";" if self.gap[-1:] not in "[(" else self.gap[-1:] + ";"

    def _second_cta(self, at: int) -> bool:
        """Whether the number just read is a row's further CTA, and a list of CTAs follows: `block 0,1`."""
        further = sum(num.field == "cta" for num in self.row.nums) > 1 and self.row.nums[-1].field == "cta"
        return further and self._glued(at + 1) and self._glued(at + 2) if at + 2 < len(self.tokens) else False

    def _add(self, value: int, name: str, label: str, at: int, hexed: bool = False) -> Num:
        num = Num(value, name, label, hexed, at=at, given=name)
        self.row.nums.append(num)
        return num
