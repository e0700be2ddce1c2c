"""The grammar of one line: its named fields, wherever they stand.

A line is a list of tokens. Keywords take the number after them; verbs and a barrier's name make a clause, and
a line with two barriers has two. What is none of these is counted, so that free text is told from fields.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tileproof.conformance.logs.hangs.rewrite import NO_WORDS, Words, plain
from tileproof.conformance.logs.hangs.words import (
    BETWEEN,
    JOINS,
    NOISE,
    PREPOSITIONS,
    ROLES,
    STATES,
    VERBS,
    Vocabulary,
    key_of,
)

_KBLOCK = re.compile(r"\b(?:k|kv|n)[-_ ]?(?:block|blk|iter(?:ation)?)s?\b", re.IGNORECASE)
_WARPGROUP = re.compile(r"\bwarp[- ]group\b", re.IGNORECASE)
_TOKEN = re.compile(r"0[xX][0-9a-fA-F]+|[^\W\d]\w*|\d+|[^\w\s]")


@dataclass
class Clause:
    """A part of a line with one barrier at most."""

    barrier: str = ""
    strong: bool = False
    stage: int | None = None
    verbs: list[str] = field(default_factory=list)
    last_verb_at: int = -9
    barrier_end: int = -9
    adjacent_done: bool = False

    def copy(self) -> Clause:
        """Another with the same content."""
        return Clause(
            self.barrier,
            self.strong,
            self.stage,
            list(self.verbs),
            self.last_verb_at,
            self.barrier_end,
            self.adjacent_done,
        )


@dataclass
class Line:
    """The fields of one line or record; `said`: how many of its words belong to no field."""

    number: int
    fields: dict[str, int] = field(default_factory=dict)
    role: str = ""
    clauses: list[Clause] = field(default_factory=list)
    spaced: list[tuple[str, str]] = field(default_factory=list)
    bytes: bool = False
    said: int = 0
    indented: bool = False

    @property
    def has_actor(self) -> bool:
        return bool(self.role or self.fields.keys() & {"wg", "warp", "thread"})

    @property
    def has_cta(self) -> bool:
        return bool(self.fields.keys() & {"cta", "block"})

    @property
    def complete(self) -> bool:
        return any(clause.barrier and clause.verbs for clause in self.clauses)


# Numbers by themselves, which a template leaves open; 0 and 1 stay, since a phase is told by being one of
# them.
_NUMBER = re.compile(r"(?<!\w)(?!0[xX]|[01](?!\d))(\d+)")
_STAND_IN = 8_000_000_000
_TEMPLATES = 100_000


@dataclass(eq=False)
class LineKind:
    """What lines that differ in numbers only have in common.

    `fields` are (name, sign, place of its number), `clauses` (clause, "stage" or "barrier", place). `plan` is
    for who makes events of such lines.
    """

    pattern: Line
    fields: tuple[tuple[str, int, int], ...]
    clauses: tuple[tuple[int, str, int], ...]
    plan: object = None


class LineReader:
    """Parses lines, each kind of line once: lines that differ in numbers only are of one kind."""

    def __init__(self, known: Vocabulary, words: Words = NO_WORDS) -> None:
        self._known, self._words = known, words
        self._seen: dict[str, LineKind] = {}

    def kind(self, text: str) -> tuple[LineKind, list[str]]:
        """The kind of a line, and its pieces: at odd places the numbers that the kind leaves open."""
        parts = _NUMBER.split(text)
        if len(parts) > 41:
            return LineKind(self._parse(text), (), ()), parts
        key = "\0".join(parts[::2])
        kind = self._seen.get(key)
        if kind is None:
            kind = self._kind(parts)
            if len(self._seen) < _TEMPLATES:
                self._seen[key] = kind
        return kind, parts

    def speaks(self, word: str) -> bool:
        """Whether a word of a text is a verb, a role, or of the user's own."""
        low = word.strip(".,;()").lower()
        return low in VERBS or low in ROLES or low in self._words.single or not low.isascii()

    def line(self, text: str) -> Line:
        """The fields of one line."""
        return self.filled(*self.kind(text))

    @staticmethod
    def filled(kind: LineKind, parts: list[str]) -> Line:
        """A line of a kind with its numbers."""
        pattern, fields, clauses = kind.pattern, kind.fields, kind.clauses
        line = Line(
            0, dict(pattern.fields), pattern.role, [clause.copy() for clause in pattern.clauses],
            pattern.spaced, pattern.bytes, pattern.said, pattern.indented,
        )  # fmt: skip
        for name, sign, at in fields:
            line.fields[name] = sign * int(parts[at])
        for number, what, at in clauses:
            if what == "stage":
                line.clauses[number].stage = int(parts[at])
            else:
                line.clauses[number].barrier = line.clauses[number].barrier.replace(
                    str(_STAND_IN + at), parts[at]
                )
        return line

    def _parse(self, text: str) -> Line:
        return parse(plain(self._words.translate(text)), self._known)

    def _kind(self, parts: list[str]) -> LineKind:
        """The line with a number of its own in each open place, and where those come out."""
        text = "".join(str(_STAND_IN + at) if at & 1 else part for at, part in enumerate(parts))
        line = self._parse(text)
        fields = tuple(
            (name, 1 if value > 0 else -1, abs(value) - _STAND_IN)
            for name, value in line.fields.items()
            if 0 < abs(value) - _STAND_IN < len(parts)
        )
        clauses: list[tuple[int, str, int]] = []
        for number, clause in enumerate(line.clauses):
            if clause.stage is not None and 0 < clause.stage - _STAND_IN < len(parts):
                clauses.append((number, "stage", clause.stage - _STAND_IN))
            for found in re.findall(r"8\d{9}", clause.barrier):
                if 0 < int(found) - _STAND_IN < len(parts):
                    clauses.append((number, "barrier", int(found) - _STAND_IN))
        return LineKind(line, fields, tuple(clauses))


def parse(text: str, words: Vocabulary) -> Line:
    """The fields of one line."""
    if "roup" in text or "ROUP" in text:
        text = _WARPGROUP.sub("warpgroup", text)
    text = _KBLOCK.sub("kblock", text)
    tokens = _TOKEN.findall(text)
    return _Parse(tokens, words, text[:1] in (" ", "\t")).run()


class _Parse:
    """One walk over the tokens of a line."""

    def __init__(self, tokens: list[str], words: Vocabulary, indented: bool) -> None:
        self._tokens = tokens
        self._words = words
        self._line = Line(0, indented=indented, clauses=[Clause()])
        self._unknown: list[int] = []
        self._ctas: list[tuple[int, int]] = []

    def run(self) -> Line:
        tokens, line = self._tokens, self._line
        at = 0
        while at < len(tokens):
            at = self._step(at)
        if not line.has_actor:
            self._role_beside_cta()
        line.said = len(self._unknown)
        self._join_clauses()
        if not any(clause.strong for clause in line.clauses):
            self._find_spaced()
        return line

    def _join_clauses(self) -> None:
        """A clause without a barrier belongs to the one before it: `wait(p_ready, stage=1) returned`."""
        joined: list[Clause] = []
        for clause in self._line.clauses:
            if joined and not clause.barrier:
                joined[-1].verbs += clause.verbs
            elif clause.barrier or clause.verbs:
                joined.append(clause)
        self._line.clauses = joined

    def _step(self, at: int) -> int:
        token, line = self._tokens[at], self._line
        clause = line.clauses[-1]
        if token.lower() in JOINS and clause.barrier and clause.verbs:
            line.clauses.append(Clause())
            return at + 1
        if not (token[0].isalpha() or token[0] == "_"):
            return at + 1
        word = self._words.word(token)
        if word.kind == "numbered":
            self._set(word.field, word.number, at, at)
        elif word.kind == "key":
            if word.field == "bytes":
                return self._bytes(at, word.short)
            return self._keyed(at, word.field, word.short)
        elif word.kind == "verbs":
            self._verbs(at, word.verbs)
            line.bytes |= any(part in token.lower() for part in ("tx", "expect"))
        elif word.kind == "barrier":
            if word.verbs:
                self._verbs(at, word.verbs)
            return self._barrier(at, word.name, strong=True)
        elif word.kind == "barrier word":
            return self._after_barrier_word(at)
        elif word.kind == "role":
            if not line.role and not clause.verbs and not clause.barrier:
                line.role = word.name
        elif word.kind == "other":
            return self._other(at, token)
        elif token.lower() == "tx":
            line.bytes = True
        return at + 1

    def _set(self, name: str, value: int, start: int, end: int) -> None:
        if name not in ("ignored", "role"):
            self._line.fields.setdefault(name, value)
        if name in ("cta", "block"):
            self._ctas.append((start, end))

    def _keyed(self, at: int, name: str, short: bool) -> int:
        tokens = self._tokens
        then, minus, signed = at + 1, False, False
        while then < len(tokens) and then <= at + 4 and tokens[then].lower() in BETWEEN:
            minus = tokens[then] == "-" and signed
            signed |= tokens[then] in ("=", ":")
            then += 1
        if then >= len(tokens) or (short and not signed):
            return at + 1
        value = tokens[then]
        if name == "role":
            if value[0].isalpha() and self._words.word(value).kind not in ("numbered", "key"):
                self._line.role = value.lower()
                return then + 1
            return at + 1
        if value[0].isdecimal():
            self._set(name, -int(value, 0) if minus else _number(value), at, then)
            return then + 1
        return at + 1

    def _bytes(self, at: int, short: bool) -> int:
        """`bytes=256`, `256 bytes`, `bytes expected`."""
        before = self._tokens[at - 1] if at else ""
        if before.isdecimal() and (at < 2 or self._tokens[at - 2] not in ("=", ":")):
            self._line.fields.setdefault("bytes", int(before))
            self._line.bytes = True
            return at + 1
        then = self._keyed(at, "bytes", short)
        self._line.bytes |= not short or "bytes" in self._line.fields
        return then

    def _verbs(self, at: int, verbs: tuple[str, ...]) -> None:
        clause = self._line.clauses[-1]
        clause.verbs += verbs
        clause.last_verb_at = at
        gap = self._tokens[clause.barrier_end : at] if clause.barrier_end >= 0 else [","]
        if "done" in verbs and not any(token in (",", ";") for token in gap):
            clause.adjacent_done = True

    def _barrier(self, at: int, name: str, strong: bool) -> int:
        line, tokens = self._line, self._tokens
        clause = line.clauses[-1]
        if clause.barrier and strong and clause.strong:
            clause = Clause()
            line.clauses.append(clause)
        end, stage = at + 1, None
        if end + 1 < len(tokens) and tokens[end] in ("[", "(") and tokens[end + 1].isdecimal():
            stage, end = int(tokens[end + 1]), min(end + 3, len(tokens))
        if (
            tokens[end : end + 1] == [","]
            and tokens[end + 2 : end + 3] == [")"]
            and tokens[end + 1] in ("0", "1")
        ):
            line.fields.setdefault("phase", int(tokens[end + 1]))  # wait(p_ready, 1)
        between = tokens[max(clause.last_verb_at, 0) : at]
        if "done" in clause.verbs and len(between) <= 3 and not {",", ";"} & set(between):
            clause.adjacent_done = True
        if not clause.barrier or (strong and not clause.strong):
            clause.barrier, clause.strong, clause.barrier_end = name, strong, end
            clause.stage = stage
        return end

    def _after_barrier_word(self, at: int) -> int:
        """`barrier=p_ready`, `mbar 0x1f400`, `bar #3`; else the word says nothing by itself."""
        tokens = self._tokens
        then = at + 1
        while then < len(tokens) and tokens[then] in (":", "=", "#", "(", "[", '"', "'", "`", "<", "@"):
            then += 1
        if then >= len(tokens) or not (tokens[then][0].isalnum() or tokens[then][0] == "_"):
            return at + 1
        value = tokens[then]
        if value[0].isdecimal():
            return self._barrier(
                then, f"@{value.lower()}" if value[:2] in ("0x", "0X") else f"#{value}", True
            )
        if self._words.word(value).kind == "other" or (then > at + 1 and value.lower() not in NOISE):
            return self._barrier(then, value, True)
        return at + 1

    def _other(self, at: int, token: str) -> int:
        """An unknown word: a barrier when it is what a verb waits for or arrives on."""
        tokens, clause = self._tokens, self._line.clauses[-1]
        before = at - 1
        while before >= 0 and (tokens[before].lower() in PREPOSITIONS or tokens[before] in "([:'\"`"):
            before -= 1
        named = "_" in token or (at + 1 < len(tokens) and tokens[at + 1] == "[")
        verb = clause.verbs[-1] if clause.verbs else ""
        if before == clause.last_verb_at and before >= 0 and verb in ("wait", "arrive"):
            return self._barrier(at, token, strong=named)
        if named and at + 1 < len(tokens):
            after = self._words.word(tokens[at + 1]) if tokens[at + 1][0].isalpha() else None
            if after and after.kind == "verbs" and set(after.verbs) & {"wait", "arrive"}:
                return self._barrier(at, token, strong=False)
        self._unknown.append(at)
        return at + 1

    def _role_beside_cta(self) -> None:
        """`[LOADER CTA0]`, `cta 1 | rescaler |`: the unknown word next to the CTA is the role."""
        tokens = self._tokens
        for start, end in self._ctas[:1]:
            for step, at in ((-1, start - 1), (1, end + 1)):
                opened = 0
                while 0 <= at < len(tokens) and not tokens[at][0].isalnum():
                    opened += {"[": 1, "]": -1}.get(tokens[at], 0)
                    at += step
                # A word beyond the CTA's own bracket is the line's text, unless it has a bracket too.
                if not opened and at in self._unknown and tokens[at].lower() not in STATES:
                    self._line.role = tokens[at].lower()
                    self._unknown.remove(at)
                    return

    def _find_spaced(self) -> None:
        """`P is ready` (it has seen it), `ds ready for WG3` (it has made it so)."""
        tokens = self._tokens
        for at, token in enumerate(tokens):
            if token.lower() not in STATES or at == 0:
                continue
            before = at - 1
            said = tokens[before].lower() in ("is", "was", "now")
            before -= said
            if before >= 0 and tokens[before][0].isalpha():
                to = at + 1 < len(tokens) and tokens[at + 1].lower() in ("for", "to")
                mode = "is" if said else "for" if to else ""
                self._line.spaced.append((key_of(tokens[before] + "_" + token), mode))


def _number(text: str) -> int:
    return int(text, 16) if text[:2] in ("0x", "0X") else int(text)
