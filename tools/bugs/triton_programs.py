"""The Triton kernels as programs: each fills tensors of its own and returns whether the values are right."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType

import numpy as np
import torch
from tileproof.tools.bugs import triton_kernels as kernels
from triton.tools.tensor_descriptor import TensorDescriptor


def _draw(*shape: int) -> torch.Tensor:
    """f16 of small integers: products and sums of them are exact in f32."""
    return torch.from_numpy(np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(np.float16))


def _maps(*tensors: torch.Tensor, box: tuple[int, int]) -> list[TensorDescriptor]:
    return [TensorDescriptor.from_tensor(tensor, list(box)) for tensor in tensors]


def add(wrong: str) -> bool:
    x, y, out = torch.arange(1000.0), torch.full((1000,), 0.5), torch.zeros(1000)
    kernels.add[lambda meta: (-(-1000 // meta["BLOCK"]),)](x, y, out, 1000, BLOCK=256, WRONG=wrong)
    return torch.equal(out, x + y)


def softmax(wrong: str) -> bool:
    # The rows of x are a view of a storage that ends with the last of them.
    x = torch.randn(2100, generator=torch.Generator().manual_seed(1)).as_strided((6, 100), (400, 1))
    out = torch.zeros(6, 100)
    kernels.softmax[(6,)](x, out, x.stride(0), 100, BLOCK=128, WRONG=wrong)
    return torch.allclose(out.double(), torch.softmax(x.double(), 1), rtol=1e-6, atol=1e-7)


def product(wrong: str) -> bool:
    a, b, c = _draw(256, 128), _draw(128, 128), torch.zeros(256, 128)
    kernels.product[(2, 1, 2)](*_maps(a, b, box=(128, 64)), c, 128, 128, 128, 128, 64, wrong)
    return torch.equal(c.double(), a.double() @ b.double().T)


def persistent(wrong: str) -> bool:
    a, b = _draw(256, 128), _draw(256, 128)
    c, total = torch.zeros(256, 256), torch.zeros(1, dtype=torch.int32)
    kernels.persistent[(3,)](*_maps(a, b, box=(128, 64)), c, total, 256, 256, 128, 128, 128, 64, wrong)
    return torch.equal(c.double(), a.double() @ b.double().T) and int(total) == 4


def attention(wrong: str, rows: int = 200, keys: int = 96, d: int = 64) -> bool:
    q, k, v = (_draw(n, d) / 4 for n in (rows, keys, keys))
    o, lse = torch.zeros(rows, d, dtype=torch.float16), torch.zeros(rows)
    scale = d**-0.5
    kernels.attention[(2,)](
        *_maps(q, box=(128, d)), *_maps(k, v, box=(64, d)), o, lse, rows, keys, scale * 1.4426950408889634,
        128, 64, d, wrong,
    )  # fmt: skip
    s = q.double() @ k.double().T * scale
    right = torch.softmax(s, 1) @ v.double()
    # P and O are rounded to f16 (2^-11 each); |v| is 1 at most.
    return bool((o.double() - right).abs().max() <= 2.0**-10) and torch.allclose(
        lse.double(), torch.logsumexp(s, 1) * 1.4426950408889634, atol=1e-5
    )


def gluon(wrong: str) -> bool:
    """A product of 256 cubed by Gluon: a warp loads, a warp multiplies, the others store."""
    from tileproof.tools.bugs import gluon_kernels
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as GluonDescriptor

    def described(tensor: torch.Tensor, *box: int) -> GluonDescriptor:
        kind = {torch.float16: gl.float16, torch.float32: gl.float32}[tensor.dtype]
        layout = gl.NVMMASharedLayout.get_default_for(list(box), kind)
        return GluonDescriptor.from_tensor(tensor, list(box), layout)

    a, b, c = _draw(256, 256), _draw(256, 256), torch.zeros(256, 256)
    maps = described(a, 128, 64), described(b, 128, 64), described(c, 128, 128)
    gluon_kernels.matmul[(2, 2)](*maps, 256, 3, False, num_warps=4, WRONG=wrong)
    return torch.equal(c.double(), a.double() @ b.double().T)


CASES: dict[str, tuple[Callable[[str], bool], tuple[str, ...]]] = {
    "add": (add, ("mask", "stride", "block", "race")),
    "softmax": (softmax, ("mask", "stride", "block", "race")),
    "product": (product, ("race", "stride", "block")),
    "persistent": (persistent, ("race", "block")),
    "attention": (attention, ("mask", "stride", "block", "race")),
}


def planted_line(name: str, wrong: str, module: ModuleType = kernels) -> str:
    """Where the mistake stands: "FILE:LINE"."""
    lines = inspect.getsource(module).splitlines()
    (number,) = (n for n, line in enumerate(lines, 1) if line.endswith(f"# planted: {name} {wrong}"))
    return f"{module.__name__.rpartition('.')[2]}.py:{number}"
