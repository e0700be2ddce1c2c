"""Findings by cause, findings accepted on purpose, and shared memory by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tileproof.emulator import LaunchError, Memory, Module, RunResult, Schedule
from tileproof.emulator.causes import Allow
from tileproof.emulator.codes import CODES
from tileproof.emulator.symbols import SharedNames, short
from tileproof.spec.machine.finding_causes import SIDE, base, call_site

from tests.kit.ptx import kernel_text, parsed

# Each of 8 unrolled stores by warp 1, its lanes of one value, is read by warp 0 without a barrier; then a
# barrier, and all is well.
UNROLLED = "\n".join(
    f"@%p0 st.shared.u32 [tile+{4 * k}], %r4; @!%p0 ld.shared.u32 %r1, [tile+{4 * k}];" for k in range(8)
)
PTX = f"""
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
{{
    .reg .pred %p<3>; .reg .b32 %r<5>; .reg .b64 %rd<3>;
    .shared .align 16 .b8 pad[64];
    .shared .align 16 .b8 tile[128];
    mov.u32 %r0, %tid.x;
    setp.ge.u32 %p0, %r0, 32;
    mov.u32 %r4, 7;
    {UNROLLED}
    bar.sync 0;
    ld.param.u64 %rd0, [out];
    @%p0 st.global.u32 [%rd0], %r4;
    ret;
}}
"""


def run(ptx: str = PTX, **how: Any) -> RunResult:
    memory = Memory()
    out = memory.buffer(np.zeros(1, np.uint32))
    given: dict[str, Any] = {"schedule": Schedule("late"), "races": True} | how
    return Module.from_ptx(ptx).launch(
        "k", grid=(1, 1, 1), block=(64, 1, 1), args=[out], memory=memory, **given
    )


def test_unrolled_copies_of_one_race_are_one_cause_with_a_count_and_a_sample() -> None:
    result = run()
    races = [f for f in result.findings if f.code == "race-unordered"]
    assert len(races) == 8
    (cause,) = [c for c in result.causes if c.code == "race-unordered"]
    assert cause.count == sum(f.count for f in races) and len(cause.places) == 8
    assert cause.sample == races[0] and "7 more place(s)" in str(cause)


def test_two_missing_barriers_at_two_call_sites_stay_two() -> None:
    again = "@%p0 st.shared.u32 [tile+64], %r4; @!%p0 ld.shared.u32 %r2, [tile+64];"
    lines = PTX.replace("bar.sync 0;", again)
    for number, offset, line in ((1, 0, 7), (2, 64, 9)):
        store = f"@%p0 st.shared.u32 [tile+{offset}]"
        lines = lines.replace(store, f".loc {number} {line} 3\n{store}")
    result = run(lines + '.file 1 "one.cu"\n.file 2 "two.cu"\n')
    places = {c.places[0] for c in result.causes if c.code == "race-unordered"}
    assert places == {"one.cu:7", "two.cu:9"}


def test_what_is_accepted_on_purpose_is_listed_and_no_error() -> None:
    everything = run(allow=["race-unordered", "shared-uninitialised"])
    assert not everything.errors and len(everything.allowed) >= 8
    line = next(n for n, text in enumerate(PTX.splitlines(), 1) if "[tile+12]" in text)
    result = run(allow=[f"race-unordered:{line}", Allow("shared-uninitialised")])
    assert len(result.errors) == 7 and {f.code for f in result.errors} == {"race-unordered"}
    nowhere = run(allow=["race-unordered:softmax.cuh"])
    assert sum(f.code == "race-unordered" for f in nowhere.errors) == 8


def test_a_code_that_no_finding_has_is_refused() -> None:
    with pytest.raises(LaunchError, match="no finding has this code"):
        run(allow=["race-unorderd"])
    with pytest.raises(LaunchError, match="no place follows the colon"):
        run(allow=["race-unordered:"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"allow": "race-unordered"}, {"allow": [3]}, {"allow": None}, {"symbols": {"full": 128}},
        {"symbols": {128: 5}}, {"symbols": {-4: "full"}}, {"symbols": ["full"]}, {"schedule": "late"},
        {"seconds_limit": "soon"},
    ],
    ids=str,
)  # fmt: skip
def test_what_says_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(LaunchError):
        run(**wrong)


def test_shared_memory_is_called_by_its_symbol_or_by_the_callers_name() -> None:
    texts = [f.message for f in run().findings if f.code == "race-unordered"]
    assert any("shared byte 0x440 (tile)" in text for text in texts)
    assert any("shared byte 0x444 (tile+0x4)" in text for text in texts)
    dynamic = PTX.replace(".shared .align 16 .b8 tile[128];", "").replace(
        ".visible .entry", ".extern .shared .align 16 .b8 tile[];\n.visible .entry"
    )
    named = run(dynamic, shared_bytes=128, symbols={0: "S", 16: "dS"})
    texts = [f.message for f in named.findings if f.code == "race-unordered"]
    assert any("(S+0xc)" in text for text in texts) and any("(dS+0x4)" in text for text in texts)
    assert any("(tile+0x4)" in f.message for f in run(dynamic, shared_bytes=128).findings)


def test_hangs_and_traces_name_barriers_too() -> None:
    ptx = PTX.replace(".shared .align 16 .b8 pad[64];", ".shared .align 8 .b64 full; .shared .b8 pad[64];")
    ptx = ptx.replace(
        "bar.sync 0;",
        "mov.u32 %r3, %tid.x; setp.eq.u32 %p1, %r3, 0; @%p1 mbarrier.init.shared::cta.b64 [full], 1;\n"
        "bar.sync 0;\n"
        "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0; @!%p2 bra WAIT;",
    )
    result = run(ptx, trace=True)
    (hang,) = [f for f in result.findings if f.code == "hang"]
    assert "0x400 (full)" in str(hang) and result.trace is not None
    assert "mbarrier full phase" in result.trace.to_text()


def test_names_end_where_their_variable_ends() -> None:
    names = SharedNames({"a": (0x400, 8), "b": (0x500, 16)}, {})
    assert [names.name(at) for at in (0x3FF, 0x400, 0x407, 0x408, 0x50F, 0x510)] == [
        "", "a", "a+0x7", "", "b+0xf", "",
    ]  # fmt: skip
    assert short("_ZZ6kernelPfE4full") == "full" and short("tile") == "tile" and short("_Zx") == "_Zx"


def test_places_in_words() -> None:
    assert call_site("ptx.cuh:98 (inlined at softmax.cuh:93, kernel.cu:3)") == "softmax.cuh:93, kernel.cu:3"
    assert call_site("kernel.cu:3") == "kernel.cu:3"
    assert (
        base("ld.shared.v4.b32") == "ld.shared"
        and base("tcgen05.ld.sync.aligned.x4.b32") == "tcgen05.ld.sync"
    )
    assert set(SIDE) <= set(CODES)


@pytest.mark.parametrize("wrong", [{"allow": [3]}, {"symbols": {-4: "full"}}])
def test_an_option_is_refused_before_anything_runs(wrong: dict[str, Any]) -> None:
    memory = Memory()
    out = memory.empty(1, np.uint32)
    module = parsed(kernel_text("st.global.u32 [%a0], 1;", [False]))
    with pytest.raises(LaunchError):
        module.launch("k", grid=(1,), block=(1,), args=[out], memory=memory, **wrong)
    assert not len(out.stored())
    module.launch("k", grid=(1,), block=(1,), args=[out], memory=memory)
    assert len(out.stored())
