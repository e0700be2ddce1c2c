"""The actor of each row: its role, CTA and warp."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

from tileproof.conformance.beside.logs.hangs.general import lexicon
from tileproof.conformance.beside.logs.hangs.general.items import Num
from tileproof.conformance.beside.logs.hangs.general.told import Told
from tileproof.conformance.beside.logs.hangs.log import Actor


def label_of(told: Told, num: Num) -> str:
    """The word before a number, or before its sign `№`, in lower case; empty where there is none."""
    before = [token for token in told.row.tokens[max(0, num.at - 2) : num.at] if token not in "№#"]
    word = before[-1].lower() if before else ""
    return word if word[:1].isalpha() else ""


def _beside(told: Told, num: Num) -> str:
    """What is beside a CTA: the role in front of it or behind it, or the word in front of its label."""
    tokens = [token.lower() for token in told.row.tokens]
    labelled = num.at > 0 and tokens[num.at - 1] == num.label
    before = tokens[: num.at - labelled]
    role = (told.role.lower().split() or [""])[0]
    near = next((token for token in reversed(before) if token[:1].isalpha()), "")
    then = next((token for token in tokens[num.at + 1 :] if token[:1].isalpha()), "")
    if role and near == role:
        return "role in front"
    return "role behind" if role and then == role else near


class ActorRows:
    """Finds the actors of rows."""

    told: list[Told]
    acting: list[Told]
    several: set[str]

    def _actors(self) -> None:
        """The CTA, warp and role of each row; a field that varies within a role's rows names no actor."""
        labelled = sum(bool(told.row.labelled("cta")) for told in self.acting)
        bare = labelled < 0.8 * len(self.acting) and self._bare_cta()
        own = self._own_label()
        beside = self._beside_own()
        for told in self.told:
            first: dict[str, int] = {}
            ctas = told.row.labelled("cta")
            mine = [num for num in ctas if _beside(told, num) == beside] if len(ctas) > 1 else []
            listed = False
            for num in told.row.nums:
                known = num.field
                another = bool(mine) and num is not mine[0]
                if not known and listed and told.row.tokens[num.at - 1] == ",":  # on cta0,1
                    told.others.append(num.value)
                    num.field = "other"
                    continue
                listed = another and known == "cta"
                if known == "cta" and (bare or another or "cta" in first or own not in ("", num.label)):
                    told.others.append(num.value)
                    num.field = "other"
                elif known in ("cta", "warp", "wg", "thread", "group"):
                    first.setdefault(known, num.value)
            told.fields |= first
        self._other_ctas()
        self._blocks_of_rounds()
        self._context()
        self._head()
        warps: dict[tuple[str, int], set[int]] = defaultdict(set)
        for told in self.acting:
            if told.role and told.kind != "init":
                warps[told.role.lower(), told.fields.get("cta", -1)].add(self._warp(told))
        self.several = {role for (role, _), some in warps.items() if 1 < len(some - {-1}) <= 16}
        for told in self.told:
            told.actor = self._actor(told)

    def _own_label(self) -> str:
        """The label of CTAs that nearly all rows have, where others have another: `cta=1) ... block=0`."""
        labels: Counter[str] = Counter()
        for told in self.acting:
            labels.update({num.label for num in told.row.nums if num.field == "cta"})
        always = [label for label, many in labels.items() if many >= 0.9 * len(self.acting)]
        return always[0] if len(always) == 1 < len(labels) else ""

    def _beside_own(self) -> str:
        """What is beside the CTA in nearly all rows that name a single CTA; empty where it differs."""
        some: Counter[str] = Counter()
        for told in self.acting:
            ctas = told.row.labelled("cta")
            if len(ctas) == 1:
                some[_beside(told, ctas[0])] += 1
        beside, many = some.most_common(1)[0] if some else ("", 0)
        return beside if many >= 0.9 * some.total() else ""

    @staticmethod
    def _warp(told: Told) -> int:
        fields = told.fields
        return fields["warp"] if "warp" in fields else fields["thread"] // 32 if "thread" in fields else -1

    def _head(self) -> None:
        """Rows in front of the first CTA, where nearly all rows name their CTA, are of no actor."""
        if sum("cta" in told.fields for told in self.acting) < 0.9 * len(self.acting):
            return
        for told in self.told:
            if "cta" in told.fields:
                return
            told.role = ""

    def _context(self) -> None:
        """Headings name the actor of the rows below them, where those name none."""
        named = {"warp", "thread", "wg"}
        bare = [told for told in self.acting if not told.role and not named & told.fields.keys()]
        heads = [told for told in self.told if told.barrier is None and named & told.fields.keys()]
        if len(bare) < 0.6 * len(self.acting) or not heads:
            return
        current: Told | None = None
        for told in self.told:
            if told.barrier is None and named & told.fields.keys():
                current = told
                if not told.role:
                    told.role = next((w.text for w in told.row.words if not lexicon.field(w.text)), "")
            elif current is not None and told.barrier is not None:
                told.role = told.role or current.role
                told.fields = {
                    **{k: v for k, v in current.fields.items() if k in {*named, "cta"}},
                    **told.fields,
                }

    def _blocks_of_rounds(self) -> None:
        """`block` beside `CTA` is a k-block where it varies within a role's rows."""
        labels = Counter(
            num.label for told in self.acting for num in told.row.nums if num.field in ("cta", "other")
        )
        if len(labels) < 2:
            return
        main = next(iter(label for label in labels if label.startswith("cta")), "")
        for label in labels:
            if label == main or not main:
                continue
            beside = [t for t in self.acting if {main, label} <= {n.label for n in t.row.nums}]
            if len(beside) < 0.5 * labels[label]:
                continue
            values: dict[tuple[str, int | None], set[int]] = defaultdict(set)
            for told in beside:
                mine = next(n.value for n in told.row.nums if n.label == main)
                values[told.role, mine].update(n.value for n in told.row.nums if n.label == label)
            if sum(len(some) > 2 for some in values.values()) >= 0.5 * len(values):
                for told in self.told:
                    for num in told.row.nums:
                        if num.label == label:
                            if num.field == "other" and num.value in told.others:
                                told.others.remove(num.value)
                            num.field = "k"

    def _bare_cta(self) -> bool:
        """A number without a label, with few values that are constant within an actor, is the CTA.

        It is in front of the barrier, or rows of other operations have it too, behind the same word.
        """
        values: dict[str, Counter[int]] = defaultdict(Counter)
        elsewhere: set[str] = set()  # a stage or a round is in rows of mbarriers only
        for told in self.acting:
            for place, num in self._bare(told).items():
                values[place][num.value] += 1
                if told.scope != "mbarrier":
                    elsewhere.add(place)
        best = ""
        for place, counts in values.items():
            if sum(counts.values()) < 0.9 * len(self.acting) or len(counts) > 16 or max(counts) > 255:
                continue
            behind = not place.startswith("#")
            if (
                self._counts_up(place)
                or self._of_role(place)
                or (behind and place not in elsewhere)
                or (behind and best)
            ):
                continue
            if not best or len(counts) < len(values[best]):
                best = place
        if not best:
            return False
        for told in self.told:
            if (own := self._bare(told).get(best)) is not None:
                own.field = "own"
                told.fields["cta"] = own.value
        return True

    def _other_ctas(self) -> None:
        """Numbers behind the word that is before the actor's CTA are further CTAs: `lohko 0 ... lohko 1`."""
        own = Counter(
            label_of(told, num)
            for told in self.acting
            for num in told.row.nums
            if num.field in ("own", "cta") and num.value == told.fields.get("cta")
        )
        label, many = own.most_common(1)[0] if own else ("", 0)
        if len(label) < 3 or many < 0.9 * own.total():
            return
        stem = label[: max(3, len(label) - 1)]  # other cases of the word have other ends
        for told in self.told:
            listed = False
            for num in told.row.nums:
                if listed and num.at >= 2 and told.row.tokens[num.at - 1] == "," and not num.field:
                    same = True
                else:
                    same = num.field in ("", "stage?") and label_of(told, num).startswith(stem)
                if same:
                    num.field = "other"
                    told.others.append(num.value)
                listed = same

    def _counts_up(self, place: str) -> bool:
        """Whether a number never falls within a role's rows: it counts rounds."""
        by: dict[str, list[int]] = defaultdict(list)
        for told in self.acting:
            if (num := self._bare(told).get(place)) is not None:
                by[told.role].append(num.value)
        pairs = [(a, b) for values in by.values() for a, b in pairwise(values)]
        return any(a != b for a, b in pairs) and sum(b >= a for a, b in pairs) >= 0.97 * len(pairs)

    def _of_role(self, place: str) -> bool:
        """Whether each role has a number of its own: it is the index of the role's warp."""
        by: dict[str, set[int]] = defaultdict(set)
        for told in self.acting:
            if told.role and (num := self._bare(told).get(place)) is not None:
                by[told.role].add(num.value)
        values = {value for some in by.values() for value in some}
        return 1 < len(values) == len(by) and all(len(some) == 1 for some in by.values())

    def _bare(self, told: Told) -> dict[str, Num]:
        """Numbers without a label: those in front by their place, others by the word before them."""
        head = {f"#{place}": num for place, num in enumerate(self._bare_head(told))}
        mine = {*head.values()}
        rest = [num for num in reversed(told.row.nums) if not num.field and num not in mine]
        return head | {label: num for num in rest if (label := label_of(told, num))}

    @staticmethod
    def _bare_head(told: Told) -> list[Num]:
        end = told.barrier.at if told.barrier is not None else 1 << 30
        return [num for num in told.row.nums if not num.field and num.at < end] + [
            num
            for num in told.row.nums
            if num.field in ("stage?", "owner?") and num.of is not told.barrier and num.at < end
        ]

    def _actor(self, told: Told) -> Actor:
        fields = told.fields
        role = told.role.lower()
        if not role and "wg" in fields:
            role = f"WG{fields['wg']}"
        if not role and "warp" in fields:
            role = f"warp {fields['warp']}"
        if not role and "thread" in fields:
            role = f"warp {fields['thread'] // 32}"
        if role in self.several and self._warp(told) >= 0:
            role = f"{role} warp {self._warp(told)}"
        return Actor(fields.get("group", 0), role, fields.get("cta", -1))
