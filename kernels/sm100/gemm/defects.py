"""The planted defects of sm100-gemm-bias: wrong values are found in their stage, wrong order by its
finding."""

from __future__ import annotations

from tileproof.kernels.edit import Edit, InStage, Place, PlantedDefect, Reported, Sizes

KERNEL = "sm100-gemm-bias"
SOURCE = "sm100/gemm/kernel.cu"
ROUND = Sizes(blocks=5)  # more k-blocks than the ring has stages
PASSES = "setp.eq.u32 complete, 0, 0;"  # a wait that does not wait
WAIT, TRY_WAIT = "smem.full[b].wait((k / kStages) & 1);", "mbarrier.try_wait"
COPY, LD, MMA = "cp.async.bulk.tensor", "tcgen05.ld", "tcgen05.mma"
MULTIPLY = (
    "ptx::mma_f16_ss(accumulator, k_major<TileA::rows>(tile_a, step), k_major<TileB::rows>(tile_b, step),"
    " idesc, k + step != 0);"
)
ROUNDED = (
    "d[j / 2] = ptx::pack_bf16(params.alpha * x[j] + __ldg(bias + j),"
    " params.alpha * x[j + 1] + __ldg(bias + j + 1));"
)
LOAD = "ptx::load_tmem_32_columns(lanes + Plan::tmem::accumulator::column + c, x);"
FREE = "cute::TMEM::Allocator1Sm{}.free(smem.tmem_base, Plan::tmem_columns);"
COPY_OF_A = "ptx::tma_load_2d_own(to_a, &params.a, full, k * kColTile, row, kHint);"
CONVERSIONS = 32  # of two elements each, per thread


def _source(find: str, replacement: str) -> Edit:
    return Edit(Place(find, SOURCE), replacement)


def _ptx(at: str, opcode: str, replacement: str = "", part: str = "", count: int = 1) -> Edit:
    return Edit(Place(at, SOURCE, count, opcode, part), replacement)


def _value(id: str, title: str, edit: Edit, stage: str, place: str, code: str = "") -> PlantedDefect:
    return PlantedDefect(f"g100-{id}", title, "", KERNEL, (edit,), InStage(stage, place, code=code))


def _order(id: str, title: str, edit: Edit, expected: Reported) -> PlantedDefect:
    return PlantedDefect(f"g100-{id}", title, "", KERNEL, (edit,), expected, sizes=ROUND)


def _race(code: str, second: str, first: str, missing: str, second_at: str, first_at: str) -> Reported:
    at, before = f"{SOURCE}: {second_at}", f"{SOURCE}: {first_at}"
    return Reported(code, second, first, missing, second_at=at, first_at=before)


VALUES: tuple[PlantedDefect, ...] = (
    _value(
        "last-step-left-out",
        "16 of each 64 of K are not multiplied",
        _source("step < kColTile; step += kMmaK", "step < kColTile - kMmaK; step += kMmaK"),
        "product",
        "every tile lacks the last 16 of each 64 of K",
    ),
    _value(
        "cleared-once",
        "k-block 1 clears the accumulator",
        _source("idesc, k + step != 0);", "idesc, step != 0 || (k != 0 && k != 1));"),
        "product",
        "every tile of more than one k-block, from k-block 1 on",
    ),
    _value(
        "swizzle-of-a",
        "the matrix descriptor of A names the 64B swizzle",
        _ptx(
            MULTIPLY, MMA,
            r"{ .reg .b64 a; xor.b64 a, \2, 0xC000000000000000; \1, a, \3 }",
            r"(tcgen05.*\]), (%rd\d+), (.*;)", count=4,
        ),
        "product",
        "every tile",
    ),
    _value(
        "parity-of-the-first-round",
        "the MMA waits for the first round's phase in every round",
        _ptx(WAIT, TRY_WAIT, "0;", r"%r\d+;"),
        "product",
        "from the fourth k-block on tiles of the round before are multiplied",
        code="hang",
    ),
    _value(
        "bias-of-the-first-columns",
        "both halves of the tile take the bias of its first 32 columns",
        _source("params.bias + column + c;", "params.bias + column;"),
        "D",
        "columns 32..63 of every tile",
    ),
    _value(
        "bf16-cut-off",
        "D is cut off to bf16, not rounded",
        _ptx(ROUNDED, "cvt.rn.bf16x2.f32", ".rz.", r"\.rn\.", count=CONVERSIONS),
        "D",
        "every tile",
    ),
    _value(
        "bf16-halves-exchanged",
        "the two bf16 of a word are exchanged",
        _ptx(ROUNDED, "cvt.rn.bf16x2.f32", r"\1, \3, \2;", r"(%r\d+), (%f\d+), (%f\d+);", count=CONVERSIONS),
        "D",
        "every tile: neighbouring columns are exchanged",
    ),
    _value(
        "product-not-waited-for",
        "the epilogue does not wait for the accumulator",
        _ptx("smem.product_ready.wait(0);", TRY_WAIT, PASSES),
        "D",
        "every tile",
    ),
)  # fmt: skip

ORDER: tuple[PlantedDefect, ...] = (
    _order(
        "empty-not-waited-for",
        "tiles are loaded over tiles that are still multiplied",
        _ptx("smem.empty[b].wait(((k / kStages) & 1) ^ 1);", TRY_WAIT, PASSES),
        _race("race-copy-unwaited", COPY, COPY, "the completion of the copy", COPY_OF_A, COPY_OF_A),
    ),
    _order(
        "empty-never-committed",
        "the MMAs free no stage",
        _ptx("ptx::commit(smem.empty[b].address());", "tcgen05.commit"),
        Reported("hang", says=("empty[0] of CTA 0 lacks 1 of 1 arrival", "nothing has ever arrived at it")),
    ),
    _order(
        "read-not-complete",
        "TMEM is freed without tcgen05.wait::ld",
        _ptx(f"{LOAD} ptx::wait_tmem_loads();", "tcgen05.wait::ld", count=2),
        _race("race-tmem-released", "tcgen05.dealloc", LD, "tcgen05.wait::ld", FREE, LOAD),
    ),
    _order(
        "freed-while-read",
        "TMEM is freed without waiting for the epilogue",
        _ptx("__syncwarp(); ptx::fence_before_thread_sync(); __syncthreads();", "bar.sync"),
        _race("race-mma-unwaited", "tcgen05.dealloc", MMA, "tcgen05.commit", FREE, MULTIPLY),
    ),
)

DEFECTS = VALUES + ORDER
