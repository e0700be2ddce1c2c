"""Defects planted in head64's sources: each is caught, and the right stage is the first one found wrong."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tileproof.kernels.compile import ROOT
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.problems.sparse_mla_bwd.inputs import key_mask

from tests.kit.backward_cases import random_case
from tests.kit.backward_runs import Run, first_wrong, run

# kernels/sm100/head64/defects.py plants most of these too; here the kernel's own tests judge them.
pytestmark = pytest.mark.slow
FOLDER = "sm100/head64"


@dataclass(frozen=True)
class Defect:
    """`old` of `file` becomes `new`; `stage` is the first that must be found wrong."""

    name: str
    file: str
    old: str
    new: str
    stage: str

    def overrides(self) -> dict[str, str]:
        path = posixpath.normpath(f"{FOLDER}/{self.file}")
        text = (ROOT / path).read_text()
        assert self.old in text, f"{self.name}: {path} does not hold the text to change"
        return {path: text.replace(self.old, self.new)}


WRONG_VALUES = [
    Defect("delta of half the row", "../delta.cuh", "v < kVectors", "v < kVectors / 2", "delta"),
    Defect(
        "delta of the neighbour's o",
        "../delta.cuh",
        "(batch + h) * Plan::d_v",
        "batch * Plan::d_v",
        "delta",
    ),
    Defect(
        "P without RoPE",
        "mma.cuh",
        "scores<Cfg::kVTiles, Cfg::kQkTiles>(q",
        "scores<Cfg::kVTiles, Cfg::kVTiles>(q",
        "P",
    ),
    Defect("P reads dO", "mma.cuh", "scores<0, Cfg::kLoTiles>(q", "scores<0, Cfg::kLoTiles>(dO", "P"),
    Defect(
        "keys of one gather swapped",
        "../context.cuh",
        "key_row(index.x, slot)",
        "key_row(index.w, slot)",
        "P",
    ),
    Defect(
        "one half of the keys from the wrong slots",
        "load.cuh",
        "keys_from(k * Plan::b_topk + row)",
        "keys_from(k * Plan::b_topk + row % 32)",
        "P",
    ),
    Defect("sm_scale without log2(e)", "softmax.cuh", "params.sm_scale_log2e", "params.sm_scale", "S"),
    Defect(
        "lse of the next head",
        "softmax.cuh",
        "this->first_head() + head)",
        "this->first_head() + (head ^ 1))",
        "S",
    ),
    Defect(
        "no mask on S",
        "softmax.cuh",
        "(keys >> j & 1) ? ptx::exp2",
        "(keys >> j & 1 || true) ? ptx::exp2",
        "S",
    ),
    Defect(
        "S stored unswizzled",
        "softmax.cuh",
        "swizzled_chunk(head, half *",
        "kRowBytes * head + 16 * uint32_t(half *",
        "S",
    ),
    Defect(
        "dP misses a column tile",
        "mma.cuh",
        "scores<Cfg::hi_tile(Part), Cfg::hi_tile(Part + 1)>(dO",
        "scores<Cfg::hi_tile(Part), Cfg::hi_tile(Part + 1) - Part>(dO",
        "dP",
    ),
    Defect("dS without delta", "softmax.cuh", "(x[j] - delta)", "x[j]", "dS"),
    Defect(
        "dS with the scale twice", "softmax.cuh", "(x[j] - delta)", "(x[j] - delta) * params.sm_scale", "dS"
    ),
    Defect("dS is not scaled", "softmax.cuh", "(x[j] - delta) * params.sm_scale", "(x[j] - delta)", "dS"),
    Defect("dQ starts again in every k-block", "mma.cuh", "dq_part(0, k != 0)", "dq_part(0, false)", "dQ"),
    Defect(
        "dQ without the upper keys",
        "mma.cuh",
        "ptx::mma_ws_f16_ss(d, further(a, key * 2), further(b, key * kRowBytes)",
        "ptx::mma_ws_f16_ss(d, further(a, key % 32 * 2), further(b, key % 32 * kRowBytes)",
        "dQ",
    ),
    Defect(
        "dQ columns swapped", "softmax.cuh", "part * Cfg::kDqN + half", "part * Cfg::kDqN + (1 - half)", "dQ"
    ),
    Defect(
        "dKV without S^T dO", "mma.cuh", "dkv_part(q, ds, part, true)", "dkv_part(q, ds, part, false)", "dKV"
    ),
    Defect(
        "dKV of the wrong columns of q",
        "mma.cuh",
        "mn_major<kRows>(a, part * Cfg::kDkvM, 0)",
        "mn_major<kRows>(a, 0, 0)",
        "dKV",
    ),
    Defect("dKV from S twice", "mma.cuh", "dkv_part(q, ds, part, true)", "dkv_part(q, s, part, true)", "dKV"),
    Defect("dKV added one key off", "dkv_export.cuh", "rows, j);", "rows, j ^ 1);", "dKV rows"),
    Defect(
        "dKV of the rope left out",
        "dkv_export.cuh",
        "add(v, t < Cfg",
        "if (k < 0) add(v, t < Cfg",
        "dKV rows",
    ),
    Defect(
        "dKV added twice",
        "dkv_export.cuh",
        "{\n      if (Every",
        "for (int twice = 0; twice < 2; ++twice) {\n      if (Every",
        "dKV rows",
    ),
]
"""Each holds one sentence's worth of wrong value."""


MISSING_ORDER = [
    Defect("no commit for P", "mma.cuh", "ptx::commit(smem.p_ready.address());", "", "hang"),
    Defect(
        "the upper keys are never freed",
        "mma.cuh",
        "ptx::commit(smem.kv_hi_free.address());",
        "",
        "hang",
    ),
    Defect(
        "half of the bytes expected",
        "load.cuh",
        "kv_lo_ready::tx_bytes)",
        "kv_lo_ready::tx_bytes / 2)",
        "hang",
    ),
    Defect(
        "dQ waited for without a k-block",
        "softmax.cuh",
        "if (k_blocks > 0) {\n      smem.dq_ready",
        "if (true) {\n      smem.dq_ready",
        "hang",
    ),
    Defect(
        "keys overwritten while dQ reads them",
        "load.cuh",
        "smem.kv_hi_free.wait_own((k & 1) ^ 1);",
        "",
        "dQ",
    ),
    Defect(
        "a dKV part overwritten while it is read",
        "mma.cuh",
        "smem.dkv_free[part % Cfg::kDkvStages].wait_own((use & 1) ^ 1);",
        "",
        "dKV rows",  # the part is right when its commit publishes it, and wrong when it is exported
    ),
    Defect(
        "P read before its parity",
        "softmax.cuh",
        "smem.p_ready.wait_own(parity)",
        "smem.p_ready.wait_own(parity ^ 1)",
        "S",
    ),
    Defect("dP not waited for", "softmax.cuh", "smem.dp_ready.wait_own(parity);", "", "dS"),
    Defect("S not waited for", "mma.cuh", "smem.s_ready.wait_own(parity);", "", "dKV"),
    Defect(
        "keys waited for behind P",
        "mma.cuh",
        "smem.kv_lo_ready.wait_own(parity);\n      ptx::fence_after_thread_sync();\n      p_lo();",
        "p_lo();\n      smem.kv_lo_ready.wait_own(parity);\n",
        "P",
    ),
    Defect("dQ committed after the first k-block", "mma.cuh", "k == k_blocks - 1", "k == 0", "dQ"),
    Defect("delta not waited for", "softmax.cuh", "smem.delta_ready.wait_own(0);", "", "dS"),
    # The store is reported, then completes, and its values are right.
    Defect(
        "exit before the store has read",
        "softmax.cuh",
        "ptx::wait_bulk_groups();",
        "",
        "bulk-store-at-exit",
    ),
]
"""Each drops or misplaces one point of the barrier protocol; under some schedule it shows."""

OUTSIDE = [
    Defect(
        "no guard on the row",
        "dkv_export.cuh",
        "if (Every || row[j] >= 0) ptx",
        "ptx",
        "global-out-of-bounds",
    ),
    Defect(
        "indices past s_kv are keys", "../context.cuh", " && index < params.s_kv", "", "global-out-of-bounds"
    ),
    Defect(
        "TMEM not freed",
        "kernel.cuh",
        "TMEM::Allocator1Sm{}.free(smem.tmem_base, Plan::tmem_columns);",
        "",
        "tmem-leak",
    ),
]
"""What the machine itself reports, by the finding's code."""


@pytest.mark.parametrize("defect", WRONG_VALUES, ids=lambda d: d.name)
def test_a_wrong_value_is_found_in_its_stage(defect: Defect) -> None:
    seen = run(random_case(d_qk=576), source_overrides=defect.overrides())
    assert first_wrong(seen) == defect.stage


@pytest.mark.parametrize("defect", MISSING_ORDER, ids=lambda d: d.name)
def test_a_gap_in_the_protocol_shows_under_some_schedule(defect: Defect) -> None:
    inputs = random_case(topk=192, topk_length=np.array([192, 0], dtype=np.int32))
    shown: set[Any] = set()
    for schedule in (
        Schedule("early"),
        Schedule("late"),
        Schedule("random", 1),
        Schedule("random", 2),
    ):
        seen = run(inputs, schedule=schedule, source_overrides=defect.overrides())
        codes = {finding.code for finding in seen.findings}
        shown |= {"hang"} if "hang" in codes else {first_wrong(seen), *codes}
    assert defect.stage in shown, shown


@pytest.mark.parametrize("defect", OUTSIDE, ids=lambda d: d.name)
def test_the_machine_reports_it(defect: Defect) -> None:
    seen = run(random_case(), taps=False, source_overrides=defect.overrides())
    assert defect.stage in {finding.code for finding in seen.findings}


def test_an_added_zero_is_seen() -> None:
    """The first check of test_rows_that_no_index_selects_keep_their_bits, on a kernel that adds to row 0."""
    defect = Defect(
        "zero added to row 0",
        "dkv_export.cuh",
        "if (Every || row[j] >= 0) ptx::red_add(out + int64_t(row[j])",
        "ptx::red_add(out + int64_t(max(row[j], 0))",
        "",
    )
    inputs = random_case(s_kv=90, indices=np.resize([5, -1, 90], (2, 128)).astype(np.int32))
    before = np.zeros((90, 576), dtype=np.uint32)
    before[0] = 0x7F812345
    clean = run(inputs, dkv=before.view(np.float32), taps=False)
    seen = run(inputs, dkv=before.view(np.float32), taps=False, source_overrides=defect.overrides())
    assert first_wrong_bits(before, clean) is None
    assert first_wrong_bits(before, seen) == 0


def first_wrong_bits(before: np.ndarray, seen: Run) -> int | None:  # type: ignore[type-arg]
    """The first row, of those that no index selects, whose bits changed."""
    changed = (seen.outputs["dKV"].view(np.uint32) != before).any(axis=1)
    changed[np.unique(seen.inputs.indices[key_mask(seen.inputs)])] = False
    return int(np.flatnonzero(changed)[0]) if changed.any() else None


def test_an_unclamped_length_is_found() -> None:
    defect = Defect(
        "length not clamped", "../context.cuh", "length = max(0, min(length, params.topk));", "", ""
    )
    inputs = random_case(topk=64, topk_length=np.array([65, 64], dtype=np.int32))
    assert first_wrong(run(inputs)) is None
    seen = run(inputs, taps=False, source_overrides=defect.overrides())
    clean = run(inputs, taps=False)
    assert seen.findings or seen.outputs["dKV"].tobytes() != clean.outputs["dKV"].tobytes()
