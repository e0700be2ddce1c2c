"""CUTLASS example 77's backward as a kernel: its stages, its refusals, its defects. Two compilations of it,
about 40 s of one core together, serve all but the slow tests.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tileproof.conformance.beside.mutate.runs import judge, original
from tileproof.conformance.check.run import KernelUnderTest, run_case
from tileproof.conformance.check.under_test import on_emulator
from tileproof.conformance.judging.judged_run import JudgedRun
from tileproof.emulator.codes import CODES
from tileproof.kernels import toolchain
from tileproof.kernels.edit import Edit, InStage, Place, PlantedDefect
from tileproof.kernels.registry import kernel
from tileproof.kernels.sm100.cutlass_fmha_bwd import defects, image, library
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.schedule import Policy, Schedule
from tileproof.spec.plan import KernelPlan
from tileproof.spec.plans import cutlass_fmha_bwd
from tileproof.spec.plans.consistency import contradictions
from tileproof.spec.problems.dense_attention_bwd.key_block import KeyBlockCase, KeyBlockCases

from tests.kit.sampled import sampled

SHIPPED, MENDED = "cutlass-fmha-bwd", "cutlass-fmha-bwd-mended"
CASES = KeyBlockCases("f16")
BLOCKS = KeyBlockCase("f16", m=384, n=128, d_qk=64, d_v=64, seed=1)
SLOW = [(128, 0), (64, 1), (128, 1), (64, 2), (128, 2)]
POLICIES: tuple[Policy, ...] = ("early", "late", "random", "starve", "pct")


def under_test(
    name: str, d_tile: int = 64, causal: int = 0, planted: PlantedDefect | None = None
) -> KernelUnderTest:
    target = kernel(name)
    return on_emulator(target, target.variant(d_tile=d_tile, causal=causal), planted=planted)


def ran(tested: KernelUnderTest, case: KeyBlockCase, policy: Policy = "late") -> JudgedRun:
    return run_case(tested, case, Schedule(policy), again=False)


def edges(plan: KernelPlan, cases: KeyBlockCases = CASES) -> Iterator[KeyBlockCase]:
    for edge in cases.edges(plan).values():
        assert isinstance(edge.case, KeyBlockCase)
        yield edge.case


@pytest.mark.parametrize("part", sampled(range(3), 3))
def test_every_stage_is_right_at_the_edges(part: int) -> None:
    tested = under_test(MENDED)
    plan = tested.plan()
    for number, case in list(enumerate(edges(plan)))[part::3]:
        verdict = ran(tested, case, POLICIES[number % len(POLICIES)])
        assert not verdict.findings, (case, verdict.findings)
        assert set(plan.stages) <= set(verdict.scores)


def test_the_shipped_kernel_frees_tensor_memory_under_its_last_product() -> None:
    """Lines 1806 to 1814 of the kernel; docs/findings.md."""
    found = {finding.code for finding in ran(under_test(SHIPPED), replace(BLOCKS, m=128)).findings}
    assert {"tmem-dealloc-in-flight", "tmem-not-allocated"} <= found


def test_the_shipped_kernel_overwrites_a_product_of_another_shape() -> None:
    """With 64 columns dQ has another shape than the dP under it, and no fence stands between."""
    assert "race-tcgen05-fence" in {
        finding.code for finding in ran(under_test(SHIPPED), BLOCKS, "early").findings
    }


def test_delta_overflows_where_a_product_does() -> None:
    """One query and one key, o = v = dO = 300: delta = dP = 720000 and every gradient but dV is 0."""
    inputs = KeyBlockCase("f16", m=1, n=1, d_qk=8, d_v=8, scale=1.0).inputs()
    value = {"q": 0.5, "k": 0.5, "v": 300.0, "o": 300.0, "dO": 300.0, "lse": 2.0}
    inputs = replace(inputs, **{name: np.full_like(getattr(inputs, name), x) for name, x in value.items()})
    tested = under_test(MENDED)
    launch = tested.kernel.launch(inputs, tested.production)
    seen = tested.driver.run(launch, tested.plan(), Schedule("late"), False).outputs
    assert np.isinf(seen["delta"].values[0, 0, 0]) and not np.isfinite(seen["dQ"].values).any()
    assert np.isinf(seen["dK"].values).all() and (seen["dV"].values == 300).all()


@pytest.mark.parametrize("planted", sampled(defects.DEFECTS, 3), ids=lambda defect: defect.id)
def test_a_planted_defect_is_found_in_its_stage(planted: PlantedDefect) -> None:
    assert isinstance(planted.expected, InStage)
    first = ran(under_test(MENDED, planted=planted), BLOCKS).findings[0]
    assert planted.expected.fits(first.problem.stage or "", first.code or ""), first


def test_every_stage_has_a_planted_defect() -> None:
    stages = {defect.expected.stage for defect in defects.DEFECTS if isinstance(defect.expected, InStage)}
    assert stages == set(cutlass_fmha_bwd.plan(64, 0).stages)


def test_a_missing_proxy_fence_is_a_race() -> None:
    text = "copy_aligned(tTR_rDST, sDS_pi_slice); cutlass::arch::fence_view_async_shared();"
    edit = Edit(Place(text, image.MAIN_SOURCE, opcode="fence.proxy.async"))
    planted = PlantedDefect("no-fence", "", "", MENDED, (edit,), InStage("dS", "", "race-proxy-fence"))
    first = ran(under_test(MENDED, planted=planted), BLOCKS).findings[0]
    assert first.code == "race-proxy-fence" and first.problem.stage == "dS"


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"d_qk": 72, "d_v": 64}, "d_v"),
        ({"d_qk": 136, "d_v": 136}, "d_qk"),
        ({"d_qk": 60, "d_v": 60}, "d_qk"),
        ({"dropout": 0.5}, "dropout"),
        ({"packed": ((3, 4), (5, 6))}, "packed"),
        ({"left": 3, "right": 0}, "mask"),
    ],
)
def test_what_it_does_not_compute_is_refused_by_name(change: dict[str, object], where: str) -> None:
    case = replace(BLOCKS, **change)  # type: ignore[arg-type]
    with pytest.raises(TileproofError) as caught:
        kernel(MENDED).variant_of(case.inputs())
    assert where in caught.value.where


def test_keys_that_are_not_masked_are_found() -> None:
    """Behind the last key exp(0 - lse) meets zeros of K, and shows only where it overflows."""
    tested = under_test(MENDED)
    masks = re.findall(r"selp\.b32 \t%r\d+, -8388608, %r\d+, (%p\d+);", tested.production.ptx)
    (most, _), *_ = Counter(masks).most_common(1)
    ptx, number = re.subn(rf"setp\.ge\.u32 \t{most}, [^;]*;", f"mov.pred {most}, 0;", tested.production.ptx)
    assert number == 1
    wrong = replace(tested, production=replace(tested.production, ptx=ptx))
    low = CASES.edges(tested.plan())["low logits"].case
    assert isinstance(low, KeyBlockCase)
    assert ran(wrong, low).findings[0].problem.stage == "dQ"
    assert not ran(tested, low).findings and not ran(wrong, replace(low, values="normal")).findings


def test_a_bias_is_refused() -> None:
    target, case = kernel(MENDED), replace(BLOCKS, m=8, n=8, bias=True)
    with pytest.raises(TileproofError, match="bias"):
        target.launch(case.inputs(), target.build(target.variant(d_tile=64, causal=0)))


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> toolchain.Toolchain:
        raise TileproofError("the CuTe headers are not installed", do=toolchain.INSTALL)

    image.example_sources.cache_clear()
    monkeypatch.setattr(toolchain, "find", missing)
    with pytest.raises(TileproofError, match="not installed"):
        under_test(MENDED)
    monkeypatch.undo()
    image.example_sources.cache_clear()


def test_the_plans_are_consistent() -> None:
    for build in cutlass_fmha_bwd.BUILDS:
        for d_tile in build.tiles:
            for causal in range(len(cutlass_fmha_bwd.MASKS)):
                assert not list(contradictions(cutlass_fmha_bwd.plan(d_tile, causal, build.name, build)))
    with pytest.raises(TileproofError):
        cutlass_fmha_bwd.plan(96, 0)


def test_a_tile_within_another_must_lie_in_it() -> None:
    plan = cutlass_fmha_bwd.plan(64, 0)
    moved = tuple(
        replace(tmem_tile, column=tmem_tile.column + 128) if tmem_tile.name == "dQ" else tmem_tile
        for tmem_tile in plan.tmem
    )
    assert any(
        "dQ does not lie within dP" in contradiction
        for contradiction in contradictions(replace(plan, tmem=moved))
    )
    lost = tuple(
        replace(tmem_tile, within="none") if tmem_tile.name == "dQ" else tmem_tile for tmem_tile in plan.tmem
    )
    assert any(
        "which is no tile of its own" in contradiction
        for contradiction in contradictions(replace(plan, tmem=lost))
    )


def test_the_launches_are_those_of_the_example() -> None:
    case = KeyBlockCase("f16", b=2, m=130, n=300, h_kv=3, heads=2, d_qk=40, d_v=40)
    target = kernel(MENDED)
    built = target.build(target.variant(d_tile=64, causal=0))
    launch = target.launch(case.inputs(), built)
    assert [each.entry.removeprefix(built.entry) for each in launch.launches] == [
        "_sum_odo",
        "",
        "_convert",
    ]
    assert launch.main.grid == (3, 3, 2)  # blocks of keys, KV heads, batches
    assert launch.main.shared_bytes == target.plan(target.variant(d_tile=64, causal=0)).smem_bytes
    assert {buffer.name for buffer in launch.buffers} == set(library.POINTERS) - {"cu_q", "cu_k"}


def test_another_cuda_runtime_in_the_process_is_not_called(tmp_path: Path) -> None:
    """TileLang, for one, loads a runtime of its own for all to see."""
    other = tmp_path / "other.c"
    other.write_text(
        "#include <stdlib.h>\nint cudaMemsetAsync() { abort(); }\nint cudaGetLastError() { abort(); }\n"
    )
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-w", str(other), "-o", str(tmp_path / "other.so")], check=True
    )
    program = f"""
import ctypes
ctypes.CDLL({str(tmp_path / "other.so")!r}, mode=ctypes.RTLD_GLOBAL)
from tileproof.kernels.registry import kernel
from tileproof.spec.problems.dense_attention_bwd.key_block import KeyBlockCase
target = kernel({MENDED!r})
case = KeyBlockCase("f16", m=130, n=128, d_qk=64, d_v=64)
print(len(target.launch(case.inputs(), target.build(target.variant(d_tile=64, causal=0))).launches))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr


@pytest.mark.slow
def test_a_plan_that_the_kernel_does_not_follow_does_not_compile() -> None:
    target = kernel(MENDED)
    variant = target.variant(d_tile=64, causal=0)
    plan = target.plan(variant)
    moved = tuple(
        replace(smem_tile, offset=smem_tile.offset + 1024) if smem_tile.name == "dQ_out" else smem_tile
        for smem_tile in plan.smem
    )
    with pytest.raises(TileproofError, match="static assertion"):
        target.build_plan(variant, replace(plan, smem=moved))


@pytest.mark.slow
@pytest.mark.parametrize(("d_tile", "causal"), SLOW)
def test_the_other_builds_are_right_at_the_edges(d_tile: int, causal: int) -> None:
    tested = under_test(MENDED, d_tile, causal)
    for number, case in enumerate(edges(tested.plan())):
        verdict = ran(tested, case, POLICIES[number % len(POLICIES)])
        assert not verdict.findings, (case, verdict.findings)


@pytest.mark.slow
def test_mutants_are_judged_as_check_does_where_the_letter_finds_something() -> None:
    target = kernel(MENDED)
    base = original(target, target.variant(d_tile=64, causal=0), "quick")
    assert not base.strict and base.letter
    # Under `random` a commit comes after its CTA's exit, which ends that launch: it is no judge.
    assert ("commit-at-exit" in {code for code, _ in base.letter.found}) == (
        len(base.letter.runs) < len(base.runs)
    )
    # By the letter but for that: the kernel itself passes, and not without the fences behind its waits.
    short = replace(base, runs=base.runs[:2], did=base.did[:2])
    assert judge(base.built, short)[0] is None
    fences = base.built.ptx.replace("tcgen05.fence::after_thread_sync;", "")
    kill, *_ = judge(replace(base.built, ptx=fences), short)
    assert kill is not None and kill.findings[0].code in CODES and kill.findings[0].kind == "machine"


def test_its_problem_is_registered() -> None:
    assert cutlass_fmha_bwd.PLAIN.problem.generator == CASES


OTHERS = ("cutlass-fmha-bwd-bf16-mended", "cutlass-fmha-bwd-packed-mended")
SEQUENCES = ((100, 128), (384, 128))


def of_build(name: str) -> KeyBlockCase:
    """`BLOCKS` for another build: in its form, or as the second of two packed sequences."""
    return replace(BLOCKS, form="bf16") if "bf16" in name else replace(BLOCKS, packed=SEQUENCES)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_bf16_and_packed_sequences_are_right_at_the_edges(name: str) -> None:
    """Among the packed sequences, one has no keys and one has no queries."""
    tested = under_test(name)
    plan = tested.plan()
    form = "bf16" if "bf16" in name else "f16"
    for number, case in enumerate(edges(plan, KeyBlockCases(form))):
        verdict = ran(tested, case, POLICIES[number % len(POLICIES)])
        assert not verdict.findings, (case, verdict.findings)
        assert set(plan.stages) <= set(verdict.scores)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_planted_defects_of_the_other_builds_are_found_in_their_stages(name: str) -> None:
    for planted in kernel(name).defects():
        assert isinstance(planted.expected, InStage)
        first = ran(under_test(name, planted=planted), of_build(name)).findings[0]
        assert planted.expected.fits(first.problem.stage or "", first.code or ""), (planted.id, first)


@pytest.mark.parametrize("name", OTHERS)
def test_a_build_refuses_the_problems_of_another_by_name(name: str) -> None:
    other = of_build(OTHERS[1 - OTHERS.index(name)])
    target = kernel(name)
    with pytest.raises(TileproofError) as caught:
        target.variant_of(other.inputs())
    assert caught.value.where == "problem.packed"
    plan = target.plan(target.variant(d_tile=64, causal=0))
    words = {feature for feature, _ in plan.refuses}
    assert ("packed sequences" in words) == ("packed" not in name)
    assert {"a value head of its own", "a bias", "dropout", "a sliding window"} <= words
