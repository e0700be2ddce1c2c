"""A variant of a kernel: the problem type and the sizes that one build is made for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tileproof.spec.machine.errors import TileproofError, did_you_mean


@dataclass(frozen=True)
class Variant:
    """`problem` is a folder of spec/problems, `sizes` are (name, value) pairs, sorted by name."""

    problem: str
    sizes: tuple[tuple[str, int], ...]

    @staticmethod
    def of(problem: str, **sizes: int) -> Variant:
        """The variant with these sizes."""
        return Variant(problem, tuple(sorted(sizes.items())))

    def __getitem__(self, name: str) -> int:
        """0 for a size that only other variants name."""
        return dict(self.sizes).get(name, 0)

    def has(self, wanted: Mapping[str, int]) -> bool:
        """Whether every wanted size is the variant's."""
        return all(self[name] == value for name, value in wanted.items())

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.sizes)


def parse_sizes(text: str) -> dict[str, int]:
    """`{"d_qk": 576}` of ``d_qk=576``; several sizes are separated by commas. TileproofError otherwise."""
    sizes: dict[str, int] = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not (equals and name.isidentifier() and value.isdigit()) or name in sizes:
            raise TileproofError(
                "not a variant",
                where="--variant",
                expected="sizes such as d_qk=576 or d_qk=576,h_q=64",
                found=repr(text),
            )
        sizes[name] = int(value)
    return sizes


def select(owner: str, variants: Sequence[Variant], wanted: Mapping[str, int]) -> tuple[Variant, ...]:
    """The variants of `owner` that have every wanted size, or the variant that has these sizes alone;
    TileproofError names those there are.
    """
    exact = tuple(variant for variant in variants if dict(variant.sizes) == wanted)
    if exact:
        return exact
    known = {name for variant in variants for name, _ in variant.sizes}
    found = tuple(variant for variant in variants if variant.has(wanted) and wanted.keys() <= known)
    if not found:
        asked = ",".join(f"{name}={value}" for name, value in wanted.items())
        meant = did_you_mean(asked, map(str, variants))
        raise TileproofError(
            f"{owner} has no such variant",
            where="variant",
            expected=" or ".join(map(str, variants)),
            found=asked,
            do=meant or "choose one of the kernel's variants (`tileproof kernels`)",
        )
    return found
