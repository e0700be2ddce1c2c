"""A misfit between an MMA and its operands: a sentence with a stable code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CODES = {
    "shape": "M and N of the instruction, for its form",
    "type": "element types of operands and accumulator",
    "space": "the memory an operand must lie in",
    "major": "major-ness of an operand against the descriptor's",
    "swizzle": "a swizzle that no descriptor can name",
    "swizzle-span": "the swizzle's span against the operand's extents",
    "canonical": "an operand whose strides no matrix descriptor can describe",
    "extent-m": "rows of A against M of the accumulator",
    "extent-n": "rows of B against N of the accumulator",
    "extent-k": "K of A against K of B",
    "tmem-columns": "columns of tensor memory",
    "tmem-lanes": "lanes of tensor memory",
    "alignment": "where an operand starts",
}


@dataclass(frozen=True)
class Misfit:
    """One reason why operands do not fit an MMA.

    code: a key of `CODES`. operand: "A", "B", "C" or "MMA". sentence: all of it in one sentence.
    expected, found, fits: the two sides, and what would fit.
    refused_by: "CuTe" when a static assertion of CUTLASS 4.2 refuses it, "machine" when the instruction
    does not exist (PTX ISA) or computes something else than the product of these operands.
    """

    code: str
    operand: str
    sentence: str
    expected: str
    found: str
    fits: str
    refused_by: tuple[str, ...]

    def __post_init__(self) -> None:
        assert self.code in CODES and self.refused_by, self

    @property
    def at(self) -> Literal["compile", "run"]:
        """When it shows: "compile" when nvcc refuses the CuTe code, else "run" (wrong results or a fault)."""
        return "compile" if "CuTe" in self.refused_by else "run"

    def as_dict(self) -> dict[str, object]:
        """The fields, for `--json`."""
        return {
            "code": self.code,
            "operand": self.operand,
            "at": self.at,
            "sentence": self.sentence,
            "expected": self.expected,
            "found": self.found,
            "fits": self.fits,
            "refused_by": list(self.refused_by),
        }
