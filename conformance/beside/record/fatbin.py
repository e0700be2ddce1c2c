"""The PTX in images that nvcc embeds in a program or that the driver loads: fat binaries, PTX or ELF.

The layout is that of CUDA 13's `fatbinary`; tests read all of its packings.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence

import lz4.block
import zstandard
from tileproof.emulator.errors import LaunchError

_CONTAINER, _ELF = 0xBA55ED50, 0x464C457F
_PTX, _SASS = 1, 2  # kinds of entries
_MOST = 1 << 30  # bytes of a text
_LZ4, _ZSTD = 0x2000, 0x8000  # flags of an entry
# The targets that an SM100 runs, and those of an SM90, best last; a generic target of an older architecture
# ranks by its number.
_OWN = ("100", "100f", "100a")
_HOPPER = ("90", "90a")


class NoPtx(LaunchError):
    """An image has no PTX for this device."""

    def __init__(self, found: str, hopper: bool = False, other: bool = False) -> None:
        """`other`: the PTX is for the device that record presents with `hopper` changed."""
        do = f"record it {'without' if hopper else 'with'} --hopper" if other else ""
        super().__init__(f"the image has no PTX for sm_{90 if hopper else 100}", found=found, do=do)


def ptx_of(image: bytes, hopper: bool = False) -> str:
    """Return the best PTX of `image` for an SM100: sm_100a, sm_100f, sm_100, then the newest older target.
    With `hopper` for an SM90: sm_90a, sm_90, then the newest older target.

    `image` is a fat binary, PTX text, or an ELF file of machine code. Raises NoPtx.
    """
    magic = struct.unpack_from("<I", image.ljust(4, b"\0"))[0]
    if magic == _ELF:
        raise NoPtx("it has SASS but no PTX")
    if magic != _CONTAINER:
        text = image.decode(errors="replace")
        if ".version" not in text:
            raise NoPtx("it is neither PTX nor a fat binary")
        if fitness(text, hopper) is None:
            raise _other([text], hopper)
        return text
    try:
        entries = list(_entries(image))
    except (struct.error, ValueError, zstandard.ZstdError, lz4.block.LZ4BlockError) as error:
        raise NoPtx(f"the fat binary is damaged: {error}") from None
    texts = [text for kind, text in entries if kind == _PTX]
    ranked = [(rank, text) for text in texts if (rank := fitness(text, hopper)) is not None]
    if ranked:
        return max(ranked, key=lambda image: image[0])[1]
    if texts:
        raise _other(texts, hopper)
    if any(kind == _SASS for kind, _ in entries):
        raise NoPtx("it has SASS but no PTX")
    raise NoPtx("its fat binary is empty")


def _other(texts: Sequence[str], hopper: bool) -> NoPtx:
    fits = any(fitness(text, not hopper) is not None for text in texts)
    return NoPtx(f"its PTX is for {' '.join(map(_target, texts))}", hopper, fits)


def fitness(ptx: str, hopper: bool = False) -> int | None:
    """Rank of PTX for an SM100, or with `hopper` an SM90, by its target: higher is better; None if it cannot
    run there.
    """
    own = _HOPPER if hopper else _OWN
    match = re.match(r"sm_(\d+)([af]?)$", _target(ptx))
    if not match:
        return None
    if match[1] + match[2] in own:
        return 1000 + own.index(match[1] + match[2])
    return int(match[1]) if not match[2] and int(match[1]) < int(own[0]) else None


def _target(ptx: str) -> str:
    match = re.search(r"\.target\s+(\w+)", ptx)
    return match[1] if match else "?"


def _entries(image: bytes) -> Iterator[tuple[int, str]]:
    """(kind, text) of each entry; the text is "" unless it is PTX. struct.error if an entry is truncated."""
    # Container: u32 magic, u16 version, u16 header bytes, u64 bytes of the entries that follow.
    at, size = struct.unpack_from("<6xHQ", image)
    end = at + size
    while at < end:
        # Entry: u16 kind, u16 version, u32 header bytes, u64 bytes, u32 packed bytes; at 40 u64 flags, at 56
        # u64 unpacked bytes.
        kind, header, count, packed = struct.unpack_from("<HxxIQI", image, at)
        if not header:
            return
        text = ""
        if kind == _PTX:
            flags, unpacked = struct.unpack_from("<Q8xQ", image, at + 40)
            data = image[at + header : at + header + (packed or count)]
            text = _unpacked(data, flags, unpacked).partition(b"\0")[0].decode()
        yield kind, text
        at += header + count


def _unpacked(data: bytes, flags: int, size: int) -> bytes:
    if size > _MOST:
        raise ValueError(f"an entry of {size} bytes")
    if flags & _ZSTD:
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=size, allow_extra_data=True)
    return lz4.block.decompress(data, uncompressed_size=size) if flags & _LZ4 else data
