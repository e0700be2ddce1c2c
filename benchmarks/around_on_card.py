"""Time on a card of the kernels around the sparse MLA backward, beside torch's own operations.

    TILEPROOF_KERNELS=FOLDER python benchmarks/around_on_card.py

FOLDER is written by `tileproof build head64 --cubins FOLDER`. Prints a JSON line per row: microseconds (the
median of rounds, by CUDA events), bytes moved, and the same of torch. `deterministic` is what a deterministic
dKV costs beside the backward: expand and collect.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from functools import cache

import torch
from tileproof.kernels.sm90.mla_around import launches
from tileproof.ops import cuda
from tileproof.ops.plan import CallStep, beside_entry
from tileproof.spec.machine.types import UncheckedObject

ROUNDS, D_QK, HEADS = 15, 576, 64


def microseconds(work: Callable[[], object]) -> float:
    """The median over rounds, each after the caches were overwritten."""
    flush = torch.empty(2**28, dtype=torch.uint8, device="cuda")
    for _ in range(3):
        work()
    times = []
    for _ in range(ROUNDS):
        flush.zero_()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(times)


def row(
    name: str,
    sizes: dict[str, int],
    moved: int,
    ours: Callable[[], object],
    torchs: Callable[[], object] | None = None,
) -> None:
    """Prints a row; `torchs`: the same by torch."""
    time = microseconds(ours)
    said: UncheckedObject = {"kernel": name, **sizes, "us": round(time, 1), "GB/s": round(moved / time / 1e3)}
    if torchs is not None:
        said["torch us"] = round(microseconds(torchs), 1)
    print(json.dumps(said), flush=True)


@cache
def step(name: str, tensors: frozenset[tuple[str, bool]], sizes: frozenset[tuple[str, int]]) -> CallStep:
    """The launch of an entry, planned once; of each tensor whether it is there."""
    names = {buffer: buffer if there else None for buffer, there in tensors}
    return CallStep(beside_entry(name), names, dict(sizes))


def start(name: str, tensors: UncheckedObject, **sizes: int) -> None:
    """A launch on the current stream."""
    card = cuda.CudaLauncher(torch.device("cuda", 0), torch.cuda.current_stream().cuda_stream)
    there = frozenset((buffer, tensor is not None) for buffer, tensor in tensors.items())
    card.start(step(name, there, frozenset(sizes.items())), tensors)


def dkv(s_kv: int) -> None:
    """clear and convert."""
    wide = torch.randn(s_kv, D_QK, device="cuda")
    narrow = torch.empty(s_kv, D_QK, dtype=torch.bfloat16, device="cuda")
    count, sizes, convert = wide.numel(), {"s_kv": s_kv}, launches.CONVERT["bfloat16"]
    row("clear", sizes, 4 * count, lambda: start(launches.CLEAR, {"values": wide}, count=count), wide.zero_)
    row(
        "convert", sizes, 6 * count, lambda: start(convert, {"wide": wide, "narrow": narrow}, count=count),
        lambda: narrow.copy_(wide),
    )  # fmt: skip


def d_sink(s_q: int) -> None:
    """The gradient of the sink."""
    lse, delta = torch.randn(s_q, HEADS, device="cuda"), torch.randn(s_q, HEADS, device="cuda")
    sink, out = torch.randn(HEADS, device="cuda"), torch.empty(HEADS, device="cuda")
    tensors = {"lse": lse, "delta": delta, "sink": sink, "d_sink": out}
    row(
        "d_sink", {"s_q": s_q}, 8 * lse.numel(),
        lambda: start(launches.D_SINK, tensors, s_q=s_q, h_q=HEADS),
        lambda: -((sink - lse).exp2() * delta).sum(0),
    )  # fmt: skip


def ordered(s_q: int, s_kv: int, topk: int) -> None:
    """expand and collect."""
    slots, sizes = s_q * topk, {"s_q": s_q, "s_kv": s_kv, "topk": topk, "d_qk": D_QK}
    kv = torch.randn(s_kv, D_QK, device="cuda").bfloat16()
    indices = torch.randint(0, s_kv, (s_q, topk), dtype=torch.int32, device="cuda")
    own, rows = torch.empty_like(indices), torch.empty(slots, D_QK, dtype=torch.bfloat16, device="cuda")
    given = {"kv": kv, "indices": indices, "topk_length": None, "slots": own, "rows": rows}
    row("expand", sizes, slots * (4 * D_QK + 8), lambda: start(launches.EXPAND, given, **sizes))
    wide, sums = torch.randn(slots, D_QK, device="cuda"), torch.empty(s_kv, D_QK, device="cuda")
    tensors = {"wide": wide, "indices": indices, "slots": own, "dKV": sums}
    flat = indices.flatten().long()
    row(
        "collect", sizes, 4 * D_QK * (slots + s_kv), lambda: start(launches.COLLECT, tensors, **sizes),
        lambda: sums.zero_().index_add_(0, flat, wide),
    )  # fmt: skip


def main() -> None:
    for s_kv in (8192, 131072):
        dkv(s_kv)
    for s_q in (4096, 65536):
        d_sink(s_q)
    for s_q in (64, 512, 2048):
        ordered(s_q, 8192, 2048)


if __name__ == "__main__":
    main()
