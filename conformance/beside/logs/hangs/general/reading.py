"""The rows of a log by one choice of where the role stands, with the event of each row."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from tileproof.conformance.beside.logs.hangs.general import lexicon
from tileproof.conformance.beside.logs.hangs.general.barriers import barrier_of
from tileproof.conformance.beside.logs.hangs.general.items import Num, Row, RowWord, is_sync
from tileproof.conformance.beside.logs.hangs.general.naming import Slot, role_tail, slots_of
from tileproof.conformance.beside.logs.hangs.general.numbers import NumberRows
from tileproof.conformance.beside.logs.hangs.general.told import Told, braces, kind_of
from tileproof.conformance.beside.logs.hangs.general.turns import find_copies, find_sizes, find_turns
from tileproof.conformance.beside.logs.hangs.log import Actor
from tileproof.conformance.beside.logs.hangs.records import scope_of

FEW = 0.2  # of the rows are comments
_COMMENT = re.compile(r"\s*(?:#(?!\s?\d)|//|%|(?:note|legend|hint|remark)\b\s*:)", re.IGNORECASE)


class LogReading(NumberRows):
    """The rows by one choice of where the role stands."""

    def __init__(
        self,
        scanned: list[Row],
        scores: dict[str, float],
        slot: Slot | None,
        turns: bool = False,
        wide: bool = False,
    ) -> None:
        self.scores, self.slot, self.wide = scores, slot, wide
        self.guessed = turns  # the meaning of a number or of a phrase was inferred from its behaviour
        for row in scanned:  # what another choice decided about numbers is undone
            for num in row.nums:
                num.field = num.given
        comments = [row for row in scanned if _COMMENT.match(row.text)]
        self.comments = {id(row) for row in comments} if len(comments) <= FEW * len(scanned) else set()
        self.roles = self._role_words(scanned)
        self.told = [self._tell(row) for row in scanned]
        self.acting = [told for told in self.told if told.barrier is not None]
        self._actors()
        find_sizes(self.acting)
        self.turned = turns and find_turns(self.acting)  # the order of rows tells waits and their ends
        find_copies([told for told in self.acting if told.scope == "mbarrier"], self.turned)
        self._numbers()
        self._events()

    def _role_words(self, scanned: list[Row]) -> set[str]:
        """The words in the role's place that have no other such word beside them in some row."""
        placed = [(row, word) for row in scanned if self.slot and (word := slots_of(row).get(self.slot))]
        placed = [(row, word) for row, word in placed if barrier_of(row, self.scores, None) is not word]
        some = {word.text for _, word in placed}
        return {word.text for row, word in placed if {each.text for each in row.words} & some == {word.text}}

    def _role(self, row: Row) -> RowWord | None:
        """The row's word in the role's place; where other words move it, the only word of a role."""
        role = slots_of(row).get(self.slot) if self.slot is not None else None
        if role is not None and role.text in self.roles:
            return role
        rest = [word for word in row.words if word.text in self.roles]
        return rest[0] if len(rest) == 1 else role

    def _tell(self, row: Row) -> Told:
        if id(row) in self.comments:
            return Told(row)
        role = self._role(row)
        barrier = barrier_of(row, self.scores, role)
        if barrier is None and role is not None and barrier_of(row, self.scores, None) is role:
            barrier, role = role, None  # the row names no role
        if role is not None and "init" in lexicon.verbs(role.text):
            role = None
        name = role.text if role is not None else ""
        tail = next((word for word in row.words if role is not None and word.at == role.at + 1), None)
        if (
            tail is not None and tail.glued and tail is not barrier
        ):  # TMA and what follows it in another script
            name += tail.text
        else:
            tail = None
        if role is not None:
            at = role.at
            own = next((num for num in row.nums if num.field == "target" and at < num.at <= at + 3), None)
            if own is not None and own.label == "target_cta":
                own.field = "cta"  # role@0: of a role, not of a barrier
            more = role_tail(row, role, barrier) if self.wide else []
            name = " ".join([name, *more])
        told = Told(row, name, barrier)
        if barrier is not None:
            told.name = barrier.text
            told.scope = scope_of(barrier.text)
        words = [word for word in row.words if word is not role and word is not barrier and word is not tail]
        if self.wide and role is not None:
            words = [word for word in words if not role.at < word.at <= role.at + len(more)]
            for num in row.nums:
                if role.at < num.at <= role.at + len(more) and not num.field:
                    num.field = "role"
        told.phrase = tuple(word.text.lower() for word in words)
        told.verbs = tuple(verb for word in words for verb in lexicon.verbs(word.text))
        told.verbs += tuple(
            verb
            for label in row.labels
            for verb in lexicon.verbs(label)
            if verb == "expect"
            or (lexicon.field(label) in ("", "barrier") and verb in ("wait", "done", "arrive", "copy"))
        )
        if barrier is not None and not is_sync(barrier.text):
            parts = lexicon.split(barrier.text)
            edge = [
                verb for part in (parts[:1] + parts[-1:]) for verb in lexicon.verbs(part) if verb in ("wait",)
            ]
            told.verbs += tuple(edge if len(parts) > 1 else ())
        return told

    # --- events

    def _events(self) -> None:
        """What each row reports, by its words, and by what follows it in its actor."""
        after = self._after()
        kinds: dict[tuple[object, ...], str] = {}
        phrases: dict[tuple[object, ...], list[Told]] = defaultdict(list)
        for told in self.acting:
            phrases[self._sign(told)].append(told)
        for sign, some in phrases.items():
            kinds[sign] = kind_of(some[0])
        if not self.turned:
            self._by_next(kinds, phrases, after)
            _as_of_mbarriers(kinds, phrases)
        for sign, some in phrases.items():
            kind = kinds[sign]
            if kind in ("", "arrive?", "begin"):
                phased = sum("phase" in told.fields for told in some) > 0.5 * len(some)
                kind = "done" if phased and kind == "" else "arrive" if kind != "begin" else "wait"
            for told in some:
                told.kind = kind
        self._masks()
        self._bare_ends()

    def _masks(self) -> None:
        """Numbers of CTAs in rows of arrivals are masks where a number is no CTA, or a comment says so."""
        ctas = {told.actor.cta for told in self.acting if told.actor.cta >= 0}
        found: dict[str, list[tuple[Told, Num]]] = defaultdict(list)
        for told in self.acting:
            if told.kind in ("arrive", "copy") and told.scope == "mbarrier":
                for num in told.row.nums:
                    if num.field in ("owner", "target", "other") and not num.of:
                        found[num.label].append((told, num))
        said = [
            {token.lower() for token in told.row.tokens}
            for told in self.told
            if told.barrier is None and "mask" in told.row.text.lower()
        ]
        for label, some in found.items():
            alone = len({id(told) for told, _ in some}) == len(some)
            values = [num.value for _, num in some]
            beyond = max(values) > max(ctas, default=0) > 0
            if not alone or not ctas or max(values).bit_length() > max(ctas) + 1 or min(values) < 1:
                continue
            if beyond or any(label in words for words in said):
                for told, num in some:
                    told.fields["mask"] = num.value
                    told.others = [cta for cta in range(16) if num.value >> cta & 1]
                    num.field = "mask"

    def _by_next(
        self,
        kinds: dict[tuple[object, ...], str],
        phrases: dict[tuple[object, ...], list[Told]],
        after: dict[int, Told],
    ) -> None:
        """Correct the kinds of rows by the rows that follow them in their actor."""
        follows: dict[tuple[object, ...], Counter[tuple[object, ...]]] = defaultdict(Counter)
        for told in self.acting:
            next_ = after.get(id(told))
            if next_ is None:
                continue
            mine, its = told.fields.get("phase"), next_.fields.get("phase")
            if next_.place == told.place and (None in (mine, its) or mine == its):
                follows[self._sign(told)][self._sign(next_)] += 1
            else:
                follows[self._sign(told)][()] += 1
        for sign, some in phrases.items():
            counts = follows[sign]
            total = sum(counts.values())
            if not total:
                continue
            then, many = counts.most_common(1)[0]
            phased = sum("phase" in told.fields for told in some) > 0.5 * len(some)
            if not then or many < 0.85 * total or total < 2:
                continue
            first, second = kinds[sign], kinds[then]
            before = {**kinds}
            unclear = ("", "begin", "arrive?", "done", "wait")
            if first in ("", "begin") and (second == "done" or (phased and second in ("", "arrive?"))):
                kinds[sign], kinds[then] = "wait", "done"
            elif first == "wait" and (second in ("", "arrive?") or (second == "wait" and sign != then)):
                kinds[then] = "done"
            elif first == second == "done" and phased and sign != then and first in unclear:
                kinds[sign] = "wait"
            self.guessed |= before != kinds

    def _bare_ends(self) -> None:
        """Rows that report an end and name no barrier end the wait in which their actor is."""
        waits = sum(told.kind == "wait" for told in self.acting)
        if sum(told.kind == "done" for told in self.acting) > 0.5 * waits:
            return
        inside: dict[Actor, Told] = {}
        for told in self.told:
            if told.kind == "wait":
                inside[told.actor] = told
            elif told.barrier is None and told.verbs[:1] == ("done",) and told.actor in inside:
                wait = inside.pop(told.actor)
                told.barrier, told.name, told.scope = wait.barrier, wait.name, wait.scope
                told.fields = {**wait.fields, **told.fields}
                told.others, told.kind = wait.others, "done"
            elif told.kind:
                inside.pop(told.actor, None)

    @staticmethod
    def _sign(told: Told) -> tuple[object, ...]:
        names = told.phrase
        return (
            told.scope,
            told.turn,
            "bytes" in told.fields,
            *names,
            *sorted({n.label for n in told.row.nums if n.label in "{}"}),
            braces(told),
        )

    def _after(self) -> dict[int, Told]:
        last: dict[Actor, Told] = {}
        found: dict[int, Told] = {}
        for told in self.told:
            if not told.row.words and not told.row.nums:
                continue
            if told.actor in last:
                found[id(last[told.actor])] = told
            last[told.actor] = told
        return found


def _as_of_mbarriers(
    kinds: dict[tuple[object, ...], str], phrases: dict[tuple[object, ...], list[Told]]
) -> None:
    """Give rows of other barriers the meaning that their words have in rows of mbarriers."""
    means: dict[str, set[str]] = defaultdict(set)
    for sign, some in phrases.items():
        if some[0].scope == "mbarrier":
            for word in some[0].phrase:
                means[word].add(kinds[sign])
    for sign, some in phrases.items():
        if some[0].scope != "mbarrier" and kinds[sign] in ("wait", "done", "wait?"):
            told = {kind for word in some[0].phrase if len(means[word]) == 1 for kind in means[word]}
            if len(told) == 1 and told <= {"wait", "done"}:
                kinds[sign] = told.pop()


def closure(told: list[Told]) -> float:
    """The share of waits that end before their actor does anything else, or at which it ends."""
    by: dict[Actor, list[Told]] = defaultdict(list)
    for each in told:
        if each.kind in ("wait", "done", "arrive"):
            by[each.actor].append(each)
    good = total = 0
    for some in by.values():
        for at, each in enumerate(some):
            if each.kind == "wait":
                total += 1
                then = some[at + 1] if at + 1 < len(some) else None
                good += then is None or (then.kind == "done" and then.name == each.name)
            elif each.kind == "done" and (not at or some[at - 1].kind != "wait"):
                total += 1
    return good / total if total else 0.0
