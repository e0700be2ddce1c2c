"""The backend `cuda` where the stub driver runs the kernels: tests/ops/card/test_launches.py starts it.

    python tests/kit/cuda_calls.py FOLDER

FOLDER/calls.pt has calls: a mistake that is planted, and the arguments; their results go to
FOLDER/results.pt. Tensors of torch on the CPU stand for those of a card: `Arena` makes the memory of all
launches known to the driver.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from cuda.bindings import driver
from tileproof.ops import cuda, steps
from tileproof.ops.plan import CallStep, beside_entry

ARENA_BYTES = 1 << 26


def called(name: str, *given: object) -> object:
    """A call of the driver that must succeed."""
    code, *values = getattr(driver, name)(*given)
    assert int(code) == 0, (name, code)
    return values[0] if values else None


class Arena(cuda.CudaLauncher):
    """Launches whose tensors lie in one registered piece of host memory."""

    def __init__(self) -> None:
        super().__init__(torch.device("cpu"), int(called("cuStreamCreate", 0)))  # type: ignore[call-overload]
        self._bytes = torch.full((ARENA_BYTES,), 0x7F, dtype=torch.uint8)  # large numbers
        self._used = -self._bytes.data_ptr() % 512
        called("cuMemHostRegister", self._bytes.data_ptr(), ARENA_BYTES, 0)

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """The next piece, at an address that torch's allocator could give."""
        size = torch.Size(shape).numel() * dtype.itemsize
        first, self._used = self._used, self._used + -(-size // 512) * 512
        assert self._used <= ARENA_BYTES
        return self._bytes[first : first + size].view(dtype).view(shape)

    def start(self, step: CallStep, tensors: steps.Tensors) -> None:
        """On a card all memory of torch is the device's; here inputs from outside are copied."""
        placed = {name: self._placed(tensor) for name, tensor in tensors.items()}
        for name in (*step.outputs, *step.adds):
            of = step.tensors[name]
            assert of is not None and placed[of] is tensors[of], name
        super().start(step, placed)

    def _placed(self, tensor: torch.Tensor | None) -> torch.Tensor | None:
        first = self._bytes.data_ptr()
        if tensor is None or first <= tensor.data_ptr() < first + ARENA_BYTES:
            return tensor
        return self.empty(tuple(tensor.shape), tensor.dtype).copy_(tensor)


def swapped(tensors: steps.Tensors) -> steps.Tensors:
    """o as dO."""
    return {**tensors, "dO": tensors["o"]}


@contextmanager
def planted(mistake: str) -> Iterator[None]:
    """A defect of the launcher; "": none."""
    start, encode = Arena.start, cuda.Prepared.tensor_map
    skipped, first = beside_entry("tileproof_mla_clear"), FIRST
    instead: dict[str, Any] = {
        "not cleared": (Arena, "start", lambda a, s, t: None if s.entry == skipped else start(a, s, t)),
        "o in the place of dO": (Arena, "start", lambda a, s, t: start(a, s, swapped(t))),
        "maps of another address": (
            cuda.Prepared, "tensor_map", lambda a, r, at: encode(a, r, first.setdefault(r.tensor, at))
        ),
    }  # fmt: skip
    if not mistake:
        yield
        return
    with mock.patch.object(*instead[mistake]):
        yield


FIRST: dict[object, int] = {}  # the address of each map's first call


def main(folder: Path) -> None:
    """Every call, in a context."""
    called("cuInit", 0)
    context = called("cuDevicePrimaryCtxRetain", called("cuDeviceGet", 0))
    called("cuCtxSetCurrent", context)
    arena, results = Arena(), []
    for mistake, given in torch.load(folder / "calls.pt", weights_only=False):
        with planted(mistake):
            made = steps.backward(arena, steps.Call(*given))
        called("cuStreamSynchronize", arena.stream)
        results.append([each.clone() for each in made])
    torch.save(results, folder / "results.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
