"""The C++ header that a kernel takes its constants from, rendered from its plan.

`render(plan)` writes every number of the plan as a `static constexpr` member of `tileproof::Plan`; the
kernel's layouts and shared-memory struct are asserted against them, so a kernel and a plan that disagree
do not compile.
"""

from __future__ import annotations

from collections.abc import Iterable

from tileproof.spec.plan import KernelPlan

FILE_NAME = "tileproof_plan.h"


def render(plan: KernelPlan) -> str:
    """The header of `plan`, as text: struct `tileproof::Plan` with nested structs for its named parts."""
    lines = [
        f"// Generated from the plan of {plan.name} with d_qk = {plan.d_qk} (tileproof.spec.header). Do not edit.",
        "#pragma once",
        "",
        "#include <cstdint>",
        "",
        "namespace tileproof {",
        "",
        "struct Plan {",
    ]
    lines += _constants(
        "  ",
        (
            (field, getattr(plan, field))
            for field in ("h_q", "d_qk", "d_v", "b_topk", "cluster", "threads", "smem_bytes", "tmem_columns")
        ),
    )
    lines += _group("role", ((role.name, _of(role, "first_warp", "warps")) for role in plan.roles))
    lines += _group(
        "barrier", ((bar.name, _of(bar, "offset", "stages", "count", "tx_bytes")) for bar in plan.barriers)
    )
    lines += _group(
        "smem", ((tile.name, _of(tile, "offset", "bytes", "stages", "rows", "cols")) for tile in plan.smem)
    )
    lines += _group("tmem", ((tile.name, _of(tile, "column", "columns", "stages")) for tile in plan.tmem))
    lines += _group("mma", ((mma.name, _of(mma, "cta_group", "m", "n", "k")) for mma in plan.mmas))
    lines += ["};", "", "}  // namespace tileproof", ""]
    return "\n".join(lines)


def _of(part: object, *fields: str) -> list[tuple[str, int]]:
    return [(field, getattr(part, field)) for field in fields]


def _constants(indent: str, pairs: Iterable[tuple[str, int]]) -> list[str]:
    return [f"{indent}static constexpr int {name} = {value};" for name, value in pairs]


def _group(name: str, parts: Iterable[tuple[str, list[tuple[str, int]]]]) -> list[str]:
    lines = ["", f"  struct {name} {{"]
    for part, pairs in parts:
        lines += [f"    struct {part} {{", *_constants("      ", pairs), "    };"]
    return [*lines, "  };"]
