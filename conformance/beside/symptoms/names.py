"""Names of stages in a description: gradients as they are called in many ways, rewritten to `dX`."""

from __future__ import annotations

import re

from tileproof.spec.problems.base import ProblemType

TENSORS = {"q": "q|query|queries", "kv": "kv|key[- ]values?", "k": "k|keys?", "v": "v|values?", "b": "bias"}
_GRADIENT = r"grad(?:s|ients?|ienten)?"
_AND = r"(?:,|and|und|or|/|&|\+)"


def names(problem: ProblemType) -> dict[str, str]:
    """Every name of a stage, lower case: its own, and those of the conventions. A single letter is a name
    where it is a capital, which `gradients_named` marks.
    """
    found = {f"<{name.lower()}>" if len(name) == 1 else name.lower(): name for name in problem.stages}
    forms = problem.tensors
    for convention in forms.conventions if forms is not None else ():
        assert forms is not None
        by_form = {form.name: form.stage for form in forms.forms if form.role != "input"}
        for own, theirs in convention.names.items():
            if own in by_form and len(theirs) > 1:
                found.setdefault(theirs.lower(), by_form[own])
    if "dkv" in found:
        found |= {name: found["dkv"] for name in ("dk", "dv") if name not in found}
    return found


def gradients_named(text: str, problem: ProblemType) -> str:
    """The text with each gradient of a tensor as `dX`, and each capital that is a stage as `<x>`."""
    for name in problem.stages:
        if len(name) == 1:
            text = re.sub(rf"(?<![\w'/-]){name}(?![\w^'/=])", f"<{name.lower()}>", text)
    text = re.sub(r"\bd_(kv|[qkvb])\b", r"d\1", text, flags=re.IGNORECASE)
    for short, words in TENSORS.items():
        text = re.sub(rf"(?<![\w^*.])(?:{words})[-. _]*{_GRADIENT}\b", f"d{short}", text, flags=re.IGNORECASE)
        of = r"(?:_|[- ]*(?:(?:for|of|wrt|w\.r\.t\.?|von|fuer|in|to) )?(?:the |all of |both )?)"
        text = re.sub(rf"\b{_GRADIENT}{of}(?:{words})\b(?!\^)", f"d{short}", text, flags=re.IGNORECASE)
    tensor = "|".join(TENSORS.values())
    short_of = {
        word: short for short, words in TENSORS.items() for word in re.sub(r"\[- \]|\?", "", words).split("|")
    }

    def named(word: str) -> str:
        return "d" + short_of.get(word.lower().replace("-", "").replace(" ", ""), word[0].lower())

    for _ in range(3):  # "q and k grads", "grads for q, k"
        text = re.sub(
            rf"(?<![\w^*.])({tensor})-?\s*({_AND})\s*(?=d(?:kv|[qkvb])\b)",
            lambda match: f"{named(match[1])} {match[2]} ", text, flags=re.IGNORECASE,
        )  # fmt: skip
        text = re.sub(
            rf"\b(d(?:kv|[qkvb])\s*{_AND}\s*)({tensor})(?![\w^*.-])(?! ?(?:tile|block|column|row|head))",
            lambda match: match[1] + named(match[2]), text, flags=re.IGNORECASE,
        )  # fmt: skip
    if "dkv" not in {stage.lower() for stage in problem.stages}:
        text = re.sub(r"\bdkv\b", "dk and dv", text, flags=re.IGNORECASE)
    return text
