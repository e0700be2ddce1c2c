"""A numeric variant of a kernel, and the words of C++ that variants are made of."""

from __future__ import annotations

from dataclasses import dataclass

from tileproof.kernels.edit import ANY, Edit, InStage, Place, PlantedDefect


@dataclass(frozen=True)
class NumericVariant:
    """`edits` are (file, text, replacement) in the sources of `kernel` or in a Python module; the file "" is
    its PTX, where every occurrence is changed. `right` says why the variant keeps what the kernel's plan
    declares; without it the variant is wrong, and `check` must find it.
    """

    kernel: str
    id: str
    title: str
    edits: tuple[tuple[str, str, str], ...]
    right: str = ""

    @property
    def name(self) -> str:
        """Its kernel and its id."""
        return f"{self.kernel}/{self.id}"

    def planted(self) -> PlantedDefect:
        """The variant as a planted defect, which any stage may find."""
        made = tuple(
            Edit(Place(text, file, 1 if file else ANY), replacement) for file, text, replacement in self.edits
        )
        return PlantedDefect(self.name, self.title, "", self.kernel, made, InStage("", ""))


def near(x: str, bits: int) -> str:
    """f32 `x` to nearest with `bits` significant bits."""
    dropped = 24 - bits
    half, mask = hex(2 ** (dropped - 1)), hex(2**32 - 2**dropped)
    return f"__uint_as_float((__float_as_uint({x}) + {half}u) & {mask}u)"


def cut(x: str, bits: int) -> str:
    """f32 `x` toward zero with `bits` significant bits."""
    return f"__uint_as_float(__float_as_uint({x}) & {hex(2**32 - 2 ** (24 - bits))}u)"


def called(body: str, x: str) -> str:
    """`body`, which returns a float, called with `x` as v."""
    return f"[](float v) {{ {body} }}({x})"


def f16(x: str) -> str:
    """`x` rounded to f16 and back."""
    return called(
        'unsigned short h; float r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v)); '
        'asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(h)); return r;',
        x,
    )


def flushed(x: str, below: str) -> str:
    """`x`, 0 where it is below in magnitude."""
    return called(f"return fabsf(v) < {below} ? 0.0f : v;", x)


def polynomial(x: str, coefficients: tuple[float, ...]) -> str:
    """2^x with the power of the fraction by a polynomial, lowest power first."""
    body = f"{coefficients[-1]!r}f"
    for coefficient in reversed(coefficients[:-1]):
        body = f"fmaf({body}, f, {coefficient!r}f)"
    return called(
        f"v = v < -126.0f ? -126.0f : v; const float n = floorf(v), f = v - n; const float p = {body}; "
        "return n > 127.0f ? __uint_as_float(0x7f800000u) : p * __uint_as_float((int(n) + 127) << 23);",
        x,
    )
