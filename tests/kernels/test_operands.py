"""The copies and the MMA descriptors of the PTX agree: by the machine's rules they multiply to q k^T.

The shared-memory bytes are made from the destinations and columns of the PTX's own TMA instructions, and read
back through the PTX's own matrix descriptors, without executing it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Built:
    """A matrix descriptor: constant | ((start of dynamic shared memory + offset) >> 4 & mask)."""

    offset: int
    mask: int
    constant: int

    def at(self, base: int) -> SmemDescriptor:
        """The descriptor where dynamic shared memory starts at `base`."""
        return SmemDescriptor.decode(self.constant | (base + self.offset) >> 4 & self.mask)


class Ptx:
    """Constants behind the registers of one entry, which nvcc writes once each."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.defined = dict(
            reversed(
                re.findall(r"^\s*(?:mov|add|or|mad|and|shr|cvt)\S*\s+(%rd?\d+), (.+);$", text, re.MULTILINE)
            )
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

    def descriptors(self) -> list[tuple[Built, Built]]:
        """How each MMA builds its A and B descriptors."""
        found = re.findall(r"tcgen05\.mma\S+ \[%r\d+\], (%rd\d+), (%rd\d+),", self.text)
        return [(self._built(a), self._built(b)) for a, b in found]

    def _built(self, descriptor: str) -> Built:
        """or(cvt(and(shr(base + offset, 4), mask)), constant), as operand.cuh writes it."""
        wide, constant = self.defined[descriptor].split(", ")
        masked, mask = self.defined[self.defined[wide]].split(", ")
        address, shift = self.defined[masked].split(", ")
        assert shift == "4"
        return Built(self.offset(address), int(mask), int(constant))


def _maps(p: KernelPlan, s_kv: int) -> dict[str, tma.TensorMapFields]:
    def fields(rows: int, cols: int, box_rows: int) -> tma.TensorMapFields:
        return tma.TensorMapFields(
            "bfloat16", (cols, rows), (2 * cols,), (64, box_rows), (1, 1), "128B", "zero"
        )

    return {
        "q": fields(p.size("h_q"), p.size("d_qk"), p.size("h_q") // p.cluster),
        "kv": fields(s_kv, p.size("d_qk"), 1),
    }


def product(
    ptx: Ptx, p: KernelPlan, q: npt.NDArray[Any], kv: npt.NDArray[Any], rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """P ``[h_q, b_topk]`` as the copies and descriptors of `ptx` make it from q and kv[rows]."""
    maps = _maps(p, kv.shape[0])
    kv_tile = p.smem_tile("KV")
    q_copies = ptx.copies(r"tensor\.2d\.cta_group::2")[: p.size("d_qk") // 64]
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

    # The offset of B is that of KV's first buffer.
    bases = (BASE, BASE + BUFFER * kv_tile.bytes)
    total = np.zeros((p.size("h_q"), p.block))
    for pair in ptx.descriptors():
        operands = []
        for built, base, extent in zip(pair, bases, (p.smem_tile("Q").rows, kv_tile.rows), strict=True):
            d = built.at(base)
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
    ptx = Ptx(KERNEL.build(KERNEL.variant(d_qk=d_qk)).ptx)
    assert len(ptx.descriptors()) == d_qk // 16
    np.testing.assert_array_equal(product(ptx, plan(d_qk), q, kv, rows), wanted)


def _descriptor(swizzle: str, sbo: int) -> str:
    return str(SmemDescriptor(0, 16, sbo, swizzle).encode())


CORRECT = _descriptor("128B", 1024)
PLANTED: dict[str, tuple[str, str]] = {
    "one gather a column tile further": ("139776;", "143872;"),
    "one descriptor a step further": (", 139360;", ", 139392;"),
    "64B swizzle in the descriptors": (f" {CORRECT};", f" {_descriptor('64B', 1024)};"),
    "half the stride of 8 rows": (f" {CORRECT};", f" {_descriptor('128B', 512)};"),
}


@pytest.mark.parametrize("defect", PLANTED)
def test_planted_defects_change_the_product(defect: str, operands: Any) -> None:
    q, kv, rows, wanted = operands(576)
    find, replace = PLANTED[defect]
    text = KERNEL.build(KERNEL.variant(d_qk=576)).ptx
    assert find in text
    changed = Ptx(text.replace(find, replace))
    assert not np.array_equal(product(changed, plan(576), q, kv, rows), wanted)
