"""The build: what it makes, what it refuses, and that it leaves nothing half-written."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
from tileproof.kernels import compile as compiler
from tileproof.kernels import toolchain
from tileproof.kernels.compile import ROOT
from tileproof.kernels.registry import kernel, kernels
from tileproof.spec import header
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.limits import MAX_SHARED_BYTES
from tileproof.spec.plans.head128_part0 import D_QKS, plan

from tests.kit.builds import build

NAME = "head128-part0"
SOURCE = "sm100/head128_part0/kernel.cuh"


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEPROOF_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def fresh_toolchain() -> Iterator[None]:
    toolchain.find.cache_clear()
    yield
    toolchain.find.cache_clear()


@pytest.mark.parametrize("d_qk", D_QKS)
@pytest.mark.parametrize("probe", [False, True])
def test_every_variant_assembles_without_spills(d_qk: int, probe: bool) -> None:
    built = build(NAME, d_qk, probe)
    assert f".visible .entry {built.entry}(" in built.ptx
    assert built.entry == f"tileproof_head128_part0_d{d_qk}" + ("_probe" if probe else "")
    used = built.resources
    assert used is not None
    assert (used.spill_stores, used.spill_loads, used.stack) == (0, 0, 0)
    assert 0 < used.registers * plan(d_qk).threads <= 65536
    assert used.static_smem + plan(d_qk).smem_bytes <= MAX_SHARED_BYTES


def test_the_build_includes_the_header_of_the_plan() -> None:
    built = build(NAME, 576)
    compiled_with = built.ptx_path.parent / "src" / header.FILE_NAME
    assert compiled_with.read_text() == header.render(plan(576))


def test_second_build_is_the_cached_one(monkeypatch: pytest.MonkeyPatch) -> None:
    first = build(NAME, 576)
    monkeypatch.setattr(compiler, "_build_in", lambda *_: pytest.fail("compiled again"))
    assert build(NAME, 576) == first


def test_ptx_does_not_name_the_build_folder() -> None:
    ptx = build(NAME, 576).ptx
    assert f'"kernels/{SOURCE}"' in ptx
    assert "building-" not in ptx


def test_a_plan_that_moves_a_tile_does_not_compile(empty_cache: Path) -> None:
    unplanted = plan(576)
    q, dO, *rest = unplanted.smem
    swapped = dataclasses.replace(
        unplanted, smem=(dataclasses.replace(q, offset=dO.offset), dataclasses.replace(dO, offset=0), *rest)
    )
    with pytest.raises(TileproofError) as caught:
        kernel(NAME).build_plan(kernel(NAME).variant(d_qk=576), swapped)
    error = caught.value
    assert "Q is not where the plan puts it" in error.what
    assert error.where.startswith("kernels/sm100/head128_part0/config.cuh:")
    assert "plan" in error.do
    assert list((empty_cache / "kernels").iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"q_ready": "do_ready", "do_ready": "q_ready"}, "barrier q_ready is not where the plan puts it"),
        ({"p_free": 1}, "barrier p_free has other stages than in the plan"),
    ],
)
def test_a_plan_with_other_barriers_does_not_compile(
    empty_cache: Path, changes: dict[str, str | int], words: str
) -> None:
    unplanted = plan(576)
    by_name = {barrier.name: barrier for barrier in unplanted.barriers}
    for name, change in changes.items():
        other = {"offset": by_name[change].offset} if isinstance(change, str) else {"stages": change}
        unplanted = dataclasses.replace(
            unplanted,
            barriers=tuple(
                dataclasses.replace(barrier, **other) if barrier.name == name else barrier  # type: ignore[arg-type]
                for barrier in unplanted.barriers
            ),
        )
    with pytest.raises(TileproofError) as caught:
        kernel(NAME).build_plan(kernel(NAME).variant(d_qk=576), unplanted)
    assert words in caught.value.what


def test_a_source_error_names_file_and_line(empty_cache: Path) -> None:
    text = (ROOT / SOURCE).read_text()
    line = text[: text.index("void issue_mmas()")].count("\n") + 2
    broken = text.replace("void issue_mmas() {", "void issue_mmas() {\n    no_such_function();")
    with pytest.raises(TileproofError) as caught:
        build(NAME, 576, source_overrides={SOURCE: broken})
    assert caught.value.where == f"kernels/{SOURCE}:{line}"
    assert "no_such_function" in caught.value.what + caught.value.found
    assert list((empty_cache / "kernels").iterdir()) == []


def test_an_override_is_another_build() -> None:
    text = (ROOT / SOURCE).read_text()
    overridden = build(NAME, 576, source_overrides={SOURCE: text.replace("EVICT_LAST", "EVICT_NORMAL")})
    assert overridden.ptx_path != build(NAME, 576).ptx_path
    keep, normal = str(0x14F0000000000000), str(0x1000000000000000)
    assert keep in build(NAME, 576).ptx and keep not in overridden.ptx and normal in overridden.ptx


def test_an_override_of_no_source_is_refused() -> None:
    with pytest.raises(TileproofError, match=r"unknown source to override[\s\S]*kernel\.cuh"):
        build(NAME, 576, source_overrides={"kernel.cuh": ""})


def test_unknown_kernel_and_width_list_the_known_ones() -> None:
    assert NAME in kernels()
    with pytest.raises(TileproofError, match=NAME):
        build("head129", 576)
    with pytest.raises(TileproofError, match="d_qk=576,h_q=128 or d_qk=512,h_q=128"):
        build(NAME, 64)


def test_no_nvcc_says_what_to_install(monkeypatch: pytest.MonkeyPatch, fresh_toolchain: None) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        TileproofError, match=r"nvcc is not installed[\s\S]*nvidia-cuda-nvcc[\s\S]*make setup"
    ):
        build(NAME, 576)


def test_a_cache_below_a_file_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILEPROOF_CACHE", str(tmp_path / "file"))
    with pytest.raises(TileproofError, match="TILEPROOF_CACHE"):
        build(NAME, 576)


def test_the_first_error_of_several_is_shown() -> None:
    output = (
        'kernels/a.cuh(12): error: identifier "x" is undefined\n    x = 1;\n    ^\n\n'
        "kernels/a.cuh(40): error: static assertion failed\n\n2 errors detected\n"
    )
    error = compiler.compile_error("nvcc", output)
    assert error.where == "kernels/a.cuh:12"
    assert error.found == "x = 1; (2 errors in all)"


def test_a_missing_host_compiler_is_named() -> None:
    error = compiler.compile_error("nvcc", "nvcc fatal   : Failed to preprocess host compiler properties.\n")
    assert "host compiler" in error.what and "g++" in error.do


def test_spills_would_be_seen() -> None:
    log = (
        "ptxas info    : Compiling entry function 'e' for 'sm_100a'\n"
        "ptxas info    : Function properties for e\n"
        "    16 bytes stack frame, 24 bytes spill stores, 32 bytes spill loads\n"
        "ptxas info    : Used 255 registers, used 1 barriers, 1024 bytes smem\n"
    )
    assert compiler.parse_resources(log, "e") == compiler.Resources(255, 1024, 16, 24, 32)
    with pytest.raises(TileproofError, match="resources"):
        compiler.parse_resources(log, "other")
