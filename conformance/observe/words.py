"""English words of findings: plurals of a problem's units, and ordinals."""

from __future__ import annotations


def plural(word: str) -> str:
    """``keys``, ``queries``."""
    return f"{word[:-1]}ies" if word.endswith("y") and word[-2:-1] not in "aeiou" else f"{word}s"


def ordinal(number: int) -> str:
    """``2nd``, ``11th``, ``21st``."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
