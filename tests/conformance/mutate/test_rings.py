"""Each wait of a ring that is tried once is found, under any schedule past the rings."""

from __future__ import annotations

from dataclasses import replace

from tileproof.conformance.check.run import run_case
from tileproof.conformance.mutate.code import PtxCode
from tileproof.conformance.mutate.operators import OPERATORS
from tileproof.conformance.mutate.runs import RINGS, Recorder, under_test_of
from tileproof.conformance.problems.generators import small
from tileproof.kernels.registry import compiled


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
                    one,
                    explain=False,
                    again=False,
                ).findings
            )
            for one in RINGS
        ]

    waits = [one for at in code.code for one in OPERATORS["wait-once"](code, at)]
    assert len(waits) == 4
    assert all(all(found(code.changed(one.lines))) for one in waits)
    assert not any(found(built.ptx))
