"""A mutant of sources as a change of the original's PTX, where a single instruction is missing or moved."""

from __future__ import annotations

import re

from tileproof.conformance.beside.mutate.code import PtxCode
from tileproof.kernels.places import unnamed, without_numbers

_PLACE = re.compile(r"^(\.loc\b.*|\$L__tmp.*|[{}])?$")  # and the braces of scopes
_MOST = 60  # lines between the first and the last that differ

Change = tuple[str, dict[int, str]]  # the operator that it is one of, and its lines


def change(code: PtxCode, text: str) -> Change | None:
    """What makes the original's entry into that of `text`, places in the source left out; None where that is
    not one instruction less or one at another place, or the rest of the texts differs in more than what
    headers leave that make the same instructions (`places.instructions`).
    """
    original, other = (PtxCode(without_numbers(text), code.entry) for text in (code.text, text))
    before, after = _body(original), _body(other)
    first = next((n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a[1] != b[1]), -1)
    if first < 0 or _declared(original) != _declared(other):
        return None
    back = 0
    while back < min(len(before), len(after)) - first and before[-1 - back][1] == after[-1 - back][1]:
        back += 1
    was, now = before[first : len(before) - back], after[first : len(after) - back]
    if len(was) > _MOST or not was or any(number not in code.at for number, _ in (was[0], was[-1])):
        return None
    texts, becomes = [text for _, text in was], [text for _, text in now]
    if len(was) == 1 and not now:
        return "remove-sync", {was[0][0]: ""}
    if texts[1:] + texts[:1] == becomes:
        return "move", {was[0][0]: "", was[-1][0]: f"{texts[-1]}\n{texts[0]}"}
    if texts[-1:] + texts[:-1] == becomes:
        return "move", {was[-1][0]: "", was[0][0]: f"{texts[-1]}\n{texts[0]}"}
    return None


def _body(code: PtxCode) -> list[tuple[int, str]]:
    """Lines of the entry with their numbers, without places, comments and braces."""
    lines = ((n + 1, _bare(code.lines[n])) for n in code.body())
    return [(number, line) for number, line in lines if not _PLACE.match(line)]


def _declared(code: PtxCode) -> list[str]:
    """The text before the entry's body: its parameters, and the module's variables that are named."""
    other = unnamed(code.text)
    lines = (_bare(line) for line in code.lines[: code.body().start])
    return [
        line
        for line in lines
        if not _PLACE.match(line) and ".file" not in line and other.isdisjoint(re.findall(r"[\w$]+", line))
    ]


def _bare(line: str) -> str:
    return " ".join(re.sub(r"//.*", "", line).split())
