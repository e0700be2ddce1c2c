# ruff: noqa: E501 - PTX lines are kept whole
"""Structs with bytes that the caller never set: which loads are reported, and which are right."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import Fields, LaunchError, Memory, Module, RunResult, TensorMap

from tests.kit.ptx import HEADER, codes, only


def launch(load: str, struct: Fields | bytes, before: str = ".param .u32 n, ") -> tuple[RunResult, int]:
    """`load` takes a word of struct s (24 bytes, the second parameter) to %r1, which is stored."""
    text = f"""{HEADER}.visible .entry k({before}.param .align 8 .b8 s[24], .param .u64 out)
    {{ .reg .b32 %r<8>; .reg .b64 %rd<4>; {load} ld.param.u64 %rd1, [out]; st.global.b32 [%rd1], %r1; ret; }}"""
    memory = Memory()
    out = memory.empty(1, np.uint32)
    args = [*([7] if before else []), struct, out]
    return Module.from_ptx(text).launch("k", grid=(1,), block=(1,), args=args, memory=memory), int(
        out.numpy()[0]
    )


FIELDS = Fields(24, {0: np.uint32(11), 8: np.uint64(1 << 32 | 22), 16: b"\5\0"})


@pytest.mark.parametrize(
    ("load", "value"),
    [("ld.param.b32 %r1, [s];", 11), ("ld.param.b32 %r1, [s+12];", 1), ("ld.param.b16 %r1, [s+16];", 5),
     ("mov.b64 %rd2, s; cvta.param.u64 %rd2, %rd2; ld.b32 %r1, [%rd2+8];", 22), ("ld.param.b32 %r1, [n];", 7)],
)  # fmt: skip
def test_what_was_set_is_read(load: str, value: int) -> None:
    result, seen = launch(load.replace("b16 %r1", "u16 %r1"), FIELDS)
    assert not result.findings and seen == value


@pytest.mark.parametrize(
    ("load", "bytes_"),
    [("ld.param.b32 %r1, [s+4];", "4 to 7"), ("ld.param.b32 %r1, [s+16];", "18 to 19"), ("ld.param.v2.b32 {%r2, %r1}, [s];", "4 to 7"),
     ("mov.b64 %rd2, s; cvta.param.u64 %rd2, %rd2; ld.b32 %r1, [%rd2+20];", "20 to 23")],
)  # fmt: skip
def test_what_was_not_set_is_reported_with_its_parameter(load: str, bytes_: str) -> None:
    result, seen = launch(load, FIELDS)
    found = only(result, "param-unset")
    assert found.severity == "error" and f"reads bytes {bytes_} of parameter s, which" in found.message
    assert found.machine.ptx_line == 5 and seen & 0xFF000000 == 0xFF000000  # poison
    # All bytes of the caller's own are set.
    assert not launch(load, bytes(24))[0].findings


def test_a_gap_between_parameters_belongs_to_nobody() -> None:
    load = "mov.b64 %rd2, n; cvta.param.u64 %rd2, %rd2; ld.b32 %r1, [%rd2+4];"
    found = only(launch(load, FIELDS)[0], "param-unset")
    assert "bytes 4 to 7 of the gaps between the parameters" in found.message


def test_addresses_and_maps_are_items() -> None:
    memory = Memory()
    table = memory.buffer(np.zeros((8, 64), np.uint16))
    tiles = TensorMap.tiled(table, shape=(64, 8), strides=(128,), box=(64, 4), dtype="bfloat16")
    data, known = Fields(144, {0: tiles, 136: table}).pack()
    assert data[:128] == tiles.encode() and data[136:] == table.address.to_bytes(8, "little")
    assert data[128:136] == b"\xff" * 8 and known == b"\1" * 128 + bytes(8) + b"\1" * 8


@pytest.mark.parametrize(
    "items", [{22: np.uint32(1)}, {-4: np.uint32(1)}, {0: 3}, {0: np.uint64(1), 4: np.uint32(1)}]
)
def test_items_that_do_not_fit(items: dict[int, bytes]) -> None:
    with pytest.raises(LaunchError, match="struct"):
        launch("mov.b32 %r1, 0;", Fields(24, items))
    with pytest.raises(LaunchError, match="does not fit its parameter"):
        launch("mov.b32 %r1, 0;", Fields(16, {}))


def test_a_parameter_that_nobody_reads_may_be_unset() -> None:
    assert codes(launch("mov.b32 %r1, 0;", Fields(24, {}))[0]) == set()
