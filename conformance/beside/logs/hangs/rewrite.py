"""Rewrites special forms of a line into words of the grammar: JSON, index tuples, CUTLASS's pipeline calls,
and words that the user defined.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from tileproof.conformance.beside.logs.hangs.forms import operations
from tileproof.conformance.beside.logs.hangs.languages import translate
from tileproof.conformance.beside.logs.hangs.shapes import actors, calls
from tileproof.spec.machine.errors import TileproofError

_MESSAGE = ("message", "msg", "log", "text", "line", "content")
_TUPLES = re.compile(r"\(\s*(\d+),\s*(\d+),\s*(\d+)\s*\)\s*[/|:,-]?\s*\(\s*(\d+),\s*(\d+),\s*(\d+)\s*\)")
# cutlass/pipeline: a producer acquires the empty barrier and commits to the full barrier.
_CALL = re.compile(
    r"(?:\b(?P<name>[A-Za-z_]\w*)\s*(?:\.|->|::)\s*)?\b(?P<side>producer|consumer)_(?:try_)?"
    r"(?P<call>acquire|commit|expect_transaction|tail|wait|test_wait|release)\b(?P<open>\()?"
)
_CALLS = {
    ("producer", "acquire"): ("wait", "empty"),
    ("producer", "tail"): ("wait", "empty"),
    ("producer", "commit"): ("arrive", "full"),
    ("producer", "expect_transaction"): ("arrive tx", "full"),
    ("consumer", "wait"): ("wait", "full"),
    ("consumer", "test_wait"): ("wait", "full"),
    ("consumer", "release"): ("arrive", "empty"),
}
_PIPELINE = re.compile(r"^(?:pipeline|pipe)_+|_*(?:pipeline|pipe)$")
_LIST = re.compile(r"(?<==)\[(\d+(?:\s*,\s*\d+)*)\]")  # cta=[0,1]
_INDEX = re.compile(r"\bindex(?=\s*[=:])")
_COUNT = re.compile(r"\bcount(?=\s*[=:])")
_WIDE = re.compile(r"[\u2e80-\uffff]")
MEANINGS = (
    "wait",
    "done",
    "arrive",
    "not",
    "cta",
    "block",
    "role",
    "k",
    "phase",
    "stage",
    "barrier",
    "bytes",
)


def plain(text: str) -> str:
    """The line with its special forms rewritten in the grammar's words."""
    if text.lstrip()[:1] == "{":
        text = _from_json(text)
    text = operations(calls(translate(actors(_LIST.sub(r"\1", text)))))
    if "(" in text:
        text = _TUPLES.sub(_indices, text)
    if "producer_" in text or "consumer_" in text:
        text = _pipeline_calls(text)
    return text


def _from_json(text: str) -> str:
    try:
        row = json.loads(text.rstrip().rstrip(","))
    except ValueError:
        return text
    if not isinstance(row, dict):
        return text
    for key in _MESSAGE:
        value = row.get(key)
        if isinstance(value, str) and " " in value.strip():
            rest = {name: value for name, value in row.items() if name in ("rank", "cta", "block", "role")}
            return value.strip() + "".join(f" {name}={value}" for name, value in rest.items())
    return " ".join(
        _pair(key, value) for key, value in _flat(row) if value is not None and value is not False
    )


def _pair(key: str, value: object) -> str:
    """`key=value`; a list of CTAs joined by "and", the first of block or thread indices."""
    if value is True:
        return key
    if isinstance(value, list):
        index = key.lower().replace("_", "") in ("block", "blk", "blockidx", "thread", "threadidx")
        value = next(iter(value), "") if index else " and ".join(map(str, value))
    return f"{'target_cta' if key.lower() in ('to', 'dst', 'dest') else key}={value}"


# Keys of an object that need its name: {"barrier": {"name": ...}}.
_GENERIC = {"id", "idx", "index", "x", "name", "rank", "number", "num", "value"}
_OBJECTS = {"cta", "block", "cluster", "warp", "wg", "barrier", "mbar", "bar", "stage", "thread", "role"}


def _flat(row: dict[str, object], before: str = "") -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for key, value in row.items():
        if isinstance(value, dict):
            found += _flat(value, f"{key}_" if key.lower() in _OBJECTS else "")
        else:
            found.append((before + key if key.lower() in _GENERIC else key, value))
    return found


def _indices(found: re.Match[str]) -> str:
    """`(1,0,0)/(256,0,0)`: block and thread, as CUTLASS and cute print them."""
    block = [int(found[at]) for at in (1, 2, 3)]
    cluster = f" cluster={block[1] + 1024 * block[2]}" if block[1] or block[2] else ""
    return f"block={block[0]} thread={found[4]}{cluster} "


def _pipeline_calls(text: str) -> str:
    def call(found: re.Match[str]) -> str:
        verb, side = _CALLS.get((found["side"], found["call"]), ("", ""))
        if not verb:
            return found[0]
        name = _PIPELINE.sub("", found["name"] or "")
        return f"{verb} {name or 'pipeline'}_{side} " + (found["open"] or "")

    rewritten = _CALL.sub(call, text)
    if rewritten == text:
        return text
    return _COUNT.sub("k", _INDEX.sub("stage", rewritten))


class Words:
    """A user's own words for the grammar's: `single` by token, others replaced in the text."""

    def __init__(self, single: dict[str, str], phrases: dict[str, str]) -> None:
        self.single = single
        self._phrases = phrases
        every = sorted(phrases, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, every)), re.IGNORECASE) if every else None

    def translate(self, text: str) -> str:
        """The text with phrases, and words of scripts without spaces, replaced."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: f" {self._phrases[found[0].lower()]} ", text)


NO_WORDS = Words({}, {})


def load_words(path: Path) -> Words:
    """Return the words of a file, `meaning: word, word` per line ('#' begins a comment).

    Raises TileproofError if a line has another form.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise TileproofError("the words cannot be read", where=str(path), found=str(error)) from None
    return parse_words(text, str(path))


def parse_words(text: str, path: str = "words") -> Words:
    """As `load_words`, for a text."""
    single: dict[str, str] = {}
    phrases: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        meaning, colon, words = line.partition(":")
        if not colon or meaning.strip().lower() not in MEANINGS or not words.strip():
            raise TileproofError(
                "a line of the words file cannot be parsed",
                where=f"{path}, line {number}",
                expected="meaning: word, word, where meaning is one of " + ", ".join(MEANINGS),
                found=line,
            )
        for word in (word.strip().lower() for word in words.split(",")):
            if not word:
                continue
            wide = " " in word or _WIDE.search(word) or not word.isidentifier()
            (phrases if wide else single)[word] = meaning.strip().lower()
    return Words(single, phrases)
