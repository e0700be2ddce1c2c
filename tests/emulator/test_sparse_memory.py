"""Large buffers take memory where they are touched; chosen clusters of a large grid run alone."""

from __future__ import annotations

import resource
from typing import Any

import numpy as np
import pytest
from tileproof.emulator import LaunchError, Memory, prepared
from tileproof.spec.machine.run_result import PAGE_BYTES

from tests.kit.ptx import clean, kernel_text, parsed

# Each CTA stores its number at byte `%a1` times its number, once.
STORE = """
    mov.u32 %r1, %ctaid.x;
    cvt.u64.u32 %rd1, %r1;
    mad.lo.u64 %rd2, %rd1, %a1, %a0;
    st.global.u32 [%rd2], %r1;
"""
GRID = 70_000
TEXT = kernel_text(STORE, [False, False])


def test_a_large_buffer_takes_memory_where_it_is_touched() -> None:
    memory = Memory()
    out = memory.empty(1 << 34, np.uint32, name="out")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    chosen = (0, 40_000, GRID - 1)
    seen = parsed(TEXT).launch(
        "k", grid=(GRID,), block=(1,), args=[out, 900_000], memory=memory, clusters=chosen, races=True
    )
    clean(seen)
    assert seen.certified and "clusters that did not run are assumed to share no data" in str(
        seen.certificate
    )
    assert [int(out.numpy()[n * 900_000 // 4]) for n in chosen] == list(chosen)
    assert out.numpy()[5] == 0xFFFFFFFF and out.numpy()[900_000 // 4] == 0xFFFFFFFF
    assert out.stored().tolist() == [n * 900_000 // PAGE_BYTES for n in chosen]
    marks = out.written()
    assert marks[list(np.array(chosen) * 225_000)].all() and not marks[1] and not marks[224_999]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10  # of 137 GB


def test_clusters_that_are_not_chosen_never_start() -> None:
    memory = Memory()
    out = memory.empty(8, np.uint32)
    launch = parsed(TEXT).launch
    clean(launch("k", grid=(8,), block=(1,), cluster=(2,), args=[out, 4], memory=memory, clusters=[3, 1, 3]))
    assert out.written().tolist() == [False, False, True, True, False, False, True, True]
    wrongs: tuple[Any, ...] = ([4], [], [-1], [1.5])
    for wrong in wrongs:
        with pytest.raises(LaunchError):
            launch("k", grid=(8,), block=(1,), cluster=(2,), args=[out, 4], memory=memory, clusters=wrong)
    with pytest.raises(LaunchError, match="a cooperative grid runs whole"):
        launch("k", grid=(8,), block=(1,), args=[out, 4], memory=memory, clusters=[1], cooperative=True)


def test_a_launch_that_fills_more_than_the_machine_has_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory()
    out = memory.empty(1 << 30, np.uint32)
    body = f"""
        mov.u64 %rd1, %a0;
    LOOP:
        st.global.u32 [%rd1], 1;
        add.u64 %rd1, %rd1, {PAGE_BYTES};
        add.u64 %rd2, %a0, {1 << 30};
        setp.lt.u64 %p0, %rd1, %rd2;
        @%p0 bra LOOP;
    """
    module = parsed(kernel_text(body, [False]))
    monkeypatch.setattr(prepared, "host_memory", lambda: 64 << 20)
    result = module.launch("k", grid=(1,), block=(1,), args=[out], memory=memory)
    assert result.ended_by == "memory-limit" and len(out.stored()) < 10_000
