"""Logs whose words say nothing: every word is replaced by a made-up word, throughout the log.

What a reader still finds in such a log, it finds from the log's own order, and not from lists of words.
"""

from __future__ import annotations

import json
import random
import re

from tileproof.spec.machine.types import UncheckedObject

_WORD = re.compile(r"(?<![^\W_])(?:0[xX][0-9a-fA-F]+|0[bB][01]+)(?!\w)|[^\W\d_]+")
_WARP = re.compile(r"\b(?:wid|w|t|tid|thread|warp_?id|warp_?idx|warp|wg) ?(\d+)", re.IGNORECASE)
_THREAD = {"t", "tid", "thread"}


def blanked(text: str, seed: int) -> tuple[str, dict[str, str]]:
    """The text in made-up words, and the words that they stand for."""
    rng = random.Random(seed)
    new: dict[str, str] = {}
    back: dict[str, str] = {}

    def replaced(found: re.Match[str]) -> str:
        word = found[0]
        if word[0] == "0":
            return word
        low = word.lower()
        if low not in new:
            made = _made(rng)
            while made in back:
                made = _made(rng)
            new[low] = made
            back[made] = low
        return new[low].upper() if word.isupper() and len(word) > 1 else new[low]

    return _WORD.sub(replaced, text), back


def _made(rng: random.Random) -> str:
    return "".join(rng.choice("bdfgjklmnprstvz") + rng.choice("aiou") for _ in range(4)) + "q"


def restored(found: UncheckedObject | None, back: dict[str, str]) -> UncheckedObject | None:
    """A diagnosis of a blanked log in the log's own words; numbered roles are called warps."""
    if found is None:
        return None
    text = re.sub(
        r"[a-z]+", lambda word: back.get(word[0].lower(), word[0]), json.dumps(found), flags=re.IGNORECASE
    )
    restored: UncheckedObject = json.loads(text)
    actors = [restored["root"]["actor"]] if restored["root"] else []
    actors += [cause["culprit"] for cause in restored["causes"] if cause["culprit"]]
    for actor in actors:
        actor["role"] = _WARP.sub(_named, actor["role"])
    return restored


def _named(found: re.Match[str]) -> str:
    number = int(found[1])
    thread = found[0].rstrip("0123456789 ").lower() in _THREAD
    return f"warp {number // 32 if thread else number}"
