"""A TileLang matrix product of our own, lowered to CUDA source without a GPU."""

# mypy: ignore-errors
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
