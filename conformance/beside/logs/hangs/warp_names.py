"""The names of warps that lines in front of the events state: `warps: 0 producer, 1 umma, 2/3 drain`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from tileproof.conformance.beside.logs.hangs.general.lexicon import field, verbs
from tileproof.conformance.beside.logs.hangs.log import Actor, Log

WARPS = 32  # of a CTA
_WARP = re.compile(r"warp (\d+)")
_NUMBERS = r"(?P<warps>\d{1,2}(?:\s*(?:-|\.\.|/|\+|to)\s*\d{1,2})*)(?![\w.])"
_NAME = r"(?P<name>[^\W\d][\w-]*(?: (?!warps?\b)[^\W\d][\w-]*){0,2})"
_BEHIND = re.compile(rf"(?<![\w.]){_NUMBERS}\s*(?:[=:(]|->|=>|is|are)?\s*{_NAME}")
_BEFORE = re.compile(rf"{_NAME}\s*(?:[=:(]|->|=>|is|are)?\s*\(?\bwarps?\s*{_NUMBERS}")


def name_warps(log: Log) -> None:
    """Give actors that are known by the number of their warp the names that the log states."""
    acting = {event.actor for event in log.events}
    warps = {int(found[1]) for actor in acting if (found := _WARP.fullmatch(actor.role))}
    if not warps or len(warps) < len({actor.role for actor in acting}):
        return
    first = min(event.line for event in log.events)
    names = _stated(log.lines[: first - 1])
    if not warps <= names.keys() or len({names[warp] for warp in warps}) < 2:
        return
    many = Counter(names[warp] for warp in warps)

    def of(actor: Actor) -> Actor:
        found = _WARP.fullmatch(actor.role)
        if found is None:
            return actor
        name = names.get(int(found[1]), actor.role)
        return actor._replace(role=name if many[name] < 2 else f"{name} {actor.role}")

    log.rename(of)


def _stated(head: Sequence[str]) -> dict[int, str]:
    """The name of each warp by lines that speak of warps; the form that names more of them."""
    lines = [line for line in head if "warp" in line.lower()]
    return max(({**_names(lines, form)} for form in (_BEHIND, _BEFORE)), key=len)


def _names(lines: Sequence[str], form: re.Pattern[str]) -> dict[int, str]:
    found: dict[int, str] = {}
    for line in lines:
        for entry in form.finditer(line):
            name = entry["name"].strip().lower()
            if field(name) or {*verbs(name)} & {"wait", "done", "arrive"}:
                continue
            numbers = [int(number) for number in re.findall(r"\d+", entry["warps"])]
            last = numbers[-1] if re.search(r"-|\.\.|to", entry["warps"]) else numbers[0]
            for warp in {*numbers, *range(numbers[0], min(last, WARPS) + 1)}:
                found.setdefault(warp, name)
    return found
