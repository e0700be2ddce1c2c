"""Tensor maps as NVIDIA's driver writes them, against every call of the measured table.

The layout was read from the calls that vary one argument; the random ones, which were not used for it, are
held against it here like the rest.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from tileproof.emulator import TensorMap
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.tensor_map_bytes import DriverTensorMap, driver_bytes, driver_map
from tileproof.spec.machine.tma import TensorMapFields, check_tensor_map
from tileproof.tools import evidence

TABLE = "2026-11-22-h200-tensor-maps.jsonl.xz"
# In the order of the CUDA driver API's enumerations (cuda.h).
TYPES = (
    "uint8", "uint16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64", "bfloat16",
    "float32_ftz", "tfloat32", "tfloat32_ftz",
)  # fmt: skip
SWIZZLES = ("none", "32B", "64B", "128B")


def rows() -> list[dict[str, Any]]:
    lines = evidence.read_text(TABLE).splitlines()
    assert json.loads(lines[0])["rows"] == len(lines) - 1
    return [json.loads(line) for line in lines[1:]]


ROWS = rows()


def map_of(row: dict[str, Any]) -> DriverTensorMap:
    """What a call asks for."""
    image = row["kind"] == "im2col"
    fields = TensorMapFields(
        dtype=TYPES[row["type"]],
        shape=tuple(row["dims"]),
        strides=tuple(row["strides"]),
        box=(row["channels"], row["pixels"]) if image else tuple(row["box"]),
        element_strides=tuple(row["steps"]),
        swizzle=SWIZZLES[row["swizzle"]],
        oob_fill="nan" if row["fill"] else "zero",
        address=row["address"],
        lower=tuple(row["lower"]) if image else (),
        upper=tuple(row["upper"]) if image else (),
    )
    return DriverTensorMap(fields, row["l2"], row["interleave"])


@pytest.mark.parametrize("held_out", [False, True])
def test_every_measured_map_is_read_and_written_bit_for_bit(held_out: bool) -> None:
    read = Counter[str]()
    for row in ROWS:
        if row["result"] or row["kind"] == "wide" or (row["group"] == "random") != held_out:
            continue
        data, made = bytes.fromhex(row["bytes"]), map_of(row)
        assert driver_bytes(made) == data, row
        assert driver_map(data) == made, row
        read[row["kind"]] += 1
    assert read == ({"tiled": 1000, "im2col": 280} if held_out else {"tiled": 1932, "im2col": 507})


def test_the_driver_refuses_what_the_rules_refuse_and_nothing_else() -> None:
    counts = Counter[bool]()
    for row in ROWS:
        measured = row["type"] < 13 and row["swizzle"] < 4 and row["l2"] < 4 and row["fill"] < 2
        if not measured or row["kind"] == "wide" or row["interleave"]:
            continue
        try:
            check_tensor_map(map_of(row).fields)
            taken = True
        except TileproofError:
            taken = False
        assert taken == (row["result"] == 0), row
        counts[taken] += 1
    assert counts == {True: 3504, False: 946}


def test_no_bit_of_a_map_is_left_unread() -> None:
    """Every single bit that is changed gives another map or is refused by its number."""
    for kind in ("tiled", "im2col"):
        row = next(r for r in ROWS if r["group"] == "random" and r["result"] == 0 and r["kind"] == kind)
        data, made = bytes.fromhex(row["bytes"]), map_of(row)
        refused = 0
        for bit in range(1024):
            value = int.from_bytes(data, "little") ^ 1 << bit
            try:
                assert driver_map(value.to_bytes(128, "little")) != made
            except TileproofError as error:
                refused += "bit" in (error.where or "")
        assert refused >= 600


@pytest.mark.parametrize(
    ("bit", "words"),
    [
        (66, "unknown bits set.*bits 66"),  # where an older encoding has its version
        (83, "unknown bits set.*bits 83"),
        (1000, "unknown bits set.*bits 1000"),
        (74, "an unknown type.*bits 71..74"),
        (513, "unknown bits set.*bits 513"),  # another number of bytes than the box has
    ],
)
def test_a_bit_that_is_not_known_is_refused_by_its_number(bit: int, words: str) -> None:
    plain = TensorMapFields("float16", (512, 300), (1024,), (64, 8), (1, 1), "128B", address=1 << 40)
    data = int.from_bytes(driver_bytes(DriverTensorMap(plain)), "little") ^ 1 << bit
    with pytest.raises(TileproofError, match=f"(?s){words}"):
        driver_map(data.to_bytes(128, "little"))


def test_what_was_not_measured_is_refused() -> None:
    plain = TensorMapFields("16u4_align8b", (512, 300), (1024,), (64, 8), (1, 1))
    with pytest.raises(TileproofError, match="encoding of this field is unknown"):
        driver_bytes(DriverTensorMap(plain))
    atoms = TensorMapFields("uint8", (512, 300), (1024,), (64, 8), (1, 1), "128B_ATOM_32B")
    with pytest.raises(TileproofError, match="encoding of this field is unknown"):
        driver_bytes(DriverTensorMap(atoms))
    with pytest.raises(TileproofError, match="128 bytes"):
        driver_map(bytes(64))


def test_the_emulator_reads_both_encodings() -> None:
    row = next(r for r in ROWS if r["group"] == "rank" and len(r["dims"]) == 3)
    made = TensorMap.read(bytes.fromhex(row["bytes"]))
    own = TensorMap.of_driver(
        data_type=row["type"],
        address=row["address"],
        global_dim=row["dims"],
        global_strides=row["strides"],
        box_dim=row["box"],
        element_strides=row["steps"],
    )
    assert made == own and TensorMap.read(own.encode()) == own
    row = next(r for r in ROWS if r["interleave"] == 2 and r["result"] == 0)
    with pytest.raises(TileproofError, match=r"(?s)interleave.*32 bytes"):
        TensorMap.read(bytes.fromhex(row["bytes"]))
