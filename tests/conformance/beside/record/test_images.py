"""What the recorder reads of a program's file and of the images in it, and how it refuses damaged bytes."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import lz4.block
import pytest
import zstandard
from tileproof.conformance.beside.record import elf
from tileproof.conformance.beside.record.fatbin import NoPtx, fitness, ptx_of
from tileproof.emulator.errors import LaunchError

PACKINGS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "plain": (0, bytes),
    "lz4": (0x2000, lambda data: lz4.block.compress(data, store_size=False)),
    "zstd": (0x8000, zstandard.ZstdCompressor(write_content_size=False).compress),
    "sized zstd": (0x8000, zstandard.ZstdCompressor().compress),
}


def text(target: str) -> str:
    return f".version 9.0\n.target {target}\n.address_size 64\n// {'padding ' * 100}\n"


def entry(kind: int, content: bytes, packing: str = "plain") -> bytes:
    flags, pack = PACKINGS[packing]
    packed = pack(content)
    padded = packed.ljust(-(-len(packed) // 8) * 8, b"\0")
    head = struct.pack("<HHIQI", kind, 0x101, 64, len(padded), len(packed) if flags else 0)
    return head.ljust(40, b"\0") + struct.pack("<Q8xQ", flags, len(content)) + padded


def fatbin(*entries: bytes) -> bytes:
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, sum(map(len, entries))) + b"".join(entries)


@pytest.mark.parametrize("packing", PACKINGS)
def test_the_best_ptx_of_a_fat_binary(packing: str) -> None:
    made = [
        entry(1, text(target).encode() + b"\0", packing) for target in ("sm_80", "sm_100a", "sm_120", "sm_90")
    ]
    assert ptx_of(fatbin(entry(2, b"machine code"), *made)) == text("sm_100a")


def test_targets_in_order() -> None:
    order = ["sm_80", "sm_90", "sm_100", "sm_100f", "sm_100a"]
    ranks = [fitness(text(target)) for target in order]
    assert None not in ranks and ranks == sorted(ranks, key=lambda rank: rank or 0)
    assert [fitness(text(t)) for t in ("sm_90a", "sm_103", "sm_103a", "sm_120", "sm_9x")] == [None] * 5
    assert fitness("no target") is None


@pytest.mark.parametrize(
    ("image", "why"),
    [
        (fatbin(), "empty"), (fatbin(entry(2, b"sass")), "SASS but no PTX"), (b"\x7fELF", "SASS but no PTX"),
        (fatbin(entry(1, text("sm_120").encode()), entry(1, text("sm_90a").encode())), "for sm_120 sm_90a"),
        (text("sm_120").encode(), "for sm_120"), (b"hello", "neither PTX"), (b"", "neither PTX"),
    ],
)  # fmt: skip
def test_why_there_is_none(image: bytes, why: str) -> None:
    with pytest.raises(NoPtx) as caught:
        ptx_of(image)
    assert why in caught.value.found


@pytest.mark.parametrize(
    "pack", [lambda target: text(target).encode(), lambda target: fatbin(entry(1, text(target).encode()))]
)
@pytest.mark.parametrize("hopper", [False, True])
def test_the_other_device_is_named(pack: Callable[[str], bytes], hopper: bool) -> None:
    own, other, word = ("sm_90a", "sm_100a", "without") if hopper else ("sm_100a", "sm_90a", "with")
    assert ptx_of(pack(own), hopper) == text(own)
    with pytest.raises(NoPtx) as caught:
        ptx_of(pack(other), hopper)
    assert caught.value.found == f"its PTX is for {other}"
    assert caught.value.do == f"record it {word} --hopper"
    with pytest.raises(NoPtx) as caught:
        ptx_of(pack("sm_120"), hopper)
    assert not caught.value.do


@pytest.mark.parametrize("packing", ["lz4", "zstd", "sized zstd"])
def test_a_damaged_fat_binary_is_refused(packing: str) -> None:
    """Cut off at any byte, or with a byte inverted: some text or a refusal, and no other error."""
    whole = fatbin(entry(1, text("sm_100a").encode(), packing))
    refused = 0
    for at in range(16, len(whole)):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]):
            try:
                ptx_of(damaged)
            except NoPtx:
                refused += 1
    assert refused > len(whole) // 2


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("elf")
    (folder / "a.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-s", str(folder / "a.c"), "-o", str(folder / "a")], check=True)
    return folder / "a"


def test_what_a_program_needs(built: Path) -> None:
    assert elf.examine(built) == elf.ElfProgram(("libc.so.6",), True, False)


def test_what_is_no_program_of_64_bits(built: Path, tmp_path: Path) -> None:
    data = built.read_bytes()
    for content in (b"", b"#!/bin/sh\n", data[:4] + b"\1" + data[5:]):
        (tmp_path / "a").write_bytes(content)
        assert elf.examine(tmp_path / "a") is None


def test_a_damaged_program_is_refused(built: Path, tmp_path: Path) -> None:
    """Cut off, or with bytes inverted: read otherwise, or a refusal that names the file."""
    data, refused = built.read_bytes(), 0
    cut = [data[:at] for at in range(4, len(data), 97)]
    inverted = [data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :] for at in (*range(16, 900, 3),)]
    for damaged in cut + inverted:
        (tmp_path / "a").write_bytes(damaged)
        try:
            elf.examine(tmp_path / "a")
        except LaunchError as error:
            assert error.where == str(tmp_path / "a")
            refused += 1
    assert refused > 20
