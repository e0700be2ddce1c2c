"""How the CTAs of a log form clusters: a CTA is printed by its number in the grid, or by its rank."""

from __future__ import annotations

from collections.abc import Sequence

from tileproof.conformance.beside.logs.hangs.template.pattern import Values


def ctas_of(mask: int) -> list[int]:
    """The ranks of a mask."""
    return [cta for cta in range(mask.bit_length()) if mask >> cta & 1] if mask > 0 else []


class LoggedClusters:
    """`size`: CTAs of a cluster, 1 where the log shows none. `named`: lines name the CTA of a barrier."""

    def __init__(self, made: Sequence[tuple[int, str, Values]]) -> None:
        ctas, targets, apart, sizes = set[int](), set[int](), {0}, {1}
        for _, event, values in made:
            of_barrier = event in ("init", "feeds", "name")
            if "cta" in values and not of_barrier:
                ctas.add(int(values["cta"]))
            if "owner" in values and not of_barrier:
                targets.add(int(values["owner"]))
                apart.add(abs(int(values["owner"]) - int(values.get("cta", values["owner"]))))
            sizes.add(int(values.get("ctas", 1)))
        stated = {int(values["owner"]) for _, event, values in made if "owner" in values} - targets
        if ctas:
            sizes |= {int(values.get("mask", 0)).bit_length() for _, _, values in made}
        first = min(ctas, default=0)
        if targets and max(targets) < first:  # ranks beside numbers of the grid
            sizes.add(max(2, max(targets) + 1))
        elif len(targets) > 1:
            sizes.add(max(apart) + 1 if max(apart) else len(targets))
        if stated and (max(stated) < first or not targets):
            sizes.add(max(stated) + 1 if max(stated) else 2 if first else 1)
        self.size = 1 << (max(sizes) - 1).bit_length()
        self.named = bool(targets or stated) or self.size > 1

    def place(self, cta: int) -> tuple[int, int]:
        """The cluster and rank of a CTA; a single CTA has its number."""
        return divmod(cta, self.size) if self.size > 1 and cta >= self.size else (0, cta)

    def rank(self, cta: int) -> int:
        """The rank of a barrier's CTA."""
        return cta % self.size if self.size > 1 and cta >= self.size else cta
