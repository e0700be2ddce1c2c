"""Names of roles and barriers, and templates of calls, that styles of print make from those of scenarios."""

from __future__ import annotations

import re
from collections.abc import Callable

from benchmarks.strangers.exams.styles import Names, Style, replaced
from benchmarks.strangers.kernels import Case

ORDER = ("load", "mma", "epi", "softmax0", "softmax1", "main", "compute", "reduce", "sched")
SAME = {
    "tma": "load", "loader": "load", "fetch": "load", "issue": "mma", "tensor": "mma", "epilogue": "epi",
    "head": "main",
}  # fmt: skip
SYNCS = re.compile(r"(cluster|syncthreads|turn|tmem|named\d)$")
Make = Callable[[str], str]
Forms = Callable[[str], tuple[str, ...]]


def roles(names: str, form: str = "{}") -> Names:
    """The printed names of the roles of ORDER, and of the roles that are the same in other kernels."""
    found = {role: form.format(name) for role, name in zip(ORDER, names.split(", "), strict=True)}
    return found | {role: found[same] for role, same in SAME.items()}


def forms(names: Names, parts: str = "", **short: str) -> Forms:
    """The roles without the parts of their names that only say what they are, and short forms of some."""

    def of(role: str) -> tuple[str, ...]:
        more = short.get(SAME.get(role, role), "")
        bare = re.sub(parts, "", names[role]) if parts else names[role]
        return bare, *(more.split(", ") if more else ())

    return of


def plus(before: str = "", after: str = "", **pairs: str) -> Make:
    """Parts of a name replaced, and more before and after it."""
    part = replaced(pairs)
    return mbarriers(lambda name: before + part(name) + after)


def state_first(before: str = "", after: str = "", **pairs: str) -> Make:
    """kv_full as full_kv, with more before and after it."""
    part = replaced(pairs)

    def make(name: str) -> str:
        what, _, state = part(name).rpartition("_")
        return before + (f"{state}_{what}" if what else state) + after

    return mbarriers(make)


def mbarriers(make: Make) -> Make:
    """Names of mbarriers; those of other barriers stay."""
    return lambda name: name if SYNCS.match(name) else make(name.removeprefix("bar_"))


def calls(before: str, templates: str, between: str = "|") -> Names:
    """The templates of operations other than an mbarrier's: enter, leave, call and note."""
    kinds = zip(("enter", "leave", "call", "note"), templates.split(between), strict=True)
    return {kind: before + template for kind, template in kinds}


def ctas(case: Case) -> int:
    """How many CTAs a case has."""
    return 1 + max(cta for _, cta in case.kernel.programs)


def used(case: Case, style: Style) -> Names:
    """Roles of a case by the name that the style prints."""
    return {style.role(role): role for role, _ in sorted(case.kernel.programs)}
