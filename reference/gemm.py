"""A matrix product in float64, tile by tile as a kernel walks it.

    product = A B^T                          [M, N], A [M, K], B [N, K]
    D       = alpha * product + beta * C     [M, N], or alpha * product + bias [N]

A cluster writes `along` tiles of `tile` rows and columns of D; its CTAs are ranked along M first, and so are
the clusters. Each CTA adds up its tile over K in k-blocks of `block`.

Nothing here is shared with the stages of spec/problems/gemm; tests hold the two against each other.
reference/README.md shows how to step through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from tileproof.reference.tile import Tiles, TileValue
from tileproof.spec.problems.base import TileCoord

if TYPE_CHECKING:
    from tileproof.spec.problems.gemm.inputs import Inputs


def tiles(
    inputs: Inputs, *, tile: tuple[int, int] = (128, 64), along: tuple[int, int] = (1, 1), block: int = 64
) -> Tiles:
    """Yield every tile and every partial sum; return product and D, both ``[M, N]``.

    `tile` times `along` divides M and N, `block` divides K. Partial is product at (cluster, CTA, k-block),
    the sum up to and with this k-block.
    """
    A, B = inputs.A.astype(np.float64), inputs.B.astype(np.float64)
    (M, K), N = A.shape, B.shape[0]
    product, D = np.zeros((M, N)), np.zeros((M, N))
    clusters_m, clusters_n = M // (tile[0] * along[0]), N // (tile[1] * along[1])

    for cluster_n in range(clusters_n):
        for cluster_m in range(clusters_m):
            group = cluster_n * clusters_m + cluster_m
            for cta in range(along[0] * along[1]):
                # This CTA's rows and columns of D.
                first_row = (cluster_m * along[0] + cta % along[0]) * tile[0]
                first_col = (cluster_n * along[1] + cta // along[0]) * tile[1]
                rows, cols = slice(first_row, first_row + tile[0]), slice(first_col, first_col + tile[1])

                accumulator = np.zeros(tile)
                for k_block in range(K // block):
                    ks = slice(k_block * block, (k_block + 1) * block)
                    accumulator = accumulator + A[rows, ks] @ B[cols, ks].T  # [tile_m, tile_n]
                    at = TileCoord(group, cta, k_block)
                    yield TileValue("product", at, rows, cols, accumulator, partial=True)
                product[rows, cols] = accumulator
                yield TileValue("product", TileCoord(group, cta, None), rows, cols, accumulator)

                D_tile = inputs.alpha * accumulator
                if inputs.bias is not None:
                    D_tile = D_tile + inputs.bias[cols].astype(np.float64)
                elif inputs.C is not None:
                    D_tile = D_tile + inputs.beta * inputs.C[rows, cols].astype(np.float64)
                D[rows, cols] = D_tile
                yield TileValue("D", TileCoord(group, cta, None), rows, cols, D_tile)

    return {"product": product, "D": D}
