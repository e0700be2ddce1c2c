"""`strict`: the codes whose table row says so weigh more, and no others."""

from __future__ import annotations

import numpy as np
from tileproof.emulator import RunResult, TensorMap
from tileproof.emulator.codes import CODES, SEVERITIES, strict_weights

from tests.emulator.test_races import AFTER, BAR, BAR2, ISSUER, LOAD, MMA, QUARTER
from tests.kit.ptx import Memory, alloc, dealloc, init_barrier, run, wait


def unfenced(edge: str, strict: bool) -> RunResult:
    """An MMA whose operands a copy has filled; between the wait for them and it stands `edge`."""
    memory = Memory()
    table = memory.buffer(np.zeros((32, 32), np.float32), name="table")
    tiles = TensorMap.tiled(table, shape=(32, 32), strides=(128,), box=(32, 32))
    body = f"{init_barrier(BAR)} @%p0 mbarrier.init.shared::cta.b64 [{BAR2}], 1;\n"
    body += f"{alloc(32)} {QUARTER} {ISSUER}\n"
    body += f"{LOAD}\n{wait(BAR)}\n{edge}\n{MMA}\n@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one"
    body += f".shared::cluster.b64 [{BAR2}];\n{wait(BAR2)}\n{AFTER}\n{dealloc(32)}"
    return run(body, [tiles], memory=memory, threads=128, shared_bytes=0x4000, races=True, strict=strict)


def severity(result: RunResult, code: str) -> set[str]:
    """The severities with which a code was found."""
    return {f.severity for f in result.findings if f.code == code}


def test_a_code_weighs_what_its_row_says() -> None:
    row = CODES["race-operand-fence"]
    assert severity(unfenced("", False), row.code) == {row.severity}
    assert severity(unfenced("", True), row.code) == {row.strict} != {row.severity}
    assert not unfenced(AFTER, True).errors


def test_other_codes_are_left_as_they_are() -> None:
    for strict in (False, True):
        result = run("ld.shared.u32 %r1, [400000];", shared_bytes=64, strict=strict)
        assert [f.severity for f in result.findings] == ["error"]


def test_strict_never_makes_less_of_a_finding() -> None:
    assert strict_weights()
    for code, weight, stops in strict_weights():
        assert weight >= SEVERITIES.index(CODES[code].severity) and stops >= CODES[code].stops


def test_arrivals_left_over_at_exit_are_a_note_when_strict_and_bytes_an_error() -> None:
    init = "setp.ne.u32 %p0, %t, 0; @%p0 exit; mbarrier.init.shared::cta.b64 [1024], 2;"
    arrive = "mbarrier.arrive.shared::cta.b64 _, [1024];"
    expect = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [1024], 16;"
    complete = expect.replace("expect_tx", "complete_tx")
    left = [
        (
            arrive,
            "mbarrier-left-over",
            "note",
            "phase 0 of the mbarrier at shared offset 0x400 has 1 of 2 arrivals as its",
        ),
        (
            3 * arrive,
            "mbarrier-left-over",
            "note",
            "phase 1 of the mbarrier at shared offset 0x400 has 1 of 2 arrivals as",
        ),
        (expect, "mbarrier-bytes-left", "error", "has 0 of 2 arrivals and lacks 16 bytes as its"),
        (
            complete,
            "mbarrier-bytes-left",
            "error",
            "has 0 of 2 arrivals and 16 bytes that nobody announced as its",
        ),
    ]
    for body, code, severity, words in left:
        (finding,) = run(init + body, shared_bytes=64, strict=True).findings
        assert (finding.code, finding.severity) == (code, severity) and words in finding.message
        assert not run(init + body, shared_bytes=64).findings
    for body in ("", 2 * arrive, expect + complete, arrive + "mbarrier.inval.shared::cta.b64 [1024];"):
        assert not run(init + body, shared_bytes=64, strict=True).findings
