"""What the environment of a launch may be: another CTA's tensor memory below, where that CTA fits beside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tileproof.conformance.api.calls import judge
from tileproof.emulator import Finding, RunResult, Schedule

from tests.kit.ptx import alloc, dealloc, kernel_text, run

COVERS = "tcgen05.alloc trap"

SEEDS = [Schedule("random", seed) for seed in range(8)]
# A kernel that takes its first column to be 0, as DeepGEMM asserts.
TRUSTING = f"{alloc(128)}\nsetp.ne.u32 %p1, %r100, 0;\nTRAP\n{dealloc(128)}"
GUARDED, BRANCH = "@%p1 trap;", "@!%p1 bra GOOD;\ntrap;\nGOOD:"
WHOLE = 226 * 1024  # with the static bytes and what the system keeps, nothing fits beside


def launched(schedule: Schedule, trap: str = GUARDED, shared: int = 1024, threads: int = 32) -> RunResult:
    return run(TRUSTING.replace("TRAP", trap), schedule=schedule, shared_bytes=shared, threads=threads)


def traps(shared: int = 1024, threads: int = 32) -> list[Finding]:
    return [f for schedule in SEEDS for f in launched(schedule, shared=shared, threads=threads).findings]


def test_another_cta_has_the_first_columns_only_where_it_fits() -> None:
    assert {f.code for f in traps()} == {"trap"}
    assert traps(shared=WHOLE) == []
    # Beside another kernel's CTA: two of these do not fit.
    assert {f.code for f in traps(shared=WHOLE - 2048)} == {"trap-beside"}
    assert {f.code for f in traps(shared=WHOLE // 2 - 2048)} == {"trap"}
    assert {f.code for f in traps(shared=WHOLE // 2 + 1024)} == {"trap-beside"}
    assert {f.code for f in traps(threads=1024)} == {"trap"}  # a processor has 2048


@pytest.mark.parametrize("trap", [GUARDED, BRANCH])
def test_a_trap_names_its_condition_and_the_environment(trap: str) -> None:
    messages = [f.message for s in SEEDS for f in launched(s, trap).findings]
    assert messages
    for message in messages:
        assert "by setp.ne.u32 at PTX line" in message
        assert "environment" in message and "tensor memory begins at column" in message
        assert "column 0" not in message
    (plain,) = run("setp.eq.u32 %p1, %t, 0;\n@%p1 trap;", schedule=Schedule("early")).findings
    assert "by setp.eq.u32" in plain.message and "environment" not in plain.message


@pytest.mark.parametrize("shared", [1024, WHOLE - 2048])
def test_a_kernel_that_needs_its_processor_alone_is_judged_alone(shared: int, tmp_path: Path) -> None:
    """Another kernel's CTA beside it is a warning; another CTA of its own launch remains an error."""
    (tmp_path / "k.ptx").write_text(kernel_text(TRUSTING.replace("TRAP", GUARDED)))
    step = {
        "kind": "launch",
        "entry": "k",
        "grid": [2],
        "block": [32],
        "arguments": [],
        "shared_bytes": shared,
    }
    path = tmp_path / "launch.json"
    modules = [{"name": "m", "code": {"kind": "ptx file", "path": "k.ptx"}}]
    form = {"schema": "tileproof-launch", "schema_version": 1, "name": "trusting", "modules": modules}
    path.write_text(json.dumps({**form, "buffers": [], "steps": [step]}))
    verdict = judge(path, schedules=12)
    codes = {f.code for f in verdict.findings}
    assert codes == ({"trap"} if shared == 1024 else set())
    assert judge(path, schedules=12, strict=True).findings
