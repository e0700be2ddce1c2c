"""The spellings of an instruction: a small grammar of the suffixes of its base, for parsing and for listing.

`forms` of a registry row is a list of patterns separated by `;`. A pattern is text with its dots written out,
`{a,b}` for a choice, `[x]` for an optional part, nested freely; blanks are ignored. Requirements follow after
`@`: `@sm_90` that target or newer, `@sm_100a` an architecture- or family-specific target of the sm_100
family, `@sm_90a|sm_100a` either, `@=sm_100a` exactly that target, `@ptx8.6` that PTX version or newer. `*`
alone means every spelling (of a family that is refused as a whole).

A pattern gives the order of the PTX ISA. ptxas 13 reads the words that follow an instruction's name in any
order, but keeps the order of types among themselves and of state spaces among themselves; `Forms.find` does
the same and returns the spelling in the order of the ISA, which is what decoders see.
"""

from __future__ import annotations

import heapq
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

# A node is a literal, a sequence or a choice; what may be left out is a choice with an empty sequence.
Node = str | tuple[str, tuple["Node", ...]]

_TARGET = re.compile(r"sm_(\d+)([af]?)$")
_REQUIREMENT = re.compile(r"=?sm_\d+[af]?(?:\|=?sm_\d+[af]?)*$|ptx\d+\.\d+$")
# Targets whose features differ by suffix: members of a family share what its first member has.
_FAMILIES = ((90,), (100, 101, 103, 110), (107,), (120, 121))
# The PTX version in which each target appeared (PTX ISA 11.1.2).
_SINCE = {
    (90, ""): (7, 8), (90, "a"): (8, 0), (100, ""): (8, 6), (100, "a"): (8, 6), (100, "f"): (8, 8),
    (101, ""): (8, 6), (101, "a"): (8, 6), (101, "f"): (8, 8), (103, ""): (8, 8), (103, "a"): (8, 8),
    (103, "f"): (8, 8), (107, ""): (9, 4), (107, "a"): (9, 4), (107, "f"): (9, 4), (110, ""): (9, 0),
    (110, "a"): (9, 0), (110, "f"): (9, 0), (120, ""): (8, 7),
    (120, "a"): (8, 7), (120, "f"): (8, 8), (121, ""): (8, 8), (121, "a"): (8, 8), (121, "f"): (8, 8),
}  # fmt: skip

TYPE = re.compile(r"(?:[bsu]\d+|b?f\d+|tf32|ue\dm\d|e\dm\d)(?:x\d+)?(?:_p\d+)?$|pred$")
_LAYOUTS = ("row", "col")
SPACE = re.compile(r"(?:global|shared|local|const|param|generic)(?:::\w+)?$")
# What a word needs wherever it stands (PTX ISA, the notes of 5.1, 9.7.9 and 9.7.13).
_WORDS = {
    "cluster": ("sm_90", "ptx7.8"), "shared::cluster": ("sm_90", "ptx7.8"), "shared::cta": ("ptx7.8",),
    "param::entry": ("ptx8.3",), "param::func": ("ptx8.3",), "L2::cache_hint": ("sm_80", "ptx7.4"),
    "L2::256B": ("sm_80", "ptx7.4"), "L2::128B": ("sm_75", "ptx7.4"), "L2::64B": ("sm_75", "ptx7.4"),
    "b128": ("sm_70", "ptx8.3"),
    **dict.fromkeys(
        ("L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate"),
        ("sm_70", "ptx7.4"),
    ),
}  # fmt: skip
# Where a word belongs to the name for ptxas 13, so that it cannot move: what follows a base.
_NAMES = {
    "mul": "lo hi wide", "mad": "lo hi wide", "mul24": "lo hi", "mad24": "lo hi", "shf": "l r", "cvta": "to",
    "setmaxnreg": "inc dec", "mbarrier.arrive": "expect_tx", "mbarrier.arrive_drop": "expect_tx",
    "mbarrier.try_wait": "parity", "mbarrier.test_wait": "parity", "fence": "proxy",
    "membar": "proxy", "div": "full", "brx": "idx",
    "clusterlaunchcontrol.try_cancel": "async", "madc": "lo hi", "dp2a": "lo hi",
    "tcgen05.mma": "ws", "createpolicy": "fractional range cvt",
    "wmma.load": "a b c", "wmma.store": "d",
    "bar": "sync arrive red cta.sync cta.arrive cta.red warp.sync",
    "barrier": "arrive red cta cta.sync cta.arrive cta.red cluster.arrive cluster.wait",
}  # fmt: skip
NAMES = {base: [tuple(name.split(".")) for name in names.split()] for base, names in _NAMES.items()}


def _kind(word: str) -> object:
    """What keeps its order: words of one kind do not overtake each other."""
    if word.startswith("L2::evict_"):  # the primary and the secondary priority of createpolicy
        return "L2::evict"
    if word in ("and", "or", "xor", "popc"):  # .xor.popc of single-bit products
        return "bit operation"
    return (
        TYPE if TYPE.match(word) else SPACE if SPACE.match(word) else _LAYOUTS if word in _LAYOUTS else word
    )


def name_words(base: str, words: tuple[str, ...]) -> int:
    """How many of the words after `base` belong to the instruction's name."""
    return max((len(name) for name in NAMES.get(base, ()) if words[: len(name)] == name), default=0)


@dataclass(frozen=True)
class Target:
    """The target of a module: `.target sm_NUMBERSUFFIX` and `.version`."""

    number: int
    suffix: str
    version: tuple[int, int]

    @classmethod
    def of(cls, target: str, version: str) -> Target:
        """From the words of the directives; raises ValueError for an invalid target or version."""
        match = _TARGET.match(target.split(",")[0].strip())
        digits = re.match(r"(\d+)\.(\d+)$", version.strip())
        if not match:
            raise ValueError(f"{target!r} is not a target")
        if not digits:
            raise ValueError(f"{version!r} is not a PTX version")
        return cls(int(match.group(1)), match.group(2), (int(digits.group(1)), int(digits.group(2))))

    def __str__(self) -> str:
        return f"sm_{self.number}{self.suffix}, PTX {self.version[0]}.{self.version[1]}"

    @property
    def since(self) -> tuple[int, int] | None:
        """The PTX version in which this target appeared, where it is known."""
        return _SINCE.get((self.number, self.suffix))

    def loads_on_sm100(self) -> bool:
        """Whether SM100 can load the module: a generic target runs on newer GPUs, a specific target in its
        family.
        """
        return self.number in _FAMILIES[1] if self.suffix else self.number <= 103

    @property
    def is_sm120(self) -> bool:
        """Whether the module is for SM120 or SM121, whose shared memory per CTA is smaller."""
        return self.number in _FAMILIES[3]

    @property
    def is_sm90a(self) -> bool:
        """Whether the module has the features of Hopper that no later GPU has."""
        return (self.number, self.suffix) == (90, "a")

    def runs(self) -> bool:
        """Whether the emulator runs the module: SM100 loads it, or it is for SM90a, SM120 or SM121. These
        differ from SM100 by instructions, SM120 and SM121 also by the size of shared memory.
        """
        return self.is_sm120 or self.is_sm90a or self.loads_on_sm100()

    def meets(self, requirement: str) -> bool:
        """Whether one requirement (the text after `@`) holds."""
        if requirement.startswith("ptx"):
            major, minor = requirement[3:].split(".")
            return self.version >= (int(major), int(minor))
        return any(self._meets_target(word) for word in requirement.split("|"))

    def _meets_target(self, word: str) -> bool:
        match = _TARGET.match(word.removeprefix("="))
        assert match
        number, suffix = int(match.group(1)), match.group(2)
        if word[0] == "=":
            return (self.number, self.suffix) == (number, suffix)
        if not suffix:
            return self.number >= number
        family = next((f for f in _FAMILIES if number in f), (number,))
        return bool(self.suffix) and self.number in family and self.number >= number


def _parse(text: str) -> Node:
    """The tree of one pattern; raises ValueError where it breaks the grammar."""
    at = 0

    def sequence(until: str) -> Node:
        nonlocal at
        parts: list[Node] = []
        while at < len(text) and text[at] not in until:
            char = text[at]
            at += 1
            if char == "{":
                options = [sequence(",}")]
                while at < len(text) and text[at] == ",":
                    at += 1
                    options.append(sequence(",}"))
                close("}")
                parts.append(("any", tuple(options)))
            elif char == "[":
                inside = sequence("]")
                close("]")
                parts.append(("any", (("all", ()), inside)))
            elif re.match(r"[\w.:]", char):
                parts.append(char)
            else:
                raise ValueError(f"{char!r} is not allowed in the forms {text!r}")
        return ("all", tuple(parts))

    def close(char: str) -> None:
        nonlocal at
        if text[at : at + 1] != char:
            raise ValueError(f"{char!r} is missing in the forms {text!r}")
        at += 1

    return sequence("")


@dataclass(frozen=True)
class Found:
    """A spelling that a pattern has: in the order of the ISA, and what it requires."""

    text: str
    requires: tuple[str, ...]


class Pattern:
    """One pattern of `forms`, as an automaton over characters."""

    def __init__(self, text: str) -> None:
        body, *needs = (part.strip() for part in text.split("@"))
        self.requires = tuple(needs)
        for need in needs:
            if not _REQUIREMENT.match(need):
                raise ValueError(f"@{need} is not a requirement (@sm_90, @sm_100a, @=sm_100a or @ptx8.6)")
        self.text = re.sub(r"\s+", "", body)
        self.tree = _parse(self.text)
        self._next: list[dict[str, set[int]]] = [{}]
        self._epsilon: list[set[int]] = [set()]
        self._end = self._build(self.tree, 0)
        self._closures: dict[int, frozenset[int]] = {}

    def _state(self) -> int:
        self._next.append({})
        self._epsilon.append(set())
        return len(self._next) - 1

    def _build(self, node: Node, start: int) -> int:
        if isinstance(node, str):
            end = self._state()
            self._next[start].setdefault(node, set()).add(end)
            return end
        kind, parts = node
        if kind == "all":
            for part in parts:
                start = self._build(part, start)
            return start
        end = self._state()
        for part in parts:
            entry = self._state()
            self._epsilon[start].add(entry)
            self._epsilon[self._build(part, entry)].add(end)
        return end

    def _closure(self, state: int) -> frozenset[int]:
        if state not in self._closures:
            seen, todo = {state}, [state]
            while todo:
                for further in self._epsilon[todo.pop()] - seen:
                    seen.add(further)
                    todo.append(further)
            self._closures[state] = frozenset(seen)
        return self._closures[state]

    def _step(self, states: frozenset[int], text: str) -> frozenset[int]:
        for char in text:
            after: set[int] = set()
            for state in states:
                for reached in self._next[state].get(char, ()):
                    after |= self._closure(reached)
            states = frozenset(after)
        return states

    def has(self, text: str) -> bool:
        """Whether the pattern has this spelling, in this order."""
        return self._end in self._step(self._closure(0), text)

    def ordered(self, words: tuple[str, ...], fixed: int) -> tuple[str, ...] | None:
        """`words` in the pattern's order: the first `fixed` stay, types and
        state spaces keep their own order.
        """
        states = self._closure(0)
        for word in words[:fixed]:
            states = self._step(states, "." + word)
        failed: set[tuple[frozenset[int], tuple[str, ...]]] = set()

        def search(states: frozenset[int], remaining: tuple[str, ...]) -> tuple[str, ...] | None:
            if not remaining:
                return () if self._end in states else None
            if not states or (states, remaining) in failed:
                return None
            held: set[object] = set()
            for index, word in enumerate(remaining):
                kind = _kind(word)
                if kind in held:
                    continue
                held.add(kind)
                rest = search(self._step(states, "." + word), remaining[:index] + remaining[index + 1 :])
                if rest is not None:
                    return (word, *rest)
            failed.add((states, remaining))
            return None

        rest = search(states, words[fixed:])
        return None if rest is None else (*words[:fixed], *rest)

    @cached_property
    def count(self) -> int:
        """How many spellings the pattern has (a spelling reached in two ways counts twice)."""
        return _count(self.tree)

    def spelling(self, index: int) -> str:
        """The spelling of that number, from 0."""
        return _nth(self.tree, index)

    def distance(self, text: str) -> tuple[int, str]:
        """(edits, spelling): the spelling nearest to `text`, one edit per character."""
        best: dict[tuple[int, int], int] = {}
        queue: list[tuple[int, int, int, str]] = [(0, 0, 0, "")]
        while queue:
            cost, at, state, out = heapq.heappop(queue)
            if best.get((at, state), 1 << 30) <= cost:
                continue
            best[(at, state)] = cost
            if state == self._end and at == len(text):
                return cost, out
            for further in self._epsilon[state]:
                heapq.heappush(queue, (cost, at, further, out))
            if at < len(text):
                heapq.heappush(queue, (cost + 1, at + 1, state, out))
            for char, reached in self._next[state].items():
                for further in reached:
                    heapq.heappush(queue, (cost + 1, at, further, out + char))
                    if at < len(text):
                        heapq.heappush(queue, (cost + (text[at] != char), at + 1, further, out + char))
        return 1 << 30, ""


def _count(node: Node) -> int:
    if isinstance(node, str):
        return 1
    kind, parts = node
    if kind == "any":
        return sum(map(_count, parts))
    total = 1
    for part in parts:
        total *= _count(part)
    return total


def _nth(node: Node, index: int) -> str:
    if isinstance(node, str):
        return node
    kind, parts = node
    if kind == "any":
        for part in parts:
            if index < _count(part):
                return _nth(part, index)
            index -= _count(part)
        raise IndexError(index)
    out = []
    for part in parts:
        index, digit = divmod(index, _count(part))
        out.append(_nth(part, digit))
    if index:
        raise IndexError(index)
    return "".join(out)


class Forms:
    """All patterns of one row."""

    def __init__(self, text: str) -> None:
        self.any = text.strip() == "*"
        self.patterns = () if self.any else tuple(Pattern(part) for part in text.split(";"))

    def find(self, base: str, words: tuple[str, ...]) -> Iterator[Found]:
        """The spellings of `base` that these words are: in the order of the ISA, else in another."""
        text = "".join("." + word for word in words)
        if self.any:
            yield Found(text, ())
            return
        exact = [pattern for pattern in self.patterns if pattern.has(text)]
        needs = tuple(dict.fromkeys(need for word in words for need in _WORDS.get(word, ())))
        for pattern in exact:
            yield Found(text, (*pattern.requires, *needs))
        if not exact and len(words) <= 16:
            fixed = name_words(base, words)
            for pattern in self.patterns:
                order = pattern.ordered(words, fixed)
                if order is not None and name_words(base, order) == fixed:
                    yield Found("".join("." + word for word in order), (*pattern.requires, *needs))

    def nearest(self, text: str) -> tuple[int, str]:
        """Return (edits, spelling) of the nearest spelling; another order of the words is no edit."""
        words = tuple(text.split(".")[1:])
        if len(words) <= 9:
            for remaining in (words, *(words[:i] + words[i + 1 :] for i in range(len(words)))):
                for pattern in self.patterns:
                    if (order := _any_order(pattern, remaining)) is not None:
                        return (0 if len(remaining) == len(words) else 1), "".join(
                            "." + word for word in order
                        )
        return min((pattern.distance(text) for pattern in self.patterns), default=(1 << 30, ""))

    def sample(self, count: int, seed: int = 0) -> list[tuple[str, tuple[str, ...]]]:
        """(spelling, requirements): all where they are at most `count`, else a sample of each pattern."""
        rng = random.Random(seed)
        out = []
        for pattern in self.patterns:
            share = max(1, count // len(self.patterns))
            every = range(pattern.count)
            numbers = every if pattern.count <= share else sorted(rng.sample(every, share))
            out += [(pattern.spelling(number), pattern.requires) for number in numbers]
        return list(dict.fromkeys(out))


def _any_order(pattern: Pattern, words: tuple[str, ...]) -> tuple[str, ...] | None:
    """`words` in the pattern's order, types and spaces too."""
    types = [word for word in words if TYPE.match(word)]
    if len(types) > 1:
        for turned in (types, types[::-1]):
            rest = iter(turned)
            mixed = tuple(next(rest) if TYPE.match(word) else word for word in words)
            if (order := pattern.ordered(mixed, 0)) is not None:
                return order
        return None
    return pattern.ordered(words, 0)
