"""CUTLASS's Blackwell examples as they ship: right values under every policy, every finding explained."""

from __future__ import annotations

import re

import pytest
from tileproof.conformance.drivers.record.programs import record
from tileproof.conformance.drivers.record.recording import Replay
from tileproof.emulator import Module
from tileproof.emulator.errors import LaunchError

from tests.kit.outside.cutlass_cases import EXAMPLES
from tests.kit.outside.cutlass_example import Example, curand
from tests.kit.outside.explained import POLICIES, written_up

try:
    curand()
except LaunchError as error:
    pytest.skip(str(error), allow_module_level=True)

# What docs/outside.md calls a defect; every other kernel here prints no error.
_FORWARD = {"tmem-pending", "race-tmem-unwaited", "race-tmem-released", "race-tcgen05-fence"}
DEFECTS = {"74-split-k": {"tmem-pending", "race-tmem-unwaited"}}
# Recorded only: docs/outside.md says why. The backward kernels have a test of their own.
NOT_RUN = ("72a-nvfp4",)
# All but the first compile for minutes.
CASES = [
    pytest.param(one, id=one.name, marks=[] if one.name == "70-fp16" else [pytest.mark.slow])
    for one in EXAMPLES
    if one.name not in NOT_RUN and not one.name.startswith("77-backward")
]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("example", CASES)
def test_right_and_every_finding_explained(example: Example) -> None:
    found, errors = set(), set()
    for schedule in POLICIES:
        for races in (False, True):
            ran = example.run(schedule=schedule, races=races)
            assert ran.right, str(schedule)
            found |= {finding.code for result in ran.results for finding in result.distinct}
            errors |= {finding.code for result in ran.results for finding in result.errors}
    assert found == written_up(example.name)
    assert errors == (_FORWARD if "77-forward" in example.name else DEFECTS.get(example.name, set()))


@pytest.mark.timeout(1800)
def test_a_product_without_one_mma_is_wrong() -> None:
    (example,) = (one for one in EXAMPLES if one.name == "70-fp16")
    text = example.program.ptx.read_text()
    line = re.findall(r"^\s*tcgen05\.mma\..*;", text, re.M)[0]
    broken = Module.from_ptx(text.replace(line, "", 1))
    ran = example.check(Replay(record(example.program, example.arguments), broken), {})
    assert not ran.right


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["77-backward", "77-backward-causal"])
def test_backward_frees_memory_in_use_and_is_right_without(name: str) -> None:
    (example,) = (one for one in EXAMPLES if one.name == name)
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
        told |= {f.code for result in ran.results for f in result.distinct if f.severity == "warning"}
    assert told == {"commit-at-exit"}
    assert found >= {"tmem-not-allocated", "tmem-dealloc-in-flight"}
