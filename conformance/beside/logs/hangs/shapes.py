"""Lines whose shape, rather than a word, shows the actor, the call or the end of a wait.

`<1:tma>`, `[blk 0][issue]`, `the issue warp` name a role although `issue` is a verb elsewhere; `b0 t128` is a
block and a thread; `full[1].wait(0)` is `wait(full[1], 0)`; `no longer waits` ends a wait.
"""

from __future__ import annotations

import re
from functools import partial

from tileproof.conformance.beside.logs.hangs.languages import told_in_chinese
from tileproof.conformance.beside.logs.hangs.words import FIELDS, NOISE, PREPOSITIONS, VERBS

_WORD = r"[^\W\d]\w*"
# The CTA and the role at the beginning of a line.
_RANKED = re.compile(rf"^(?P<head>\W*)[\[(<](?P<cta>\d{{1,3}})\s*[:/|]\s*(?P<role>{_WORD})[\])>]")
_RANKED_BACK = re.compile(rf"^(?P<head>\W*)[\[(<](?P<role>{_WORD})\s*[:/|]\s*(?P<cta>\d{{1,3}})[\])>]")
_SLASHED = re.compile(rf"^(?P<head>\s*)(?P<cta>\d{{1,3}})[/:](?P<role>{_WORD})(?=\s)")
_WITHIN = re.compile(
    r"^(?P<open>\W*)(?P<cta>(?:cta|blk|block|块|线程块)\W?\d+)[\s,;:/]+"
    rf"(?P<role>{_WORD})\s*(?=[\]\u3011)\uff09>;|]|\s+k\W?\d)",
    re.IGNORECASE,
)
_BESIDE = re.compile(
    rf"^(?P<cta>\W*(?:cta|blk|block|rank)\W?\d+\W*[\])>|]\s*)\[\s*(?P<role>{_WORD})\s*\](?=.)", re.IGNORECASE
)
_BEFORE_CTA = re.compile(
    rf"^(?P<head>\W*)(?P<role>{_WORD})(?P<then>\s*[\[(,]\s*|\s+on\s+)(?=(?:cta|blk|block)[\s=_#]?\d)",
    re.IGNORECASE,
)
_WIDE = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_BESIDE_WIDE = re.compile(
    rf"^(?P<cta>\W*(?:cta|blk|block|rank|块|线程块)\W?\d+\W*\s)"
    rf"(?P<role>[{_WIDE}]+\w*)(?=\s+\w+\s*[=:]?\s*\d|\s*[:\uff1a])",
    re.IGNORECASE,
)
_BEFORE_WARP = re.compile(
    rf"\b(?:the|The|THE)\s+(?P<role>{_WORD})\s+(?P<what>warp|warpgroup|thread)s?\b(?!\s*\d)"
)
_SHORT = re.compile(
    r"^(?P<head>\W*)[bBcC](?P<cta>\d{1,3})[\s,:/.|-]{1,2}(?P<what>[tTwW])(?P<number>\d{1,4})\b"
)
# The role behind the warp: `w04 epilogue]`, `warp 4 (softmax)`, `warp0/loader]`.
_BEHIND_WARP = re.compile(
    rf"(?P<warp>\b(?:warp|w)[\s_=#]?(?P<number>\d{{1,2}}))\s*[\s/(:]\s*(?P<role>{_WORD})\s*(?=[\])])",
    re.IGNORECASE,
)
_PLAIN_ROLES = {"same", "own", "whole", "other", "first", "last", "elected", "leader", "peer", "main"}
# Calls of methods.
_METHOD = re.compile(
    r"(?P<barrier>[^\W\d]\w*(?:\[[^\]\s]*\])?)(?:\.|->)"
    r"(?P<call>(?:try_|test_)?wait|arrive\w*|commit\w*|expect\w*|signal\w*|notify\w*)\((?P<rest>[^()]*)\)"
)
# Barriers that are members of a structure of shared memory: `wait(plan.full[0], 1)`.
_MEMBER = re.compile(r"(?P<open>\(\s*&?\s*)(?:(?!peer\b|remote\b)[^\W\d]\w*(?:\.|->))+(?=[^\W\d])")
_AND = re.compile(r"(?<=[a-z])_and_(?=[a-z])")
_SUFFIX = re.compile(
    r"(?<=\))[._](?=(?:done|end|ended|ok|passed|returned|begin|start|enter|leave|exit)\b)", re.IGNORECASE
)
_TIMED_OUT = re.compile(r"\btim(?:ed|es|ing) ?out\b", re.IGNORECASE)
_NO_LONGER = re.compile(
    r"\b(?:no longer|not any ?more|stopped|stops) (?:waits?|waiting|blocked|blocks|stuck)\b", re.IGNORECASE
)


def actors(text: str) -> str:
    """The line with the CTA and the role at its beginning as fields."""
    text = _SHORT.sub(_short, text)
    for pattern in (_RANKED, _RANKED_BACK, _SLASHED):
        text = pattern.sub(r"\g<head>cta=\g<cta> role=\g<role> : ", text)
    for pattern, fields in (
        (_WITHIN, r"\g<open>\g<cta> role=\g<role> "),
        (_BESIDE, r"\g<cta> role=\g<role> : "),
        (_BEFORE_CTA, r"\g<head>role=\g<role>\g<then>"),
        (_BESIDE_WIDE, r"\g<cta> role=\g<role> "),
    ):
        text = pattern.sub(partial(_role_field, fields), text)
    text = _BEHIND_WARP.sub(partial(_role_field, r"warp=\g<number> role=\g<role> "), text, count=1)
    return _BEFORE_WARP.sub(_before_warp, text)


def calls(text: str) -> str:
    """The line with calls and ends of waits in the grammar's words."""
    if "(" in text:
        text = _MEMBER.sub(r"\g<open>", text)
        text = _SUFFIX.sub(" ", _METHOD.sub(_call, text))
    return _TIMED_OUT.sub("timeout", _NO_LONGER.sub("wait done", text))


def _short(found: re.Match[str]) -> str:
    what = "thread" if found["what"] in "tT" else "warp"
    return f"{found['head']}cta={found['cta']} {what}={int(found['number'])} "


def _role_field(fields: str, found: re.Match[str]) -> str:
    """The word at a role's place as a field, unless it is what happens."""
    return found[0] if _says(found["role"]) else found.expand(fields)


def _says(word: str) -> bool:
    """Whether a word is what happens, a field or noise: no role. `issue` and `copy` are roles too."""
    low = word.lower()
    happens = VERBS.get(low, "copy") != "copy" or low in FIELDS or low in NOISE or low in PREPOSITIONS
    return happens or told_in_chinese(word)


def _before_warp(found: re.Match[str]) -> str:
    return found[0] if found["role"].lower() in _PLAIN_ROLES else f"role={found['role']} "


def _call(found: re.Match[str]) -> str:
    call = _AND.sub("_", found["call"])
    rest = f", {found['rest']}" if found["rest"].strip() else ""
    return f"{call}({found['barrier']}{rest})"
