"""Rows R2, R7, R13 and R14 of the corpus: stage counts, stale memory, completion of MMAs, operand majors."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.conformance.check import property as check
from tileproof.conformance.check.under_test import on_emulator
from tileproof.kernels.edit import Edit, InStage, Place, PlantedDefect
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.plans import head64
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs

from tests.kit.backward_cases import exact_case, random_case
from tests.kit.corpus import SCHEDULES, changed, in_ptx, run, source
from tests.kit.mla_problems import ONE_CTA, outputs
from tests.kit.sampled import sampled


@pytest.mark.corpus("R2")
@pytest.mark.parametrize("d_qk", sampled([576, 512], 2))
def test_R2_another_number_of_dkv_stages_gives_the_same_result(
    d_qk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, exact = random_case(30, d_qk=d_qk, topk=192), exact_case(31, d_qk=d_qk)
    fixed_for_two = source(
        "mma.cuh", ("k * Cfg::kPartsPerStage + part / Cfg::kDkvStages", "k * 2 + part / 2")
    )
    ours, whole = run(inputs), run(exact)
    assert ours.clean and run(inputs, fixed_for_two).clean  # two stages hide it
    monkeypatch.setattr(head64, "DKV_STAGES", 1)
    for schedule in SCHEDULES:
        seen = run(inputs, schedule=schedule)
        assert seen.clean
        for name in ("delta", "dQ"):
            assert seen.outputs[name].tobytes() == ours.outputs[name].tobytes()
        assert (run(exact, schedule=schedule).outputs["dKV"] == whole.outputs["dKV"]).all()
    bad = run(inputs, fixed_for_two)
    assert "hang" in bad.codes and bad.waits & {"dkv_ready", "dkv_free"}


@pytest.mark.corpus("R7")
def test_R7_outputs_do_not_depend_on_what_memory_held() -> None:
    inputs = random_case(32, topk=64)
    fresh = run(inputs)
    assert fresh.clean
    every_other_head = source(
        "dkv_export.cuh",
        (
            "params.delta[first_row + lane] = delta;",
            "if (lane % 2 == 0) params.delta[first_row + lane] = delta;",
        ),
    )
    held = {name: fresh.outputs[name] for name in ("delta", "dQ")}
    # On memory that an earlier, right run has left, nothing is to be seen.
    assert run(inputs, every_other_head, prefill=held).clean
    for byte in (0xA5, 0xFF, 0x00):
        stale = {
            name: np.full(array.nbytes, byte, np.uint8).view(array.dtype).reshape(array.shape)
            for name, array in held.items()
        }
        seen = run(inputs, prefill=stale)
        assert seen.clean
        for name in held:
            assert seen.outputs[name].tobytes() == fresh.outputs[name].tobytes()
        assert run(inputs, every_other_head, prefill=stale).wrong == "delta"


def all_ones(d_qk: int) -> Inputs:
    """One token, 128 keys, every element 1: each P is d_qk."""
    case = random_case(33, s_q=1, d_qk=d_qk, indices=np.arange(128, dtype=np.int32)[None])
    return changed(case, q=np.ones_like(case.q), kv=np.ones_like(case.kv), dO=np.ones_like(case.dO))


@pytest.mark.corpus("R13")
@pytest.mark.parametrize("d_qk", sampled([576, 512], 2))
def test_R13_all_ones_show_the_whole_product(d_qk: int) -> None:
    inputs = all_ones(d_qk)
    for schedule in SCHEDULES:
        seen = run(inputs, schedule=schedule)
        assert seen.codes == set()
        for k in range(2):
            assert (seen.run.tiles["P", 0, 0, k] == d_qk).all()
            assert (seen.run.tiles["dP", 0, 0, k] == 512).all()
    arrives_only = in_ptx(
        r"tcgen05\.commit\.cta_group::1\.mbarrier::arrive::one\.shared::cluster\.b64 (\[%r\d+\]);",
        r"mbarrier.arrive.release.cta.shared::cta.b64 _, \1;",
    )
    bad = run(inputs, arrives_only, schedule=SCHEDULES[1])
    assert "tmem-pending" in bad.codes or "tmem-uninitialised" in bad.codes
    assert (bad.run.tiles["P", 0, 0, 0] != d_qk).any()
    half = source("load.cuh", ("kv_lo_ready::tx_bytes);", "kv_lo_ready::tx_bytes / 2);"))
    seen_wrong = [run(inputs, half, schedule=Schedule("random", seed)) for seed in range(1, 25)]
    assert any("shared-pending" in bad.codes for bad in seen_wrong)
    # Part of the keys is missing from the sum where their bytes had not landed.
    tiles = [bad.run.tiles[at] for bad in seen_wrong if (at := ("P", 0, 0, 0)) in bad.run.tiles]
    assert any((tile != d_qk).any() for tile in tiles)


@pytest.mark.corpus("R13")
def test_R13_a_product_of_a_cta_pair_is_published_by_its_commit() -> None:
    """head128-part0 multiplies with cta_group::2."""
    commit = Place(
        "ptx::commit_pair(smem.p_ready[s].address(), kEveryRank);", "sm100/head128_part0/kernel.cuh"
    )
    planted = PlantedDefect(
        "published-by-arrivals",
        "P of the pair is published by arrivals in both CTAs, without waiting for the MMA",
        "R13",
        "head128-part0",
        (Edit(commit, "smem.p_ready[s].arrive_in(0);\n      smem.p_ready[s].arrive_in(1);"),),
        InStage("P", "every tile"),
    )
    part0 = kernel("head128-part0")
    unplanted = check.check(on_emulator(part0, part0.variant(d_qk=576)), examples=5, seed=0, policy="late")
    assert unplanted.failure is None
    under_test = on_emulator(part0, part0.variant(d_qk=576), planted=planted)
    report = check.check(under_test, examples=5, seed=0, policy="late", shrink_seconds=1.0)
    assert report.failure is not None and report.failure.findings[0].problem.stage == "P"


@pytest.mark.corpus("R14")
@pytest.mark.parametrize("d_qk", [576, 512])
def test_R14_sums_of_two_products_with_both_majors_are_exact(d_qk: int) -> None:
    inputs = exact_case(34, d_qk=d_qk)
    whole = outputs(inputs, tiling=ONE_CTA)
    seen = run(inputs)
    assert seen.clean and (seen.outputs["dKV"] == whole["dKV"]).all() and whole["dKV"].any()
    clears_twice = source("mma.cuh", ("dkv_part(q, ds, part, true);", "dkv_part(q, ds, part, false);"))
    assert run(inputs, clears_twice).wrong == "dKV"


@pytest.mark.corpus("R14")
def test_R14_an_mn_major_operand_read_as_k_major_is_seen() -> None:
    inputs = exact_case(35)
    k_major = source(
        "mma.cuh",
        ("Cfg::kDqN, Major::K, Major::MN>", "Cfg::kDqN, Major::K, Major::K>"),
    )
    seen = run(inputs, k_major)
    assert seen.wrong == "dQ" or "mma-operands" in seen.codes
    m_major = source(
        "mma.cuh",
        ("Cfg::kDkvM, Cfg::kKeys, Major::MN, Major::MN>", "Cfg::kDkvM, Cfg::kKeys, Major::K, Major::MN>"),
    )
    assert run(inputs, m_major).wrong == "dKV"
