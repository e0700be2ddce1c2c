"""Gluon kernels of our own: warp-specialised matrix products with one and with two CTAs an MMA."""

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


@gluon.jit
def _load(a, b, tiles_a, tiles_b, full, empty, row, column, K, STAGES: gl.constexpr):
    BK: gl.constexpr = a.block_shape[1]
    for i in range(K // BK):
        stage = i % STAGES
        mbarrier.wait(empty.index(stage), ((i // STAGES) & 1) ^ 1)
        mbarrier.expect(full.index(stage), a.nbytes_per_cta + b.nbytes_per_cta)
        tma.async_load(a, [row, i * BK], full.index(stage), tiles_a.index(stage))
        tma.async_load(b, [column, i * BK], full.index(stage), tiles_b.index(stage))


@gluon.jit
def _multiply(tiles_a, tiles_b, acc, full, empty, done, steps, STAGES: gl.constexpr):
    for i in range(steps):
        stage = i % STAGES
        mbarrier.wait(full.index(stage), (i // STAGES) & 1)
        tcgen05_mma(
            tiles_a.index(stage), tiles_b.index(stage).permute((1, 0)), acc, use_acc=i > 0,
            mbarriers=[empty.index(stage)],
        )  # fmt: skip
    tcgen05_commit(done)


@gluon.jit
def _finish(c, tile_c, acc, done, row, column):
    mbarrier.wait(done, 0)
    tile_c.store(acc.load().to(c.dtype))
    fence_async_shared()
    tma.async_store(c, [row, column], tile_c)
    tma.store_wait(0)


@gluon.jit
def matmul(a, b, c, K, STAGES: gl.constexpr, num_warps: gl.constexpr):
    """C [M, N] = A [M, K] B [N, K]^T; a warp loads, a warp multiplies, the others store."""
    BM: gl.constexpr = a.block_shape[0]
    BN: gl.constexpr = b.block_shape[0]
    BK: gl.constexpr = a.block_shape[1]
    row = gl.program_id(0) * BM
    column = gl.program_id(1) * BN
    tiles_a = gl.allocate_shared_memory(a.dtype, [STAGES, BM, BK], a.layout)
    tiles_b = gl.allocate_shared_memory(b.dtype, [STAGES, BN, BK], b.layout)
    tile_c = gl.allocate_shared_memory(c.dtype, [BM, BN], c.layout)
    acc = allocate_tensor_memory(gl.float32, [BM, BN], TensorMemoryLayout([BM, BN], col_stride=1))
    full = mbarrier.allocate_mbarrier(batch=STAGES)
    empty = mbarrier.allocate_mbarrier(batch=STAGES)
    done = mbarrier.allocate_mbarrier()
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=1)
    mbarrier.init(done, count=1)
    gl.warp_specialize(
        [
            (_finish, (c, tile_c, acc, done, row, column)),
            (_load, (a, b, tiles_a, tiles_b, full, empty, row, column, K, STAGES)),
            (_multiply, (tiles_a, tiles_b, acc, full, empty, done, K // BK, STAGES)),
        ],
        [1, 1],
        [24, 24],
    )


@gluon.jit
def _load_pair(a, b, tiles_a, tiles_b, full, empty, row, column, K, STAGES: gl.constexpr):
    BK: gl.constexpr = a.block_shape[1]
    for i in range(K // BK):
        stage = i % STAGES
        mbarrier.wait(empty.index(stage), ((i // STAGES) & 1) ^ 1)
        mbarrier.expect(full.index(stage), a.nbytes_per_cta + b.nbytes_per_cta)
        tma.async_load(a, [row, i * BK], full.index(stage), tiles_a.index(stage))
        tma.async_load(b, [i * BK, column], full.index(stage), tiles_b.index(stage))
    # No CTA may end while a commit can still arrive in its shared memory.
    for i in range(K // BK, K // BK + STAGES):
        mbarrier.wait(empty.index(i % STAGES), ((i // STAGES) & 1) ^ 1)


@gluon.jit
def _multiply_pair(tiles_a, tiles_b, acc, full, empty, done, steps, STAGES: gl.constexpr):
    for i in range(steps):
        stage = i % STAGES
        mbarrier.wait(full.index(stage), (i // STAGES) & 1)
        tcgen05_mma(
            tiles_a.index(stage), tiles_b.index(stage), acc, use_acc=i > 0, mbarriers=[empty.index(stage)]
        )  # fmt: skip
    tcgen05_commit(done)


@gluon.jit
def matmul_pair(a, b, c, K, STAGES: gl.constexpr, num_warps: gl.constexpr):
    """C [M, N] = A [M, K] B [K, N] by pairs of CTAs: each holds half of the rows of A and of the columns of
    B.
    """
    BM: gl.constexpr = a.block_shape[0]
    BN: gl.constexpr = b.block_shape[1]
    BK: gl.constexpr = a.block_shape[1]
    row = gl.program_id(0) * BM
    column = gl.program_id(1) * BN
    tiles_a = gl.allocate_shared_memory(a.dtype, [STAGES, BM, BK], a.layout)
    tiles_b = gl.allocate_shared_memory(b.dtype, [STAGES, BK, BN], b.layout)
    tile_c = gl.allocate_shared_memory(c.dtype, [BM, BN], c.layout)
    layout: gl.constexpr = TensorMemoryLayout(
        [BM // 2, BN], col_stride=1, cga_layout=c.layout.cga_layout, two_ctas=True
    )
    acc = allocate_tensor_memory(gl.float32, [BM, BN], layout)
    full = mbarrier.allocate_mbarrier(batch=STAGES, two_ctas=True)
    empty = mbarrier.allocate_mbarrier(batch=STAGES)
    done = mbarrier.allocate_mbarrier()
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=1)
    mbarrier.init(done, count=1)
    gl.warp_specialize(
        [
            (_finish, (c, tile_c, acc, done, row, column)),
            (_load_pair, (a, b, tiles_a, tiles_b, full, empty, row, column, K, STAGES)),
            (_multiply_pair, (tiles_a, tiles_b, acc, full, empty, done, K // BK, STAGES)),
        ],
        [1, 1],
        [24, 24],
    )
