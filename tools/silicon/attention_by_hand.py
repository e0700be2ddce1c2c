"""Single calls of PyTorch's attention operators on a card, compared with float64.

    python -m tileproof.tools.silicon.attention_by_hand [OUTPUT]

Needs torch and a card, and no engine. Each part that raises says so, and the others run.
"""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tileproof.spec.machine.types import JsonObject, UncheckedObject
from tileproof.spec.problems.dense_attention_bwd import philox
from tileproof.spec.problems.dense_attention_bwd.case import DenseCase
from tileproof.spec.problems.dense_attention_bwd.inputs import Dropout
from tileproof.tools import evidence

if TYPE_CHECKING:
    from torch import Tensor

# Shape, seed and offset of the fills that are compared.
FILLS = (((1, 1, 3, 5), 0, 0), ((2, 3, 17, 33), 7, 8), ((1, 2, 64, 66), 2**40 + 3, 4096))
BLOCK_FILLS = (
    ((1, 1, 8, 8), 0, 0, 0.5),
    ((2, 3, 70, 130), 7, 8, 0.1),
    ((1, 2, 200, 300), 2**40 + 3, 4096, 0.875),
)
# The f32 dV whose element is off by more than f32 sums of exact products may be.
SPLIT_CASE = (
    '{"form":"f32","m":1,"n":2,"d_qk":72,"d_v":80,"values":"tiny","seed":35041}',
    '{"form":"f32","m":33,"n":64,"d_qk":64,"d_v":64,"seed":3}',
)
WINDOW_BLOCK = 64  # queries and keys of a block, f32 and heads of 32 columns
# Queries, keys and window of the backward whose mask is looked for.
WINDOWS = ((1, 64, 50), (1, 51, 50), (5, 15, 4), (40, 90, 20), (70, 200, 33), (200, 70, 33), (64, 64, 10))


def same_dropout() -> JsonObject:
    """Torch's own fill of the memory-efficient kernel's random numbers against the spec's Philox."""
    import torch

    found: JsonObject = {}
    for shape, seed, offset in FILLS:
        theirs = torch.empty(shape, device="cuda")
        torch.ops.aten._fill_mem_eff_dropout_mask_(theirs, 0.5, seed, offset)
        mine = philox.uniform(philox.words(seed, offset, int(np.prod(shape)))).reshape(shape)
        numbers = theirs.cpu().numpy()
        found[str(shape)] = {
            "equal": bool((numbers == mine).all()),
            "same_side_of_a_half": int(((numbers > 0.5) == (mine > 0.5)).sum()),
            "elements": int(numbers.size),
        }
    return found


def same_block_dropout() -> JsonObject:
    """What torch's flash kernel dropped, by the sign of its debug mask, against the spec's bytes."""
    import torch

    found: JsonObject = {}
    for (b, h, m, n), seed, offset, p in BLOCK_FILLS:
        q, k, v = (torch.randn(b, x, h, 32, device="cuda").half() for x in (m, n, n))
        generator = torch.cuda.default_generators[torch.cuda.current_device()]
        generator.manual_seed(seed)
        generator.set_offset(offset)
        out = torch.ops.aten._flash_attention_forward(q, k, v, None, None, m, n, p, False, True)
        theirs = ~torch.signbit(out[4][:, :, :m, :n]).cpu().numpy()
        mine = Dropout(p, seed, offset, True).kept((b, h, m, n))
        found[f"{(b, h, m, n)}, p {p}"] = {"alike": int((theirs == mine).sum()), "elements": int(mine.size)}
    return found


def by_hand() -> JsonObject:
    """What was found, by hand: the public function with a lower-right bias, a bias gradient over memory that
    held 7, and a window as wide as the keys; each with the largest error against float64, over rows that see
    a key, or the number of elements that were not written.
    """
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.attention.bias import causal_lower_right

    found: JsonObject = {}
    torch.manual_seed(0)

    def error(o: Tensor, q: Tensor, k: Tensor, v: Tensor, right: int) -> float:
        m, n = q.shape[-2], k.shape[-2]
        seen = torch.ones(m, n, dtype=torch.bool, device="cuda").tril(n - m + right)
        logits = (q.double() @ k.double().mT * q.shape[-1] ** -0.5).masked_fill(~seen, -torch.inf)
        rows = seen.any(-1)
        wanted = torch.softmax(logits, -1) @ v.double()
        return float((o - wanted)[..., rows, :].abs().max())

    for m, n in ((3, 2), (80, 33), (33, 80)):
        q, k, v = (torch.randn(1, 1, x, 32, device="cuda") for x in (m, n, n))
        with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
            o = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(m, n))
        found[f"causal_lower_right({m}, {n}), f32"] = error(o, q, k, v, 0)
    limits: UncheckedObject
    for m, n, w in ((16, 8, 8), (16, 8, 7), (8, 16, 16)):
        q, k, v = (torch.randn(1, x, 1, 32, device="cuda").half() for x in (m, n, n))
        limits = {"window_size_left": -1, "window_size_right": w}
        out = torch.ops.aten._flash_attention_forward(q, k, v, None, None, m, n, 0.0, False, False, **limits)
        o, q, k, v = (x.transpose(1, 2) for x in (out[0], q, k, v))
        found[f"flash, {m} queries, {n} keys, right {w}"] = error(o, q, k, v, w)
    q, k, v = (torch.randn(1, x, 1, 32, device="cuda") for x in (16, 256, 256))
    bias = torch.zeros(1, 1, 16, 256, device="cuda")
    out = torch.ops.aten._efficient_attention_forward(q, k, v, bias, None, None, 16, 256, 0.0, 1, True)
    more = (bias, out[0], None, None, 16, 256, out[1], 0.0, out[2], out[3], 1, True)
    for held in (7.0, -3.0):
        dO = torch.randn_like(out[0])
        spoil = [torch.full((16 * 256,), held, device="cuda") for _ in range(64)]
        del spoil
        dB = torch.ops.aten._efficient_attention_backward(dO, q, k, v, *more)[3]
        found[f"dB, keys without a query, memory held {held}"] = int((dB[..., 128:] == held).sum())
    q, k, dO = (torch.randn(1, x, 1, 32, device="cuda") for x in (129, 1, 129))
    lse, zero = torch.full((1, 1, 160), torch.inf, device="cuda"), torch.tensor(0)
    for held in (7.0, -3.0):
        spoil = [torch.full((129 * 32,), held, device="cuda") for _ in range(64)]
        del spoil
        dQ = torch.ops.aten._efficient_attention_backward(
            dO, q, k, k, None, torch.zeros_like(q), None, None, 129, 1, lse, 0.0, zero, zero, 1, False,
            window_size=2,
        )[0]  # fmt: skip
        found[f"dQ, 129 queries, 1 key, window 2, memory held {held}"] = int((dQ == held).sum())
    return found


def visited(m: int, n: int, window: int) -> np.ndarray:
    """bool [m, n]: pairs in the blocks that the backward's loops visit, causal from the bottom right, which
    count from the bottom right (`getSmallestQueryForKey`, `incrIteration` of kernel_backward.h).
    """
    seen = np.zeros((m, n), bool)
    for first_key in range(0, n, WINDOW_BLOCK):
        last_key = min(first_key + WINDOW_BLOCK, n) - 1
        first, last = first_key - (n - m), last_key - (n - m) + window - 1
        if last < 0 or first >= m:
            continue
        for row in range(max(0, first) // WINDOW_BLOCK * WINDOW_BLOCK, min(last + 1, m), WINDOW_BLOCK):
            seen[row : row + WINDOW_BLOCK, first_key : last_key + 1] = True
    return seen


def window_of_the_backward() -> JsonObject:
    """Which keys the memory-efficient backward masks, causal from the bottom right with a window: the largest
    error of dQ, dK and dV over their largest value against float64, with the window counted as the causal
    limit is, from the top left, and so in the blocks that are visited alone. All have the statistics of the
    right forward.
    """
    import torch

    found: JsonObject = {}
    for m, n, window in WINDOWS:
        torch.manual_seed(m + n)
        q, k, v, dO = (torch.randn(1, x, 1, 32, device="cuda") for x in (m, n, n, m))
        i, j = torch.arange(m, device="cuda")[:, None], torch.arange(n, device="cuda")[None]
        causal = j <= i + n - m
        right = causal & (j > i + n - m - window)
        scale = 32**-0.5
        Q, K, V, D = (x[0, :, 0].double() for x in (q, k, v, dO))
        logits = Q @ K.T * scale
        lse = logits.masked_fill(~right, -torch.inf).logsumexp(-1)
        lse = torch.where(lse == -torch.inf, torch.inf, lse)
        o = (torch.exp(logits - lse[:, None]) * right) @ V
        rows = torch.full((1, 1, -(-m // 32) * 32), torch.inf, device="cuda")
        rows[0, 0, :m] = lse
        zero = torch.tensor(0)
        theirs = torch.ops.aten._efficient_attention_backward(
            dO, q, k, v, None, o[None, :, None].float(), None, None, m, n, rows, 0.0, zero, zero, 2, False,
            window_size=window,
        )[:3]  # fmt: skip
        row: JsonObject = {}
        left = causal & (j > i - window)
        seen_by = {
            "from the bottom right": right,
            "from the top left": left,
            "from the top left in the blocks visited": left & torch.tensor(visited(m, n, window)).cuda(),
        }
        for words, seen in seen_by.items():
            S = torch.exp(logits - lse[:, None]) * seen
            dS = S * (D @ V.T - (D * o).sum(-1, keepdim=True))
            wanted = (dS @ K * scale, dS.T @ Q * scale, S.T @ D)
            row[words] = {
                name: float((mine - got[0, :, 0]).abs().max() / mine.abs().max().clamp_min(1e-30))
                for name, mine, got in zip(("dQ", "dK", "dV"), wanted, theirs, strict=True)
            }
        found[f"{m} queries, {n} keys, window {window}"] = row
    return found


def tf32(x: np.ndarray, add: int) -> np.ndarray:
    """f32 as TF32 (10 bits of fraction): `add` to the bits, then the last 13 cut (0x1000: half, away)."""
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + np.uint32(add)) & np.uint32(0xFFFFE000)).view(np.float32)


def three_products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a @ b`` [m, n] of f32 by three TF32 products, in float64 sums: what is lost in the split alone.
    CUTLASS's OpMultiplyAddFastF32: the large part is cut, the small part rounded half away.
    """
    large_a, large_b = tf32(a, 0), tf32(b, 0)
    small_a, small_b = tf32(a - large_a, 0x1000), tf32(b - large_b, 0x1000)
    la, lb, sa, sb = (x.astype(np.float64) for x in (large_a, large_b, small_a, small_b))
    return la @ sb + sa @ lb + la @ lb  # type: ignore[no-any-return]


def split_products() -> JsonObject:
    """dV of the memory-efficient kernel in f32 against S^T dO in float64 and by three TF32 products: the
    largest relative error of an element, and the element that is off most.
    """
    from tileproof.kernels.host.torch_cuda import kernel

    found: JsonObject = {}
    for words in SPLIT_CASE:
        inputs = DenseCase.from_json(words).inputs()
        theirs = kernel.efficient(inputs, biased=True)["dV"].cpu().numpy()[0, 0].astype(np.float64)
        q, k, dO = (np.asarray(getattr(inputs, name), np.float32)[0, :, 0] for name in ("q", "k", "dO"))
        logits = q.astype(np.float64) @ k.astype(np.float64).T * inputs.problem.sm_scale
        S = np.exp(logits - np.asarray(inputs.lse, np.float64)[0, 0][:, None])
        exact = S.T @ dO.astype(np.float64)
        split = three_products(S.astype(np.float32).T, dO)
        off = np.abs(theirs - exact) / np.maximum(np.abs(exact), 1e-30)
        key, column = (int(x) for x in np.unravel_index(off.argmax(), off.shape))
        found[words] = {
            "element": [key, column],
            "S": [float(x) for x in S[:4, key]],
            "dO": [float(x) for x in dO[:4, column]],
            "float64": float(exact[key, column]),
            "kernel": float(theirs[key, column]),
            "three TF32 products": float(split[key, column]),
            "kernel off by": float(off[key, column]),
            "three products off by": float(abs(split - exact)[key, column] / abs(exact[key, column])),
            "kernel from three products, largest": float(
                (np.abs(theirs - split) / np.maximum(np.abs(exact), 1e-30)).max()
            ),
        }
    return found


def facts() -> JsonObject:
    """The card and its software."""
    import torch

    return {
        "date": datetime.date.today().isoformat(),
        "card": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
        "numpy": np.__version__,
    }


PARTS: dict[str, Callable[[], JsonObject]] = {
    "dropout": same_dropout,
    "dropout by block": same_block_dropout,
    "by hand": by_hand,
    "window of the backward": window_of_the_backward,
    "three TF32 products": split_products,
}


def main() -> None:
    """Writes OUTPUT, or prints."""
    found: JsonObject = facts()
    for name, part in PARTS.items():
        try:
            found[name] = part()
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"[:400]
    if len(sys.argv) > 1:
        evidence.write_json(Path(sys.argv[1]), found)
    else:
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
