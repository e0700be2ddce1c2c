"""head64 with its additions to dKV scattered over rows, timed beside head64 as shipped:
`python -m tileproof.tools.scattered_additions`.

The kernel is right: the same values are added, and `check` finds nothing. Each `red` of a warp touches 32
rows instead of a single row, which takes an H200 9.4 times as long (`2026-11-28-h200-additions.txt` in
docs/evidence).
"""

from __future__ import annotations

from tileproof.conformance.beside.timing.kernel import time_kernel
from tileproof.conformance.beside.timing.report import TimeReport
from tileproof.kernels.edit import Edit, Place
from tileproof.kernels.registry import kernel

# In step j lane l adds to row j + l: a row, and a column of it, for each lane.
SCATTERED = Edit(
    Place(
        "if (Every || row[j] >= 0) ptx::red_add(out + int64_t(row[j]) * Plan::d_qk, v[j]);",
        "sm100/head64/dkv_export.cuh",
    ),
    """const int at = (j + lane) & 31;
      const int to = __shfl_sync(0xffffffff, rows, at);
      if (Every || to >= 0) ptx::red_add(out + int64_t(to) * Plan::d_qk, v[at]);""",
)


def reports(d_qk: int = 512) -> tuple[TimeReport, TimeReport]:
    """head64 as shipped, and with scattered additions."""
    found = kernel("head64")
    variant = found.variant(d_qk=d_qk)
    shipped, scattered = (time_kernel(found, variant, edits=edits).report for edits in ((), (SCATTERED,)))
    return shipped, scattered


if __name__ == "__main__":
    for report in reports():
        print("\n".join(report.lines()[:3]))
