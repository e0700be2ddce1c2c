"""Triton kernels of the kinds that people write: decode attention over pages, cross entropy in place, the
backward of a layer norm with a lock for each group of rows, a histogram."""

# mypy: ignore-errors
import triton
import triton.language as tl


@triton.jit
def paged_decode(
    q_ptr, keys, values, pages, lengths, out, scale,
    HEADS: tl.constexpr, DIM: tl.constexpr, PAGE: tl.constexpr, MAX_PAGES: tl.constexpr,
):  # fmt: skip
    sequence, head = tl.program_id(0), tl.program_id(1)
    column, row = tl.arange(0, DIM), tl.arange(0, PAGE)
    q = tl.load(q_ptr + (sequence * HEADS + head) * DIM + column).to(tl.float32)
    length = tl.load(lengths + sequence)
    most, total, acc = -float("inf"), 0.0, tl.zeros([DIM], tl.float32)
    for page in range(tl.cdiv(length, PAGE)):
        number = tl.load(pages + sequence * MAX_PAGES + page)
        at = ((number * PAGE + row)[:, None] * HEADS + head) * DIM + column[None, :]
        inside = page * PAGE + row < length
        k = tl.load(keys + at, mask=inside[:, None], other=0.0).to(tl.float32)
        v = tl.load(values + at, mask=inside[:, None], other=0.0).to(tl.float32)
        logits = tl.where(inside, tl.sum(k * q[None, :], 1) * scale, -float("inf"))
        now = tl.maximum(most, tl.max(logits, 0))
        factor, p = tl.exp(most - now), tl.exp(logits - now)
        total = total * factor + tl.sum(p, 0)
        acc = acc * factor + tl.sum(p[:, None] * v, 0)
        most = now
    tl.store(out + (sequence * HEADS + head) * DIM + column, acc / total)


@triton.jit
def cross_entropy(logits, targets, loss, SIZE, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    target = tl.load(targets + row)
    most, total = -float("inf"), 0.0
    own = tl.load(logits + row * SIZE + target)
    for start in range(0, SIZE, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(logits + row * SIZE + column, mask=column < SIZE, other=-float("inf"))
        now = tl.maximum(most, tl.max(x))
        total = total * tl.exp(most - now) + tl.sum(tl.exp(x - now))
        most = now
    tl.debug_barrier()
    for start in range(0, SIZE, BLOCK):  # the gradient, in the place of the logits
        column = start + tl.arange(0, BLOCK)
        x = tl.load(logits + row * SIZE + column, mask=column < SIZE, other=-float("inf"))
        p = tl.exp(x - most) / total
        tl.store(logits + row * SIZE + column, tl.where(column == target, p - 1, p), mask=column < SIZE)
    tl.store(loss + row, most + tl.log(total) - own)


@triton.jit
def sums_by_group(x, out, locks, SIZE, GROUPS: tl.constexpr, BLOCK: tl.constexpr, LOCKED: tl.constexpr):
    """out[row % GROUPS] += x[row], under the lock of the group."""
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    group = row % GROUPS
    part = tl.load(x + row * SIZE + column, mask=column < SIZE, other=0.0)
    lock, count = locks + group, locks + GROUPS + group
    if LOCKED:
        while tl.atomic_cas(lock, 0, 1) == 1:
            pass
    first = tl.load(count) == 0
    tl.debug_barrier()  # every warp loads, one thread exchanges: Triton 3.8 puts no barrier between
    if first:
        tl.atomic_xchg(count, 1)
    else:
        part += tl.load(out + group * SIZE + column, mask=column < SIZE)
    tl.store(out + group * SIZE + column, part, mask=column < SIZE)
    tl.debug_barrier()
    if LOCKED:
        tl.atomic_xchg(lock, 0)


@triton.jit
def histogram(x, counts, SIZE, BINS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < SIZE
    tl.atomic_add(
        counts + tl.arange(0, BINS), tl.histogram(tl.load(x + at, mask=inside, other=0), BINS, inside)
    )
