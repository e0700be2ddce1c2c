"""The copies and the MMA descriptors of the PTX agree: by the machine's rules they multiply to q k^T.

The shared-memory bytes are made from the destinations and columns of the PTX's own TMA instructions, and read
back through the PTX's own matrix descriptors, without executing it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from tileproof.kernels.registry import kernel
from tileproof.spec.machine import smem_layout, tma
from tileproof.spec.machine.descriptors import SmemDescriptor
from tileproof.spec.plan import KernelPlan
from tileproof.spec.plans.head128_part0 import D_QKS, plan

KERNEL = kernel("head128-part0")
BASE = 1024  # where dynamic shared memory starts: any 1024-byte boundary
BUFFER = 1  # the KV buffer that is filled and multiplied

Bytes = npt.NDArray[np.uint8]
Pair = tuple[int, int]


class Ptx:
    """Constants behind the registers of one entry, which nvcc writes once each."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.defined = dict(
            reversed(re.findall(r"^\s*(?:mov|add|or|mad|and)\S*\s+(%rd?\d+), (.+);$", text, re.MULTILINE))
        )

    def offset(self, register: str) -> int:
        """The constant that `register` adds to its base."""
        added = re.fullmatch(r"%rd?\d+, (-?\d+)", self.defined.get(register, ""))
        return int(added[1]) if added else 0

    def constant(self, register: str) -> int:
        """The constant that is moved to `register`."""
        return int(self.defined[register])

    def copies(self, opcode: str) -> list[Pair]:
        """(destination offset, first column) of every `opcode`."""
        found = re.findall(rf"{opcode}\S* \[(%r\d+)\], \[%rd\d+, \{{(%r\d+),", self.text)
        return [(self.offset(dst), self.constant(col)) for dst, col in found]

    def descriptor_steps(self) -> list[Pair]:
        """What each MMA adds to the low words of its A and B descriptors."""
        found = re.findall(r"tcgen05\.mma\S+ \[%r\d+\], (%rd\d+), (%rd\d+),", self.text)
        return [(self._low(a), self._low(b)) for a, b in found]

    def _low(self, descriptor: str) -> int:
        packed = re.fullmatch(r"\{(%r\d+), %r\d+\}", self.defined[descriptor])
        return self.offset(packed[1]) if packed else 0

    def descriptor_constants(self) -> set[int]:
        """The constant part of every matrix descriptor."""
        return {int(bits) for bits in re.findall(r"or\.b64\s+%rd\d+, %rd\d+, (\d+);", self.text)}


def _maps(p: KernelPlan, s_kv: int) -> dict[str, tma.TensorMapFields]:
    def fields(rows: int, cols: int, box_rows: int) -> tma.TensorMapFields:
        return tma.TensorMapFields(
            "bfloat16", (cols, rows), (2 * cols,), (64, box_rows), (1, 1), "128B", "zero"
        )

    return {"q": fields(p.h_q, p.d_qk, p.h_q // p.cluster), "kv": fields(s_kv, p.d_qk, 1)}


def product(
    ptx: Ptx, p: KernelPlan, q: npt.NDArray[Any], kv: npt.NDArray[Any], rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """P ``[h_q, b_topk]`` as the copies and descriptors of `ptx` make it from q and kv[rows]."""
    maps = _maps(p, kv.shape[0])
    kv_tile = p.smem_tile("KV")
    q_copies = ptx.copies(r"tensor\.2d\.cta_group::2")[: p.d_qk // 64]
    smem = []
    for cta in range(p.cluster):
        memory = np.zeros(BASE + p.smem_bytes, dtype=np.uint8)
        heads = p.smem_tile("Q").rows
        for offset, column in q_copies:
            image = tma.tile_image(maps["q"], q.view(np.uint8).ravel(), (column, heads * cta), BASE + offset)
            memory[BASE + offset :][: image.size] = image
        for warp in range(4):
            for index, (offset, column) in enumerate(ptx.copies("gather4")):
                slot = kv_tile.rows * cta + 8 * warp + 4 * (index % 2)
                four = tuple(int(row) for row in rows[slot : slot + 4])
                dst = BASE + offset + BUFFER * kv_tile.bytes + 1024 * warp
                image = tma.gather4_image(maps["kv"], kv.view(np.uint8).ravel(), column, four, dst)  # type: ignore[arg-type]
                memory[dst:][: image.size] = image
        smem.append(memory)

    (constants,) = ptx.descriptor_constants()
    starts = (BASE + p.smem_tile("Q").offset, BASE + kv_tile.offset + BUFFER * kv_tile.bytes)
    total = np.zeros((p.h_q, p.b_topk))
    for steps in ptx.descriptor_steps():
        operands = []
        for start, step, extent in zip(starts, steps, (p.smem_tile("Q").rows, kv_tile.rows), strict=True):
            d = SmemDescriptor.decode(constants | ((start >> 4) + step))
            at = smem_layout.address(
                "K", d.swizzle, d.start, d.lbo, d.sbo, np.arange(extent)[:, None], np.arange(16)[None, :]
            )
            read = [memory[at[..., None] + np.arange(2)].view(ml_dtypes.bfloat16)[..., 0] for memory in smem]
            operands.append(np.concatenate(read).astype(np.float64))
        total += operands[0] @ operands[1].T
    return total


@pytest.fixture(scope="module")
def operands() -> Callable[[int], tuple[Any, Any, Any, Any]]:
    def make(d_qk: int) -> tuple[Any, Any, Any, Any]:
        rng = np.random.default_rng(7)
        q = rng.integers(-4, 5, (128, d_qk)).astype(ml_dtypes.bfloat16)
        kv = rng.integers(-4, 5, (90, d_qk)).astype(ml_dtypes.bfloat16)
        rows = rng.integers(-1, 91, 64)  # -1 and 90 are no rows
        gathered = np.where(((rows >= 0) & (rows < 90))[:, None], kv[rows % 90].astype(np.float64), 0.0)
        return q, kv, rows, q.astype(np.float64) @ gathered.T

    return make


@pytest.mark.parametrize("d_qk", D_QKS)
def test_descriptors_read_what_the_copies_wrote(d_qk: int, operands: Any) -> None:
    q, kv, rows, wanted = operands(d_qk)
    ptx = Ptx(KERNEL.build(d_qk).ptx)
    assert len(ptx.descriptor_steps()) == d_qk // 16
    np.testing.assert_array_equal(product(ptx, plan(d_qk), q, kv, rows), wanted)


def _descriptor(swizzle: str, sbo: int) -> str:
    return str(SmemDescriptor(0, 16, sbo, swizzle).encode())


HONEST = _descriptor("128B", 1024)
PLANTED: dict[str, tuple[str, str]] = {
    "one gather a column tile further": ("139776;", "143872;"),
    "one descriptor a step further": (", 2054;", ", 2056;"),
    "64B swizzle in the descriptors": (f" {HONEST};", f" {_descriptor('64B', 1024)};"),
    "half the stride of 8 rows": (f" {HONEST};", f" {_descriptor('128B', 512)};"),
}


@pytest.mark.parametrize("defect", PLANTED)
def test_planted_defects_change_the_product(defect: str, operands: Any) -> None:
    q, kv, rows, wanted = operands(576)
    find, replace = PLANTED[defect]
    text = KERNEL.build(576).ptx
    assert find in text
    changed = Ptx(text.replace(find, replace))
    assert not np.array_equal(product(changed, plan(576), q, kv, rows), wanted)
