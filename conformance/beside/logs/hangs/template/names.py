"""The numbers that a log gives barriers and roles, by its `name` and `init` lines."""

from __future__ import annotations

from collections.abc import Sequence

from tileproof.conformance.beside.logs.hangs.template.pattern import Values

WARP = 32  # threads
BARRIER_BYTES = 8  # of an mbarrier: stages of a barrier are as far apart
_NUMBERED = ("roleid", "thread", "warp")


class LoggedNames:
    """The names of numbers; a number without a CTA is the same in all."""

    def __init__(self) -> None:
        self.barriers: dict[tuple[int, int], Values] = {}
        self.roles: dict[tuple[str, int, int], str] = {}
        self.ranges: list[tuple[int, int, Values]] = []

    def add(self, values: Values) -> None:
        """Learn the names of a line."""
        if "id" in values and "barrier" in values:
            owner, number = int(values.get("owner", -1)), int(values["id"])
            self.barriers[owner, number] = values
            self.barriers.setdefault((-1, number), values)
            if int(values.get("stages", 1)) > 1:
                self.ranges.append((owner, number, values))
        if "role" not in values:
            return
        for key in _NUMBERED:
            if key in values:
                first = int(values[key])
                for number in range(first, int(values.get("last", first)) + 1):
                    self.roles[key, int(values.get("cta", -1)), number] = str(values["role"])
                return

    def lay_out(self) -> None:
        """Name the stages that lie behind each barrier with `stages`, once every line has been learned.

        They are 8 bytes apart where all numbers are addresses, and consecutive otherwise.
        """
        apart = BARRIER_BYTES if all(number % BARRIER_BYTES == 0 for _, number in self.barriers) else 1
        for owner, first, values in self.ranges:
            for stage in range(int(values["stages"])):
                staged: Values = {**values, "stage": stage}
                self.barriers[owner, first + apart * stage] = staged
                self.barriers[-1, first + apart * stage] = staged

    def barrier(self, owner: int, number: int) -> Values:
        """The barrier of a number, in a CTA if it is named there."""
        known = self.barriers.get((owner, number)) or self.barriers.get((-1, number))
        if known is None:
            return {"barrier": f"@{number:#x}"}
        return {name: known[name] for name in ("barrier", "stage", "owner") if name in known}

    def role(self, values: Values) -> str:
        """The role of a number in a line; "" if it has no name. A thread without one has its warp's."""
        numbers = {key: int(values[key]) for key in _NUMBERED if key in values}
        if "thread" in numbers:
            numbers.setdefault("warp", numbers["thread"] // WARP)
        for key, number in numbers.items():
            for cta in (int(values.get("cta", -1)), -1):
                if found := self.roles.get((key, cta, number)):
                    return found
        return ""


def with_ctas(made: Sequence[tuple[int, str, Values]]) -> list[tuple[int, str, Values]]:
    """The records, with the CTA and role of a short name that denotes a role of one CTA: `r4 = load@1`."""
    places: dict[int, set[tuple[str, int]]] = {}
    for _, event, values in made:
        if event == "name" and values.keys() >= {"roleid", "role", "cta"}:
            places.setdefault(int(values["roleid"]), set()).add((str(values["role"]), int(values["cta"])))
    alone = {number: next(iter(some)) for number, some in places.items() if len(some) == 1}
    out: list[tuple[int, str, Values]] = []
    for line, event, values in made:
        found = alone.get(int(values["roleid"])) if "roleid" in values and event != "name" else None
        if found is not None and "cta" not in values:
            values = {"role": found[0], **values, "cta": found[1]}
        out.append((line, event, values))
    return out
