"""What must stand in the PTX of head128-part0, counted from its plan; and that the counts can fail."""

from __future__ import annotations

import re

import pytest
from tileproof.kernels.compile import ROOT
from tileproof.spec.machine.descriptors import InstructionDescriptor
from tileproof.spec.machine.mma import check_shape, layout_of
from tileproof.spec.plan import KernelPlan
from tileproof.spec.plans.head128_part0 import D_QKS, plan

from tests.kit.builds import build

NAME = "head128-part0"
SOURCE = "sm100/head128_part0/kernel.cuh"


def faults(ptx: str, p: KernelPlan) -> list[str]:
    """How `ptx` deviates from what the plan needs, by static counts."""
    tiles = p.size("d_qk") // 64
    rows_per_warp = p.smem_tile("KV").rows // 4
    (mma,) = p.mmas
    stages = sum(barrier.stages for barrier in p.barriers)
    wanted = {
        r"tcgen05\.mma\.cta_group::2\.kind::f16": mma.k // 16,
        r"tile::gather4.*\.cta_group::2": tiles * rows_per_warp // 4,
        r"cp\.async\.bulk\.tensor\.2d\.cta_group::2": tiles + p.size("d_v") // 64,
        r"mbarrier\.init": stages,
        r"fence\.mbarrier_init\.release\.cluster": 1,
        r"mbarrier\.arrive\.expect_tx\.release\.cta\.": 3,
        r"mbarrier\.arrive\.release\.cluster\.shared::cluster": 1,
        r"tcgen05\.commit\.cta_group::2.*multicast::cluster": 2,
        r"tcgen05\.alloc\.cta_group::2": 1,
        r"tcgen05\.relinquish_alloc_permit\.cta_group::2": 1,
        r"tcgen05\.dealloc\.cta_group::2": 1,
        r"tcgen05\.ld\.sync\.aligned\.32x32b\.x32": 1,
        r"tcgen05\.wait::ld": 1,
        r"tcgen05\.fence::after_thread_sync": 3,
        r"tcgen05\.fence::before_thread_sync": 2,
        r"barrier\.cluster\.arrive\.aligned": 2,
        r"barrier\.cluster\.arrive\.relaxed\.aligned": 1,  # before the allocation, which the peer joins
        r"barrier\.cluster\.wait\.aligned": 3,
        r"cta_group::1|vprintf|__assertfail|\btrap\b": 0,
    }
    found = {pattern: len(re.findall(pattern, ptx)) for pattern in wanted}
    missing = [
        f"{pattern}: {found[pattern]}, not {count}"
        for pattern, count in wanted.items()
        if found[pattern] != count
    ]

    for barrier in p.barriers:
        if barrier.tx_bytes and not re.search(rf"mov\.b32\s+%r\d+, {barrier.tx_bytes};", ptx):
            missing.append(f"{barrier.name} never expects {barrier.tx_bytes} bytes")
    descriptor = InstructionDescriptor(mma.m, mma.n).encode()
    if not re.search(rf"mov\.b32\s+%r\d+, {descriptor};", ptx):
        missing.append(f"the instruction descriptor {descriptor:#x} of M {mma.m}, N {mma.n} is nowhere")
    return missing


@pytest.mark.parametrize("d_qk", D_QKS)
@pytest.mark.parametrize("probe", [False, True])
def test_ptx_is_what_the_plan_needs(d_qk: int, probe: bool) -> None:
    assert faults(build(NAME, d_qk, probe).ptx, plan(d_qk)) == []


def test_only_the_probe_build_stores_P() -> None:
    store = r"st\.global\.v4"
    assert len(re.findall(store, build(NAME, 576, probe=True).ptx)) == 8
    assert not re.search(store, build(NAME, 576).ptx)


def test_the_mma_is_legal_and_its_accumulator_has_the_plans_layout() -> None:
    p = plan(576)
    for mma in p.mmas:
        check_shape(mma.m, mma.n, mma.cta_group)
        assert layout_of(mma.m, mma.cta_group) == p.tmem_tile(mma.d).layout


def test_the_smem_descriptor_is_k_major_128b() -> None:
    # start 0, LBO 16 B (unused), SBO 1024 B (8 rows), constant 1, 128B swizzle: PTX ISA, matrix descriptor
    high = (1 << 46) | (2 << 61) | (1 << 16) | (64 << 32)
    ptx = build(NAME, 576).ptx
    assert re.search(rf"or\.b64\s+%rd\d+, %rd\d+, {high};", ptx)


PLANTED = {
    "gather4": (
        "for (int c = 0; c < Cfg::kQkTiles; ++c) {\n        CUTE_UNROLL",
        "for (int c = 0; c < Cfg::kVTiles; ++c) {\n        CUTE_UNROLL",
    ),
    "tcgen05\\.commit": ("      ptx::commit_pair(smem.kv_free[b].address(), kEveryRank);\n", ""),
    "after_thread_sync": (
        "      smem.kv_ready[b].wait((k / Cfg::kKvStages) & 1);\n      ptx::fence_after_thread_sync();\n",
        "      smem.kv_ready[b].wait((k / Cfg::kKvStages) & 1);\n",
    ),
}


@pytest.mark.parametrize("says", PLANTED)
def test_planted_defects_are_counted(says: str) -> None:
    text = (ROOT / SOURCE).read_text()
    find, replace = PLANTED[says]
    assert text.count(find) == 1
    variant = build(NAME, 576, source_overrides={SOURCE: text.replace(find, replace)})
    found = faults(variant.ptx, plan(576))
    assert found and all(says in fault for fault in found)
