"""`judge --init`: what a skeleton knows of PTX, what it leaves blank, and that a blank is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tileproof.conformance.launches.skeleton import skeleton
from tileproof.kernels.launch.jsonform import blanks, parse, read
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Json

from tests.kit.newcomer import page_files

HEAD = ".version 8.8\n.target sm_100a\n.address_size 64\n"


def of(tmp_path: Path, ptx: str, entry: str | None = None) -> dict[str, Any]:
    (tmp_path / "k.ptx").write_text(ptx)
    return skeleton(tmp_path / "k.ptx", entry)


def body(parameters: str, code: str, directives: str = "") -> str:
    registers = ".reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .b32 %r<9>; .reg .b16 %h<3>;"
    return f"{HEAD}.visible .entry k({parameters}) {directives}\n{{\n{registers}\n{code}\nret;\n}}\n"


def test_the_scale_kernel(tmp_path: Path) -> None:
    made = of(tmp_path, page_files()["scale.ptx"])
    (step,) = made["steps"]
    assert [argument["kind"] for argument in step["arguments"]] == ["pointer", "tensor map", "scalar"]
    assert step["block"] == [64, 1, 1] and step["arguments"][2]["type"] == "f32"
    assert made["barriers"] == [{"name": "full", "place": {"symbol": "full"}}]
    roles = {buffer["name"]: (buffer["role"], buffer["dtype"]) for buffer in made["buffers"]}
    assert roles["out"] == ("output", "float32") and roles["map"][0] == "input"
    assert "shared_bytes" not in step and step["arguments"][1]["strides"] == []  # 1d copies
    places = [place for place, _ in blanks(made)]
    assert "steps[0].grid[0]" in places and "steps[0].arguments[2].value" in places
    assert not [place for place in places if "block" in place]


def test_roles_and_types_by_how_memory_is_accessed(tmp_path: Path) -> None:
    parameters = ", ".join(f".param .u64 {name}" for name in ("a", "b", "c", "d"))
    code = """
    ld.param.u64 %rd1, [a]; cvta.to.global.u64 %rd1, %rd1; ld.global.nc.v2.f32 {%f1, %f2}, [%rd1+8];
    ld.param.u64 %rd2, [b]; add.u64 %rd2, %rd2, 64; st.global.b16 [%rd2], %h1;
    ld.param.u64 %rd3, [c]; red.global.add.f32 [%rd3], %f1;
    ld.param.u64 %rd4, [d]; mul.lo.u64 %rd5, %rd4, 3;
    """
    made = of(tmp_path, body(parameters, code))
    found = {buffer["name"]: buffer for buffer in made["buffers"]}
    assert {name: buffer["role"] for name, buffer in found.items()} == {
        "a": "input",
        "b": "output",
        "c": "inout",
    }
    assert found["a"]["content"]["kind"] == "normal" and "content" not in found["b"]
    assert found["b"]["dtype"] == "FILL: element type of b, accessed as b16"
    last = made["steps"][0]["arguments"][3]
    assert last["kind"] == "scalar" and "if a pointer" in last["value"]


def test_a_register_that_is_used_again_is_another_pointer(tmp_path: Path) -> None:
    code = """
    ld.param.u64 %rd1, [a]; ld.global.f32 %f1, [%rd1]; ld.param.u64 %rd1, [b]; st.global.f32 [%rd1], %f1;
    """
    made = of(tmp_path, body(".param .u64 a, .param .u64 b", code))
    assert [(buffer["name"], buffer["role"]) for buffer in made["buffers"]] == [
        ("a", "input"),
        ("b", "output"),
    ]


def test_a_struct_by_its_loads(tmp_path: Path) -> None:
    code = """
    mov.b64 %rd5, p; ld.param.u64 %rd1, [p]; ld.param.f32 %f1, [p+8]; ld.param.v2.u32 {%r1, %r2}, [p+16];
    st.global.f32 [%rd1], %f1; ld.param.u32 %r3, [%rd5+24];
    """
    made = of(tmp_path, body(".param .align 8 .b8 p[32]", code))
    (argument,) = made["steps"][0]["arguments"]
    assert (argument["kind"], argument["size"]) == ("struct", 32)
    items = [(item["offset"], item["item"]["kind"], item["item"].get("type")) for item in argument["items"]]
    assert items == [
        (0, "pointer", None), (8, "scalar", "f32"), (16, "scalar", "u32"), (20, "scalar", "u32"),
        (24, "scalar", "u32"),
    ]  # fmt: skip


def test_directives_and_dynamic_shared_memory(tmp_path: Path) -> None:
    shared = ".extern .shared .align 128 .b8 dynamic[];\n"
    text = body(".param .u32 n", "ld.param.u32 %r1, [n]; mov.u32 %r2, dynamic;", ".maxntid 256, 1, 1")
    step = of(tmp_path, text.replace(HEAD, HEAD + shared))["steps"][0]
    assert "256 x 1 x 1 at most" in step["block"][0] and step["shared_bytes"].startswith("FILL:")
    text = body(".param .u32 n", "ld.param.u32 %r1, [n];", ".explicitcluster .reqnctapercluster 2, 1, 1")
    step = of(tmp_path, text)["steps"][0]
    assert step["cluster"] == [2, 1, 1] and "a multiple of the cluster" in step["grid"][0]


def test_the_blanks_of_our_own_kernel_are_what_its_host_sets(tmp_path: Path) -> None:
    gemm = kernel("sm100-gemm-bias")
    (tmp_path / "k.ptx").write_text(gemm.build(gemm.variants[0]).ptx)
    made: Json = skeleton(tmp_path / "k.ptx")
    kinds = [
        item["item"]["kind"]
        for argument in made["steps"][0]["arguments"]
        for item in argument.get("items", ())
    ]
    kinds += [argument["kind"] for argument in made["steps"][0]["arguments"]]
    assert "tensor map" in kinds or "struct" in kinds


def test_a_blank_is_refused_by_name(tmp_path: Path) -> None:
    made = of(tmp_path, page_files()["scale.ptx"])
    with pytest.raises(TileproofError) as caught:
        parse(made, tmp_path)
    assert caught.value.what.startswith("blank left: buffers[0].shape[0]: the shape of the buffer that out")
    assert "also buffers[1].dtype" in caught.value.found
    (tmp_path / "launch.json").write_text(json.dumps(made).replace("FILL: the shape", "the shape"))
    with pytest.raises(TileproofError) as caught:
        read(tmp_path / "launch.json")
    assert "blank left: buffers[1].dtype" in caught.value.what


def test_several_kernels_need_a_name(tmp_path: Path) -> None:
    text = body(".param .u32 n", "") + body(".param .u32 n", "").replace(HEAD, "").replace(" k(", " other(")
    with pytest.raises(TileproofError) as caught:
        of(tmp_path, text)
    assert "k, other" in caught.value.expected
    assert of(tmp_path, text, "other")["steps"][0]["entry"] == "other"
    with pytest.raises(TileproofError, match="no such kernel"):
        of(tmp_path, text, "none")
