"""The stage, phase, round and bytes of each row; numbers without a label by how they behave."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from tileproof.conformance.beside.logs.hangs.general.actors import ActorRows, label_of
from tileproof.conformance.beside.logs.hangs.general.items import Num
from tileproof.conformance.beside.logs.hangs.general.told import Told, inits
from tileproof.conformance.beside.logs.hangs.log import Actor

BIG = 32  # a number from here on may count bytes


class NumberRows(ActorRows):
    """Finds the fields of rows."""

    guessed: bool

    def _numbers(self) -> None:
        """The stage, phase, round and bytes of each row; numbers without a label by how they behave."""
        for told in self.told:
            fields = told.fields
            for num in told.row.nums:
                if num.field in ("stage?", "owner?") and num.of is not None and num.of is told.barrier:
                    num.field = num.field[:-1]
                elif num.field == "stage?" and told.barrier is not None and num.at > told.barrier.at:
                    num.field = ""  # an argument of another word: full[0]->wait(1)
                if num.field in ("target", "owner", "other"):
                    if num.field != "other":
                        told.others.append(num.value)
                elif num.field in ("stage", "phase", "k", "bytes", "mask", "count"):
                    fields.setdefault(num.field, num.value)
        self._bare_numbers()
        self._rounds()
        for told in self.acting:
            if inits(told) and "count" not in told.fields:
                rest = [
                    n.value
                    for n in told.row.nums
                    if n.field in ("", "k", "phase", "stage?", "bytes") and n.label not in ("[]",)
                ]
                if rest:
                    told.fields["count"] = rest[-1]

    def _rounds(self) -> None:
        """Rounds that are printed before the barrier, or in rows of their own."""
        waits = [t for t in self.acting if "wait" in t.verbs and t.scope == "mbarrier"]
        if waits and sum("k" in told.fields for told in waits) < 0.3 * len(waits):
            counted = [(t, n) for t in waits for n in t.row.nums if n.field == "count"]
            if len(counted) >= 0.8 * len(waits) and rising(counted):
                for told in self.acting:
                    if "count" in told.fields and not inits(told):
                        told.fields["k"] = told.fields.pop("count")
                return
            heads: dict[int, list[tuple[Told, Num]]] = defaultdict(list)
            for told in self.acting:
                for place, num in enumerate(self._bare_head(told)):
                    heads[place].append((told, num))
            for some in heads.values():
                values = {num.value for _, num in some}
                if (
                    len(some) > 0.8 * len(self.acting)
                    and 2 < len(values) < 0.5 * len(some)
                    and rising(some, True)
                ):
                    self._set(some, "k")
                    return
            last: dict[Actor, int] = {}
            for told in self.told:
                if told.barrier is None and "k" in told.fields:
                    last[told.actor] = told.fields["k"]
                elif told.barrier is not None and told.actor in last:
                    told.fields.setdefault("k", last[told.actor])

    def _bare_numbers(self) -> None:
        """Numbers without a label behind the barrier, and those of the same word before them anywhere."""
        lines: dict[str, list[tuple[Told, Num]]] = defaultdict(list)
        for told in self.acting:
            if told.scope != "mbarrier":
                continue
            after = [
                num
                for num in told.row.nums  # in front of it are the actor's
                if not num.field
                and told.barrier is not None
                and (num.at > told.barrier.at or label_of(told, num) not in ("", told.role.lower()))
            ]
            for place, num in enumerate(after):
                word = label_of(told, num)
                mine = told.barrier is not None and told.barrier.text.lower() in (num.label, word)
                lines["" if mine else num.label or (f"~{word}" if word else f"#{place}")].append((told, num))
        for label, some in lines.items():
            waits = [(t, n) for t, n in some if {"wait", "done"} & {*t.verbs}]
            stageless = all("stage" not in told.fields for told, _ in some)
            shared = label[:1] == "~" or (stageless and label[:1] in "c#")
            shared = shared and len(some) - len(waits) > 0.2 * len(waits)
            self._guess(waits, phased=not shared)
            self._guess([(t, n) for t, n in some if not {"wait", "done"} & {*t.verbs}])

    def _guess(self, some: list[tuple[Told, Num]], phased: bool = True) -> None:
        """Take numbers without a known label for what they behave like; `phased`: they may be phases."""
        waits = [(t, n) for t, n in some if "wait" in t.verbs or "done" in t.verbs]
        big = [n.value for t, n in some if n.value >= BIG]
        for told, num in some:
            if (
                num.value >= BIG
                and len(big)
                and {"expect", "copy"} & {*told.verbs}
                and "bytes" not in told.fields
            ):
                told.fields["bytes"] = num.value
                num.field = "bytes"
        rest = [(t, n) for t, n in some if not n.field]
        if not rest:
            return
        stageless = sum("stage" not in t.fields for t, _ in rest)
        phaseless = sum("phase" not in t.fields for t, _ in waits)
        grows = rising(rest)
        small = {n.value for _, n in rest}
        if grows and len(small) > 2:
            self._set(rest, "k")
        elif (
            phased
            and small <= {0, 1}
            and waits
            and len(waits) >= 0.8 * len(rest)
            and phaseless
            and (turns(waits) or not stageless)
        ):
            self._set(rest, "phase")
        elif stageless == len(rest) and max(small) < 16 and 0 in small:
            self._set(rest, "stage")
        elif small <= {0, 1} and phaseless:
            self._set(waits, "phase")

    def _set(self, some: list[tuple[Told, Num]], name: str) -> None:
        self.guessed |= name in ("phase", "stage")
        for told, num in some:
            num.field = name
            told.fields.setdefault(name, num.value)


def rising(some: list[tuple[Told, Num]], apart: bool = False) -> bool:
    """Whether a number never falls within an actor; `apart`: on each barrier, as nested loops count."""
    by: dict[tuple[Actor, str], list[int]] = defaultdict(list)
    for told, num in some:
        by[told.actor, told.name if apart else ""].append(num.value)
    pairs = [(a, b) for values in by.values() for a, b in pairwise(values)]
    grows = sum(values[0] < values[-1] for values in by.values() if len(values) > 2)
    steady = bool(pairs) and sum(b >= a for a, b in pairs) >= 0.97 * len(pairs)
    return steady and 2 * grows >= sum(len(values) > 2 for values in by.values())


def turns(some: list[tuple[Told, Num]]) -> bool:
    """Whether a number changes from round to round of an actor on a barrier."""
    by: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for told, num in some:
        by[told.actor, told.place].append(num.value)
    changes = [a != b for values in by.values() for a, b in pairwise(values)]
    return not changes or sum(changes) / len(changes) >= 0.2
