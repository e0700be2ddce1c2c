"""A planted defect goes in exactly where it says, or not at all."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from tileproof.conformance.planted.defects import (
    build_planted,
    defect,
    defects,
    planted_on,
    planted_reference,
)
from tileproof.kernels import edit as edits
from tileproof.kernels.edit import ANY, PTX, Edit, InStage, Place, PlantedDefect, Reported
from tileproof.kernels.registry import kernel, own
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems import problem_type

PART0 = kernel("head128-part0")


def apply(anchor: str, text: str, count: int = 1, replacement: str = "sub;") -> str:
    return edits.apply("sample", Edit(Place(anchor, count=count), replacement), text)


def sample(*planted: Edit) -> PlantedDefect:
    return PlantedDefect("sample", "a sample", "", "head128-part0", planted, InStage("P", "every tile"))


def test_replaces_every_occurrence() -> None:
    assert apply("add;", "add; add;", count=2) == "sub; sub;"
    assert apply("add;", "add; add; add;", count=ANY) == "sub; sub; sub;"


@pytest.mark.parametrize("text", ["", "add;", "add; add; add;"])
def test_refuses_another_number_of_occurrences(text: str) -> None:
    with pytest.raises(TileproofError, match="does not fit the text"):
        apply("add;", text, count=2)


@pytest.mark.parametrize("count", [1, ANY])
def test_refuses_an_anchor_without_tokens_and_one_that_is_not_there(count: int) -> None:
    for anchor in ("", "  // a comment alone", "mul;"):
        with pytest.raises(TileproofError, match="does not fit the text"):
            apply(anchor, "add;", count)


CALL = "smem.ready[b].wait((k / 2) & 1);"
REFORMATTED = (
    "smem.ready[b].wait( (k/2)&1 );",
    "smem.ready[b].wait(\n    (k / 2) & 1);",
    "smem . ready [ b ]\n  .wait((k / 2) /* the phase */ & 1)  // of the ring\n;",
)


@pytest.mark.parametrize("text", REFORMATTED)
def test_an_anchor_survives_a_reformatted_source(text: str) -> None:
    assert apply(CALL, f"before();\n{text}\nafter();") == "before();\nsub;\nafter();"


@pytest.mark.parametrize(
    "text",
    [
        "smem.ready[b].wait((k / 2) & 10);",
        "smem.ready[b2].wait((k / 2) & 1);",
        "smem.ready[b].wait((k / 2));",
    ],
)
def test_other_tokens_are_another_text(text: str) -> None:
    with pytest.raises(TileproofError, match="does not fit the text"):
        apply(CALL, text)


def test_a_string_is_one_token() -> None:
    with pytest.raises(TileproofError):
        apply('asm("a b");', 'asm("a  b");')


def test_lines_are_those_of_the_last_statement() -> None:
    text = "wait(\n  parity);\nfence();\nload(a,\n     b);\n"
    assert list(edits.lines_at("sample", "f", "wait(parity); fence();", text)) == [3]
    assert list(edits.lines_at("sample", "f", "fence(); load(a, b);", text)) == [4, 5]
    assert list(edits.lines_at("sample", "f", "load(a,", text)) == [4]
    with pytest.raises(TileproofError, match="does not fit"):
        edits.lines_at("sample", "f", "fence()", text + "fence();")


PTX_TEXT = """.file 1 "kernels/f.cuh"
.loc 1 3 5
bar.sync 0;
@%p1 fence.acquire;
.loc 1 4 5
bar.sync 1;
"""


def test_instructions_are_found_by_the_source_line() -> None:
    sources = {"f.cuh": "a;\nb;\nmeet();\nmeet_again();\n"}
    place = Place("meet();", "f.cuh", opcode="bar.sync")

    def planted(*some: Edit) -> str:
        return edits.in_ptx("sample", some, PTX_TEXT, sources, "kernels/")

    assert "bar.warp.sync;\n@%p1" in planted(Edit(place, "bar.warp.sync;"))
    number = Place("meet_again();", "f.cuh", opcode="bar.sync", part=r"\d+;")
    assert planted(Edit(number, "7;")) == PTX_TEXT.replace("sync 1;", "sync 7;")
    for wrong in (
        Place("meet();", "f.cuh", opcode="bar.arrive"),
        Place("meet();", "f.cuh", 2, opcode="bar.sync"),
        Place("meet();", "g.cuh", opcode="bar.sync"),
        Place("meet();", "f.cuh", opcode="bar.sync", part="zzz"),
    ):
        with pytest.raises(TileproofError, match="does not fit"):
            planted(Edit(wrong, ""))


def test_unknown_defect_lists_the_known() -> None:
    with pytest.raises(TileproofError) as caught:
        defect("no-such", {"sample": sample()})
    assert "sample" in caught.value.expected


def test_a_defect_of_another_kernel_is_refused() -> None:
    with pytest.raises(TileproofError, match="another kernel"):
        planted_on(PART0, "h64-dq-cleared")


def test_an_edit_that_does_not_fit_names_its_mutant() -> None:
    wrong = sample(Edit(Place("no such text", "sm100/head128_part0/kernel.cuh")))
    with pytest.raises(TileproofError) as caught:
        build_planted(PART0, PART0.variants[0], wrong)
    assert "sample" in caught.value.where and "does not fit" in caught.value.what
    with pytest.raises(TileproofError, match="source does not exist"):
        build_planted(PART0, PART0.variants[0], sample(Edit(Place("x", "sm100/none.cuh"))))


def test_reference_defect_lasts_only_inside_the_context() -> None:
    from tileproof.spec.problems.sparse_mla_bwd import stages

    before = stages.STAGES
    (edit,) = defects()["scale-in-p"].edits
    assert edit.place.kind == "module"
    with planted_reference(defects()["scale-in-p"]):
        assert stages.STAGES is not before
    assert stages.STAGES is before
    with planted_reference(None), planted_reference(sample()):
        assert stages.STAGES is before


def test_every_planted_defect_is_still_there() -> None:
    """As many as when they were six kinds of string surgery."""
    kinds: dict[tuple[str, bool], int] = {}
    for target in own().values():
        for planted in target.defects():
            key = (target.name, isinstance(planted.expected, InStage))
            kinds[key] = kinds.get(key, 0) + 1
    assert kinds == {
        ("blocked", True): 23,
        ("blocked-split", True): 4,
        ("cutlass-fmha-bwd-bf16-mended", True): 14,
        ("cutlass-fmha-bwd-mended", True): 14,
        ("cutlass-fmha-bwd-mla-mended", True): 13,
        ("cutlass-fmha-bwd-packed-mended", True): 14,
        ("head64", True): 62,
        ("head64", False): 27,
        ("head128-columns", True): 22,
        ("head128-columns", False): 32,
        ("head128-part0", True): 25,
        ("head128-part0", False): 23,
        ("sm100-gemm-bias", True): 8,
        ("sm100-gemm-bias", False): 4,
        ("sm90-gemm", True): 12,
        ("sm90-gemm", False): 4,
        ("sm90-gemm-bias", True): 2,
    }
    assert len(defects()) == sum(kinds.values()), "two mutants have the same id"


@pytest.mark.parametrize("planted", defects().values(), ids=lambda defect: defect.id)
def test_every_listed_defect_fits_its_text(planted: PlantedDefect) -> None:
    """The edits of sources and modules; those of the PTX are tried where the mutants are run."""
    target = kernel(planted.target)
    assert planted.edits
    if isinstance(planted.expected, InStage):
        stages = problem_type(target.variants[0].problem).stages
        assert planted.expected.stage in (*stages, "") and planted.expected.place
    else:
        assert isinstance(planted.expected, Reported) and planted.expected.code
    changed = edits.in_sources(planted.id, planted.edits, target.sources)
    assert set(changed) == {edit.place.file for edit in planted.edits if edit.place.kind == "source"}
    assert all(text != target.sources[path] for path, text in changed.items())
    for edit in planted.edits:
        assert edit.place.file != PTX or edit.place.text
        if edit.place.opcode:
            assert edits.lines_at(
                planted.id, edit.place.file, edit.place.text, target.sources[edit.place.file]
            )
    with planted_reference(planted):  # an edit of a module that does not fit is an error here
        pass


def test_edited_modules_use_only_defined_names(tmp_path: Path) -> None:
    """A name that a module lost gives every example an error, which is found too, but not as the defect."""
    for planted in defects().values():
        texts: dict[str, str] = {}
        for edit in planted.edits:
            if edit.place.kind == "module":
                name = edit.place.file
                text = texts.get(name) or Path(str(importlib.import_module(name).__file__)).read_text()
                texts[name] = edits.apply(planted.id, edit, text)
        for name, text in texts.items():
            (tmp_path / f"{planted.id}--{name}.py").write_text(text)
    assert sum(1 for _ in tmp_path.iterdir()) > 20
    assert _undefined(tmp_path) == ""
    (tmp_path / "sample.py").write_text("known = 1\nprint(known, unknown)\n")
    assert "unknown" in _undefined(tmp_path)


def _undefined(folder: Path) -> str:
    """The undefined names of the modules of a folder, as ruff prints them."""
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select=F821", "-q", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
