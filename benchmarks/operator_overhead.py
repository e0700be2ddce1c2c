"""Host time of a call of the backend `cuda`, with a driver whose functions return at once.

    python benchmarks/operator_overhead.py

Prints microseconds of processor per call, the median and quartiles of rounds: the launches alone
(`steps.backward`), and the whole operator with the checks of its arguments; and between the rounds a loop of
additions that is the same on every machine. Where other work takes the core's second thread, the loop and
the calls are slower by the same factor. Tensors lie on a card where there is a card, else on the CPU. The
structures of a launch are those of cuda-bindings.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any
from unittest import mock

import torch
from cuda.bindings import driver
from tileproof.ops import cuda, sparse_mla_backward, steps
from tileproof.ops.plan import KernelEntry

CALLS, ROUNDS = 50, 80
LOAD = cuda.load


class Driver:
    """cuda-bindings, of which the calls that a library or a kernel takes part in return at once."""

    launches = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(driver, name)

    def cuLaunchKernelEx(self, *_: object) -> tuple[int]:
        self.launches += 1
        return (0,)

    def cuTensorMapEncodeTiled(self, *_: object) -> tuple[int, Any]:
        return 0, driver.CUtensorMap()


def loaded(fake: Driver, entry: KernelEntry) -> cuda.Loaded:
    """As `cuda.load`, without a library."""
    named = {
        "cuLibraryLoadData": (0, 0), "cuLibraryGetKernel": (0, 0), "cuKernelGetFunction": (0, 0),
        "cuFuncSetAttribute": (0,),
    }  # fmt: skip
    for name, result in named.items():
        setattr(fake, name, lambda *_, result=result: result)
    with mock.patch.object(cuda, "_image", lambda _: b""), mock.patch("cuda.bindings.driver", fake):
        return LOAD(entry)


def added() -> None:
    """The loop that shows the speed of the core."""
    total = 0
    for number in range(1000):
        total += number


def processor(call: Callable[[], object]) -> float:
    """Mean microseconds of a round."""
    begin = time.process_time()
    for _ in range(CALLS):
        call()
    return (time.process_time() - begin) / CALLS * 1e6


def quartiles(call: Callable[[], object]) -> str:
    """Those of the call, and of the loop beside it."""
    rounds = [(processor(call), processor(added)) for _ in range(ROUNDS)]
    texts = []
    for each in zip(*rounds, strict=True):
        low, median, high = statistics.quantiles(each, n=4)
        texts.append(f"{median:.1f} us ({low:.1f} to {high:.1f})")
    return f"{texts[0]}, the loop {texts[1]}"


def main() -> None:
    torch.set_num_threads(1)
    card = torch.cuda.is_available()
    zeros = partial(torch.zeros, device="cuda:0" if card else "cpu")
    # Small results: larger ones come from the kernel page by page, those of a device from torch's cache.
    q, kv = zeros(1, 64, 576, dtype=torch.bfloat16), zeros(32, 576, dtype=torch.bfloat16)
    o, lse = zeros(1, 64, 512, dtype=torch.bfloat16), zeros(1, 64)
    indices, sink = zeros(1, 2048, dtype=torch.int32), zeros(64)
    call = steps.Call(q, kv, o, o, lse, indices, None, sink, 0.04, "2", torch.bfloat16, False)
    fake = Driver()
    on_cpu = mock.patch.object(
        cuda, "backward", lambda each: steps.backward(cuda.CudaLauncher(q.device, 0), each)
    )
    with (
        mock.patch.object(cuda, "load", lambda entry: loaded(fake, entry)),
        mock.patch.object(cuda, "check_device", lambda *_: None),
        nullcontext() if card else on_cpu,
    ):
        print(f"launches alone: {quartiles(lambda: cuda.backward(call))}")
        count, fake.launches = fake.launches // (CALLS * ROUNDS), 0
        whole = quartiles(
            lambda: sparse_mla_backward(
                q, kv, o, o, lse, indices, sink=sink, sm_scale=0.04, lse_base="2", backend="cuda"
            )
        )
        print(f"the operator, {count} launches: {whole}")


if __name__ == "__main__":
    main()
