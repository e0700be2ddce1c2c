"""`tileproof layout`: what it shows is the machine's own map, and what is no layout is reported."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pycute
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tileproof.conformance.beside.layouts.table import Table, of_layout, of_operand, of_tmem, parse
from tileproof.conformance.cli.app import main
from tileproof.conformance.cli.layout import text
from tileproof.spec.machine import smem_layout, tmem
from tileproof.spec.machine import swizzle as sw
from tileproof.spec.machine.errors import TileproofError


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["layout", *arguments])


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("major", ["K", "MN"])
def test_an_operand_lies_where_the_descriptor_formula_says(major: Any, swizzle: str) -> None:
    """The table against PTX ISA 9.7.16.3, with the strides of a tile whose atoms are stacked along MN."""
    mn, k = 128, 64
    width = sw.width(swizzle)
    table = of_operand(mn, k, major, swizzle)
    along = width // 2
    rows, depth = np.arange(mn)[:, None], np.arange(k)[None, :]
    if major == "K":
        if swizzle == "none":
            expected = smem_layout.address("K", "none", 0, mn * 16, 128, rows, depth)
        else:
            expected = smem_layout.address("K", swizzle, 0, 0, 8 * width, rows, depth % along)
            expected = expected + depth // along * mn * width  # the next column of atoms
    elif swizzle == "none":
        expected = smem_layout.address("MN", "none", 0, 128 * (mn // 8), 128, rows, depth)
    else:
        expected = smem_layout.address("MN", swizzle, 0, 8 * width, 8 * width * (mn // along), rows, depth)
    assert (table.places["byte"] == expected).all()
    assert (table.places["byte"] // 128 == table.places["line"]).all()
    assert sorted(table.places["byte"].ravel().tolist()) == list(range(0, 2 * mn * k, 2))


@pytest.mark.parametrize("name", list(tmem.LAYOUTS))
def test_the_blocks_of_a_data_path_say_where_each_element_lies(name: str) -> None:
    table = of_tmem(name, 64)
    seen = np.zeros(table.shape, dtype=int)
    for block in table.blocks():
        m, n = np.arange(*block.m)[:, None], np.arange(*block.n)[None, :]
        cta, lane, column = tmem.cell(name, 64, m, n)
        assert (cta == block.cta).all()
        assert (lane == block.lane + m - block.m[0]).all()
        assert (column == block.column + n - block.n[0]).all()
        seen[m, n] += 1
    assert (seen == 1).all()


def test_the_lane_offset_moves_layout_f() -> None:
    at_0, at_16 = (of_tmem("F", 64, offset).places["lane"] for offset in (0, 16))
    assert (at_16 == at_0 + 16).all()


shapes = st.recursive(
    st.integers(1, 5), lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple), max_leaves=5
)


@given(shapes, st.data())
def test_a_layout_is_what_pycute_says(shape: Any, data: st.DataObject) -> None:
    def strides(value: Any) -> Any:
        return tuple(map(strides, value)) if isinstance(value, tuple) else data.draw(st.integers(0, 40))

    stride = strides(shape)
    if not isinstance(shape, tuple):
        shape, stride = (shape,), (stride,)
    layout = pycute.Layout(shape, stride)
    table = of_layout(f"{shape}:{stride}")
    expected = [pycute.crd2idx(i, shape, stride) for i in range(layout.size())]
    assert table.places["index"].ravel(order="F").tolist() == expected


def test_a_layout_without_stride_is_compact_and_underscores_are_read() -> None:
    assert of_layout("(_8,(_2,_4))").places["index"].max() == 63
    assert parse("(8,64)") == parse("(_8,_64):(_1,_8)")


def test_a_swizzle_of_indices_and_of_byte_addresses() -> None:
    """Sw<3,3,3> of bf16 indices is Sw<3,4,3> of their byte addresses."""
    by_index = of_layout("Sw<3,3,3> o (16,64):(64,1)")
    by_byte = of_layout("Sw<3,4,3> o smem_ptr[16b](unset) o (16,64):(64,1)")
    assert (by_index.places["index"] == by_byte.places["index"]).all()
    assert (of_operand(16, 64, "K", "128B").places["byte"] == by_byte.places["byte"]).all()
    assert any("128B" in note for note in by_byte.notes)
    assert (
        of_layout("Swizzle<3,3,3> o 0 o (16,64):(64,1)").places["index"] == by_index.places["index"]
    ).all()
    plain = of_layout("(16,64):(64,1)")
    assert (plain.places["index"] != by_index.places["index"]).any()


def test_shared_indices_are_reported() -> None:
    assert any("share 8 indices" in note for note in of_layout("(8,4):(1,0)").notes)


@pytest.mark.parametrize(
    "spec",
    [
        "", "(", "(8,64", "8,64)", "(8,64):(64)", "(8,64):(64,1,2)", "(8,x):(1,8)", "(8,64):(64,1) o", "()",
        "(0,8):(1,8)", "(-8,8):(1,8)", "(8,8):(-1,8)", "Sw<3,4> o (8,8)", "Sw<4,3,3> o (8,8)",
        "Sw<3,4,3> (8,8)", "Sw<3,4,3> o smem_ptr[7b] o (8,8)", "Sw<3,4,3> o 5 o (8,8)", "(100000,100000)",
        "(" * 50 + "8" + ")" * 50, "(8,64):(64,1):(1,2)", "hello", "(99999999999999999999,8)", "\N{BELL}",
    ],
)  # fmt: skip
def test_what_is_no_layout_is_reported(spec: str) -> None:
    if spec:
        with pytest.raises(TileproofError):
            of_layout(spec)
    done = run("--", spec)
    assert done.exit_code == 2 and "error: " in done.output and "Traceback" not in done.output


@given(st.text(alphabet="(),:_Sw<>o 0123456789-[]b", max_size=40))
def test_any_text_is_a_layout_or_a_clear_error(spec: str) -> None:
    try:
        table = of_layout(spec)
    except TileproofError as error:
        assert error.expected and "\n" not in error.what
    else:
        assert table.places["index"].size >= 1 and text(table)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--mn", "64"],
        ["--mn", "60", "--k", "64"],
        ["--mn", "64", "--k", "48"],
        ["--mn", "0", "--k", "64"],
        ["--mn", "64", "--k", "64", "--dtype", "double"],
        ["--mn", "64", "--k", "64", "--swizzle", "16B"],
        ["--mn", "4096", "--k", "4096"],
        ["--tmem", "H"],
        ["--tmem", "G", "--n", "30"],
        ["--tmem", "D", "--n", "1024"],
        ["--tmem", "E", "--n", "0"],
        ["--tmem", "E", "--lane-offset", "16"],
        ["--tmem", "E", "--dtype", "f32"],
        ["(8,8)", "--tmem", "E"],
        ["(8,8)", "--n", "8"],
        ["(8,8)", "-o", "picture.doc"],
        ["(8,8)", "-o", "/no/such/folder/picture.png"],
        ["(8,8)", "--dtype", "int7"],
        [],
    ],
)  # fmt: skip
def test_bad_arguments_are_reported(arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert "error: " in done.output and "Traceback" not in done.output
    as_json = run(*arguments, "--json")
    assert as_json.exit_code == 2 and json.loads(as_json.stdout)["error"]["what"]


def test_the_text_and_the_json_agree() -> None:
    done = run("--tmem", "E", "--n", "64")
    assert done.exit_code == 0 and "64..127" in done.output
    places = json.loads(run("--tmem", "E", "--n", "64", "--json").output)["places"]
    assert (places["lane"][5][40], places["column"][5][40]) == (69, 8)
    done = run("--mn", "16", "--k", "64")
    assert " 90 " in done.output and "128B swizzle" in done.output
    assert "first 64 x 8 of 128 x 8" in run("--mn", "128", "--k", "64").output
    assert run("--help").exit_code == 0


PICTURES = [
    (of_layout("Sw<2,3,3> o (8,32):(32,1)"), ["215", "Swizzle&lt;2,3,3&gt;"]),
    (of_layout("(128,128):(128,1)"), ["mode 0"]),
    (of_layout("8"), ["7"]),
    (of_operand(16, 64, "K", "128B"), ["7e0", "15,8", "K-major"]),
    (of_operand(64, 64, "MN", "32B"), ["MN-major", "the first 32 lines"]),
    (of_tmem("B", 128), ["TMEM of CTA 1", "lanes 64..127"]),
    (of_tmem("F", 64), ["m 16..31"]),
]


@pytest.mark.parametrize(("table", "words"), PICTURES)
def test_a_picture_holds_what_the_table_says(table: Table, words: list[str], tmp_path: Path) -> None:
    from tileproof.conformance.beside.layouts.picture import draw

    draw(table, tmp_path / "one.svg")
    draw(table, tmp_path / "two.svg")
    drawn = (tmp_path / "one.svg").read_text()
    ET.fromstring(drawn)
    assert drawn == (tmp_path / "two.svg").read_text()
    for word in words:
        assert f">{word}" in drawn or word in drawn, word
    if table.kind == "tmem":
        for block in table.blocks():
            assert f"m {block.m[0]}..{block.m[1] - 1}" in drawn


def test_pictures_of_different_layouts_differ(tmp_path: Path) -> None:
    from tileproof.conformance.beside.layouts.picture import draw

    for number, mode in enumerate(("64B", "128B")):
        draw(of_operand(16, 64, "K", mode), tmp_path / f"{number}.svg")
    assert (tmp_path / "0.svg").read_text() != (tmp_path / "1.svg").read_text()


def test_the_command_writes_each_format(tmp_path: Path) -> None:
    for suffix, magic in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        path = tmp_path / f"e{suffix}"
        done = run("--tmem", "E", "-o", str(path))
        assert done.exit_code == 0 and str(path) in done.output
        assert path.read_bytes().startswith(magic)


def test_without_cutes_algebra_the_command_draws_all_the_same() -> None:
    code = (
        "import sys; sys.modules['pycute'] = None\n"
        "from tileproof.conformance.cli.layout import layout\n"
        "layout.main(['--tmem', 'E'], standalone_mode=False)\n"
        "layout.main(['(8,8):(8,1)'], standalone_mode=False)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "TMEM layout E" in done.stdout and "(8,8):(8,1)" in done.stdout


def test_without_cutes_algebra_what_needs_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['pycute'] = None\n"
        "from tileproof.spec.machine.contracts import algebra\n"
        "from tileproof.spec.machine.errors import TileproofError\n"
        "try:\n    algebra.compact((8, 8))\nexcept TileproofError as error:\n    print(error.do)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "tileproof[kernels]" in done.stdout
