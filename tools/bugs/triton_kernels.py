"""Triton kernels, each right and with mistakes: `WRONG` names the mistake, whose line is marked."""

# mypy: ignore-errors
# fmt: off
# ruff: noqa: E501 - a planted line is one line
import triton
import triton.language as tl


@triton.jit
def summed(a, b):
    return a + b


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr, WRONG: tl.constexpr):
    """out = x + y, of n elements."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if WRONG == "block":
        at += BLOCK
    mask = at < n
    if WRONG == "mask":
        tl.store(out + at, summed(tl.load(x + at, mask), tl.load(y + at, mask)))  # planted: add mask
    elif WRONG == "stride":
        tl.store(out + at * 2, summed(tl.load(x + at, mask), tl.load(y + at, mask)), mask)  # planted: add stride
    elif WRONG == "block":
        tl.store(out + at, tl.load(x + at) + 0.0)  # planted: add block
    elif WRONG == "race":
        tl.store(out + at // 300, summed(tl.load(x + at, mask), tl.load(y + at, mask)), mask)  # planted: add race
    else:
        tl.store(out + at, summed(tl.load(x + at, mask), tl.load(y + at, mask)), mask)


@triton.jit
def softmax(x, out, stride, columns, BLOCK: tl.constexpr, WRONG: tl.constexpr):
    """out [rows, columns] = softmax of each row of x, with rows `stride` elements apart; a row a program."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < columns
    if WRONG == "mask":
        values = tl.load(x + row * stride + at)  # planted: softmax mask
    else:
        values = tl.load(x + row * stride + at, mask, -float("inf"))
    p = tl.exp(values - tl.max(values, 0))
    result = p / tl.sum(p, 0)
    if WRONG == "stride":
        tl.store(out + row * stride * 2 + at, result, mask)  # planted: softmax stride
    elif WRONG == "block":
        tl.store(out + (row + 1) * columns + at, result, mask)  # planted: softmax block
    elif WRONG == "race":
        tl.store(out + row // 2 * columns + at, result, mask)  # planted: softmax race
    else:
        tl.store(out + row * columns + at, result, mask)


@triton.jit
def product(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WRONG: tl.constexpr):
    """C [M, N] f32 += A [M, K] B [N, K]^T; program (i, j, s) adds the s-th part of K to tile i, j."""
    row = tl.program_id(0) * BM
    column = tl.program_id(1) * BN
    half = K // tl.num_programs(2)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.program_id(2) * half, (tl.program_id(2) + 1) * half, BK):
        acc = tl.dot(a.load([row, k]), b.load([column, k]).T, acc)
    rows = row + tl.arange(0, BM)[:, None]
    columns = column + tl.arange(0, BN)[None, :]
    if WRONG == "race":
        at = c + rows * N + columns
        tl.store(at, tl.load(at) + acc)  # planted: product race
    elif WRONG == "stride":
        tl.atomic_add(c + rows * (N + BN) + columns, acc)  # planted: product stride
    elif WRONG == "block":
        tl.atomic_add(c + (rows + BM) * N + columns, acc)  # planted: product block
    else:
        tl.atomic_add(c + rows * N + columns, acc)


@triton.jit
def persistent(
    a, b, c, total, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WRONG: tl.constexpr
):  # fmt: skip
    """C [M, N] = A [M, K] B [N, K]^T, tile after tile by as many programs as there are, warp-specialised;
    `total` counts the tiles.
    """
    across = N // BN
    tiles = (M // BM) * across
    if WRONG == "block":
        tiles += 1
    done = 0
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), warp_specialize=True):
        row = tile // across * BM
        column = tile % across * BN
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a.load([row, k]), b.load([column, k]).T, acc)
        rows = row + tl.arange(0, BM)[:, None]
        columns = column + tl.arange(0, BN)[None, :]
        tl.store(c + rows * N + columns, acc)  # planted: persistent block
        done += 1
    if WRONG == "race":
        tl.store(total, tl.load(total) + done)  # planted: persistent race
    else:
        tl.atomic_add(total, done)


@triton.jit
def attention(
    q, k, v, o, lse, ROWS, KEYS, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, WRONG: tl.constexpr
):  # fmt: skip
    """O [ROWS, D] = softmax(Q K^T scale) V, and each row's log-sum-exp in base 2; `scale` holds log2(e)."""
    row = tl.program_id(0) * BM
    if WRONG == "block":
        row += BM
    tile_q = q.load([row, 0])
    best = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for key in range(0, KEYS, BN):
        s = tl.dot(tile_q, k.load([key, 0]).T) * scale
        s = tl.where(key + tl.arange(0, BN)[None, :] < KEYS, s, float("-inf"))
        new = tl.maximum(best, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        factor = tl.exp2(best - new)
        total = total * factor + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), v.load([key, 0]), acc * factor[:, None])
        best = new
    rows = row + tl.arange(0, BM)
    columns = tl.arange(0, D)[None, :]
    result = (acc / total[:, None]).to(tl.float16)
    if WRONG == "mask":
        tl.store(lse + rows, best + tl.log2(total))  # planted: attention mask
    else:
        tl.store(lse + rows, best + tl.log2(total), rows < ROWS)
    if WRONG == "stride":
        tl.store(o + rows[:, None] * (D + 64) + columns, result, rows[:, None] < ROWS)  # planted: attention stride
    elif WRONG == "block":
        tl.store(o + rows[:, None] * D + columns, result)  # planted: attention block
    elif WRONG == "race":
        tl.store(o + rows[:, None] % 64 * D + columns, result, rows[:, None] < ROWS)  # planted: attention race
    else:
        tl.store(o + rows[:, None] * D + columns, result, rows[:, None] < ROWS)
