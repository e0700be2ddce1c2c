"""TileLang kernels of our own: products for SM100 and Hopper, two kernels in a function, one autotuned."""

# mypy: ignore-errors
import tilelang
import tilelang.language as T  # noqa: N812


def matmul(M, N, K, BM=128, BN=128, BK=64, stages=2, threads=256):
    """C [M, N] f32 = A [M, K] B [N, K]^T, f16 operands; one tile of C a CTA, the product by tcgen05."""

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((N, K), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), threads=threads) as (bx, by):
            tile_a = T.alloc_shared((BM, BK), "float16")
            tile_b = T.alloc_shared((BN, BK), "float16")
            tile_c = T.alloc_shared((BM, BN), "float32")
            tmem = T.alloc_tmem([BM, BN], "float32")
            done = T.alloc_barrier(1)
            local = T.alloc_fragment((BM, BN), "float32")
            for k in T.Pipelined(T.ceildiv(K, BK), num_stages=stages):
                T.copy(A[by * BM, k * BK], tile_a)
                T.copy(B[bx * BN, k * BK], tile_b)
                T.gemm(tile_a, tile_b, tmem, transpose_B=True, mbar=done, clear_accum=k == 0)
            T.copy(tmem, local)
            T.copy(local, tile_c)
            T.copy(tile_c, C[by * BM, bx * BN])

    return main


def hopper_matmul(M, N, K, BM=128, BN=128, BK=64, stages=2, threads=128):
    """`matmul` by wgmma."""

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((N, K), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), threads=threads) as (bx, by):
            tile_a = T.alloc_shared((BM, BK), "float16")
            tile_b = T.alloc_shared((BN, BK), "float16")
            local = T.alloc_fragment((BM, BN), "float32")
            T.clear(local)
            for k in T.Pipelined(T.ceildiv(K, BK), num_stages=stages):
                T.copy(A[by * BM, k * BK], tile_a)
                T.copy(B[bx * BN, k * BK], tile_b)
                T.gemm(tile_a, tile_b, local, transpose_B=True)
            T.copy(local, C[by * BM, bx * BN])

    return main


def scaled(N=128, rows=32):
    """B = A s + 1 by two kernels, M rows of any number; a tile of `rows` rows a CTA."""
    M = T.dynamic("M")

    @T.prim_func
    def main(A: T.Tensor((M, N), "float16"), B: T.Tensor((M, N), "float16"), s: T.float32):
        with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
            for i, j in T.Parallel(rows, N):
                B[bx * rows + i, j] = A[bx * rows + i, j] * s
        with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
            for i, j in T.Parallel(rows, N):
                B[bx * rows + i, j] = B[bx * rows + i, j] + 1

    return main


@tilelang.autotune(configs=[{"BM": 32}, {"BM": 64}])
@tilelang.jit
def numbered(A, C, BM=16, wrong=""):
    """A[i] = i // BM; C[0] counts the threads of all CTAs."""
    M = T.const("M")
    A: T.Tensor[[M], T.float32]
    C: T.Tensor[[1], T.float32]
    with T.Kernel(T.ceildiv(M, BM), threads=32) as bx:
        for i in T.Parallel(BM):
            A[bx * BM + i] = bx
        if wrong == "race":
            C[0] = C[0] + 1
        else:
            T.atomic_add(C[0], 1)
