"""CUTLASS's examples whose values a defect of theirs spoils under some schedules: found, and right without
it where the PTX can be mended (docs/outside.md).
"""

from __future__ import annotations

import re

import pytest
from tileproof.conformance.beside.record.programs import record
from tileproof.conformance.beside.record.recording import Replay
from tileproof.emulator import Module
from tileproof.emulator.errors import LaunchError

from tests.kit.outside.cutlass_cases import EXAMPLES
from tests.kit.outside.cutlass_example import Example, curand
from tests.kit.outside.explained import POLICIES, written_up

try:
    curand()
except LaunchError as error:
    pytest.skip(str(error), allow_module_level=True)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
# A named barrier, then the load of what another thread left: the exchange of the rows' maxima and sums.
EXCHANGE = re.compile(r"(bar\.sync (%r\d+), (%r\d+);(?:(?!bar\.sync).){0,900}?ld\.shared\.f32[^;]*;)", re.S)


def named(name: str) -> Example:
    (example,) = (example for example in EXAMPLES if example.name == name)
    return example


def right_but_for_its_last_commits(example: Example, ptx: str) -> None:
    """The mended kernel under every policy."""
    module = Module.from_ptx(ptx)
    recording = record(example.program, example.arguments, example.processors)
    for schedule in POLICIES:
        ran = example.check(Replay(recording, module), {"schedule": schedule, "races": True})
        assert ran.right, str(schedule)
        assert {f.code for result in ran.results for f in result.errors} == {"race-exit"}


def judged(example: Example) -> tuple[set[str], set[bool]]:
    """The codes of all findings, and whether the values were right, over all policies."""
    found, right = set(), set()
    for schedule in POLICIES:
        ran = example.run(schedule=schedule, races=True)
        right.add(ran.right)
        found |= {finding.code for result in ran.results for finding in result.findings}
    return found, right


def test_the_exchange_of_latent_attention_lacks_a_barrier() -> None:
    """A thread writes its next maximum before its partner has read the last maximum."""
    example = named("77-latent")
    found, right = judged(example)
    assert found == written_up(example.name) and "race-unordered" in found and right == {True, False}
    mended, places = EXCHANGE.subn(r"\1 bar.sync \2, \3;", example.program.ptx.read_text())
    assert places == 10
    right_but_for_its_last_commits(example, mended)


def test_latent_attention_by_cp_async_waits_for_one_group_too_few() -> None:
    """Of 11 groups under way the oldest is handed on after a wait that leaves 11 pending."""
    example = named("77-latent-cp-async")
    found, right = judged(example)
    assert found == written_up(example.name) and right == {True, False}
    assert {"shared-pending", "race-copy-unwaited", "race-proxy-fence"} <= found
    mended = example.program.ptx.read_text()
    wait = "cp.async.wait_group 1{};"
    assert mended.count(wait.format(1)) == 24
    mended = mended.replace(wait.format(1), wait.format(0) + " fence.proxy.async;")
    right_but_for_its_last_commits(example, EXCHANGE.sub(r"\1 bar.sync \2, \3;", mended))


def test_a_sequence_without_keys_overwrites_what_is_being_stored() -> None:
    """One CTA takes a sequence of 256 keys and then one of none."""
    found, right = judged(named("77-forward-empty-one"))
    assert found == written_up("77-forward-empty-one") and right == {True, False}
    assert "race-copy-unwaited" in found


@pytest.mark.parametrize("name", ["77-backward", "77-backward-causal"])
def test_backward_frees_memory_in_use_and_is_right_without(name: str) -> None:
    example = named(name)
    recording = record(example.program, example.arguments)
    free = "tcgen05.dealloc.cta_group::1"
    kept = Module.from_ptx(example.program.ptx.read_text().replace(free, f"// {free}"))
    found, told = set(), set()
    for schedule in POLICIES:
        broken = example.run(schedule=schedule)
        found |= {finding.code for result in broken.results for finding in result.errors}
        ran = example.check(Replay(recording, kept), {"schedule": schedule})
        assert ran.right, str(schedule)
        assert {f.code for result in ran.results for f in result.errors} == {"tmem-leak"}, str(schedule)
        told |= {f.code for result in ran.results for f in result.findings if f.severity == "warning"}
    assert told == {"commit-at-exit"}
    assert found >= {"tmem-not-allocated", "tmem-dealloc-in-flight"}


@pytest.mark.parametrize("name", ["72a-nvfp4", "72c-mxfp8-mxfp4"])
def test_the_second_half_of_an_accumulator_is_released_with_its_wait(name: str) -> None:
    example = named(name)
    recording = record(example.program, example.arguments)
    load = r"(tcgen05\.ld\.sync\.aligned\.[^;]*;)"
    mended, loads = re.subn(load, r"\1 tcgen05.wait::ld.sync.aligned;", example.program.ptx.read_text())
    assert loads == 2
    module = Module.from_ptx(mended)
    for schedule in POLICIES:
        ran = example.check(Replay(recording, module), {"schedule": schedule, "races": True})
        assert ran.right and not any(result.errors for result in ran.results), str(schedule)


def test_experts_by_cp_async_are_clean_with_the_proxy_fence() -> None:
    """What `cp.async` brought is fenced by the threads that issued it before they arrive."""
    example = named("92-experts-grouped")
    recording = record(example.program, example.arguments)
    arrive = r"(cp\.async\.mbarrier\.arrive\.shared::cta\.b64)"
    fenced = r"cp.async.wait_all; fence.proxy.async.shared::cta; \1"
    mended, places = re.subn(arrive, fenced, example.program.ptx.read_text())
    assert places == 2
    module = Module.from_ptx(mended)
    for schedule in POLICIES:
        ran = example.check(Replay(recording, module), {"schedule": schedule, "races": True})
        assert ran.right and not any(result.errors for result in ran.results), str(schedule)


def test_a_vector_that_ends_within_its_stages_reads_past_it() -> None:
    """k of 1536: whole stages of 1024 are loaded and summed, and nothing asks where k ends in them."""
    found, right = judged(named("91-vector-past"))
    assert found == written_up("91-vector-past") and right == {False}
    assert "global-out-of-bounds" in found


def test_the_wgmma_tutorial_waits_for_its_own_copies_only() -> None:
    """With a proxy fence and a barrier behind cp.async.wait_all nothing is found."""
    example = named("cute-wgmma")
    wait = "cp.async.wait_all;"
    text = example.program.ptx.read_text()
    assert wait in text
    module = Module.from_ptx(text.replace(wait, f"{wait} fence.proxy.async.shared::cta; bar.sync 0;"))
    recording = record(example.program, example.arguments, example.processors)
    for schedule in POLICIES:
        ran = example.check(Replay(recording, module), {"schedule": schedule, "races": True})
        assert ran.right and not any(result.findings for result in ran.results), str(schedule)


def test_the_wgmma_tutorial_by_tma_leaves_copies_behind() -> None:
    """It copies tiles past the last tile, which nothing waits for: a CTA exits under them."""
    example = named("cute-wgmma-tma")
    found, right = judged(example)
    assert found == written_up(example.name) and right == {True, False}
