"""The kinds of tcgen05.mma: element types and their codes, K, how elements lie in a 16-byte chunk, scales.

Sources: PTX ISA 9.7.16.2.1 (table 39: shapes and K), 9.7.16.4.2 (tables 42 to 44: codes), 9.7.16.10.4
(packing of 4- and 6-bit elements), 9.7.16.10.7.1 (tables 56 and 57: scale vectors); CUTLASS 4.2
`mma_sm100_desc.hpp` (MXF8F6F4Format, MXF4Format, S8Format, ScaleFormat).

A *format* is a kind, and for mxf4nvf4 its scale vector as well, since the legal bits depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tileproof.spec.machine.errors import TileproofError

_F8F6F4 = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}
D_TYPES = {"f16": 0, "f32": 1, "s32": 2}
SCALE_TYPES = {"ue4m3": 0, "ue8m0": 1}
K_BYTES = 32  # of A or B that one dense instruction reads of each row, padding included


@dataclass(frozen=True)
class Format:
    """One kind of tcgen05.mma.

    k: elements of K of one dense instruction. types: codes of A and B. d_types: of the accumulator.
    transposable: types that may be MN-major in shared memory (tables 51 and 54). scales: scale factors of a
    row per instruction (0: none). scale_types: codes of them.
    """

    name: str
    kind: str
    k: int
    types: dict[str, int]
    d_types: tuple[str, ...]
    transposable: tuple[str, ...]
    negate: bool = True
    scales: int = 0
    scale_types: tuple[str, ...] = ()

    @property
    def block(self) -> int:
        """Elements of K that share a scale factor."""
        return self.k // self.scales if self.scales else 0


_ALL = (
    Format("f16", "f16", 16, {"f16": 0, "bf16": 1}, ("f16", "f32"), ("f16", "bf16")),
    Format("tf32", "tf32", 8, {"tf32": 2}, ("f32",), ("tf32",)),
    Format("f8f6f4", "f8f6f4", 32, _F8F6F4, ("f16", "f32"), ("e4m3", "e5m2")),
    Format("i8", "i8", 32, {"u8": 0, "s8": 1}, ("s32",), ("u8", "s8"), negate=False),
    Format("mxf8f6f4", "mxf8f6f4", 32, _F8F6F4, ("f32",), ("e4m3", "e5m2"), scales=1, scale_types=("ue8m0",)),
    Format("mxf4", "mxf4", 64, {"e2m1": 1}, ("f32",), (), scales=2, scale_types=("ue8m0",)),
    Format("mxf4nvf4.2X", "mxf4nvf4", 64, {"e2m1": 1}, ("f32",), (), scales=2, scale_types=("ue8m0",)),
    Format(
        "mxf4nvf4.4X", "mxf4nvf4", 64, {"e2m1": 1}, ("f32",), (), scales=4, scale_types=("ue4m3", "ue8m0")
    ),
)
FORMATS = {form.name: form for form in _ALL}


def format_of(name: str) -> Format:
    """The format called `name`."""
    if name not in FORMATS:
        raise TileproofError("unknown kind of tcgen05.mma", expected=", ".join(FORMATS), found=repr(name))
    return FORMATS[name]


# Bits of an element as it lies in its container.
BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "e2m3": 6, "e3m2": 6, "e2m1":
    4,
}  # fmt: skip


def pack_chunk(codes: list[int], type_: str, format_: str) -> bytes:
    """The 16 bytes of shared memory that hold consecutive elements: their raw codes, lowest first.

    16 elements of 8, 6 (12 bytes, 4 of padding) or 4 bits (8 bytes, 8 of padding) in kinds f8f6f4 and
    mxf8f6f4; 32 elements of 4 bits, without padding, in mxf4 and mxf4nvf4 (PTX ISA 9.7.16.10.4.4,
    9.7.16.10.4.6).
    """
    bits = BITS[type_]
    count = 128 // bits if bits >= 8 else 32 if format_of(format_).kind.startswith("mxf4") else 16
    if len(codes) != count:
        raise TileproofError("not one chunk of elements", expected=str(count), found=str(len(codes)))
    return sum(code << bits * i for i, code in enumerate(codes)).to_bytes(16, "little")


def contained(code: int, type_: str) -> int:
    """The byte that holds an element of A in tensor memory in kinds f8f6f4 and mxf8f6f4, and what tcgen05.cp
    decompresses to: 4 bits lie in bits 2 to 5, 6 bits in bits 0 to 5 (PTX ISA 9.7.16.10.4.3, 9.7.16.9.1)."""
    return code << 2 if BITS[type_] == 4 else code


def decompressed(chunk: bytes, bits: int) -> bytes:
    """What tcgen05.cp with ``.b8x16.b6x16_p32`` (bits 6) or ``.b4x16_p64`` (4) makes of 16 bytes.

    The first 12 or 8 bytes are 16 elements, lowest first; the others are padding (PTX ISA 9.7.16.9.1).
    """
    word = int.from_bytes(chunk[: 2 * bits], "little")
    type_ = "e2m1" if bits == 4 else "e2m3"
    return bytes(contained(word >> bits * k & (1 << bits) - 1, type_) for k in range(16))


# Exponent of the smallest normal number.
EMIN = {"f16": -14, "bf16": -126, "tf32": -126, "e4m3": -6, "e5m2": -14, "e2m3": 0, "e3m2": -2, "e2m1": 0}
