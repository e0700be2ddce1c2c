"""The grammar of a line: its named fields, at any position.

A line is a list of tokens. A keyword takes the number after it; verbs and a barrier's name form a clause, and
a line with two barriers has two clauses. Other tokens are counted, to distinguish free text from fields.
"""

from __future__ import annotations

import re

from tileproof.conformance.beside.logs.hangs.line_fields import Clause, Line
from tileproof.conformance.beside.logs.hangs.words import (
    BETWEEN,
    JOINS,
    NOISE,
    PREPOSITIONS,
    STATES,
    Vocabulary,
    Word,
    key_of,
)

_KBLOCK = re.compile(r"\b(?:k|kv|n)[-_ ]?(?:block|blk|iter(?:ation)?)s?\b", re.IGNORECASE)
_WARPGROUP = re.compile(r"\bwarp[- ]group\b", re.IGNORECASE)
BRACKETS = {"[", "]", "(", ")", "<", ">", "|", "{", "}"}
_TOKEN = re.compile(r"0[xX][0-9a-fA-F]+|0[bB][01]+|[^\W\d]\w*|\d+|[^\w\s]")


def parse(text: str, words: Vocabulary) -> Line:
    """The fields of one line."""
    if "roup" in text or "ROUP" in text:
        text = _WARPGROUP.sub("warpgroup", text)
    text = _KBLOCK.sub("kblock", text)
    tokens = _TOKEN.findall(text)
    return _Parse(tokens, words, text[:1] in (" ", "\t")).run()


class _Parse:
    """A single pass over the tokens of a line."""

    def __init__(self, tokens: list[str], words: Vocabulary, indented: bool) -> None:
        self._tokens = tokens
        self._words = words
        self._line = Line(0, indented=indented, clauses=[Clause()])
        self._unknown: list[int] = []
        self._ctas: list[tuple[int, int]] = []
        self._multicast = False

    def run(self) -> Line:
        tokens, line = self._tokens, self._line
        at = 0
        while at < len(tokens):
            at = self._step(at)
        if not line.has_actor:
            self._role_beside_cta()
        if not line.has_actor:
            self._role_before_warp()
        line.said = len(self._unknown)
        self._arguments()
        self._join_clauses()
        if not any(clause.strong for clause in line.clauses):
            self._find_spaced()
        return line

    def _arguments(self) -> None:
        """The number after a barrier: `wait(p_ready, 1)`, `commit(x, 0x3)`, `expect_tx x 4096`."""
        tokens, line = self._tokens, self._line
        for clause in line.clauses:
            at = clause.barrier_end
            if not clause.barrier or at < 0 or clause.barrier.startswith("#"):
                continue
            while at < len(tokens) and tokens[at] in ("]", ")"):
                at += 1
            while at + 2 < len(tokens) and tokens[at] == "target_cta":
                at += 3
            while at < len(tokens) and tokens[at] == "]":
                at += 1
            comma = tokens[at : at + 1] == [","]
            at += comma
            if at >= len(tokens) or not tokens[at][0].isdecimal():
                continue
            value = _number(tokens[at])
            if "wait" in clause.verbs and comma and value in (0, 1):
                line.fields.setdefault("phase", value)
            elif self._multicast and comma:
                line.fields.setdefault("mask", value)
            elif ("copy" in clause.verbs or line.bytes) and value > 15:
                line.fields.setdefault("bytes", value)

    def _join_clauses(self) -> None:
        """Merge a clause without a barrier into the previous clause: `wait(p_ready, stage=1) returned`."""
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
            if token[:2] in ("0x", "0X") and clause.verbs and not clause.barrier:
                return self._barrier(at, f"@{token.lower()}", strong=True)
            return at + 1
        self._multicast |= "multicast" in token.lower()
        return self._word(at, token, self._words.word(token))

    def _word(self, at: int, token: str, word: Word) -> int:
        """Take a word by its meaning; return the place after it."""
        line = self._line
        numbered = self._tokens[at + 1 : at + 2] and self._tokens[at + 1].isdecimal()
        if word.kind == "numbered":
            self._set(word.field, word.number, at, at)
        elif word.kind == "key":
            return self._key(at, token, word)
        elif word.verbs == ("copy",) and word.kind == "verbs" and self._names_role(at):
            line.role = token.lower()
        elif word.kind == "verbs" and not (word.verbs == ("after",) and numbered):  # after 1000 cycles
            self._verbs(at, word.verbs)
            line.bytes |= any(part in token.lower() for part in ("tx", "expect"))
        elif word.kind in ("barrier", "sync"):
            if word.verbs:
                self._verbs(at, word.verbs)
            return self._barrier(at, word.name, strong=True)
        elif word.kind == "barrier word":
            return self._after_barrier_word(at)
        elif word.kind == "peer":
            line.fields["peer"] = 1
        elif word.kind == "role":
            self._role(at, token, word)
        elif word.kind == "other":
            return self._other(at, token)
        return at + 1

    def _names_role(self, at: int) -> bool:
        """Whether a word such as `issue` is in the place of a role: at the beginning or behind the CTA,
        before a field or a colon, in a line that waits or arrives.
        """
        line, tokens = self._line, self._tokens
        if line.role or line.clauses[-1].verbs or line.clauses[-1].barrier or at + 1 >= len(tokens):
            return False
        behind = bool(self._ctas) and all(token in BRACKETS for token in tokens[self._ctas[-1][1] + 1 : at])
        if not behind and any(token not in BRACKETS for token in tokens[:at]):
            return False
        then = next((token for token in tokens[at + 1 :] if token not in BRACKETS), "")
        if tokens[at + 1] not in (":", "]") and self._words.word(then).kind not in ("key", "numbered"):
            return False
        rest = (self._words.word(token) for token in tokens[at + 1 :] if token[0].isalpha())
        return any({"wait", "arrive", "done"} & {*word.verbs} or word.kind == "sync" for word in rest)

    def _key(self, at: int, token: str, word: Word) -> int:
        if word.field == "target":
            return self._targets(at)
        if word.field == "bytes":
            self._line.bytes |= token.lower() == "tx"
            return self._bytes(at, word.short)
        return self._keyed(at, word.field, word.short)

    def _role(self, at: int, token: str, word: Word) -> None:
        line, clause = self._line, self._line.clauses[-1]
        if line.role and token.lower() == "tma":
            self._verbs(at, ("copy",))
        elif not line.role and not clause.verbs and not clause.barrier:
            line.role = word.name

    def _set(self, name: str, value: int, start: int, end: int) -> None:
        line = self._line
        spoken = line.clauses[-1].verbs or line.clauses[-1].barrier or len(line.clauses) > 1
        if name in ("cta", "block", "rank") and spoken and line.has_cta:
            self._target(value)
            return
        if name not in ("ignored", "role"):
            line.fields.setdefault(name, value)
        if name in ("cta", "block"):
            self._ctas.append((start, end))

    def _target(self, cta: int) -> None:
        """A CTA beside the actor's: it owns the barrier, or the arrival goes to it."""
        for name in ("target", "target2", "target3", "target4"):
            if name not in self._line.fields:
                self._line.fields[name] = cta
                return

    def _targets(self, at: int) -> int:
        """`target_cta=0 and 1`, `target_ctas=2`."""
        tokens, then = self._tokens, at + 1
        while then < len(tokens) and (tokens[then] in ("=", ":", "[") or tokens[then].upper() == "CTA"):
            then += 1
        if then >= len(tokens) or not tokens[then].isdecimal():
            return at + 1
        self._target(int(tokens[then]))
        return self._more_targets(then + 1)

    def _more_targets(self, at: int) -> int:
        """The other CTAs of a list: `0 and 1`, `0, 1`."""
        tokens = self._tokens
        while (
            at + 1 < len(tokens)
            and tokens[at].lower() in ("and", ",", "+", "&")
            and tokens[at + 1].isdecimal()
        ):
            self._target(int(tokens[at + 1]))
            at += 2
        return at

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
            listed = name in ("cta", "block", "rank") and "target" in self._line.fields
            return self._more_targets(then + 1) if listed else then + 1
        return at + 1

    def _bytes(self, at: int, short: bool) -> int:
        """`bytes=256`, `256 bytes`, `bytes expected`."""
        before = self._tokens[at - 1] if at > self._line.clauses[-1].barrier_end else ""  # not its stage
        signed = self._tokens[at + 1 : at + 2] in (["="], [":"])
        if before.isdecimal() and not (signed and at >= 2 and self._tokens[at - 2] in ("=", ":")):
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
        elif end + 1 < len(tokens) and tokens[end] in (".", "/", "#") and tokens[end + 1].isdecimal():
            stage, end = int(tokens[end + 1]), end + 2
        elif (
            tokens[end : end + 1] == ["<"]
            and tokens[end + 2 : end + 3] == [">"]
            and tokens[end + 1].isdecimal()
        ):
            stage, end = int(tokens[end + 1]), end + 3
        between = tokens[max(clause.last_verb_at, 0) : at]
        if "done" in clause.verbs and len(between) <= 3 and not {",", ";"} & set(between):
            clause.adjacent_done = True
        if not clause.barrier or (strong and not clause.strong):
            clause.barrier, clause.strong, clause.barrier_end = name, strong, end
            clause.stage = stage
        return end

    def _after_barrier_word(self, at: int) -> int:
        """`barrier=p_ready`, `mbar 0x1f400`, `bar #3`; otherwise the word is ignored."""
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
        named = "_" in token or (at + 1 < len(tokens) and tokens[at + 1] == "[")
        indexed = tokens[at + 1 : at + 2] in (["["], ["/"], ["."]) and tokens[at + 2 : at + 3] != []
        indexed = indexed and (
            tokens[at + 2][0].isdecimal() or self._words.word(tokens[at + 2]).field == "stage"
        )
        between = "([:='\"`.,->" if indexed else "([:='\"`."
        while before >= 0 and (tokens[before].lower() in PREPOSITIONS or tokens[before] in between):
            before -= 1
        verb = next((said for said in ("wait", "arrive") if said in clause.verbs), "")
        if not verb and indexed and {"done", "after"} & {*clause.verbs}:
            verb = "done"
        value = tokens[at + 2] if tokens[at + 1 : at + 2] == ["="] and at + 2 < len(tokens) else ""
        if value[:2] in ("0x", "0X"):  # smem_ptr=0x38008
            return at + 1
        if before == clause.last_verb_at and before >= 0 and verb:
            return self._barrier(at, token, strong=named or indexed)
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
                named = step > 0 and at + 1 < len(tokens) and self._before_field(at + 1)
                # A word beyond the CTA's own bracket is the line's text, unless it has a bracket too.
                if (not opened or named) and at in self._unknown and tokens[at].lower() not in STATES:
                    self._line.role = tokens[at].lower()
                    self._unknown.remove(at)
                    return

    def _before_field(self, at: int) -> bool:
        """Whether a colon or a numbered field (`k_block 0`) is at a place."""
        word = self._words.word(self._tokens[at]) if self._tokens[at][0].isalpha() else None
        return self._tokens[at] == ":" or (word is not None and word.field in ("k", "iteration", "tile"))

    def _role_before_warp(self) -> None:
        """`the main warp`, `main_warp:`, `main:` at the beginning of the line."""
        tokens = self._tokens
        told = any(clause.barrier or clause.verbs for clause in self._line.clauses)
        for at in self._unknown if told else ():
            then = tokens[at + 1].lower() if at + 1 < len(tokens) else ""
            if then in ("warp", "warpgroup", "warps", "threads") or (at == 0 and then == ":"):
                name = tokens[at].lower()
                self._line.role = re.sub(r"_?(?:warp|wg)?_?(?:main|loop|body|fn)$", "", name) or name
                self._unknown.remove(at)
                return

    def _find_spaced(self) -> None:
        """`P is ready` (a wait ended), `ds ready for WG3` (an arrival)."""
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
    return int(text, 0) if text[:2].lower() in ("0x", "0b") else int(text)
