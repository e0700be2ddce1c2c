"""Triton kernels of our own: matrix products over TMA descriptors, and an attention forward."""

# mypy: ignore-errors
import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIALISED: tl.constexpr):
    """C [M, N] = A [M, K] B [N, K]^T; one tile of C a program."""
    row = tl.program_id(0) * BM
    column = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=SPECIALISED):
        acc = tl.dot(a.load([row, k]), b.load([column, k]).T, acc)
    c.store([row, column], acc.to(c.dtype))


@triton.jit
def attention(
    q,
    k,
    v,
    o,
    lse,
    KEYS,
    scale,
    BM: tl.constexpr,
    BN: tl.constexpr,
    D: tl.constexpr,
    SPECIALISED: tl.constexpr,
):
    """O [M, D] = softmax(Q K^T scale) V and the base-2 log-sum-exp of each row; `scale` holds log2(e)."""
    row = tl.program_id(0) * BM
    tile_q = q.load([row, 0])
    best = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for key in tl.range(0, KEYS, BN, warp_specialize=SPECIALISED):
        s = tl.dot(tile_q, k.load([key, 0]).T) * scale
        new = tl.maximum(best, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        factor = tl.exp2(best - new)
        total = total * factor + tl.sum(p, 1)
        acc = tl.dot(p.to(q.dtype), v.load([key, 0]), acc * factor[:, None])
        best = new
    o.store([row, 0], (acc / total[:, None]).to(o.dtype))
    tl.store(lse + row + tl.arange(0, BM), best + tl.log2(total))


@triton.jit
def scaled(
    a,
    scale_a,
    b,
    scale_b,
    c,
    K,
    KIND: tl.constexpr,
    GROUP: tl.constexpr,
    PACKED: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    """C [M, N] = A [M, K] B [N, K]^T with a scale for each GROUP elements of a row along K; `PACKED` elements
    a byte.
    """
    row = tl.program_id(0) * BM
    column = tl.program_id(1) * BN
    groups = K // GROUP
    span = tl.arange(0, BK // GROUP)[None, :]
    at_a = scale_a + (row + tl.arange(0, BM))[:, None] * groups + span
    at_b = scale_b + (column + tl.arange(0, BN))[:, None] * groups + span
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        left = a.load([row, k // PACKED])
        right = b.load([column, k // PACKED])
        step = k // GROUP
        acc = tl.dot_scaled(left, tl.load(at_a + step), KIND, right.T, tl.load(at_b + step), KIND, acc)
    c.store([row, column], acc)


@triton.jit
def counted(
    a, b, c, count, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIALISED: tl.constexpr
):
    """C [M, N] = A [M, K] B [N, K]^T, tile after tile by the programs there are; `count` counts the tiles."""
    across = N // BN
    for tile in tl.range(
        tl.program_id(0), (M // BM) * across, tl.num_programs(0), warp_specialize=SPECIALISED
    ):
        row = tile // across * BM
        column = tile % across * BN
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a.load([row, k]), b.load([column, k]).T, acc)
        c.store([row, column], acc)
        tl.atomic_add(count, 1)


@triton.jit
def doubled(sources, results, sizes, BLOCK: tl.constexpr):
    """results[i] = 2 sources[i], vectors whose addresses are in two tensors."""
    i = tl.program_id(0)
    source = tl.load(sources + i).to(tl.pointer_type(tl.float32))
    result = tl.load(results + i).to(tl.pointer_type(tl.float32))
    at = tl.arange(0, BLOCK)
    mask = at < tl.load(sizes + i)
    tl.store(result + at, 2 * tl.load(source + at, mask=mask), mask=mask)
