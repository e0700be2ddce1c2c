"""Planted defects of `cutlass-fmha-bwd-mended`, at least one in each stage; all are made in the PTX.

The places are statements of the example's sources; what is made of them is changed.
"""

from __future__ import annotations

from dataclasses import replace

from tileproof.kernels.edit import ANY, Edit, InStage, Place, PlantedDefect
from tileproof.kernels.sm100.cutlass_fmha_bwd.image import MAIN_SOURCE, MLA_SOURCE, in_mla
from tileproof.spec.plans.cutlass_fmha_bwd import NAME, Build

KERNEL = "cutlass-fmha-bwd-mended"
SUM = "kernel/fmha_kernel_bwd_sum_OdO.hpp"
CONVERT = "kernel/fmha_kernel_bwd_convert.hpp"

_WAIT_Q = """while (iter_count > 0) {
  pipeline_load_mma_q.consumer_wait(pipeline_load_mma_q_consumer_state);
  pipeline_mma_compute_s.producer_acquire(pipeline_mma_compute_s_producer_state);
  tiled_mma_kq.accumulate_ = UMMA::ScaleOut::Zero;"""
_WAIT_DO = """pipeline_load_mma_do.consumer_wait(pipeline_load_mma_do_consumer_state);
  tiled_mma_vdo.accumulate_ = UMMA::ScaleOut::Zero;"""
_COMMIT_DK = """++pipeline_mma_compute_dkdv_producer_state;
  tiled_mma_dsk.accumulate_ = UMMA::ScaleOut::Zero;"""
_LAST_DK = """pipeline_mma_compute_dkdv.producer_acquire(pipeline_mma_compute_dkdv_producer_state);
  pipeline_compute_mma_ds.consumer_wait(pipeline_compute_mma_ds_consumer_state);"""
_NEXT_DV = """pipeline_mma_compute_dp.producer_commit(pipeline_mma_compute_dp_producer_state);
  ++pipeline_mma_compute_dp_producer_state;
  pipeline_compute_mma_p.consumer_wait(pipeline_compute_mma_p_consumer_state);"""


def _product(before: str, mma: str, steps: str, operands: str) -> str:
    """The loop of an MMA chain behind the statements `before`."""
    return f"""{before}
      CUTLASS_PRAGMA_UNROLL
      for (int k_block = 0; k_block < size<2>({steps}); ++k_block) {{
        cute::gemm({mma}, {operands});"""


_DS = "k_block,pipeline_compute_mma_ds_consumer_state.index()"
_P = _product(
    _WAIT_Q,
    "tiled_mma_kq",
    "tSTrQ",
    "tSTrK(_,_,k_block,_0{}), tSTrQ(_,_,k_block,pipeline_load_mma_q_consumer_state.index()), tSTtST",
)
_DP = _product(
    _WAIT_DO,
    "tiled_mma_vdo",
    "tDPTrV",
    "tDPTrV(_,_,k_block,_0{}), tDPTrDO(_,_,k_block,pipeline_load_mma_do_consumer_state.index()), tDPTtDPT",
)
_DQ = _product(
    _COMMIT_DK, "tiled_mma_dsk", "tDQrDS", f"tDQrDS(_,_,{_DS}), tDQrKT(_,_,k_block,_0{{}}), tDQtDQ"
)
_DK = _product(
    _LAST_DK,
    "tiled_mma_dsq",
    "tDKrDST",
    f"tDKrDST(_,_,{_DS}), tDKrQT(_,_,k_block,pipeline_load_mma_q_release_state.index()), tDKtDK",
)
_DV = f"""{_DP}
        tiled_mma_vdo.accumulate_ = UMMA::ScaleOut::One;
      }}
{
    _product(
        _NEXT_DV,
        "tiled_mma_pdo",
        "tDVrP",
        "tDVrP(_,_,k_block), tDVrDOT(_,_,k_block,pipeline_load_mma_do_consumer_state.index()), tDVtDV",
    )
}"""


def _made(
    id: str,
    title: str,
    text: str,
    opcode: str,
    part: str,
    replacement: str,
    stage: str,
    place: str,
    *,
    file: str = MAIN_SOURCE,
    code: str = "",
    corpus: str = "",
) -> PlantedDefect:
    edit = Edit(Place(text, file, ANY, opcode, part), replacement)
    return PlantedDefect(id, title, corpus, KERNEL, (edit,), InStage(stage, place, code))


DEFECTS = (
    _made(
        "fmha-delta-one-distance",
        "the shuffles of delta all have distance 1, so that two of eight lanes are summed",
        "acc += __shfl_xor_sync((uint32_t)-1, acc, i, kNumThreadsD);",
        "shfl.sync.bfly",
        r", [124], 6175",
        ", 1, 6175",
        "delta",
        "every query",
        file=SUM,
    ),
    _made(
        "fmha-p-cleared-in-each-step",
        "from the second k-block on each step of q k^T begins a new sum, but the first one adds to the old",
        _P,
        "setp.ne.b32",
        r"setp\.ne",
        "setp.eq",
        "P",
        "every element of those k-blocks",
    ),
    _made(
        "fmha-s-without-lse",
        "the exponent is without the log-sum-exp",
        "cute::fma(out, softmax_scale_log2_e, acc, lse);",
        "fma.rn.f32x2",
        r"fma\.rn\.f32x2 (%rd\d+), (%rd\d+), (%rd\d+), %rd\d+",
        r"mul.rn.f32x2 \1, \2, \3",
        "S",
        "every element",
    ),
    _made(
        "fmha-s-not-stored",
        "S is not stored, and the bits of P are multiplied in its place",
        "cute::copy(tiled_r2t, tRT_rST_reshaped, tRT_tP);",
        "tcgen05.st",
        "",
        "",
        "S",
        "every element",
        code="race-tcgen05-fence",
    ),
    _made(
        "fmha-s-store-not-waited",
        "S is handed to the MMAs without tcgen05.wait::st",
        "cutlass::arch::fence_view_async_tmem_store();",
        "tcgen05.wait::st",
        "",
        "",
        "S",
        "what the MMA reads",
        code="race-tmem-unwaited",
    ),
    _made(
        "fmha-dp-cleared-in-each-step",
        "from the second k-block on each step of dO v^T begins a new sum, but the first one adds to dQ",
        _DP,
        "setp.ne.b32",
        r"setp\.ne",
        "setp.eq",
        "dP",
        "every element of those k-blocks",
    ),
    _made(
        "fmha-ds-without-delta",
        "delta is not subtracted from dP",
        "cute::add(dif, dpt, odo);",
        "add.f32x2",
        r"add\.f32x2 (%rd\d+), (%rd\d+), %rd\d+;",
        r"mov.b64 \1, \2;",
        "dS",
        "every element",
    ),
    _made(
        "fmha-dq-adds-to-dp",
        "the last dQ is added to the dP that lies there",
        _DQ,
        "setp.ne.b32",
        r"setp\.ne",
        "setp.eq",
        "dQ",
        "every element of the last k-block",
    ),
    _made(
        "fmha-dq-added-twice",
        "each part of dQ is added to its rows twice",
        "copy(mainloop_params.tma_red_dq, tDQsDQ(_,_,_0{},"
        " pipeline_reduce_tma_store_producer_state.index()), tDQgDQ(_,_,i,iter_index,blk_coord_batch));",
        "cp.reduce.async.bulk.tensor",
        r"(cp\.reduce.*;)",
        r"\1 \1",
        "dQ",
        "rows of dQ_acc",
    ),
    _made(
        "fmha-dq-not-scaled",
        "dQ is rounded without the scale",
        "value_dest[v] = static_cast<Element>(params.scale * value_src[v]);",
        "mul.f32",
        r"mul\.f32 \t(%f\d+), %f\d+, (%f\d+);",
        r"mov.f32 \1, \2;",
        "dQ",
        "output dQ",
        file=CONVERT,
    ),
    _made(
        "fmha-dk-last-block-alone",
        "the last k-block's steps of dS^T q begin new sums, except the very first step",
        _DK,
        "setp.ne.b32",
        r"setp\.ne",
        "setp.eq",
        "dK_acc",
        "every element",
    ),
    _made(
        "fmha-dk-not-scaled",
        "dK is stored without the scale",
        "tTR_rDK(i) = mainloop_args.softmax_scale * tTR_rDK(i);",
        "mul.f32",
        r"mul\.f32 \t(%f\d+), %f\d+, (%f\d+);",
        r"mov.f32 \1, \2;",
        "dK",
        "every element",
    ),
    _made(
        "fmha-dv-cleared-in-each-step",
        "from the second k-block on each step of S^T dO begins a new sum",
        _DV,
        "setp.ne.b32",
        r"setp\.ne",
        "setp.eq",
        "dV_acc",
        "every element, of more than one k-block",
    ),
    _made(
        "fmha-dv-fours-exchanged",
        "of each eight columns of dV the first four and the last four are exchanged",
        "store(tTR_gDV, tTR_rDV, tTR_cDV, select<1,3>(problem_shape));",
        "st.global.v2.u64",
        r"\{(%rd\d+), (%rd\d+)\}",
        r"{\2, \1}",
        "dV",
        "every element",
    ),
)


def _in_mla(defect: PlantedDefect) -> PlantedDefect:
    """The defect in the kernel whose values have a head dimension of their own: S goes to shared memory."""
    if defect.id != "fmha-s-not-stored":
        return replace(defect, edits=tuple(map(in_mla, defect.edits)))
    edit = Edit(Place("copy_aligned(tRT_rST, sP_pi_slice);", MLA_SOURCE, ANY, "st.shared"))
    assert isinstance(defect.expected, InStage)
    expected = replace(defect.expected, code="shared-uninitialised")
    return replace(defect, title="S is not stored", edits=(edit,), expected=expected)


MLA_DEFECTS = tuple(_in_mla(defect) for defect in DEFECTS if defect.id != "fmha-s-store-not-waited")


def of(build: Build) -> tuple[PlantedDefect, ...]:
    """The defects of a build's mended kernel: the same edits."""
    suffix = build.name.removeprefix(NAME)
    defects = MLA_DEFECTS if build.mla else DEFECTS
    return tuple(
        replace(defect, id=defect.id + suffix, target=f"{build.name}-mended") if suffix else defect
        for defect in defects
    )
