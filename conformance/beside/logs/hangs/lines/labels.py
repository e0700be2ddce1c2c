"""Labels apart from their values: a field that ends a quoted message labels the value behind the message."""

from __future__ import annotations

import re

from tileproof.conformance.beside.logs.hangs.general.lexicon import field, is_state, split, verbs
from tileproof.conformance.beside.logs.hangs.general.rows import Rows

KNOWN = ("stage", "phase", "k", "bytes", "count", "cta", "warp", "mask", "owner", "target")
_QUOTED = re.compile(
    r"(?P<open>[\"'])(?P<text>[^\"']*?)(?P<mark>[\s,;:(]*)(?P<label>[^\W\d]\w*)[\s:=)]*(?P=open)"
    r"(?P<between>.*?)\b(?P<key>value|val|v|data|arg|args|x|int|i32|u32)\s*[=:]\s*(?P<value>-?\d+|0[xX][0-9a-fA-F]+)(?!\w)"
)
_TUPLE = re.compile(
    r"[(\[<]?(?P<labels>(?<![\w.])[^\W\d]\w*(?:\s*[,/]\s*[^\W\d]\w*)+)[)\]>]?\s*[=:]\s*[(\[<]?"
    r"(?P<values>-?\d+(?:\s*[,/]\s*-?\d+)+)(?![\w.])[)\]>]?"
)

# A name of several words, also with its number: `softmax-lo`, `Softmax-Gruppe-0`.
_HYPHENS = re.compile(r"(?<![\w-])[^\W\d]\w+(?:-[^\W\d]\w*)+(?:-\d{1,2})?(?![\w-])")
_INDEXED = re.compile(r"(?<![\w.-])(?P<name>[^\W\d_]{3,})-(?P<index>\d{1,2})(?![\w-]|\.\d)")  # `Softmax-0`
_CTA = re.compile(r"(?<![\w.])(?P<label>[^\W\d]+?)(?:[_#-]|[\"']?\s*[=:]\s*[\"']?|\s?)\d")
# A role in front with its CTA in a word: `cta0_loader`.
_OF_CTA = re.compile(r"^(?P<open>\W*)(?P<cta>[^\W\d_]+)_?(?P<number>\d+)[_.-](?P<role>[^\W\d]\w*)")

# An element of an array by a method, `full.at[0]`.
_ELEMENT = re.compile(r"(?<=\w)\.(?:at|index|get|item|elem|slot|stage)\s*[\[(]\s*(?P<stage>\d+)\s*[\])]")
# A call whose name ends in that of its argument: `wait_parity(1)`.
_ARGUMENT = re.compile(
    r"(?P<call>(?<!\w)\w*wait)_(?P<label>parity|phase)\(\s*(?P<value>[01])\s*\)", re.IGNORECASE
)


def with_labels(lines: Rows) -> Rows:
    """The rows with each value behind its own label."""
    lines = [
        (number, _ARGUMENT.sub(r"\g<call>(\g<label>=\g<value>)", _ELEMENT.sub(r"[\g<stage>]", text)))
        for number, text in lines
    ]
    lines = [(number, _OF_CTA.sub(_apart, text)) for number, text in lines]
    lines = _with_indices(lines)
    lines = [(number, _HYPHENS.sub(_joined, text) if "-" in text else text) for number, text in lines]
    return [(number, _TUPLE.sub(_each, _QUOTED.sub(_beside, text))) for number, text in lines]


def _with_indices(lines: Rows) -> Rows:
    """A role and its index as one word, `softmax_0`, where all rows that have it name their CTA as well."""
    values: dict[str, set[str]] = {}
    bare: set[str] = set()
    for _, text in lines:
        for found in _INDEXED.finditer(text) if "-" in text else ():
            values.setdefault(found["name"], set()).add(found["index"])
            if not any(field(each["label"]) == "cta" for each in _CTA.finditer(text)):
                bare.add(found["name"])
    names = {
        name for name, some in values.items()
        if len(some) > 1 and name not in bare and not (field(name) or verbs(name) or is_state(name))
    }  # fmt: skip
    if not names:
        return lines
    named = re.compile(rf"(?<![\w.-])(?P<name>{'|'.join(map(re.escape, names))})-(?=\d{{1,2}}(?![\w-]|\.\d))")
    return [(number, named.sub(r"\g<name>_", text)) for number, text in lines]


def _apart(found: re.Match[str]) -> str:
    """A CTA's number and the name behind it as words of their own; not what happens, a barrier or a field."""
    told = [{*verbs(part)} - {"copy"} or field(part) for part in split(found["role"])]
    is_cta = field(found["cta"]) == "cta" and not all(told) and not is_state(found["role"])
    return f"{found['open']}{found['cta']}{found['number']} {found['role']}" if is_cta else found[0]


def _joined(found: re.Match[str]) -> str:
    """A role with hyphens as one word; not what happens, a barrier, or a field and its number."""
    parts = found[0].split("-")
    told = {verb for part in parts for verb in verbs(part)}
    plain = not told & {"wait", "done", "arrive", "expect"} and not is_state(found[0])
    return found[0].replace("-", "_") if plain and not field(parts[0]) else found[0]


def _beside(found: re.Match[str]) -> str:
    """A message that ends with the name of a field names the value that is printed behind it."""
    if field(found["label"]) not in KNOWN and "," not in found["mark"]:
        return found[0]
    return f"{found['open']}{found['text']}{found['open']}{found['between']}{found['label']}={found['value']}"


def _each(found: re.Match[str]) -> str:
    labels = re.split(r"\s*[,/]\s*", found["labels"])
    values = re.split(r"\s*[,/]\s*", found["values"])
    if len(labels) != len(values) or any(field(label) not in KNOWN for label in labels):
        return found[0]
    return " " + " ".join(f"{label}={value}" for label, value in zip(labels, values, strict=True)) + " "
