"""CUTLASS's Hopper and Blackwell examples as they ship: right under every policy, all findings explained."""

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

# What docs/outside.md calls a defect; every other kernel here prints no error.
_FORWARD = {"tmem-pending", "race-tmem-unwaited", "race-tmem-released", "race-tcgen05-fence"}
DEFECTS = {"74-split-k": {"tmem-pending", "race-tmem-unwaited"}}
DEFECTS |= {name: {"race-tmem-released"} for name in ("72a-nvfp4", "72c-mxfp8-mxfp4", "75-grouped-nvfp4")}
# Two more where a sequence has no keys.
_EMPTY = {"race-unordered", "race-proxy-fence"}
DEFECTS |= {example.name: _FORWARD for example in EXAMPLES if example.name.startswith("77-forward")}
DEFECTS["77-forward-empty"] = _FORWARD | _EMPTY
DEFECTS |= {example.name: {"race-proxy-fence"} for example in EXAMPLES if example.name.startswith("92-")}
DEFECTS["91-vector"] = {"shfl-inactive"}
DEFECTS["cute-wgmma"] = {"race-unordered", "race-proxy-fence"}
# Wrong under some policies, by a defect of theirs: test_cutlass_defects.py.
WRONG = (
    "77-backward",
    "77-backward-causal",
    "77-forward-empty-one",
    "77-latent",
    "77-latent-cp-async",
    "91-vector-past",
    "cute-wgmma-tma",
)
# They compile for minutes.
CASES = [
    pytest.param(example, id=example.name, marks=pytest.mark.slow)
    for example in EXAMPLES
    if example.name not in WRONG
]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("example", CASES)
def test_right_and_every_finding_explained(example: Example) -> None:
    found, errors = set(), set()
    for schedule in POLICIES:
        for races in (False, True):
            ran = example.run(schedule=schedule, races=races)
            assert ran.right, str(schedule)
            found |= {finding.code for result in ran.results for finding in result.findings}
            errors |= {finding.code for result in ran.results for finding in result.errors}
    assert found == written_up(example.name)
    assert errors == DEFECTS.get(example.name, set())


@pytest.mark.timeout(1800)
@pytest.mark.slow
def test_a_product_without_one_mma_is_wrong() -> None:
    (example,) = (example for example in EXAMPLES if example.name == "70-fp16")
    text = example.program.ptx.read_text()
    line = re.findall(r"^\s*tcgen05\.mma\..*;", text, re.M)[0]
    broken = Module.from_ptx(text.replace(line, "", 1))
    ran = example.check(Replay(record(example.program, example.arguments), broken), {})
    assert not ran.right
