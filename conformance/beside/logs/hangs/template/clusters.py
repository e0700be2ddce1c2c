"""How the CTAs of a log form clusters: a CTA is printed by its number in the grid, or by its rank."""

from __future__ import annotations

from collections.abc import Sequence

from tileproof.conformance.beside.logs.hangs.template.pattern import Values

_OF_BARRIER = ("init", "feeds", "name", "state", "on")


class LoggedClusters:
    """`size`: CTAs of a cluster, 1 where the log shows none. `named`: lines name the CTA of a barrier."""

    def __init__(self, made: Sequence[tuple[int, str, Values]]) -> None:
        of_roles = [values for _, event, values in made if event not in _OF_BARRIER]
        of_barriers = [values for _, event, values in made if event in _OF_BARRIER]
        every = of_roles + of_barriers
        ctas = {int(v["cta"]) for v in of_roles if "cta" in v} or {int(v["cta"]) for v in every if "cta" in v}
        targets = {int(v["owner"]) for v in of_roles if "owner" in v}
        stated = {int(v["owner"]) for v in of_barriers if "owner" in v}
        apart = {abs(int(v["owner"]) - int(v["cta"])) for v in of_roles if "owner" in v and "cta" in v}
        sizes = {1} | {int(v.get("ctas", 1)) for v in every}
        masks = {int(v.get("mask", 0)).bit_length() for v in every} if ctas else {0}
        sizes |= masks
        first = min(ctas, default=0)
        if targets and max(targets) < first:  # ranks beside numbers of the grid
            sizes.add(max(2, max(targets) + 1))
        elif len(targets) > 1:
            sizes.add(max(apart) + 1 if any(apart) else len(targets))
        ranks = {owner for owner in stated if owner < first or not first}
        if ranks and not (stated - ranks) and stated - targets:
            sizes.add(max(max(ranks) + 1, 2 if first else 1))
        self.size = 1 << (max(sizes) - 1).bit_length()
        self.named = bool(targets or stated or any(masks)) or self.size > 1
        clusters = {cta // self.size for cta in ctas} if self.size > 1 else {0}
        self.only = clusters.pop() if len(clusters) == 1 else 0  # the cluster of ranks

    def place(self, cta: int) -> tuple[int, int]:
        """The cluster and rank of a CTA; a single CTA has its number."""
        if self.size == 1 or cta < self.size:
            return self.only, cta
        return cta // self.size, cta % self.size

    def rank(self, cta: int) -> int:
        """The rank of a barrier's CTA."""
        return self.place(cta)[1]
