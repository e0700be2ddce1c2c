"""The form of a tcgen05.mma: the compile-time parameters of the instruction or its CuTe atom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tileproof.spec.machine import mma
from tileproof.spec.machine.errors import TileproofError

Major = Literal["K", "MN"]
Source = Literal["smem", "tmem"]

BITS = {"bf16": 16, "f16": 16, "tf32": 32, "f32": 32, "s32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}
KINDS = {"f16": ("bf16", "f16"), "tf32": ("tf32", "f32")}  # kind -> operand types (PTX ISA 9.7.16.2.1)
ACCUMULATORS = {"f16": ("f32", "f16"), "tf32": ("f32",)}
K_BYTES = 32  # k of one instruction, never encoded (PTX ISA 9.7.16.2.1)


@dataclass(frozen=True)
class MmaForm:
    """One MMA: D ``[m, n]`` += A ``[m, k]`` B ``[n, k]``.

    m, n: shape of the whole instruction, of both CTAs when `cta_group` is 2.
    k: elements of K of the whole product, None if only the operands define it; an instruction takes
    `instruction_k` of them.
    ws: the weight-stationary form tcgen05.mma.ws. a_space: whether A comes from shared or tensor memory.
    """

    m: int
    n: int
    k: int | None = None
    kind: str = "f16"
    cta_group: int = 1
    ws: bool = False
    a_space: Source = "smem"
    a_major: Major = "K"
    b_major: Major = "K"
    a_type: str = "bf16"
    b_type: str = "bf16"
    c_type: str = "f32"

    def __post_init__(self) -> None:
        for name, value, known in (
            ("kind", self.kind, tuple(KINDS)),
            ("cta_group", self.cta_group, (1, 2)),
            ("a_space", self.a_space, ("smem", "tmem")),
            ("a_major", self.a_major, ("K", "MN")),
            ("b_major", self.b_major, ("K", "MN")),
        ):
            if value not in known:
                raise TileproofError(
                    f"unknown {name} of an MMA", expected=" or ".join(map(str, known)), found=repr(value)
                )
        for name, extent in (("m", self.m), ("n", self.n), ("k", self.k)):
            if extent is not None and extent < 1:
                raise TileproofError(f"{name} of an MMA", expected="a positive extent", found=str(extent))
        for name, dtype in (("a_type", self.a_type), ("b_type", self.b_type), ("c_type", self.c_type)):
            if dtype not in BITS:
                raise TileproofError(f"unknown {name}", expected=", ".join(BITS), found=repr(dtype))

    @property
    def instruction_k(self) -> int:
        """Elements of K that one instruction takes: 16 (kind::f16), 8 (kind::tf32)."""
        return K_BYTES * 8 // (16 if self.kind == "f16" else 32)

    @property
    def a_rows(self) -> int:
        """Rows of A that one CTA supplies to one instruction."""
        return self.m // self.cta_group

    @property
    def b_rows(self) -> int:
        """Rows of B (as stored, N rows) that one CTA supplies to one instruction."""
        return self.n // self.cta_group

    @property
    def data_path(self) -> str | None:
        """The TMEM layout of D, A to G; None when M does not exist in this form."""
        try:
            return mma.layout_of(self.m, self.cta_group, ws=self.ws)
        except TileproofError:
            return None

    @property
    def text(self) -> str:
        """The form in the words of the PTX ISA."""
        ws = ".ws" if self.ws else ""
        return (
            f"tcgen05.mma{ws}.cta_group::{self.cta_group}.kind::{self.kind} M{self.m} N{self.n}, "
            f"A from {'TMEM' if self.a_space == 'tmem' else 'SMEM'}"
        )
