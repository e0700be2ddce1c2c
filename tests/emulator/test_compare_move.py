# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""setp, selp, predicate logic, mov and its packing, special registers, against numpy."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from tileproof.emulator import PtxError, UnsupportedInstruction

from tests.kit.ptx import BF16, elementwise, outputs, store
from tests.kit.values import F32_EDGES, crossed, ftz, integer_edges

COVERS = "set setp selp mov"

COMPARE = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
TAKE = "selp.b32 d, 1, 0, %p1;"


@pytest.mark.parametrize(
    ("compare", "type_"),
    [(c, t) for t in ("s16", "u16", "s32", "u32", "s64", "u64") for c in COMPARE]
    + [(c, t) for t in ("b16", "b32", "b64") for c in ("eq", "ne")],
)
def test_integer_comparisons(compare: str, type_: str) -> None:
    kind = np.dtype(f"{'i' if type_[0] == 's' else 'u'}{int(type_[1:]) // 8}")
    a, b = crossed(integer_edges(kind), 2, 1)
    got = elementwise(f"setp.{compare}.{type_} %p1, x0, x1;\n{TAKE}", [a, b], np.uint32)
    assert (got == COMPARE[compare](a, b)).all()


@pytest.mark.parametrize(("compare", "means"), [("lo", "lt"), ("ls", "le"), ("hi", "gt"), ("hs", "ge")])
@pytest.mark.parametrize("type_", ["u16", "u32", "u64"])
def test_unsigned_names(compare: str, means: str, type_: str) -> None:
    a, b = crossed(integer_edges(np.dtype(f"u{int(type_[1:]) // 8}")), 2, 2)
    got = elementwise(f"setp.{compare}.{type_} %p1, x0, x1;\n{TAKE}", [a, b], np.uint32)
    assert (got == COMPARE[means](a, b)).all()


@pytest.mark.parametrize("flush", ["", ".ftz"])
@pytest.mark.parametrize("compare", [*COMPARE, *(f"{c}u" for c in COMPARE), "num", "nan"])
def test_float_comparisons(compare: str, flush: str) -> None:
    a, b = crossed(F32_EDGES, 2, 3)
    x, y = (ftz(a), ftz(b)) if flush else (a, b)
    nan = np.isnan(x) | np.isnan(y)
    if compare in ("num", "nan"):
        want = nan == (compare == "nan")
    else:  # ordered comparisons are false on NaN, the ...u forms true (PTX ISA 9.7.6.2)
        want = np.where(nan, len(compare) == 3, COMPARE[compare[:2]](x, y))
    got = elementwise(f"setp.{compare}{flush}.f32 %p1, x0, x1;\n{TAKE}", [a, b], np.uint32)
    assert (got == want).all()


@pytest.mark.parametrize("combine", ["and", "or", "xor"])
@pytest.mark.parametrize("negate", ["", "!"])
def test_two_results_and_a_combined_predicate(combine: str, negate: str) -> None:
    a, b = (v % 4 for v in crossed(integer_edges(np.uint32), 2, 4))
    c = a >> 1 & 1
    code = f"""
    and.b32 %r1, x0, 2;
    setp.ne.u32 %p2, %r1, 0;
    setp.lt.{combine}.u32 %p1|%p3, x0, x1, {negate}%p2;
    selp.b32 %r2, 1, 0, %p1;
    selp.b32 %r3, 2, 0, %p3;
    or.b32 d, %r2, %r3;"""
    got = elementwise(code, [a, b], np.uint32)
    other = (c ^ 1) if negate else c
    function = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[combine]
    less = (a < b).astype(np.uint32)
    # The second destination is the complement of the comparison, combined likewise.
    assert (got == function(less, other) + 2 * function(1 - less, other)).all()


def test_sinks_of_setp() -> None:
    a, b = crossed(integer_edges(np.int32), 2, 5)
    got = elementwise("setp.lt.s32 _|%p1, x0, x1;\nselp.b32 d, 1, 0, %p1;", [a, b], np.uint32)
    assert (got == (a >= b)).all()


@pytest.mark.parametrize("type_", ["b16", "b32", "b64", "f32", "s32", "u64", "f64"])
def test_selp(type_: str) -> None:
    kind = np.dtype(f"u{int(type_[1:]) // 8}")
    a, b = crossed(integer_edges(kind), 2, 6)
    got = elementwise(
        f"and.b32 %r1, %t, 5;\nsetp.eq.u32 %p1, %r1, 4;\nselp.{type_} d, x0, x1, %p1;", [a, b], kind
    )
    t = np.arange(len(a))
    assert (got == np.where(t & 5 == 4, a, b)).all()


def test_predicate_logic() -> None:
    t = np.arange(32)
    body = f"""
    and.b32 %r1, %t, 1; setp.ne.u32 %p1, %r1, 0;
    and.b32 %r1, %t, 2; setp.ne.u32 %p2, %r1, 0;
    and.pred %p3, %p1, %p2; or.pred %p4, %p1, %p2; xor.pred %p5, %p1, %p2; not.pred %p6, %p1; mov.pred %p7, %p2;
    selp.b32 %r2, 1, 0, %p3; selp.b32 %r3, 2, 0, %p4; selp.b32 %r4, 4, 0, %p5; selp.b32 %r5, 8, 0, %p6;
    selp.b32 %r6, 16, 0, %p7;
    or.b32 %r2, %r2, %r3; or.b32 %r2, %r2, %r4; or.b32 %r2, %r2, %r5; or.b32 %r2, %r2, %r6;
    {store("%r2")}"""
    p, q = t & 1, t >> 1 & 1
    assert (outputs(body) == (p & q) + 2 * (p | q) + 4 * (p ^ q) + 8 * (1 - p) + 16 * q).all()


def test_a_guard_leaves_other_lanes_alone() -> None:
    body = f"and.b32 %r1, %t, 3;\nsetp.eq.u32 %p1, %r1, 2;\nmov.u32 %r2, 7;\n@%p1 mov.u32 %r2, 9;\n@!%p1 add.u32 %r2, %r2, 1;\n{store('%r2')}"
    assert (outputs(body) == np.where(np.arange(32) & 3 == 2, 9, 8)).all()


@pytest.mark.parametrize(
    ("whole", "part", "count"), [(32, 16, 2), (64, 32, 2), (64, 16, 4), (128, 64, 2), (128, 32, 4)]
)
def test_pack_and_unpack(whole: int, part: int, count: int) -> None:
    rng = np.random.default_rng(7)
    words = [
        rng.integers(0, 2 ** min(part, 63), 64, dtype=np.uint64).astype(f"u{part // 8}") for _ in range(count)
    ]
    names = ", ".join(f"x{i}" for i in range(count))
    for pick in range(count):
        fresh = ", ".join("d" if i == pick else "_" for i in range(count))
        code = f".reg .b{whole} w;\nmov.b{whole} w, {{{names}}};\nmov.b{whole} {{{fresh}}}, w;"
        assert (elementwise(code, words, np.dtype(f"u{part // 8}")) == words[pick]).all()
    if whole < 128:
        got = elementwise(f"mov.b{whole} d, {{{names}}};", words, np.dtype(f"u{whole // 8}"))
        want = np.sum([w.astype(np.uint64) << np.uint64(part * i) for i, w in enumerate(words)], axis=0)
        assert (got == want.astype(got.dtype)).all()


def test_unpacking_into_its_own_source_register() -> None:
    a = np.arange(32, dtype=np.uint64) << np.uint64(33) | np.uint64(5)
    got = elementwise("mov.b64 {%r1, %r2}, x0;\nmov.b64 x0, {%r2, %r1};\nmov.b64 d, x0;", [a], np.uint64)
    assert (got == (a >> np.uint64(32) | a << np.uint64(32))).all()


@pytest.mark.parametrize("type_", ["b16", "u16", "s32", "b32", "f32", "u64", "f64", "b64"])
def test_plain_moves(type_: str) -> None:
    kind = np.dtype(f"u{int(type_[1:]) // 8}")
    (a,) = crossed(integer_edges(kind), 1, 8)
    assert (elementwise(f"mov.{type_} d, x0;", [a], kind) == a).all()


def test_b128_moves() -> None:
    a, b = crossed(integer_edges(np.uint64), 2, 9)
    got = elementwise(
        "mov.b128 %q0, {x0, x1};\nmov.b128 %q1, %q0;\nmov.b128 {%rd8, d}, %q1;", [a, b], np.uint64
    )
    assert (got == b).all()


@pytest.mark.parametrize(
    ("literal", "type_", "bits"),
    [("0f3FC00000", "f32", 0x3FC00000), ("1.5", "f32", 0x3FC00000), ("0d3FF8000000000000", "f32", 0x3FC00000), ("-7", "s32", -7 & 0xFFFFFFFF),
     ("0x1F", "u32", 31), ("0b101", "u32", 5), ("017", "u32", 15), ("5U", "u32", 5), ("0f40490FDB", "b32", 0x40490FDB),
     ("1e39", "f32", 0x7F800000)],
)  # fmt: skip
def test_literals(literal: str, type_: str, bits: int) -> None:
    assert (outputs(f"mov.{type_} %r1, {literal};\n{store('%r1')}") == bits).all()


@pytest.mark.parametrize("line", ["mov.u32 %r1, 1.5;", "add.s32 %r1, %r2, 0f3F800000;", "mov.b32 %r1, 1.5;", "mov.u32 %r1, %r2+4;",
                                  "add.u32 %r1, !%r2, %r3;", "selp.b32 %r1, 1, 0, !%p1;", "not.pred %p1, !%p2;"])  # fmt: skip
def test_operands_that_ptx_does_not_have(line: str) -> None:
    with pytest.raises(PtxError):
        outputs(f"{line}\n{store('%r1')}")


def test_vector_moves_that_do_not_fit_are_refused() -> None:
    for line in (
        "mov.b64 %rd1, {%r1, %r2, %r3};",
        "mov.b32 %r1, {%r2};",
        "mov.b64 %rd1, {};",
    ):
        with pytest.raises(UnsupportedInstruction):
            outputs(line)
    with pytest.raises(PtxError, match="size"):  # the halves of 16 bits are 8-bit registers
        outputs("mov.b16 %h1, {%h2, %h3};")


SPECIALS = {
    "%tid.x": lambda i: i % 4, "%tid.y": lambda i: i // 4 % 3, "%tid.z": lambda i: i // 12, "%ntid.x": lambda i: 4,
    "%ntid.y": lambda i: 3, "%ntid.z": lambda i: 4, "%laneid": lambda i: i % 32, "%warpid": lambda i: i // 32,
    "%nwarpid": lambda i: 64, "%lanemask_eq": lambda i: 1 << i % 32, "%lanemask_lt": lambda i: (1 << i % 32) - 1,
    "%lanemask_le": lambda i: (2 << i % 32) - 1, "%lanemask_gt": lambda i: ~((2 << i % 32) - 1) & 0xFFFFFFFF,
    "%lanemask_ge": lambda i: ~((1 << i % 32) - 1) & 0xFFFFFFFF, "%dynamic_smem_size": lambda i: 512,
}  # fmt: skip


@pytest.mark.parametrize("name", SPECIALS)
def test_special_registers_of_a_thread(name: str) -> None:
    from tests.kit.ptx import Memory, kernel_text, parsed

    body = f"""
    mov.u32 %r1, %tid.y; mov.u32 %r2, %tid.z; mad.lo.u32 %r1, %r2, 3, %r1; mad.lo.u32 %r1, %r1, 4, %t;
    mov.u32 %r3, {name};
    {store("%r3", "%r1")}"""
    memory = Memory()
    out = memory.empty(48, np.uint32)
    parsed(kernel_text(body, [False])).launch(
        "k", grid=(1, 1, 1), block=(4, 3, 4), args=[out], memory=memory, shared_bytes=512
    )
    assert out.numpy().tolist() == [SPECIALS[name](i) for i in range(48)]


def test_special_registers_of_clusters() -> None:
    from tests.kit.ptx import Memory, kernel_text, parsed

    names = ["%ctaid.x", "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z", "%cluster_ctaid.x", "%cluster_ctaid.y",
             "%cluster_ctaid.z", "%cluster_nctaid.x", "%cluster_nctaid.y", "%cluster_nctaid.z", "%cluster_ctarank",
             "%cluster_nctarank", "%clusterid.x", "%clusterid.y", "%clusterid.z", "%nclusterid.x", "%nclusterid.y",
             "%nclusterid.z"]  # fmt: skip
    lines = ["mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.z;",
             "mad.lo.u32 %r4, %r3, 4, %r2; mad.lo.u32 %r4, %r4, 6, %r1;", f"mul.lo.u32 %r4, %r4, {len(names)};"]  # fmt: skip
    for i, name in enumerate(names):
        lines += [f"mov.u32 %r5, {name}; add.u32 %r6, %r4, {i};", store("%r5", "%r6")]
    memory = Memory()
    out = memory.empty((2, 4, 6, len(names)), np.uint32)
    parsed(kernel_text("\n".join(lines), [False])).launch(
        "k", grid=(6, 4, 2), block=(1, 1, 1), cluster=(3, 2, 1), args=[out], memory=memory
    )
    for z in range(2):
        for y in range(4):
            for x in range(6):
                want = [
                    x,
                    y,
                    z,
                    6,
                    4,
                    2,
                    x % 3,
                    y % 2,
                    0,
                    3,
                    2,
                    1,
                    x % 3 + 3 * (y % 2),
                    6,
                    x // 3,
                    y // 2,
                    z,
                    2,
                    2,
                    2,
                ]
                assert out.numpy()[z, y, x].tolist() == want


def test_the_kit_catches_a_wrong_result() -> None:
    """The helper of these tests really compares: a planted wrong operation differs."""
    a, b = crossed(integer_edges(np.int32), 2, 10)
    assert (elementwise("add.s32 d, x0, x1;", [a, b], np.int32) != a - b).any()
    assert BF16.itemsize == 2


@pytest.mark.parametrize(
    ("to", "out", "holding"),
    [("u32", np.uint32, 0xFFFFFFFF), ("s32", np.uint32, 0xFFFFFFFF), ("f32", np.uint32, 0x3F800000)],
)
def test_set_is_all_bits_or_1(to: str, out: type, holding: int) -> None:
    a, b = crossed(F32_EDGES, 2, 1)
    for compare, want in (("lt", a < b), ("geu", ~(a < b)), ("nan", np.isnan(a) | np.isnan(b))):
        got = elementwise(f"set.{compare}.{to}.f32 d, x0, x1;", [a, b], out)
        assert (got == np.where(want, holding, 0)).all(), compare
    got = elementwise(f"setp.lt.f32 %p1, x0, x1;\nset.gt.or.{to}.f32 d, x0, x1, %p1;", [a, b], out)
    assert (got == np.where((a < b) | (a > b), holding, 0)).all()


@pytest.mark.parametrize(("type_", "holding"), [("f16", 0x3C00), ("bf16", 0x3F80)])
def test_set_of_halves(type_: str, holding: int) -> None:
    rng = np.random.default_rng(3)
    words = [rng.integers(0, 2**32, 256, np.uint32) for _ in range(2)]
    words[1][::3] = words[0][::3]

    def value(word: np.ndarray) -> np.ndarray:
        half = word.astype(np.uint16)
        return (
            half.view(np.float16).astype(np.float32)
            if type_ == "f16"
            else (half.astype(np.uint32) << 16).view(np.float32)
        )

    holds = [value(words[0] >> 16 * k) >= value(words[1] >> 16 * k) for k in range(2)]
    for to, bits in ((f"{type_}x2", holding), ("u32", 0xFFFF)):
        got = elementwise(f"set.ge.{to}.{type_}x2 d, x0, x1;", words, np.uint32)
        assert (got == (np.where(holds[0], bits, 0) | np.where(holds[1], bits, 0) << 16)).all(), to
    halves = [w.astype(np.uint16) for w in words]
    assert (
        elementwise(f"set.ge.{type_}.{type_} d, x0, x1;", halves, np.uint16) == np.where(holds[0], holding, 0)
    ).all()
