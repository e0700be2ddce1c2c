"""How the advice for each kernel of wrong/ is written into it.

A place is text of the wrong kernel, which stands there once, and what replaces it: `{name}` is the edit of
that name in the explanation, `{1}` a group of a pattern found in its words. `names` are the own names of the
kernel for the tensors and tiled copies that edits speak of.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.kit.wrong_kernels import WRONG

Places = tuple[tuple[str, str], ...]
_AT_B = "make_tensor(make_smem_ptr(static_cast<bf16*>(b)), {layout of B})"
_AT_A = "make_tensor(make_smem_ptr(static_cast<bf16*>(a)), {layout of A})"
_SIZES = r"float, (\d+), (\d+)"  # M and N in an MMA's type
_ROWS = "Layout<Shape<_128, _64>, Stride<_64, _1> >{}"
_TS = "SM100_MMA_F16BF16_TS<bf16, bf16, float, 128, N, K, K>"


@dataclass(frozen=True)
class Way:
    """One remedy. pattern: searched in the words of `fits`, or, where it has `{...}`, in that edit."""

    places: Places
    names: dict[str, str] = field(default_factory=dict)
    pattern: str = ""
    of: str = ""


WAYS: dict[str, tuple[Way, ...]] = {
    # First, so that no kernel before it brings the header.
    "not_included": (Way((("#include <cute/layout.hpp>", "#include <cute/layout.hpp>\n{includes}"),)),),
    "b_not_transposed": (
        Way((("SS<128, 256>{}", "{MMA}{}"), ("(mma, sA, sB, tC)", "(mma, sA, {B}, tC)")), {"B": "sB"}),
    ),
    "a_not_transposed": (
        Way((("SS<128, 64>{}", "{MMA}{}"), ("(mma, sA, sB, tC)", "(mma, {A}, sB, tC)")), {"A": "sA"}),
    ),
    "b_descriptors": (
        Way((("SS<128, 256>{}", "{MMA}{}"), ("partition_B(sB)", "partition_B({B})")), {"B": "sB"}),
    ),
    "view_forgotten": (Way((("(a), sB, tC)", "(a), {B}, tC)"),), {"B": "sB"}),),
    "k_differs": (Way((("k_major<256, kCols>(b)", _AT_B),)),),
    "n_against_c": (Way((("k_major<128, 64>(b)", _AT_B),)),),
    "m_against_c": (Way((("k_major<kRows, 64>(a)", _AT_A),)),),
    "m32": (
        Way((("int M = 32", "int M = {1}"), ("SS<M, 128>{}", "{MMA}{}")), {}, _SIZES, "MMA"),
        Way((("int M = 32", "int M = {2}"),), {}, r"M = (\d+) or (\d+)"),
    ),
    "ws_m32_plain_fragment": (Way((("UMMA::tmem_frg_1sm<float>", "{fragment of C}"),)),),
    "ws_n96": (
        Way(
            (
                ("int N = 96", "int N = {2}"),
                ("SM100_MMA_F16BF16_WS_TS<bf16, bf16, float, 64, N, UMMA::tmem_frg_ws_1sm<float>>", "{MMA}"),
            ),
            {},
            _SIZES,
            "MMA",
        ),
        Way((("int N = 96", "int N = {2}"),), {}, r"N = (\d+) or (\d+)"),
    ),
    "ts_a_mn_major": (Way((("SM100_MMA_F16BF16_TS<bf16, bf16, float, 128, 64, kMajorA, K>", "{MMA}"),)),),
    "ts_n24": (
        Way((("int N = 24", "int N = {2}"), (_TS, "{MMA}")), {}, _SIZES, "MMA"),
        Way((("int N = 24", "int N = {2}"),), {}, r"N = (\d+) or (\d+)"),
    ),
    "ts_n_half_of_pair": (
        Way((("SM100_MMA_F16BF16_2x1SM_TS<bf16, bf16, float, 128, N, K, K>", "{MMA}"),)),
        Way((("int N = 48", "int N = {2}"),), {}, r"N = (\d+) or (\d+)"),
    ),
    "pair_m64": (
        Way(
            (
                ("int M = 64", "int M = {1}"),
                ("SM100_MMA_F16BF16_2x1SM_SS<bf16, bf16, float, M, 128, K, K>", "{MMA}"),
                ("k_major<M, 64>(a), k_major<128, 64>(b)", "k_major<M / 2, 64>(a), k_major<64, 64>(b)"),
            ),
            {},
            _SIZES,
            "MMA",
        ),
    ),
    "pair_b_whole": (Way((("k_major<kRows, 64>(b)", _AT_B),)),),
    "swizzle_too_wide": (
        Way((("Atom = UMMA::Layout_K_SW128_Atom<bf16>", "Atom = {atom of T}"),), {"T": "bf16"}),
        Way(
            (("smem_tile<Atom, 128, 32>(a), smem_tile<Atom, 128, 32>(b)",
              "smem_tile<Atom, 128, {1}>(a), smem_tile<Atom, 128, {1}>(b)"),),
            {}, r"multiple of (\d+)",
        ),
    ),
    "major_of_b": (Way((("SS<128, 128, K, kMajorB>", "{MMA}"),)),),
    "major_of_a": (Way((("SS<128, 128, kMajorA, K>", "{MMA}"),)),),
    "plain_rows": (Way(((_ROWS, "{layout of A}"),)),),
    "operand_in_global": (Way(((f"make_tensor(make_gmem_ptr(a), {_ROWS})", _AT_A),)),),
    "accumulator_in_registers": (
        Way((("make_tensor<float>(shape(partition_fragment_C(mma, Shape<_128, _64>{})))", "{C}"),)),
    ),
    "too_much_tmem": (Way((("partition_fragment_C(mma, Tile{})", "{C}"),)),),
    "float_operands": (Way((("SM100_MMA_F16BF16_SS<Element, Element, float, 128, 64, K, K>", "{MMA}"),)),),
    "stage_forgotten": (
        Way(
            (("thread.partition_fragment_A(staged), thread", "{A}, thread"),),
            {"A": "thread.partition_fragment_A(staged)"},
        ),
    ),
    "vector_too_wide": (
        Way((("UniversalCopy<Vector>", "{copy operation}"),)),
        Way(
            (("(from), Layout<Shape<_4>, Stride<_1>>", "(from), Layout<Shape<_{1}>>"),
             ("(to)), Layout<Shape<_4>, Stride<_1>>", "(to)), Layout<Shape<_{1}>>")),
            {}, r"(\d+) contiguous elements",
        ),
    ),
    "few_values": (
        Way((("UniversalCopy<uint128_t>", "{copy operation}"),)),
        Way((("Layout<Shape<_1, _1>>", "Layout<Shape<_1, _{1}>>"),), {}, r"multiple of (\d+)"),
    ),
    "tmem_load_too_wide": (
        Way((("SM100_TMEM_LOAD_32dp32b64x", "{copy operation}"),)),
        Way(
            (("SS<128, 32>", "SS<128, {1}>"), ("Shape<_128, _32>", "Shape<_128, _{1}>")),
            {}, r"accumulator of (\d+) columns",
        ),
    ),
    "tmem_registers": (
        Way((("make_tensor<float>(Shape<_16>{})", "{destination}"),), {"copy": "load", "C": "tC"}),
    ),
    "tmem_copy_of_smem": (
        Way(
            (("auto tile =\n      make_tensor(make_smem_ptr(static_cast<float*>(at)), " + _ROWS + ")",
              "auto mma = make_tiled_mma(SS<128, 64>{});\n  auto tile = {C}"),),
        ),
    ),
    "bare_operation": (
        Way(
            (("copy(SM100_TMEM_LOAD_32dp32b32x{}, tC, into);",
              "auto tiled = {copy};\n  auto part = {destination};\n  copy(tiled, {source}, part);"),),
            {"copy": "tiled", "C": "tC"},
        ),
    ),
    "tma_box": (
        Way((("Shape<_128, _64>{}", "{tile}"),)),
        Way((("<_64, _64>{});\n#ifdef", "<_128, _64>{});\n#ifdef"),), {}, "layout of the tile's size"),
    ),
    "cluster_of_one": (Way((("Cluster = Shape<_1, _1, _1>", "Cluster = {cluster}"),)),),
    "layout_ambiguous": (Way((("Layout rows", "{Layout} rows"),)),),
    "no_such_integer": (Way((("Columns = _576", "Columns = {_576}"),)),),
    "host_function": (Way((("#define ON_DEVICE\n", "#define ON_DEVICE {before host_scale}\n"),)),),
}  # fmt: skip

# Advice of flags, which is applied to the command line, and advice without any text to write.
FLAGS = {"constexpr_host": "flags", "arch_without_a": "-arch"}
WORDS_ONLY = {"no_such_arch", "too_much_smem", "spills", "missing_header"}


def written(name: str, way: Way, row: dict[str, Any], number: int = 0, omitted: str = "") -> str:
    """The source of wrong/`name` with one remedy of its explanation `row` written in.

    The kernel's name gets `number`, so that two may stand in one file. The edit `omitted` is not made.
    """
    source = (WRONG / f"{name}.cu").read_text()
    edits = {edit["of"]: edit["code"] for edit in row["edits"]}
    found = re.search(way.pattern, edits[way.of] if way.of else row["fits"])
    assert found, (name, way.pattern, row["fits"], edits)
    for old, new in way.places:
        if omitted and f"{{{omitted}}}" in new:
            continue
        assert source.count(old) == 1, (name, old)
        source = source.replace(
            old, re.sub(r"\{([\w -]+)\}", lambda match: _text(match[1], edits, found, way), new)
        )
    return re.sub(rf"\b{name}\b", f"{name}_{number}", source)


def _text(key: str, edits: dict[str, str], found: re.Match[str], way: Way) -> str:
    if key.isdigit():
        return found[int(key)]
    code = edits[key]
    for general, own in way.names.items():
        code = re.sub(rf"\b{general}\b(?!::)", own, code)
    return code


def remedied(row_of: Callable[[str], dict[str, Any]]) -> str:
    """One translation unit of every kernel with each of its remedies written in, by the explanation that
    `row_of` has of it, and then of every kernel as it is right, in a namespace of its own.
    """
    advised = [
        written(name, way, row_of(name), number)
        for name, ways in WAYS.items()
        for number, way in enumerate(ways)
    ]
    names = sorted(path.stem for path in WRONG.glob("*.cu"))
    between = [
        '#include "ws_atom.cuh"',
        "namespace right { using namespace wrong; }",
        "#undef ON_DEVICE",
        "#define wrong right",
        "#define RIGHT",
    ]
    return "\n".join([*advised, *between, *(f'#include "{name}.cu"' for name in names), ""])
