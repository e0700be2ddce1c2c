"""The example's sources in the installed package, as an image: nvcc compiles it, defects go into its PTX."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from tileproof.kernels import edit, toolchain
from tileproof.kernels.compile import Built, Unit, compile_unit, is_cached
from tileproof.kernels.edit import ANY, Edit, Place
from tileproof.kernels.variant import Variant
from tileproof.spec import header
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.plan import KernelPlan

EXAMPLE = "examples/77_blackwell_fmha"
FOLDERS = ("collective", "device", "kernel")
PREFIX = "77_blackwell_fmha/"
HERE = Path(__file__).parent
OWN = ("kernel.cu", "kernel.cuh")
MAIN_SOURCE = "kernel/sm100_fmha_bwd_kernel_tma_warpspecialized.hpp"
MLA_SOURCE = "kernel/sm100_fmha_bwd_mla_kernel_tma_warpspecialized.hpp"
# How the second writes the first's products of q and k, and of dO and v: their operands are exchanged.
_Q = "tSTrQ(_,_,k_block,pipeline_load_mma_q_consumer_state.index()), "
_DO = "tDPTrDO(_,_,k_block,pipeline_load_mma_do_consumer_state.index()), "
_K, _V = "tSTrK(_,_,k_block,_0{}), ", "tDPTrV(_,_,k_block,_0{}), "
MLA_WORDS = (
    (f"{_K}{_Q}", f"{_Q}{_K}"),
    (f"{_V}{_DO}", f"{_DO}{_V}"),
    ("tiled_mma_kq", "tiled_mma_qk"),
    ("tiled_mma_vdo", "tiled_mma_dov"),
    ("tDVrP(_,_,k_block)", "tDVrP(_,_,k_block,_0{})"),
    ("tDQgDQ(_,_,i,iter_index,blk_coord_batch)", "tDQgDQ(_,_,i,iter_index)"),
)


@cache
def example_sources() -> Mapping[str, str]:
    """The example's headers, by their paths in its folder; TileproofError when the package is not installed
    or does not have them.
    """
    root = toolchain.find().cutlass_include.parent / EXAMPLE
    found = {
        path.relative_to(root).as_posix(): path.read_text()
        for folder in FOLDERS
        for path in sorted((root / folder).glob("*.hpp"))
    }
    if "device/fmha_device_bwd.hpp" not in found:
        raise TileproofError(
            "the installed nvidia-cutlass has no backward of example 77",
            where=str(root),
            expected="device/fmha_device_bwd.hpp (version 4.0 and later)",
            do=toolchain.INSTALL,
        )
    return found


def files(plan: KernelPlan, names: Sequence[str] = OWN) -> dict[str, str]:
    """All sources of a translation unit of ours: the example's, our own `names`, the generated plan."""
    own = {name: (HERE / name).read_text() for name in names}
    return {
        **example_sources(),
        **own,
        header.FILE_NAME: header.render(replace(plan, name="cutlass-fmha-bwd")),
    }


def in_mla(edit: Edit) -> Edit:
    """The same edit of the kernel whose values have a head dimension of their own."""
    place = edit.place
    if not isinstance(place, Place) or place.file != MAIN_SOURCE:
        return edit
    text = " ".join(place.text.split())
    for here, there in MLA_WORDS:
        text = text.replace(here, there)
    return replace(edit, place=replace(place, text=text, file=MLA_SOURCE))


def _fenced(text: str, opcode: str, side: str) -> Edit:
    """A tcgen05 fence before each instruction `opcode` that was made of the statement."""
    fence = f"tcgen05.fence::{side}_thread_sync;"
    place = Place(text, MAIN_SOURCE, ANY, opcode, rf"({re.escape(opcode)})")
    return Edit(place, rf"{fence}\n\1")


# As shipped, the compute warps free tensor memory after a barrier of their own, while the last dQ is still
# under way (docs/findings.md). Here the reduce warps, which wait for that dQ, arrive at that barrier too.
MEND = (
    Edit(
        Place(
            """cutlass::arch::NamedBarrier(
          kNumComputeWarps * NumThreadsPerWarp,
          cutlass::arch::ReservedNamedBarriers::EpilogueBarrier
      ).arrive_and_wait();""",
            MAIN_SOURCE,
            opcode="bar.sync",
        ),
        "bar.sync 1, 384;",
    ),
    Edit(
        Place(
            "pipeline_reduce_tma_store.producer_tail(pipeline_reduce_tma_store_producer_state);",
            MAIN_SOURCE,
            opcode="cp.async.bulk.wait_group.read",
        ),
        "cp.async.bulk.wait_group.read 0;\nbar.arrive 1, 384;",
    ),
    # dQ overwrites dP, and the next dP that dQ, in another shape where a head has at most 64 columns: ordered
    # through the compute warps and the reduce warps.
    _fenced("cute::copy(tiled_t2r, tTR_tDPT, tTR_rDPT);", "tcgen05.ld", "after"),
    _fenced("cute::copy(tiled_t2r, tTR_tDQ, tTR_rDQ);", "tcgen05.ld", "after"),
    _fenced(
        "pipeline_mma_reduce_dq.consumer_release(pipeline_mma_reduce_dq_consumer_state);",
        "mbarrier.arrive",
        "before",
    ),
    _fenced(
        """pipeline_load_mma_do.consumer_wait(pipeline_load_mma_do_consumer_state);
      tiled_mma_vdo.accumulate_ = UMMA::ScaleOut::Zero;
      CUTLASS_PRAGMA_UNROLL
      for (int k_block = 0; k_block < size<2>(tDPTrV); ++k_block) {
        cute::gemm(tiled_mma_vdo,
                   tDPTrV(_,_,k_block,_0{}),
                   tDPTrDO(_,_,k_block,pipeline_load_mma_do_consumer_state.index()),
                   tDPTtDPT);""",
        "tcgen05.mma",
        "after",
    ),
    _fenced(
        "pipeline_compute_mma_ds.producer_commit(pipeline_compute_mma_ds_producer_state);",
        "mbarrier.arrive",
        "before",
    ),
    *(
        _fenced(
            f"""{before}
      tiled_mma_dsk.accumulate_ = UMMA::ScaleOut::Zero;
      CUTLASS_PRAGMA_UNROLL
      for (int k_block = 0; k_block < size<2>(tDQrDS); ++k_block) {{
        cute::gemm(tiled_mma_dsk,
                   tDQrDS(_,_,k_block,pipeline_compute_mma_ds_consumer_state.index()),
                   tDQrKT(_,_,k_block,_0{{}}),
                   tDQtDQ);""",
            "tcgen05.mma",
            "after",
        )
        for before in (
            "pipeline_mma_compute_dp.producer_acquire(pipeline_mma_compute_dp_producer_state);",
            "++pipeline_mma_compute_dkdv_producer_state;",
        )
    ),
)


# Of heads with values of their own, causal from the top left: which blocks hold the diagonal is found as if
# they had as many queries as keys, and here every block is masked.
MLA_MEND = (
    *map(in_mla, MEND),
    Edit(
        Place(
            "leading_causal_masking = warp_uniform(iter_index == get<1>(blk_coord));",
            MLA_SOURCE,
            opcode="setp.eq.s32",
            part=r"(setp\.eq\.s32 \t%p\d+, (%r\d+)), 0;",
        ),
        r"\1, \2;",
    ),
)


def _mend(variant: Variant) -> tuple[Edit, ...]:
    if not variant["another_d_v"]:
        return MEND
    return MLA_MEND if variant["causal"] == 1 else MLA_MEND[:-1]


@dataclass(frozen=True)
class ExampleImage:
    """The image of every variant, as shipped or `mended`; our own sources lie beside the example's folders.

    Both come of the same compilation: the mend is made in the PTX.
    """

    mended: bool = False
    prefix = PREFIX

    @property
    def sources(self) -> Mapping[str, str]:
        return {**example_sources(), **{name: (HERE / name).read_text() for name in OWN}}

    def entry(self, owner: str, variant: Variant, probe: bool) -> str:
        bf16 = "" if variant.problem.endswith("_f16") else "_bf16"
        packed = "_packed" if variant["packed"] else ""
        return f"tileproof_cutlass_fmha_bwd_{variant['d_tile']}_{variant['causal']}{bf16}{packed}"

    def build(
        self,
        owner: str,
        variant: Variant,
        plan: KernelPlan,
        probe: bool,
        edits: Sequence[Edit],
        overrides: Mapping[str, str],
    ) -> Built:
        texts = files(plan)
        if unknown := sorted(set(overrides) - set(texts)):
            raise TileproofError("unknown source to override", where=unknown[0], expected=", ".join(texts))
        texts |= overrides
        texts |= edit.in_sources(owner, edits, texts)
        edits = (*edits, *(_mend(variant) if self.mended else ()))
        entry = self.entry(owner, variant, probe)
        defines = {"TILEPROOF_ENTRY": entry}
        if variant["another_d_v"]:
            defines["TILEPROOF_MLA"] = "1"
        unit = Unit(entry, "kernel.cu", texts, defines, PREFIX)
        if not is_cached(unit):
            print(f"{owner}: compiling CUTLASS example 77, about half a minute of one core", file=sys.stderr)
        built = compile_unit(unit)
        return replace(built, ptx=edit.in_ptx(owner, edits, built.ptx, texts, PREFIX))
