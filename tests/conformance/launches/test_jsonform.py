"""The launch file as JSON and as Python: it reads back as it was, and what is wrong in it is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tileproof.kernels.launch import jsonform
from tileproof.kernels.launch.arguments import (
    BytesArgument,
    EncodedMapArgument,
    PlacedItem,
    PointerArgument,
    ScalarArgument,
    StructArgument,
    TensorMapArgument,
    unset,
)
from tileproof.kernels.launch.contents import (
    Coordinates,
    Counting,
    FileBytes,
    Filled,
    InlineBytes,
    IntegerDraw,
    ListedValues,
    NormalDraw,
    UniformDraw,
    Unwritten,
)
from tileproof.kernels.launch.events import BufferRead, EventRecord, HostWait
from tileproof.kernels.launch.model import (
    BufferCopy,
    BufferFree,
    BufferWrite,
    CudaSource,
    KernelLaunch,
    LaunchBuffer,
    LaunchFile,
    LaunchModule,
    ModuleCode,
    NamedBarrier,
    PtxFile,
    PtxText,
    SharedPlace,
    SharedStage,
    StageCapture,
    TmemStage,
    VariableWrite,
)
from tileproof.kernels.launch.reading import read
from tileproof.spec.machine.errors import TileproofError

WORD = st.text("abcxyz_019 é", min_size=1, max_size=8)
COUNT = st.integers(0, 1 << 40)
NUMBER = st.floats(allow_nan=False) | st.sampled_from([float("inf"), -0.0])
CONTENTS = st.one_of(
    st.just(Unwritten()),
    st.builds(Filled, NUMBER),
    st.builds(NormalDraw, COUNT, NUMBER, NUMBER),
    st.builds(UniformDraw, COUNT, NUMBER, NUMBER),
    st.builds(IntegerDraw, COUNT, st.integers(), st.integers()),
    st.builds(Counting, NUMBER, NUMBER),
    st.builds(Coordinates, st.tuples(st.integers(0, 3)), COUNT, COUNT),
    st.builds(ListedValues, st.lists(st.integers() | NUMBER, max_size=3).map(tuple)),
    st.builds(InlineBytes, st.binary(max_size=16)),
    st.builds(FileBytes, WORD, COUNT),
)
ITEMS = st.one_of(
    st.builds(ScalarArgument, st.sampled_from(["u32", "f32", "int64"]), st.integers() | NUMBER, WORD),
    st.just(PointerArgument("a", 4)),
    st.just(TensorMapArgument("a", (64, 8), (128,), (64, 8), "float16", (), "128B", "nan", 16)),
    st.builds(EncodedMapArgument, st.binary(min_size=128, max_size=128), st.sampled_from(["", "a"]), COUNT),
)
ARGUMENTS = ITEMS | st.one_of(
    st.builds(lambda item: StructArgument(160, (PlacedItem(16, item),)), ITEMS),
    st.builds(lambda item: BytesArgument(bytes(160), (PlacedItem(32, item),)), ITEMS),
)
EXTENT = st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple)
STREAM = st.none() | st.integers(0, 3)
STEPS = st.one_of(
    st.builds(BufferWrite, st.just("a"), CONTENTS, COUNT, COUNT, st.just(()), STREAM),
    st.builds(BufferCopy, st.just("a"), st.just("b"), COUNT, COUNT, COUNT, STREAM),
    st.builds(BufferFree, st.just("b"), STREAM),
    st.builds(BufferRead, st.just("b"), COUNT, COUNT, STREAM),
    st.builds(VariableWrite, WORD, CONTENTS, COUNT, COUNT, st.just("m"), st.just(()), STREAM),
    st.builds(EventRecord, WORD, st.integers(0, 3)),
    st.builds(HostWait, STREAM),
)
LAUNCHES = st.builds(
    KernelLaunch, WORD, EXTENT, EXTENT, st.lists(ARGUMENTS, max_size=3).map(tuple), EXTENT, COUNT,
    st.just("m"), st.integers(0, 3), st.booleans(), st.booleans(),
)  # fmt: skip
REGIONS = st.one_of(
    st.builds(TmemStage, COUNT, COUNT, WORD, COUNT, COUNT),
    st.builds(SharedStage, st.builds(SharedPlace, COUNT, WORD), st.tuples(COUNT, COUNT), WORD, WORD),
)


@st.composite
def launch_files(draw: st.DrawFn) -> LaunchFile:
    codes: list[ModuleCode] = [PtxFile("k.ptx"), PtxText(".version"), CudaSource("k.cu", ("-O1",))]
    code = draw(st.sampled_from(codes))
    content = draw(CONTENTS.filter(lambda drawn: not isinstance(drawn, Unwritten)))
    buffers = (
        LaunchBuffer("a", "float16", (8, 64), "inout", content, ((0, 4), (8, 9)), 1 << 40, False),
        LaunchBuffer("b", "bfloat16", (4,), "output", items=(PlacedItem(0, PointerArgument("a")),)),
    )
    steps = (*draw(st.lists(STEPS, max_size=2)), draw(LAUNCHES), *draw(st.lists(LAUNCHES, max_size=1)))
    captures = (StageCapture("S", draw(REGIONS), "full", draw(EXTENT), draw(st.just("") | WORD)),)
    barrier = NamedBarrier("full", SharedPlace(draw(COUNT), draw(st.just("") | WORD)))
    return LaunchFile(draw(WORD), (LaunchModule("m", code),), buffers, steps, (barrier,), captures)


@given(launch_files())
@settings(max_examples=60, deadline=None)
def test_it_reads_back_as_it_was(launch: LaunchFile) -> None:
    data = json.loads(jsonform.text(launch))
    back = jsonform.parse(data, Path())
    assert back == launch and repr(back) == repr(launch)  # equal values may differ in sign of zero
    library = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    library.Draft202012Validator(json.loads(jsonform.PATH.read_text())).validate(data)


def test_the_published_schema_is_that_of_the_model() -> None:
    assert jsonform.PATH.read_text(encoding="utf-8") == jsonform.rendered()


def small(**other: Any) -> dict[str, Any]:
    """A small launch file as data."""
    return {
        "schema": "tileproof-launch",
        "schema_version": 1,
        "name": "n",
        "modules": [{"name": "m", "code": {"kind": "ptx", "text": ""}}],
        "buffers": [{"name": "a", "dtype": "float32", "shape": [4], "content": {"kind": "arange"}}],
        "steps": [{"kind": "launch", "entry": "k", "grid": [1], "block": [32]}],
    } | other


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": "other"}, "not a launch file"),
        ({"schema_version": 9}, "schema version"),
        ({"surplus": 1}, "surplus"),
        ({"name": 3}, "a text"),
        ({"buffers": [{"name": "a", "shape": [4]}]}, "dtype"),
        ({"buffers": [{"name": "a", "dtype": "float33", "shape": [4]}]}, "element type"),
        ({"buffers": [{"name": "a", "dtype": "float32", "shape": [4]}]}, "holds nothing"),
        ({"buffers": [{"name": "a", "dtype": "float32", "shape": [True], "role": "output"}]}, "whole number"),
        ({"steps": [{"kind": "jump"}]}, "kind"),
        ({"steps": []}, "nothing is launched"),
        ({"steps": [{"kind": "free", "buffer": "zz"}, *small()["steps"]]}, "no such buffer"),
        ({"buffers": [*small()["buffers"], *small()["buffers"]]}, "share a name"),
        (
            {"steps": [{**small()["steps"][0], "arguments": [{"kind": "pointer", "buffer": "zz"}]}]},
            "no such buffer",
        ),
        ({"steps": [{**small()["steps"][0], "module": "zz"}]}, "no such module"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], words: str) -> None:
    jsonform.parse(small(), Path())
    with pytest.raises(TileproofError, match=words):
        jsonform.parse(small(**change), Path())


def test_a_file_that_is_cut_off_is_named(tmp_path: Path) -> None:
    (tmp_path / "launch.json").write_text(json.dumps(small())[:-9])
    with pytest.raises(TileproofError, match="not valid JSON"):
        read(tmp_path)
    with pytest.raises(TileproofError, match="cannot be read"):
        read(tmp_path / "other.json")
    with pytest.raises(TileproofError, match=r"\.json or \.py"):
        read(tmp_path / "launch.txt")


PYTHON = """
from tileproof.kernels.launch.model import KernelLaunch, LaunchFile, LaunchModule, PtxFile
def launch():
    return LaunchFile("n", (LaunchModule("m", PtxFile("k.ptx")),), (), (KernelLaunch("k", (1,), (32,)),))
"""


def test_the_python_form(tmp_path: Path) -> None:
    path = tmp_path / "one.py"
    path.write_text(PYTHON)
    assert read(path).launches[0].entry == "k" and read(path).folder == tmp_path
    path.write_text(PYTHON + "LAUNCH = launch()\n")
    assert read(path).name == "n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1", "no launch"),
        ("LAUNCH = 3", "LaunchFile"),
        ("def launch():\n    return 1 / 0", "line 2"),
        ("def launch(:", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit"),
    ],
)
def test_a_python_file_that_fails_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "one.py"
    path.write_text(text)
    with pytest.raises(TileproofError, match=words):
        read(path)


# ---- contents


def elements(content: Any, shape: tuple[int, ...] = (3, 4), dtype: str = "float32") -> np.ndarray:
    found = LaunchBuffer("b", dtype, shape, "scratch", content).elements(Path())
    assert found is not None and found.shape == shape and found.dtype.name == dtype
    return found


def test_generators_give_what_they_say() -> None:
    assert (elements(Filled(2.5)) == 2.5).all()
    assert (elements(ListedValues((1, 2.5, -3, 4)), (2, 2)).ravel() == [1, 2.5, -3, 4]).all()
    assert elements(ListedValues((2**63 + 1,)), (1,), "uint64")[0] == 2**63 + 1
    with pytest.raises(TileproofError, match="number of values"):
        elements(ListedValues((1, 2)), (3,))
    assert (elements(Counting(1, 2)).ravel() == 1 + 2 * np.arange(12)).all()
    assert (elements(Coordinates((0,))) == np.arange(3)[:, None]).all()
    assert (elements(Coordinates((1,), modulus=3, first=1)) == np.arange(4) % 3 + 1).all()
    assert (elements(Coordinates()).ravel() == np.arange(12)).all()
    normal = np.random.default_rng(3).normal(1, 2, (3, 4)).astype(ml_dtypes.bfloat16)
    assert (elements(NormalDraw(3, 1, 2), dtype="bfloat16") == normal).all()
    assert (elements(UniformDraw(3, -2, 5)) < 5).all() and (elements(UniformDraw(3, -2, 5)) >= -2).all()
    assert set(np.unique(elements(IntegerDraw(0, -1, 2), (99,)))) == {-1, 0, 1}
    with pytest.raises(TileproofError, match="axis"):
        elements(Coordinates((2,)))


def test_data_of_files_and_bytes(tmp_path: Path) -> None:
    values = np.arange(6, dtype=ml_dtypes.bfloat16).reshape(2, 3)
    np.save(tmp_path / "a.npy", values)
    (tmp_path / "a.bin").write_bytes(b"head" + values.tobytes() + b"tail")
    contents = (FileBytes("a.npy"), FileBytes("a.bin", 4), InlineBytes(values.tobytes()))
    for content in contents:
        found = LaunchBuffer("b", "bfloat16", (2, 3), "scratch", content).elements(tmp_path)
        assert found is not None and (found == values).all() and found.flags.writeable
    for content in (InlineBytes(b"xx"), FileBytes("a.bin", 14), FileBytes("no.bin"), FileBytes("no.npy")):
        with pytest.raises(TileproofError):
            LaunchBuffer("b", "bfloat16", (2, 3), "scratch", content).elements(tmp_path)
    with pytest.raises(TileproofError, match="another dtype or shape"):
        LaunchBuffer("b", "bfloat16", (3, 2), "scratch", FileBytes("a.npy")).elements(tmp_path)


# ---- arguments


def test_scalars_are_encoded_as_their_type() -> None:
    assert ScalarArgument("u32", 7).encode() == (7).to_bytes(4, "little")
    assert ScalarArgument("s8", -1).encode() == b"\xff"
    assert ScalarArgument("f32", 1).encode() == np.float32(1).tobytes()
    assert ScalarArgument("bf16", 1.5).encode() == ml_dtypes.bfloat16(1.5).tobytes()
    assert ScalarArgument("int64", -3).encode() == np.int64(-3).tobytes()
    for wrong in (ScalarArgument("u8", 256), ScalarArgument("u32", -1), ScalarArgument("s32", 0.5)):
        with pytest.raises(TileproofError, match="does not fit"):
            wrong.encode()
    with pytest.raises(TileproofError, match="element type"):
        ScalarArgument("u33", 0).encode()


def test_bytes_that_nothing_sets_are_reported() -> None:
    item = ScalarArgument("u32", 1)
    assert unset(StructArgument(16, (PlacedItem(4, item),))) == [(0, 4), (8, 16)]
    assert unset(StructArgument(4, (PlacedItem(0, item),))) == []
    assert unset(BytesArgument(bytes(16))) == []
    for items in ((PlacedItem(0, item), PlacedItem(2, item)), (PlacedItem(14, item),)):
        with pytest.raises(TileproofError, match="does not fit"):
            StructArgument(16, items)
