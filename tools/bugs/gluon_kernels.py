"""Gluon kernels of our own: warp-specialised matrix products by a single CTA and by a pair of CTAs."""

# mypy: ignore-errors
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    fence_async_shared,
    mbarrier,
    tcgen05_commit,
    tcgen05_mma,
    tma,
)
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma


@gluon.jit
def _load(
    a, b, tiles_a, tiles_b, full, empty, row, column, K, STAGES: gl.constexpr, PAIR: gl.constexpr,
    WRONG: gl.constexpr,
):  # fmt: skip
    BK: gl.constexpr = a.block_shape[1]
    for i in range(K // BK):
        stage = i % STAGES
        if WRONG != "reused":
            mbarrier.wait(empty.index(stage), ((i // STAGES) & 1) ^ 1)
        mbarrier.expect(full.index(stage), a.nbytes_per_cta + b.nbytes_per_cta)  # planted: matmul reused
        tma.async_load(a, [row, i * BK], full.index(stage), tiles_a.index(stage))
        if PAIR:
            tma.async_load(b, [i * BK, column], full.index(stage), tiles_b.index(stage))
        else:
            tma.async_load(b, [column, i * BK], full.index(stage), tiles_b.index(stage))
    if PAIR:
        # No CTA may end while a commit can still arrive in its shared memory.
        for i in range(K // BK, K // BK + STAGES):
            mbarrier.wait(empty.index(i % STAGES), ((i // STAGES) & 1) ^ 1)


@gluon.jit
def _multiply(
    tiles_a, tiles_b, acc, full, empty, done, steps, STAGES: gl.constexpr, PAIR: gl.constexpr,
    WRONG: gl.constexpr,
):  # fmt: skip
    for i in range(steps):
        stage = i % STAGES
        if WRONG != "early":
            mbarrier.wait(full.index(stage), (i // STAGES) & 1)
        b = tiles_b.index(stage) if PAIR else tiles_b.index(stage).permute((1, 0))
        free = [empty.index(stage)]
        tcgen05_mma(tiles_a.index(stage), b, acc, use_acc=i > 0, mbarriers=free)  # planted: matmul early
    tcgen05_commit(done)


@gluon.jit
def _finish(c, tile_c, acc, done, row, column):
    mbarrier.wait(done, 0)
    tile_c.store(acc.load().to(c.dtype))
    fence_async_shared()
    tma.async_store(c, [row, column], tile_c)
    tma.store_wait(0)


@gluon.jit
def matmul(
    a, b, c, K, STAGES: gl.constexpr, PAIR: gl.constexpr, num_warps: gl.constexpr, WRONG: gl.constexpr = ""
):  # fmt: skip
    """C [M, N] = A [M, K] times B; a warp loads, a warp multiplies, the others store. One CTA takes B as
    [N, K]; a pair of CTAs takes it as [K, N], and each holds half of the rows of A and of the columns of B.
    `WRONG` plants a mistake, whose line is marked.
    """
    BM: gl.constexpr = c.block_shape[0]
    BN: gl.constexpr = c.block_shape[1]
    BK: gl.constexpr = a.block_shape[1]
    row = gl.program_id(0) * BM
    column = gl.program_id(1) * BN
    tiles_a = gl.allocate_shared_memory(a.dtype, [STAGES, BM, BK], a.layout)
    tiles_b = gl.allocate_shared_memory(b.dtype, [STAGES, b.block_shape[0], b.block_shape[1]], b.layout)
    tile_c = gl.allocate_shared_memory(c.dtype, [BM, BN], c.layout)
    layout: gl.constexpr = TensorMemoryLayout(
        [BM // 2 if PAIR else BM, BN], col_stride=1, cga_layout=c.layout.cga_layout, two_ctas=PAIR
    )
    acc = allocate_tensor_memory(gl.float32, [BM, BN], layout)
    full = mbarrier.allocate_mbarrier(batch=STAGES, two_ctas=PAIR)
    empty = mbarrier.allocate_mbarrier(batch=STAGES)
    done = mbarrier.allocate_mbarrier()
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=1)
    mbarrier.init(done, count=1)
    gl.warp_specialize(
        [
            (_finish, (c, tile_c, acc, done, row, column)),
            (_load, (a, b, tiles_a, tiles_b, full, empty, row, column, K, STAGES, PAIR, WRONG)),
            (_multiply, (tiles_a, tiles_b, acc, full, empty, done, K // BK, STAGES, PAIR, WRONG)),
        ],
        [1, 1],
        [24, 24],
    )


@gluon.jit
def hopper_matmul(a, b, c, K, STAGES: gl.constexpr, num_warps: gl.constexpr):
    """C [M, N] = A [M, K] times B [N, K] by a warpgroup; copies run ahead of the products."""
    BM: gl.constexpr = c.block_shape[0]
    BN: gl.constexpr = c.block_shape[1]
    BK: gl.constexpr = a.block_shape[1]
    row = gl.program_id(0) * BM
    column = gl.program_id(1) * BN
    tiles_a = gl.allocate_shared_memory(a.dtype, [STAGES, BM, BK], a.layout)
    tiles_b = gl.allocate_shared_memory(b.dtype, [STAGES, BN, BK], b.layout)
    tile_c = gl.allocate_shared_memory(c.dtype, [BM, BN], c.layout)
    full = mbarrier.allocate_mbarrier(batch=STAGES)
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [num_warps, 1], [16, BN, 16])
    acc = gl.zeros((BM, BN), gl.float32, layout)
    steps = K // BK
    for i in range(1 - STAGES, steps):
        ahead = i + STAGES - 1
        if ahead < steps:
            stage = ahead % STAGES
            mbarrier.expect(full.index(stage), a.nbytes_per_cta + b.nbytes_per_cta)
            tma.async_load(a, [row, ahead * BK], full.index(stage), tiles_a.index(stage))
            tma.async_load(b, [column, ahead * BK], full.index(stage), tiles_b.index(stage))
        if i >= 0:
            last = i % STAGES
            mbarrier.wait(full.index(last), (i // STAGES) & 1)
            acc = warpgroup_mma(tiles_a.index(last), tiles_b.index(last).permute((1, 0)), acc)
    tile_c.store(acc.to(c.dtype))
    fence_async_shared()
    tma.async_store(c, [row, column], tile_c)
    tma.store_wait(0)
