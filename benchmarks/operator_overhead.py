"""Host time of a call of the backend `cuda`, with a driver whose functions return at once.

    python benchmarks/operator_overhead.py

Prints microseconds of processor per call: the launches alone (`steps.backward`), and the whole operator with
the checks of its arguments. Tensors lie on the CPU, where torch's allocations and copies take the time of the
host only. The structures of a launch are those of cuda-bindings.
"""

from __future__ import annotations

import time
from collections.abc import Callable
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


def microseconds(call: Callable[[], object]) -> float:
    """The least mean of some rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.process_time()
        for _ in range(CALLS):
            call()
        best = min(best, (time.process_time() - begin) / CALLS * 1e6)
    return best


def main() -> None:
    torch.set_num_threads(1)
    # Small results: larger ones come from the kernel page by page, those of a device from torch's cache.
    q, kv = torch.zeros(1, 64, 576, dtype=torch.bfloat16), torch.zeros(32, 576, dtype=torch.bfloat16)
    o, lse = torch.zeros(1, 64, 512, dtype=torch.bfloat16), torch.zeros(1, 64)
    indices, sink = torch.zeros(1, 2048, dtype=torch.int32), torch.zeros(64)
    call = steps.Call(q, kv, o, o, lse, indices, None, sink, 0.04, "2", torch.bfloat16, False)
    fake = Driver()
    with (
        mock.patch.object(cuda, "load", lambda entry: loaded(fake, entry)),
        mock.patch.object(cuda, "check_device", lambda *_: None),
        mock.patch.object(
            cuda, "backward", lambda each: steps.backward(cuda.CudaLauncher(q.device, 0), each)
        ),
    ):
        alone = microseconds(lambda: cuda.backward(call))
        count, fake.launches = fake.launches // (CALLS * ROUNDS), 0
        whole = microseconds(
            lambda: sparse_mla_backward(
                q, kv, o, o, lse, indices, sink=sink, sm_scale=0.04, lse_base="2", backend="cuda"
            )
        )
    print(f"launches alone: {alone:.1f} us per call, {count} launches; the operator: {whole:.1f} us")


if __name__ == "__main__":
    main()
