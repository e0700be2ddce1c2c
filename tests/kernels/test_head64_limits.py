"""docs/limits.md counts what head64 does: its first table is what the plan and the emulator's counters
say.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from tileproof.spec.plan import KernelPlan, Mma
from tileproof.spec.plans.head64 import D_QKS, plan

from tests.kit.backward_cases import random_case
from tests.kit.backward_runs import KERNEL, run
from tests.kit.paths import ROOT

PAGE = ROOT / "docs" / "limits.md"
MMA_K = 16
SMEM_BYTES_A_CLOCK = 128  # docs/limits.md, Rates
MACS_A_CLOCK = 4096


def steps(mma: Mma) -> int:
    """Instructions of one chain in one k-block."""
    return mma.parts * mma.k // MMA_K


def smem_bytes(mma: Mma) -> int:
    """Bytes that one instruction reads: M rows of A and N of B, 16 bf16 each."""
    return 2 * MMA_K * (mma.m + mma.n)


def clocks(mma: Mma) -> int:
    """Initiation interval of one instruction by the rule that fits every published row (docs/limits.md)."""
    half_rate = mma.m == 64 and not mma.ws
    return max(mma.m * mma.n // 256 * (2 if half_rate else 1), smem_bytes(mma) // SMEM_BYTES_A_CLOCK)


@lru_cache
def counted(d_qk: int) -> dict[str, int]:
    """Counters of a k-block: three k-blocks less two."""
    runs = []
    for topk in (128, 192):
        indices = np.arange(topk, dtype=np.int32)[None]
        runs.append(run(random_case(s_q=1, s_kv=200, d_qk=d_qk, topk=topk, indices=indices), taps=False))
    few, more = (r.counters for r in runs)
    return {name: more[name] - few[name] for name in few}


def table(d_qk: int) -> dict[str, int]:
    """What the page's first table must say, per CTA and k-block of 64 keys."""
    p: KernelPlan = plan(d_qk)
    seen = counted(d_qk)
    kv = p.smem_tile("KV").bytes
    operands = p.smem_tile("S").bytes + p.smem_tile("dS").bytes
    read = sum(steps(mma) * smem_bytes(mma) for mma in p.mmas)
    assert seen["mma_instructions"] == sum(steps(mma) for mma in p.mmas)
    assert seen["mma_macs"] == sum(steps(mma) * mma.m * mma.n * MMA_K for mma in p.mmas)
    assert seen["tma_load_bytes"] == kv
    assert seen["atomic_bytes"] == p.block * d_qk * 4
    used = KERNEL.build(KERNEL.variant(d_qk=d_qk)).resources
    assert used is not None
    return {
        "multiply-adds": seen["mma_macs"],
        "MMA instructions": seen["mma_instructions"],
        "MMA clocks at the full rate": seen["mma_macs"] // MACS_A_CLOCK,
        "MMA clocks by the documented rate": sum(steps(mma) * clocks(mma) for mma in p.mmas),
        "SMEM bytes read by MMAs": read,
        "SMEM bytes written (KV, S, dS)": kv + operands,
        "SMEM clocks": (read + kv + operands) // SMEM_BYTES_A_CLOCK,
        "TMEM bytes read by tcgen05.ld": seen["tmem_bytes"],
        "L2 bytes read (gather)": kv,
        "bytes added to dKV": seen["atomic_bytes"],
        "exp2": p.size("h_q") * p.block,
        "registers per thread": used.registers,
        "SMEM bytes of the CTA": p.smem_bytes,
        "TMEM columns of the CTA": max(tile.column + tile.stages * tile.columns for tile in p.tmem),
    }


def differences(text: str, column: int) -> list[str]:
    """The rows of the page's first table that do not say what is counted, for d_qk `D_QKS[column]`."""
    rows = [line.strip("| ").split("|") for line in text.splitlines() if line.startswith("| ")]
    page = {row[0].strip(): row[1 + column].strip().replace(",", "") for row in rows if len(row) > 2}
    return [name for name, value in table(D_QKS[column]).items() if page.get(name) != str(value)]


@pytest.mark.parametrize("column", range(len(D_QKS)))
def test_the_page_says_what_is_counted(column: int) -> None:
    assert differences(PAGE.read_text(), column) == []


def test_a_stale_number_is_noticed() -> None:
    text = PAGE.read_text()
    assert differences(text.replace("147,456 | 131,072", "147,456 | 131,073"), 1) == ["bytes added to dKV"]
    assert differences(text.replace("| exp2 ", "| exp "), 0) == ["exp2"]
