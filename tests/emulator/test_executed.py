"""Coverage: which instructions a launch executed, which ways its branches went, and what they are for."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import RunResult
from tileproof.emulator.coverage import Instructed, instructions, kind_of, order_only, section_of, union

from tests.kit.ptx import Memory, clean, kernel_text, parsed, run

BODY = """setp.lt.u32 %p1, %t, 16;
@%p1 bra LOW;
st.global.u32 [%a0], 1;
bra.uni END;
LOW: mov.u32 %r1, 5;
@!%p1 mov.u32 %r2, 6;
END: membar.cta;
setp.eq.u32 %p2, %t, 77;
@%p2 bra NEVER;
bra.uni OUT;
NEVER: st.global.u32 [%a0], 2;
OUT: add.u32 %r1, %r1, 1;"""


def launched(threads: int = 32) -> RunResult:
    memory = Memory()
    return clean(run(BODY, [memory.buffer(np.zeros(1, np.uint32))], memory=memory, threads=threads))


def seen(*launches: RunResult) -> dict[str, Instructed]:
    """By the text of the statement, which is one a line here."""
    text = kernel_text(BODY, [False])
    lines = text.splitlines()
    decoded = parsed(text).decode("k")
    return {
        lines[instruction.line - 1].split(": ")[-1]: instruction
        for instruction in instructions(decoded, union(launch.executed for launch in launches))
    }


def test_what_no_lane_executes_is_reported() -> None:
    found = seen(launched())
    never = [text for text, instructed in found.items() if not instructed.ran]
    # A guard that no lane passes, and a block that nothing reaches.
    assert never == ["@!%p1 mov.u32 %r2, 6;", "st.global.u32 [%a0], 2;"]
    assert found["st.global.u32 [%a0], 2;"].kind == "output"


def test_ways_of_branches() -> None:
    both = seen(launched())["@%p1 bra LOW;"]
    assert both.taken and both.fell_through
    branch = seen(launched(threads=16))["@%p1 bra LOW;"]
    assert branch.taken and branch.fell_through is False
    never = seen(launched())["@%p2 bra NEVER;"]
    assert never.taken is False and never.fell_through
    always = seen(launched())["bra.uni OUT;"]
    assert always.taken and always.fell_through is None


def test_launches_add_up() -> None:
    few = launched(threads=16)
    assert not seen(few)["st.global.u32 [%a0], 1;"].ran
    assert seen(few, launched())["st.global.u32 [%a0], 1;"].ran


def test_the_bytes_of_another_program_are_refused() -> None:
    with pytest.raises(ValueError, match="3 bytes"):
        instructions(parsed(kernel_text(BODY, [False])).decode("k"), b"abc")


def test_order_only_forms_and_sections() -> None:
    (form,) = order_only(parsed(kernel_text(BODY, [False])).decode("k"))
    assert (form.form, form.isa_section, form.instructions) == ("membar.cta", "9.7.13.4", 1)
    assert section_of("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32").startswith("9.7.16")
    assert section_of("frobnicate.b32") == ""


@pytest.mark.parametrize(
    ("opcode", "kind"),
    [
        ("tcgen05.mma.cta_group::2.kind::f16", "mma"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "mma"),
        ("tcgen05.cp.cta_group::1.128x256b", "copy"),
        ("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes", "copy"),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32", "copy"),
        ("cp.async.cg.shared.global", "copy"),
        ("cp.async.bulk.commit_group", "other"),
        ("cp.async.wait_group", "other"),
        ("st.global.v4.b32", "output"),
        ("st.b32", "output"),  # generic: it may be global memory
        ("red.global.add.f32", "output"),
        ("atom.add.u32", "output"),
        ("st.shared.b32", "other"),
        ("red.async.relaxed.cluster.global.add.u32", "copy"),
        ("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64", "other"),
        ("bra.uni", "branch"),
        ("fma.rn.f32", "other"),
    ],
)
def test_kinds(opcode: str, kind: str) -> None:
    assert kind_of(opcode) == kind
