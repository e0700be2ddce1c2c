"""Compares two reports of `tileproof time` by role, barrier, unit and line."""

from __future__ import annotations

from collections.abc import Iterable

from tileproof.conformance.beside.timing.noise import of_difference
from tileproof.conformance.beside.timing.report import RoleTime, Share, TimeReport

_MOST = 10  # rows of a part


def compare(a: TimeReport, b: TimeReport) -> list[str]:
    """One page: clocks per k-block of A and B and their difference, the largest changes first."""
    out = [
        f"A: {a.kernel}   B: {b.kernel}   ({b.arch}, clocks per k-block, likely; difference B - A)",
        f"{'clocks per k-block':44s} {_three(a.clocks.likely, b.clocks.likely)}   A {a.clocks}, B {b.clocks}",
        f"{'before, between and after k-blocks':44s} {_three(a.fixed.likely, b.fixed.likely)}",
    ]
    verdict = (
        "the intervals are apart"
        if _apart(a, b)
        else "the intervals overlap: the order depends on the figures"
    )
    out.append(f"B takes {b.clocks.likely / a.clocks.likely:.2f} of A's clocks; {verdict}")
    error, differs = of_difference(a.noise, b.noise), b.clocks.likely - a.clocks.likely
    says = "outside of" if abs(differs) > error else "within the noise, so not significant;"
    each = f"A ±{a.noise.error:,.0f}, B ±{b.noise.error:,.0f}"
    out.append(f"the difference of {differs:+,.0f} clocks is {says} ±{error:,.0f} ({each})")
    out += ["", f"{'role':44s} {'A':>9s} {'B':>9s} {'B - A':>9s}"]
    before, after = _by_role(a), _by_role(b)
    rows: list[tuple[str, float, float]] = []
    for role in [*before, *(name for name in after if name not in before)]:
        old, new = before.get(role, {}), after.get(role, {})
        rows += [(f"{role}  {what}", old.get(what, 0.0), new.get(what, 0.0)) for what in {**old, **new}]
    out += _rows(rows)
    out += ["", f"{'unit':44s} {'A':>9s} {'B':>9s} {'B - A':>9s}"]
    out += _rows(_pairs(a.units, b.units))
    out += ["", f"{'critical path':44s} {'A':>9s} {'B':>9s} {'B - A':>9s}"]
    out += _rows(_pairs(a.critical, b.critical))
    return out


def _apart(a: TimeReport, b: TimeReport) -> bool:
    ends = (sorted((share.clocks.best, share.clocks.worst)) for share in (a, b))
    (low, high), (other_low, other_high) = ends
    return high < other_low or other_high < low


def _by_role(report: TimeReport) -> dict[str, dict[str, float]]:
    return {role.role: _of(role) for role in report.roles}


def _of(role: RoleTime) -> dict[str, float]:
    shares = {"issues": role.issues, "stalls": role.stalls}
    for share in role.waits:
        shares[f"waits for {share.name}"] = share.clocks
    return shares


def _pairs(a: Iterable[Share], b: Iterable[Share]) -> list[tuple[str, float, float]]:
    old, new = ({share.name: share.clocks for share in shares} for shares in (a, b))
    return [(name, old.get(name, 0.0), new.get(name, 0.0)) for name in {**old, **new}]


def _rows(rows: list[tuple[str, float, float]]) -> list[str]:
    changed = [row for row in rows if abs(row[2] - row[1]) >= 1]
    changed.sort(key=lambda row: (-abs(row[2] - row[1]), row[0]))
    lines = [f"{name:44s} {_three(old, new)}" for name, old, new in changed[:_MOST]]
    return lines or ["nothing changed by a clock"]


def _three(a: float, b: float) -> str:
    return f"{a:9,.0f} {b:9,.0f} {b - a:+9,.0f}"
