"""Objects that a log prints over several lines, as one line each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

Lines = Sequence[tuple[int, str]]
_DEEP = 2  # levels of an object in a list: its values may be lists or objects themselves
_LONGEST = 4096


@dataclass(eq=False)
class _Bracket:
    """An object or list: its lines, its levels, and whether it stands in a list."""

    first: int
    listed: bool
    last: int = -1
    inner: list[_Bracket] = field(default_factory=list)

    @property
    def levels(self) -> int:
        return 1 + max((each.levels for each in self.inner), default=0)

    @property
    def is_record(self) -> bool:
        """Whether it is read as one line: it holds plain values, or it is an entry of a list."""
        return self.levels == 1 or (self.listed and self.levels <= _DEEP)


def joined(lines: Lines) -> list[tuple[int, str]]:
    """The lines, with those of an innermost object or list joined behind its first line."""
    tops = _brackets(lines)
    ends: dict[int, int] = {}
    for each in _records(tops):
        if each.last > each.first and not any(at in ends for at in range(each.first, each.last)):
            size = sum(len(text.strip()) + 1 for _, text in lines[each.first : each.last + 1])
            if size <= _LONGEST:
                ends[each.first] = each.last
    out: list[tuple[int, str]] = []
    at = 0
    while at < len(lines):
        last = ends.get(at, at)
        number, text = lines[at]
        rest = [each.strip() for _, each in lines[at + 1 : last + 1]]
        out.append((number, " ".join([text.rstrip(), *rest]) if rest else text))
        at = last + 1
    return out


def _records(brackets: Sequence[_Bracket]) -> Iterator[_Bracket]:
    for each in brackets:
        if each.is_record:
            yield each
        else:
            yield from _records(each.inner)


def _brackets(lines: Lines) -> list[_Bracket]:
    """The outermost brackets of the lines; a bracket that nothing closes has no last line."""
    tops: list[_Bracket] = []
    stack: list[tuple[str, _Bracket]] = []
    for at, (_, text) in enumerate(lines):
        quoted = False
        for char in text:
            if char == '"':
                quoted = not quoted
            elif quoted:
                continue
            elif char in "[{":
                made = _Bracket(at, bool(stack) and stack[-1][0] == "[")
                (stack[-1][1].inner if stack else tops).append(made)
                stack.append((char, made))
            elif char in "]}" and stack:
                stack.pop()[1].last = at
    return tops
