"""What has to be reported of each kernel of wrong/: code, operand, extents, words and place."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mistake:
    """One mistake. what: words of its sentence; fits: of what would fit; at: of the user's source line.

    operands: how operands are described, by their letter. corpus: the row of public bugs that it is.
    """

    code: str
    what: tuple[str, ...]
    fits: tuple[str, ...] = ()
    operand: str = ""
    at: str = ""
    operands: tuple[tuple[str, str], ...] = ()
    corpus: str = ""


MISTAKES: dict[str, Mistake] = {
    "b_not_transposed": Mistake(
        "extent-k",
        ("B is [64, 256] K-major", "N = 64 and K = 256", "needs N = 256, K = 64"),
        ("transposed", "MN-major", "b_major = MN"),
        "B",
        "size<2>(sA_frag) == size<2>(sB_frag)",
        (
            ("A", "[128, 64] bf16, K-major, 128B swizzle"),
            ("B", "[64, 256] bf16, K-major"),
            ("C", "[128, 256] f32"),
        ),
        "L4",
    ),
    "b_descriptors": Mistake(
        "extent-k",
        ("B is [64, 256] K-major, 128B swizzle", "N = 64 and K = 256", "needs N = 256, K = 64"),
        ("transposed", "MN-major", "b_major = MN"),
        "B",
        "cute::gemm(mma, fA, fB, tC)",
        (("A", "[1, 1, 4] in matrix descriptors"),),
    ),
    "a_not_transposed": Mistake(
        "extent-k",
        ("A is [64, 128] K-major", "M = 64 and K = 128", "needs M = 128, K = 64"),
        ("transposed", "MN-major", "a_major = MN"),
        "A",
        "size<2>(sA_frag) == size<2>(sB_frag)",
    ),
    "view_forgotten": Mistake(
        "major",
        ("B is [64, 256] K-major", "descriptor says MN-major"),
        ("the same buffer viewed transposed, MN-major",),
        "B",
        "partition_fragment_B",
    ),
    "k_differs": Mistake(
        "extent-k", ("B is [256, 128] K-major", "K = 128", "K of A is 64"), ("[256, 64]",), "B", "size<2>"
    ),
    "n_against_c": Mistake(
        "extent-n",
        ("B is [128, 64]", "N = 128", "N of the accumulator is 256"),
        ("[256, 64]",),
        "B",
        "gemm(mma",
        (("C", "[128, 256] f32, in tensor memory"),),
    ),
    "m_against_c": Mistake(
        "extent-m",
        ("A is [256, 64]", "M = 256", "M of the accumulator is 128"),
        ("[128, 64]",),
        "A",
        "gemm(mma",
        (("A", "[256, 64] bf16"), ("C", "[128, 128] f32")),
    ),
    "m32": Mistake(
        "shape", ("M = 64 or 128, not 32",), ("weight-stationary",), "MMA", "make_tiled_mma", (), "L1"
    ),
    "ws_m32_plain_fragment": Mistake(
        "shape",
        ("M = 32", "weight-stationary", "tmem_frg,"),
        ("tmem_frg_ws_1sm",),
        "C",
        "partition_fragment_C",
        (("C", "[32, 128]"),),
        "L1",
    ),
    "ws_n96": Mistake(
        "shape",
        ("weight-stationary", "N = 64, 128, 256, not 96"),
        ("N = 64 or 128",),
        "MMA",
        "partition_fragment_C",
    ),
    "ts_a_mn_major": Mistake(
        "major", ("A comes from tensor memory", "asks MN-major"), ("a_major = K",), "A", "make_tiled_mma"
    ),
    "ts_n24": Mistake("shape", ("M = 128", "steps of 16, not 24"), ("16 or 32",), "MMA", "make_tiled_mma"),
    "ts_n_half_of_pair": Mistake(
        "shape", ("2-CTA", "steps of 32, not 48"), ("32 or 64",), "MMA", "make_tiled_mma"
    ),
    "pair_m64": Mistake(
        "shape", ("2-CTA MMA", "M = 128 or 256, not 64"), ("cta_group::1",), "MMA", "make_tiled_mma"
    ),
    "pair_b_whole": Mistake(
        "extent-n",
        ("B is [256, 64]", "from each CTA"),
        ("[64, 64]",),
        "B",
        "gemm(mma",
        (("A", "[64, 64] bf16"), ("B", "[256, 64] bf16"), ("C", "[64, 128] f32")),
    ),
    "swizzle_too_wide": Mistake(
        "swizzle-span",
        ("128B swizzle", "[8, 64]", "mode 1 of the tile is 32"),
        ("64B swizzle", "SW64"),
        "",
        "tile_to_shape",
    ),
    "major_of_b": Mistake(
        "major",
        ("B is [128, 64] MN-major", "descriptor says K-major"),
        ("b_major = MN",),
        "B",
        "partition_fragment_B",
    ),
    "major_of_a": Mistake(
        "major",
        ("A is [128, 64] K-major", "descriptor says MN-major"),
        ("a_major = K",),
        "A",
        "partition_fragment_A",
    ),
    "plain_rows": Mistake(
        "canonical",
        ("A is [128, 64] K-major, no swizzle", "strides"),
        ("UMMA::Layout_K_SW128_Atom",),
        "A",
        "partition_fragment_A",
    ),
    "operand_in_global": Mistake(
        "space",
        ("A lies in global memory",),
        ("shared memory",),
        "A",
        "partition_fragment_A",
        (("A", "in global memory"),),
    ),
    "accumulator_in_registers": Mistake(
        "space",
        ("accumulator lies in tensor memory",),
        ("partition_fragment_C",),
        "C",
        "gemm(mma",
        (("C", "[128, 64] f32, in registers"),),
    ),
    "too_much_tmem": Mistake(
        "tmem-columns", ("[128, 1024] takes 1024 columns", "has 512"), (), "C", "partition_fragment_C"
    ),
    "float_operands": Mistake("type", ("16 bits", "Element"), ("TF32",), "A", "make_tiled_mma"),
    "stage_forgotten": Mistake(
        "rank", ("A has 4 modes, [1, 1, 4, 2]", "pipeline stages"), ("stage",), "A", "cute::gemm(mma"
    ),
    "vector_too_wide": Mistake(
        "copy-values", ("8 elements of bf16", "source [4]"), ("64 bits",), "", "copy(Copy_Atom"
    ),
    "few_values": Mistake(
        "copy-values", ("8 values of bf16", "gives each thread 1"), ("multiple of 8",), "", "make_tiled_copy"
    ),
    "tmem_load_too_wide": Mistake(
        "tmem-copy",
        ("32 lanes x 64 columns", "128 lanes x 32 columns"),
        ("32dp32b32x",),
        "C",
        "make_tmem_copy",
    ),
    "tmem_registers": Mistake(
        "rank", ("source has 4 modes", "destination 1, [16]"), ("partition_D",), "", "copy(load"
    ),
    "tmem_copy_of_smem": Mistake(
        "space",
        ("[128, 64] f32 in shared memory", "tensor memory"),
        ("partition_fragment_C",),
        "",
        "make_tmem_copy",
    ),
    "bare_operation": Mistake(
        "no-overload",
        ("SM100_TMEM_LOAD_32dp32b32x",),
        ("make_tmem_copy(SM100_TMEM_LOAD_32dp32b32x",),
        "",
        "copy(SM100",
    ),
    "tma_box": Mistake(
        "tma-box", ("[128, 64], 8192 elements", "[64, 64], 4096 elements"), ("[64, 64]",), "", "make_tma_copy"
    ),
    "cluster_of_one": Mistake(
        "cluster", ("(1,1,1)", "2 CTAs"), ("multiple of 2",), "MMA", "cluster_shape_to_tma_atom_A", (), "L3"
    ),
    "layout_ambiguous": Mistake(
        "ambiguous-name", ("`Layout`", "at::Layout"), ("cute::Layout",), "", "Layout rows", (), "L3"
    ),
    "not_included": Mistake(
        "undefined",
        ("SM100_TMEM_LOAD_32dp32b16x", "cute/atom/copy_traits_sm100.hpp"),
        ("#include <cute/atom/copy_traits_sm100.hpp>",),
        "",
        "using Load",
    ),
    "no_such_integer": Mistake("undefined", ("none for 576",), ("Int<576>",), "", "using Columns"),
    "constexpr_host": Mistake(
        "relaxed-constexpr", ("`round_up`", "host"), ("--expt-relaxed-constexpr",), "", "round_up(n, 64)"
    ),
    "host_function": Mistake(
        "host-function", ("host_scale", "host_function"), ("__device__",), "", "host_scale(*out)"
    ),
    "arch_without_a": Mistake("arch", ("tcgen05.commit", "target sm_100,"), ("-arch=sm_100a",)),
    "no_such_arch": Mistake("arch", ("sm_100b",), ("12.8",)),
    "too_much_smem": Mistake("shared-memory", ("262144 bytes", "too_much_smem"), ("fewer stages",)),
    "spills": Mistake("registers", ("bytes of spill stores", "spills"), ("launch_bounds",)),
    "missing_header": Mistake("missing-header", ("helpers_of_another_project.h",), ("-I",), "", "#include"),
}


def differs(mistake: Mistake, result: dict[str, Any]) -> list[str]:
    """What an explanation says otherwise than the mistake asks; [] when it names it."""
    if not result["findings"]:
        return ["nothing was found"]
    row = result["findings"][0]
    found = []
    if row["code"] != mistake.code:
        found.append(f"code {row['code']}, not {mistake.code}")
    if row["operand"] != mistake.operand:
        found.append(f"operand {row['operand']!r}, not {mistake.operand!r}")
    found += [f"no {words!r} in {row['what']!r}" for words in mistake.what if words not in row["what"]]
    found += [f"no {words!r} in {row['fits']!r}" for words in mistake.fits if words not in row["fits"]]
    if mistake.at and mistake.at not in ((row["at"] or {}).get("text") or ""):
        found.append(f"at {row['at']}, not at {mistake.at!r}")
    shown = {operand["operand"]: operand["text"] for operand in row["operands"]}
    found += [
        f"{letter} is {shown.get(letter)!r}, not {words!r}"
        for letter, words in mistake.operands
        if not re.search(re.escape(words), shown.get(letter, ""))
    ]
    return found
