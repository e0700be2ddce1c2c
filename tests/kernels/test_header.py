"""The generated header carries the plan's numbers."""

from __future__ import annotations

import re
from dataclasses import replace

from tileproof.spec import header
from tileproof.spec.plans.head128_part0 import plan


def _constants(text: str) -> dict[str, int]:
    """Nested name -> value of every constant, by the header's own braces."""
    path: list[str] = []
    found: dict[str, int] = {}
    for line in text.splitlines():
        if opened := re.match(r"\s*struct (\w+) \{", line):
            path.append(opened[1])
        elif re.match(r"\s*\};", line):
            path.pop()
        elif constant := re.match(r"\s*static constexpr int (\w+) = (-?\d+);", line):
            found[".".join([*path, constant[1]])] = int(constant[2])
    assert not path
    return found


def test_every_number_of_the_plan_is_in_the_header() -> None:
    p = plan(576)
    found = _constants(header.render(p))
    for name in ("cluster", "threads", "smem_bytes", "tmem_columns"):
        assert found.pop(f"Plan.{name}") == getattr(p, name)
    for name in ("h_q", "d_qk", "d_v"):
        assert found.pop(f"Plan.{name}") == p.size(name)
    assert found.pop("Plan.b_topk") == p.block
    assert found.pop("Plan.f16") == 0
    for group, parts, fields in (
        ("role", p.roles, ("first_warp", "warps")),
        ("barrier", p.barriers, ("offset", "stages", "count", "tx_bytes")),
        ("smem", p.smem, ("offset", "bytes", "stages", "rows", "cols")),
        ("tmem", p.tmem, ("column", "columns", "stages")),
        ("mma", p.mmas, ("cta_group", "m", "n", "k")),
    ):
        for part in parts:
            for field in fields:
                assert found.pop(f"Plan.{group}.{part.name}.{field}") == getattr(part, field)
    assert found == {}


def test_header_follows_the_plan() -> None:
    p = plan(576)
    changed = replace(p, tmem_columns=128)
    assert _constants(header.render(changed))["Plan.tmem_columns"] == 128
    assert header.render(changed) != header.render(p) != header.render(plan(512))
