"""C++ types as compilers spell them, and what CuTe's mean."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tileproof.conformance.beside.logs.builds import cute
from tileproof.conformance.beside.logs.builds.cpptypes import Type, bindings, parse
from tileproof.conformance.beside.logs.builds.evidence import role_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("cute::C<64>", 64), ("cute::C<(int)64>", 64), ("cute::_64", 64), ("64", 64), ("64UL", 64),
        ("0x40", 64), ("cute::Int<64>", 64), ("cute::constant<int, 64>", 64), ("(int)64", 64), ("-1", -1),
        ("std::integral_constant<unsigned long, 64UL>", 64), ("true", 1), ("cute::C<true>", 1), ("int", None),
        ("cute::C<<error-constant>>", None), ("cute::Underscore", None), ("cute::C<", None),
    ],
)  # fmt: skip
def test_integers(text: str, value: int | None) -> None:
    assert cute.value_of(parse(text)) == value


def test_layouts_and_what_is_not_known() -> None:
    parsed = parse(
        "cute::Layout<cute::tuple<cute::tuple<cute::C<8>, cute::C<16> >, int>, "
        "cute::tuple<cute::tuple<cute::_64, cute::C<512>>, cute::ScaledBasis<cute::C<1>, 0, 1>>>"
    )
    layout = cute.layout_of(parsed)
    assert layout is not None
    assert str(layout) == "((8,16),?):((64,512),1@0@1)"
    assert layout.extents() == "[128, ?]" and layout.size(0) == 128 and layout.size(0, 1) == 16
    assert layout.size() is None and layout.size(5) is None


def test_tensors_by_memory_type_and_swizzle() -> None:
    smem = cute.tensor_of(parse(
        "cute::Tensor<cute::ViewEngine<cute::swizzle_ptr<cute::Swizzle<2, 4, 3>, "
            "cute::smem_ptr<cutlass::half_t *>>>, "
        "cute::Layout<cute::tuple<cute::_64, cute::_32>, cute::tuple<cute::_32, cute::_1>>>"
    ))  # fmt: skip
    assert smem is not None
    assert smem.engine == cute.Engine("smem", "f16", (2, 4, 3))
    assert smem.text() == "[64, 32] f16 in shared memory, contiguous along mode 1, 64B swizzle"
    owned = cute.tensor_of(
        parse("cute::Tensor<cute::ArrayEngine<float, 8192UL>, cute::Layout<cute::_4, cute::_1>>")
    )
    assert owned is not None and owned.engine.space == "rmem"
    tmem = cute.tensor_of(
        parse("cute::Tensor<cute::ViewEngine<cute::tmem_ptr<float>>, cute::Layout<cute::_4, cute::_1>>")
    )
    assert tmem is not None and tmem.engine.space == "tmem"
    composed = cute.tensor_from(
        parse("cute::ViewEngine<cute::smem_ptr<cutlass::bfloat16_t *>>"),
        parse("cute::ComposedLayout<cute::Swizzle<3, 3, 3>, cute::C<0>, cute::Layout<cute::_8, cute::_1>>"),
    )
    # A swizzle of bf16 elements is one of bytes with a base one higher.
    assert composed is not None and composed.engine.swizzle == (3, 4, 3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "cute::SM100_MMA_F16BF16_2x1SM_TS<cutlass::bfloat16_t, cutlass::bfloat16_t, float, 256, 128, "
            "cute::UMMA::Major::K, (cute::UMMA::Major)1, cute::UMMA::ScaleIn::One, cute::UMMA::ScaleIn::One>",
            ("cta_group::2", "256 x 128 x 16", "A from tensor memory", "A K-major", "B MN-major"),
        ),
        ("SM100_MMA_F16BF16_WS_SS_NOELECT<bf16, bf16, float, 64, 256, UMMA::Major::K, UMMA::Major::K>",
         ("tcgen05.mma.ws.cta_group::1", "64 x 256 x 16", "A from shared memory")),
        ("cute::SM90::GMMA::MMA_64x256x16_F32BF16BF16_SS<GMMA::Major::MN, GMMA::Major::K>",
         ("wgmma", "64 x 256 x 16", "A MN-major", "B K-major")),
        ("cute::SM80_16x8x16_F32BF16BF16F32_TN", ("mma.sync", "16 x 8 x 16")),
    ],
)  # fmt: skip
def test_mma_operations(text: str, words: tuple[str, ...]) -> None:
    made = cute.mma_of(parse(text))
    assert made is not None
    assert all(word in made.text() for word in words), made.text()


@pytest.mark.parametrize(
    ("name", "role"),
    [("TensorA", "A"), ("sA", "A"), ("ATensor", "A"), ("tCrB", None), ("TensorFragC", "C"), ("Acc", "C"),
     ("TensorAcc", "C"), ("TD", None), ("TiledMMA", None), ("TensorQ", None), ("B", "B"),
     ("SmemLayoutB", "B"), ("CTensor", "C")],
)  # fmt: skip
def test_roles_by_name(name: str, role: str | None) -> None:
    assert role_of(name) == role


def test_bindings_of_nvcc_and_gcc() -> None:
    nvcc = bindings(
        "A=cute::_1, Args=<cute::_2, cute::tuple<cute::_3, int>>, M=64, <auto-1>=float, F=lambda [](int)->int"
    )
    assert {name: str(value) for name, value in nvcc.items()} == {
        "A": "cute::_1", "Args": "<cute::_2, cute::tuple<cute::_3, int>>", "M": "64", "<auto-1>": "float",
        "F": "lambda[](int)->int",
    }  # fmt: skip
    gcc = bindings("A = cute::C<1>; Args = {int, float}; N = 3")
    assert gcc["A"].args[0].name == "1" and [str(arg) for arg in gcc["Args"].args] == ["int", "float"]


def test_a_cut_type_is_marked_and_keeps_what_came_before() -> None:
    parsed = parse("cute::Layout<cute::tuple<cute::C<8>, cute::C<1")
    assert parsed.cut and parsed.args[0].args[0] == parse("cute::C<8>")
    assert cute.layout_of(parsed) is None


TYPES = st.recursive(
    st.sampled_from(["cute::_8", "cute::C<64>", "int", "float", "cute::Underscore"]).map(parse),
    lambda inner: st.builds(
        Type,
        st.sampled_from(["cute::tuple", "cute::Layout", "X::Y"]),
        st.lists(inner, min_size=1, max_size=3).map(tuple),
    ),
    max_leaves=12,
)


@given(TYPES)
def test_what_is_printed_is_parsed_again(written: Type) -> None:
    assert parse(str(written)) == written


PIECES = """cute::tuple cute::Layout cute::C cute::Tensor cute::Swizzle cute::ViewEngine cute::smem_ptr < >
< > , , cute::ComposedLayout ( ) [ ] { } = 64 0 -1 99999999999999999999 int * & const ... :: -> " ' cute::_8 _
lambda <error-type> <auto-1> decltype MMA_64x8x16_F32_SS"""
TOKENS = PIECES.split()


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(TOKENS), max_size=40).map(" ".join))
def test_text_of_any_kind_is_read_without_an_error(text: str) -> None:
    parsed = parse(text)
    for part in parsed.walk():
        str(part)
        cute.text_of(cute.int_tuple(part))
        cute.mma_of(part)
        tensor = cute.tensor_of(part)
        if tensor is not None:
            tensor.text()
        layout = cute.layout_of(part)
        if layout is not None:
            layout.size()
            layout.extents()
    bindings(text)
