"""The sentences: one planted misfit each, with its code, its operand, when it shows and what would fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tileproof.spec.machine.contracts import CODES, MmaForm, OperandView, check, check_load, fits
from tileproof.spec.machine.errors import TileproofError

tile, in_tmem = OperandView.tile, OperandView.in_tmem


def c(m: int, n: int, **more: int) -> OperandView:
    return in_tmem(m, n, dtype="f32", **more)


FITTING = (MmaForm(128, 256, b_major="MN"), tile(128, 64), tile(256, 64, "MN"), c(128, 256))

MISFITS = [
    # form, a, b, c, then (code, operand, at) of every misfit and words of the first sentence
    (MmaForm(128, 256, b_major="MN"), tile(128, 64), tile(64, 256), c(128, 256),
     [("major", "B", "compile"), ("extent-k", "B", "compile")], "says MN-major"),
    (MmaForm(128, 256), tile(128, 64), tile(64, 256), c(128, 256),
     [("extent-k", "B", "compile")], "view the same buffer transposed, MN-major"),
    (MmaForm(128, 64), tile(128, 128), tile(64, 64), c(128, 64),
     [("extent-k", "B", "compile")], "K = 64; K of A is 128"),
    (MmaForm(128, 64), tile(64, 128), tile(64, 64), c(128, 64),
     [("extent-k", "A", "compile")], "it needs M = 128, K = 64: view the same buffer transposed"),
    (MmaForm(128, 64), tile(64, 64), tile(64, 64), c(128, 64),
     [("extent-m", "A", "run")], "M = 64; M of the accumulator is 128"),
    (MmaForm(128, 64), tile(256, 64), tile(64, 64), c(128, 64),
     [("extent-m", "A", "compile")], "M = 256; M of the accumulator is 128"),
    (MmaForm(128, 64), tile(128, 64), tile(128, 64), c(128, 64),
     [("extent-n", "B", "compile")], "N = 128; N of the accumulator is 64"),
    (MmaForm(128, 64), tile(128, 40, "K", "none"), tile(64, 40, "K", "none"), c(128, 64),
     [("extent-k", "A", "run"), ("extent-k", "B", "run")], "no multiple of the 16"),
    (MmaForm(128, 64), tile(128, 48), tile(64, 48, "K", "32B"), c(128, 64),
     [("swizzle-span", "A", "compile")], "spans 64 elements along K, which does not divide 48"),
    (MmaForm(32, 64), tile(32, 64), tile(64, 64), c(32, 64),
     [("shape", "MMA", "compile")], "has M = 64 or 128, not 32"),
    (MmaForm(32, 64, ws=True, a_space="tmem"), in_tmem(32, 64), tile(64, 64), c(32, 64),
     [("shape", "MMA", "compile")], "in CuTe's atoms, though the instruction has it"),
    (MmaForm(64, 96, ws=True), tile(64, 64), tile(96, 64), c(64, 96),
     [("shape", "MMA", "compile")], "has N = 64, 128, 256, not 96"),
    (MmaForm(128, 24, a_space="tmem"), in_tmem(128, 64), tile(24, 64), c(128, 24),
     [("shape", "MMA", "compile")], "has N = 16 to 256 in steps of 16, not 24"),
    (MmaForm(128, 64, a_space="tmem", a_major="MN"), in_tmem(128, 64), tile(64, 64), c(128, 64),
     [("major", "A", "compile")], "A comes from tensor memory"),
    (MmaForm(128, 64, a_space="tmem"), tile(128, 64), tile(64, 64), c(128, 64),
     [("space", "A", "run")], "forgets the buffer"),
    (MmaForm(128, 64), in_tmem(128, 64), tile(64, 64), c(128, 64),
     [("space", "A", "compile")], "reads it from shared memory"),
    (MmaForm(128, 64), tile(128, 64), tile(64, 64, dtype="f16"), c(128, 64),
     [("type", "B", "compile")], "B holds f16, but this MMA reads bf16"),
    (MmaForm(128, 64, c_type="f16"), tile(128, 64), tile(64, 64), in_tmem(128, 64, dtype="f16"),
     [("type", "C", "run")], "with bf16 the accumulator is f32"),
    (MmaForm(128, 64, cta_group=2), tile(128, 64), tile(32, 64), c(64, 64),
     [("extent-m", "A", "run")], "M = 128 from each CTA"),
    (MmaForm(128, 64), tile(128, 64), OperandView.from_cute((64, 64), (64, 1)), c(128, 64),
     [("canonical", "B", "compile")], "not those of a canonical K-major layout with no swizzle"),
    (MmaForm(128, 64), tile(128, 64), OperandView.from_cute((64, 64), (2, 128)), c(128, 64),
     [("major", "B", "run")], "contiguous along neither mode"),
    (MmaForm(128, 64), tile(128, 64), OperandView.from_cute((64, 64), (64, 1), swizzle=(3, 3, 3)), c(128, 64),
     [("swizzle", "B", "compile")], "no matrix descriptor has a mode for"),
    (MmaForm(128, 64), tile(128, 64, address=0x600), tile(64, 64), c(128, 64),
     [("alignment", "A", "run")], "starts on a 1024-byte boundary"),
    (MmaForm(128, 256), tile(384, 64), tile(256, 64), c(384, 256),
     [("tmem-columns", "C", "compile")], "takes 768 columns"),
    (MmaForm(128, 256), tile(128, 64), tile(256, 64), c(128, 256, column=300),
     [("tmem-columns", "C", "run")], "columns 300 to 556"),
    (MmaForm(128, 64, a_space="tmem"), in_tmem(128, 64, column=32), tile(64, 64), c(128, 64, column=0),
     [("tmem-columns", "A", "run")], "they overlap"),
    (MmaForm(128, 64), tile(128, 64), tile(64, 64), c(128, 64, lane=16),
     [("tmem-lanes", "C", "run")], "starts at lane 0"),
    (MmaForm(64, 64, a_space="tmem"), in_tmem(64, 64, lane=16), tile(64, 64), c(64, 64, lane=0),
     [("tmem-lanes", "A", "run")], "the A of its own lanes"),
    (MmaForm(128, 64, k=128), tile(128, 64), tile(64, 64), c(128, 64),
     [("extent-k", "A", "run"), ("extent-k", "B", "run")], "K of the product is 128"),
]  # fmt: skip


@pytest.mark.parametrize(("form", "a", "b", "acc", "expected", "words"), MISFITS)
def test_each_misfit_is_named(
    form: MmaForm,
    a: OperandView,
    b: OperandView,
    acc: OperandView,
    expected: list[tuple[str, str, str]],
    words: str,
) -> None:
    found = check(form, a, b, acc)
    assert [(m.code, m.operand, m.at) for m in found] == expected
    assert any(words in m.sentence for m in found), [m.sentence for m in found]


def test_every_code_is_covered() -> None:
    assert {code for *_, expected, _ in MISFITS for code, _, _ in expected} == set(CODES)


def test_the_example_of_the_issue() -> None:
    (found,) = check(MmaForm(128, 256), tile(128, 64), tile(64, 256), c(128, 256))
    assert found.sentence == (
        "B is [64, 256] K-major, 128B swizzle, so this MMA sees N = 64 and K = 256; it needs N = 256, "
        "K = 64: view the same buffer transposed, MN-major"
    )
    form, a, _, acc = FITTING
    assert fits(form, a, tile(64, 256).transposed(), acc)


def test_an_operand_that_is_not_given_is_not_checked() -> None:
    assert check(MmaForm(128, 256)) == []
    assert check(MmaForm(128, 256), b=tile(256, 64)) == []
    assert [m.operand for m in check(MmaForm(128, 256), b=tile(64, 256))] == ["B"]


def test_a_cut_operand_is_checked_as_it_is_cut() -> None:
    """((MMA, K), tiles, tiles): what partition_A and tile_to_mma_shape give, here of two CTAs."""
    form = MmaForm(256, 64, cta_group=2)
    a = OperandView.from_cute(((128, 16), 1, 4), ((64, 1), 0, 16), swizzle=(3, 4, 3), partitioned=True)
    assert (a.mn, a.k, a.major, a.tiles) == (128, 64, "K", (1, 4))
    assert check(form, a, tile(32, 64), c(128, 64)) == []
    assert [m.code for m in check(MmaForm(128, 64, cta_group=2), a)] == ["canonical"]


def test_views_know_their_layout() -> None:
    made = tile(64, 128, "K", "128B")
    same = OperandView.from_cute(((8, 8), (64, 2)), ((64, 512), (1, 4096)), swizzle=(3, 4, 3))
    assert (same.mn, same.k, same.major, same.swizzle) == (made.mn, made.k, made.major, made.swizzle)
    assert same.layout == made.layout
    turned = made.transposed()
    assert (turned.mn, turned.k, turned.major) == (128, 64, "MN")
    assert turned.transposed() == made
    assert OperandView.from_cute((64, 128), (1, 64)).major == "MN"
    assert OperandView.from_cute((64, 64, 3), (64, 1, 4096)).k == 64


@pytest.mark.parametrize(
    ("shape", "stride", "partitioned"),
    [
        ((64,), (1,), False),
        (64, 1, False),
        ((64, 64), (64,), False),
        ((64, (8, 8)), (64, 1), False),
        ((64, 0), (64, 1), False),
        ((64, -8), (64, 1), False),
        ((64, 64), (64, "x"), False),
        (((128, 16), 1), ((64, 1), 0), True),
        ((128, 1, 4), (64, 0, 16), True),
    ],
)
def test_what_is_no_operand_layout_is_reported(shape: object, stride: object, partitioned: bool) -> None:
    with pytest.raises(TileproofError):
        OperandView.from_cute(shape, stride, partitioned=partitioned)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "f64"},
        {"cta_group": 3},
        {"a_major": "k"},
        {"a_space": "gmem"},
        {"m": 0},
        {"k": -1},
        {"a_type": "int"},
    ],
)
def test_what_is_no_form_is_reported(wrong: dict[str, Any]) -> None:
    with pytest.raises(TileproofError):
        MmaForm(**{"m": 128, "n": 64, **wrong})  # type: ignore[arg-type]


def test_what_is_no_tile_is_reported() -> None:
    for arguments in ((0, 64), (64, 64, "row"), (64, 64, "K", "256B")):
        with pytest.raises(TileproofError):
            tile(*arguments)  # type: ignore[arg-type]
    with pytest.raises(TileproofError):
        tile(64, 64, dtype="double")


extent = st.sampled_from([1, 2, 7, 8, 15, 16, 24, 32, 48, 64, 96, 128, 200, 256, 512])
majors = st.sampled_from(["K", "MN"])
views = st.one_of(
    st.builds(tile, extent, extent, majors, st.sampled_from(["none", "32B", "64B", "128B"])),
    st.builds(in_tmem, extent, extent),
    st.builds(
        lambda mn, k, step, turned: OperandView.from_cute((mn, k), (1, step) if turned else (step, 1)),
        extent, extent, extent, st.booleans(),
    ),
)  # fmt: skip
forms = st.builds(
    MmaForm,
    st.sampled_from([16, 32, 64, 96, 128, 256]),
    extent,
    k=st.none() | extent,
    cta_group=st.sampled_from([1, 2]),
    ws=st.booleans(),
    a_space=st.sampled_from(["smem", "tmem"]),
    a_major=st.sampled_from(["K", "MN"]),
    b_major=st.sampled_from(["K", "MN"]),
)


@given(forms, st.none() | views, st.none() | views, st.none() | st.builds(c, extent, extent))
def test_any_combination_is_answered(
    form: MmaForm, a: OperandView | None, b: OperandView | None, acc: OperandView | None
) -> None:
    for misfit in check(form, a, b, acc):
        assert misfit.code in CODES and misfit.sentence and misfit.fits
        assert "\n" not in misfit.sentence and not misfit.sentence.endswith(".")
        assert misfit.as_dict()["at"] == misfit.at
    assert check(form, a, b, acc) == check(form, a, b, acc)


@given(
    st.sampled_from([64, 128]),
    st.sampled_from([32, 64, 128, 256]),
    st.sampled_from([16, 32, 64, 128]),
    st.data(),
)
def test_tiles_made_for_a_form_fit_it(m: int, n: int, k: int, data: st.DataObject) -> None:
    """tile_to_shape of an atom that divides the extents is accepted, as CUTLASS promises."""

    def operand(mn: int, major: str) -> OperandView:
        swizzle = data.draw(st.sampled_from(["none", "32B", "64B", "128B"]))
        view = tile(mn, k, major, swizzle)  # type: ignore[arg-type]
        return view if not view.refused else tile(mn, k, major, "none")  # type: ignore[arg-type]

    a_major, b_major = data.draw(st.tuples(*[st.sampled_from(["K", "MN"])] * 2))
    form = MmaForm(m, n, k, a_major=a_major, b_major=b_major)
    assert check(form, operand(m, a_major), operand(n, b_major), c(m, n)) == []
    assert not fits(replace(form, k=k + 16), operand(m, a_major), operand(n, b_major), c(m, n))


def test_a_buffer_of_plain_rows_is_the_swizzle_of_its_row_width() -> None:
    """[64, 64] bf16 in rows of 128 bytes: strides of the 128B swizzle; [64, 32]: of the 64B swizzle."""
    for k, mode in ((64, "128B"), (32, "64B"), (16, "32B")):
        (found,) = check(MmaForm(128, 64), b=OperandView.from_cute((64, k), (k, 1)))
        assert (found.code, found.fits.split(",")[0]) == ("canonical", f"the {mode} swizzle")
        b: int = {"128B": 3, "64B": 2, "32B": 1}[mode]
        assert check(MmaForm(128, 64), b=OperandView.from_cute((64, k), (k, 1), swizzle=(b, 4, 3))) == []
    (found,) = check(MmaForm(128, 64), b=OperandView.from_cute((64, 64), (72, 1)))
    assert found.fits == "tile_to_shape of UMMA::Layout_K_INTER_Atom"


@pytest.mark.parametrize(
    ("form", "shape", "repeat", "expected", "fitting"),
    [
        (MmaForm(64, 64), "32x32b", 16, [("tmem-lanes", "compile")], "16x256b"),
        (MmaForm(128, 64), "32x32b", 128, [("tmem-columns", "compile")], "x64"),
        (MmaForm(128, 96), "32x32b", 64, [("tmem-columns", "run")], "x32"),
        (MmaForm(64, 64, ws=True), "32x32b", 64, [("tmem-columns", "compile")], "x32"),
        (MmaForm(128, 64, cta_group=2), "16x256b", 4, [], ""),
        (MmaForm(64, 64), "16x256b", 8, [], ""),
    ],
)
def test_loads_of_an_accumulator(
    form: MmaForm, shape: str, repeat: int, expected: list[tuple[str, str]], fitting: str
) -> None:
    found = check_load(form, shape, repeat)
    assert [(misfit.code, misfit.at) for misfit in found] == expected
    assert all(fitting in misfit.fits for misfit in found)


@pytest.mark.parametrize("load", [("32x32b", 3), ("16x256b", 64), ("8x8b", 1)])
def test_what_is_no_load_is_reported(load: tuple[str, int]) -> None:
    with pytest.raises(TileproofError):
        check_load(MmaForm(128, 64), *load)
    with pytest.raises(TileproofError):
        check_load(MmaForm(96, 64), "32x32b", 1)
