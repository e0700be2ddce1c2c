"""Each wait of a ring that is tried once is found, under any schedule past the rings."""

from __future__ import annotations

from dataclasses import replace

from tileproof.conformance.beside.mutate.code import PtxCode
from tileproof.conformance.beside.mutate.operators import OPERATORS
from tileproof.conformance.beside.mutate.runs import FIRST_TURN, RINGS, Recorder, under_test_of
from tileproof.conformance.cases.generators import small
from tileproof.conformance.check.run import run_case
from tileproof.kernels.registry import compiled
from tileproof.spec.machine.schedule import Schedule


def test_a_wait_of_a_ring_that_is_tried_once_is_found() -> None:
    """Under four of them that for an empty stage of sm100-gemm-bias never has to wait."""
    kernel = compiled("sm100-gemm-bias")
    variant = kernel.variants[0]
    built, case = kernel.build(variant), small(kernel.plan(variant))
    code = PtxCode(built.ptx, built.entry)

    def found(ptx: str) -> list[bool]:
        mutant = replace(built, ptx=ptx)
        return [
            bool(
                run_case(
                    under_test_of(kernel, variant, mutant, Recorder(2_000_000)),
                    case,
                    ring,
                    explain=False,
                    again=False,
                ).findings
            )
            for ring in RINGS
        ]

    waits = [change for at in code.code for change in OPERATORS["wait-once"](code, at)]
    assert len(waits) == 4
    assert all(all(found(code.changed(wait.lines))) for wait in waits)
    assert not any(found(built.ptx))


def test_a_wait_behind_a_ring_that_is_not_full_is_found_where_it_is_too_early() -> None:
    """Of fewer k-blocks than stages the wait for the last commits begins at -1: at a phase before the first,
    which is over for as long as no commit has arrived.
    """
    kernel = compiled("sm100-gemm-bias")
    variant = kernel.variants[0]
    built, case = kernel.build(variant), small(kernel.plan(variant), 1)
    earlier = built.ptx.replace(", 3;\n\tadd.s32 \t%r209, %r147, -3;", ", 2;\n\tadd.s32 \t%r209, %r147, -3;")

    def found(ptx: str, schedule: Schedule) -> list[str]:
        under_test = under_test_of(kernel, variant, replace(built, ptx=ptx), Recorder(2_000_000))
        return [
            finding.code
            for finding in run_case(under_test, case, schedule, explain=False, again=False).findings
        ]

    assert earlier != built.ptx
    assert any("hang" in found(earlier, schedule) for schedule in FIRST_TURN)
    assert not any(found(built.ptx, schedule) for schedule in FIRST_TURN)
