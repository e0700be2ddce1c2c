"""Writes the figures of `tileproof time` into docs/limits.md: `python -m tileproof.tools.limits_page`.

Between the page's markers stand two tables, the kernels here and the published ones; nothing else on the
page states what the model says. `--check` compares, and ends with 1 where the page says something else.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tileproof.conformance.beside.timing.kernel import BLOCKS, time_kernel
from tileproof.conformance.beside.timing.peers import peers
from tileproof.conformance.beside.timing.report import WHOLE, TimeReport
from tileproof.conformance.beside.timing.rounds import TOKENS
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.pages import written

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "limits.md"
BY = "tools/limits_page.py"
KERNELS = (
    ("head64", {"d_qk": 576}),
    ("head64", {"d_qk": 512}),
    ("head128-columns", {"d_qk": 576}),
    ("head128-columns", {"d_qk": 512}),
)
_UNITS = ("L2", "tensor core", "shared memory")


def kernels_table() -> list[str]:
    """A row per kernel: clocks, speed, units."""
    lines = [
        f"| `tileproof time`, {BLOCKS[0]} and {BLOCKS[1]} k-blocks | clocks per k-block | TFLOPS of MMAs |"
        f" of a launch: {TOKENS:,} tokens of {WHOLE} k-blocks |"
        + "".join(f" {unit} |" for unit in _UNITS)
        + " the longest waits of the MMA role |",
        "|---|---|---|---|" + "---|" * (len(_UNITS) + 1),
    ]
    for name, sizes in KERNELS:
        found = kernel(name)
        lines.append(row(time_kernel(found, found.variant(**sizes), BLOCKS).report))
    return lines


def row(report: TimeReport) -> str:
    """One kernel's row, the likely case with the interval."""
    units = {unit.name: unit.clocks / report.clocks.likely for unit in report.units}
    shares = "".join(f" {units.get(unit, 0.0):.0%} |" for unit in _UNITS)
    mma = next((role for role in report.roles if role.role.startswith("mma")), None)
    whole = report.launch.tflops if report.launch else report.whole
    waits = ", ".join(f"{share.name} {share.clocks:,.0f}" for share in (mma.waits[:2] if mma else ()))
    return f"| {report.kernel} | {report.clocks} | {report.tflops} | {whole} |{shares} {waits} |"


def peers_table() -> list[str]:
    """A row per published time."""
    lines = [
        "| published | ms | TFLOPS | the model's ms, best to worst | likely | source |",
        "|---|---|---|---|---|---|",
    ]
    for row in peers():
        peer, ms = row.peer, row.ms
        lines.append(
            f"| {peer.name} | {peer.published_ms:.3f} | {row.published_tflops:.0f} | "
            f"{ms.best:.2f} to {ms.worst:.2f} | {ms.likely:.2f} ({row.off:+.0%}) | {peer.source} |"
        )
    return lines


def main(arguments: list[str]) -> int:
    """Writes the page, or compares it."""
    tables = {"kernels": kernels_table(), "published": peers_table()}
    text = PAGE.read_text()
    new = written(text, tables, BY)
    if "--check" in arguments:
        print("the page says what the command prints" if new == text else "the page is stale: write it again")
        return int(new != text)
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
