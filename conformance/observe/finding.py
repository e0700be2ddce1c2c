"""A finding: which stage diverged first, where exactly, how the wrong elements lie, and what explains
them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Kind = Literal["value", "missing", "surplus", "disagree", "machine", "chain"]


@dataclass(frozen=True)
class Finding:
    """One defect. `group` is the group of tiles, called `unit` (of attention a token). `row` and `column` are
    the first wrong element's, counted along what `axes` names.

    `lane` and `tmem_column` are where that element lies in tensor memory, `smem` its byte offset in the
    CTA's dynamic shared memory, when it was read there. Kind "chain": an output is wrong by the float64
    chain as a whole. `pattern` says how the wrong elements are arranged, `names` what a value that encodes
    coordinates says of itself, `cause` what reproduces the values found. `others` counts further tiles of
    the same stage that are wrong as well. `instructions` counts further machine findings with the same
    cause. Of a race `before` is the place of the earlier access, `missing` the edge that should stand
    between; `instruction` is the later one's opcode.
    """

    kind: Kind
    message: str
    stage: str = ""
    build: str = ""
    group: int | None = None
    cta: int | None = None
    k_block: int | None = None
    row: int | None = None
    column: int | None = None
    lane: int | None = None
    tmem_column: int | None = None
    smem: int | None = None
    axes: tuple[str, str] = ("row", "column")
    unit: str = "group"
    expected: float | None = None
    found: float | None = None
    bound: float | None = None
    wrong: int = 0
    elements: int = 0
    pattern: str = ""
    cause: str = ""
    names: str = ""
    code: str = ""
    ptx_line: int | None = None
    source: str = ""
    warp: str = ""
    others: int = 0
    instructions: int = 0
    waiting: tuple[str, ...] = ()
    root: tuple[str, ...] = ()
    before: str = ""
    missing: str = ""
    instruction: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The fields that are set, for `--json`."""
        known = {key: value for key, value in asdict(self).items() if value not in (None, "", ())}
        if self.group is None:
            del known["unit"]
        return known

    @property
    def place(self) -> str:
        """Stage, group, CTA, k-block and element in words."""
        parts = [f"stage {self.stage}"] if self.stage else []
        for label, value in (
            (self.unit, self.group),
            ("CTA", self.cta),
            ("k-block", self.k_block),
            (self.axes[0], self.row),
            (self.axes[1], self.column),
        ):
            if value is not None:
                parts.append(f"{label} {value}")
        if self.lane is not None:
            parts.append(f"TMEM lane {self.lane} column {self.tmem_column}")
        if self.smem is not None:
            parts.append(f"shared memory at byte {self.smem}")
        return ", ".join(parts)

    def _of_what(self) -> str:
        return " of the tile" if self.cta is not None and self.kind != "chain" else ""

    def lines(self) -> list[str]:
        """The finding as text, one fact per line, most important first."""
        out = [self.message]
        if self.place:
            out.append(f"where:    {self.place}" + (f" ({self.build} build)" if self.build else ""))
        if self.warp:
            out.append(f"warp:     {self.warp}")
        if self.expected is not None and self.found is not None:
            out.append(
                f"expected: {self.expected!r}" + (f" +- {self.bound:.3g}" if self.bound else " exactly")
            )
            out.append(f"found:    {self.found!r}")
        if self.elements:
            out.append(f"wrong:    {self.wrong} of {self.elements} elements{self._of_what()}; {self.pattern}")
        if self.names:
            out.append(f"names:    {self.names}")
        if self.cause:
            out.append(f"cause:    {self.cause}")
        if self.ptx_line or self.source:
            line = f"PTX line {self.ptx_line}" if self.ptx_line else ""
            out.append("code:     " + ", ".join(part for part in (self.source, line) if part))
        out += [f"{'root:' if not n else '':<9} {line}" for n, line in enumerate(self.root)]
        out += [f"waits:    {line}" for line in self.waiting]
        if self.instructions:
            out.append(f"also:     {self.instructions} more finding(s) have the same cause")
        if self.others:
            out.append(f"also:     {self.others} more tile(s) of this stage are wrong")
        return out
