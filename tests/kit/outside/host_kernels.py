"""Small Triton kernels for what a launch may be: views, descriptors, numbers, autotuners, printing."""

# mypy: ignore-errors
import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask) + tl.load(y + at, mask), mask)


@triton.jit
def grid_fill(out, down, across, ROWS, COLUMNS, BLOCK: tl.constexpr):
    """out[i, j] = COLUMNS i + j, `down` and `across` its strides."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    columns = tl.arange(0, 16)[None, :]
    mask = (rows < ROWS) & (columns < COLUMNS)
    tl.store(out + rows * down + columns * across, (rows * COLUMNS + columns).to(tl.float32), mask)


@triton.jit
def doubled(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BM, BN])
    target = tl.make_tensor_descriptor(out, [M, N], [N, 1], [BM, BN])
    row = tl.program_id(0) * BM
    for column in range(0, N, BN):
        target.store([row, column], source.load([row, column]) * 2)


@triton.jit
def numbers(out, flag, small, large, real, nested):
    tl.store(out, flag.to(tl.float64))
    tl.store(out + 1, small.to(tl.float64))
    tl.store(out + 2, large.to(tl.float64))
    tl.store(out + 3, real.to(tl.float64))
    tl.store(out + 4, nested[0].to(tl.float64))
    tl.store(nested[1][1] + 5, nested[1][0].to(tl.float64))


@triton.autotune([triton.Config({"BLOCK": n}) for n in (128, 256)], key=["n"], reset_to_zero=["out"])
@triton.heuristics({"WHOLE": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned(x, out, n, BLOCK: tl.constexpr, WHOLE: tl.constexpr):
    """out += x."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if WHOLE:
        tl.store(out + at, tl.load(out + at) + tl.load(x + at))
    else:
        tl.store(out + at, tl.load(out + at, at < n) + tl.load(x + at, at < n), at < n)


@triton.jit
def told(n):
    at = tl.program_id(0)
    tl.device_print("number", at)
    tl.device_assert(at < n, "too far")


@triton.jit
def squared(x, out, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tile = tl.load(x + at)
    tl.store(out + at, tl.dot(tile, tile))


@triton.jit
def started(out, n, BLOCK: tl.constexpr):
    """Lets the next launch begin early, then writes."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.extra.cuda.gdc_launch_dependents()
    tl.store(out + at, at.to(tl.float32), at < n)


@triton.jit
def following(x, out, n, BLOCK: tl.constexpr, WAITS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if WAITS:
        tl.extra.cuda.gdc_wait()
    tl.store(out + at, tl.load(x + at, at < n) + 1, at < n)


@triton.jit
def met(count, out, PROGRAMS: tl.constexpr):
    """All programs meet: each adds one to `count` and waits for the others."""
    tl.atomic_add(count, 1)
    while tl.atomic_add(count, 0) < PROGRAMS:
        pass
    tl.store(out + tl.program_id(0), 1.0)
