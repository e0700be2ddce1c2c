"""The one error type that every part of Tileproof raises for bad input.

A user should never need a traceback: each error states what is wrong, where, what was expected, what was
found, and what to do. The command line prints it and exits with code 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches


class TileproofError(Exception):
    """An input that could not be checked, described in five parts.

    Parameters
    ----------
    what: one sentence that names the fault.
    where: the file and line, argument, instruction or kernel it concerns.
    expected, found: the two sides, when the fault is a mismatch.
    do: the user's next step.
    """

    # Characters of a part: what was found may be a stranger's megabytes.
    MAX_CHARACTERS = 2000

    def __init__(
        self, what: str, *, where: str = "", expected: str = "", found: str = "", do: str = ""
    ) -> None:
        self.what = self._cut(what)
        self.where = self._cut(where)
        self.expected = self._cut(expected)
        self.found = self._cut(found)
        self.do = self._cut(do)
        super().__init__(self._text())

    def _cut(self, part: str) -> str:
        return (
            part
            if len(part) <= self.MAX_CHARACTERS
            else f"{part[: self.MAX_CHARACTERS]} ... ({len(part)} characters)"
        )

    def _text(self) -> str:
        parts = [self.what]
        for label in ("where", "expected", "found", "do"):
            value = getattr(self, label)
            if value:
                parts.append(f"  {label + ':':<10}{value}")
        return "\n".join(parts)

    def as_dict(self) -> dict[str, str]:
        """The five parts, for `--json`."""
        return {key: getattr(self, key) for key in ("what", "where", "expected", "found", "do")}


class LaunchError(TileproofError):
    """A launch, or its schedule, that does not fit its kernel or the machine."""


def did_you_mean(given: str, known: Iterable[str], shown: Callable[[str], str] = str) -> str:
    """Return "did you mean a or b?" with the known names that resemble the given name; "" if none does."""
    names = list(known)
    close = get_close_matches(given, names, n=3, cutoff=0.6)
    if not close:
        lower = {name.lower(): name for name in names}
        close = [lower[name] for name in get_close_matches(given.lower(), lower, n=3, cutoff=0.6)]
    return f"did you mean {' or '.join(map(shown, close))}?" if close else ""
