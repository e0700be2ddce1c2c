"""createpolicy: its word goes to .L2::cache_hint operands, which change nothing; its operands are checked."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import Memory, RunResult, UnsupportedInstruction

from tests.kit.ptx import clean, codes, run

COVERS = "createpolicy"


def hinted(line: str) -> tuple[RunResult, np.ndarray]:
    """Each thread makes a policy from %f1 (second buffer), %r1, %r2 (16, 8), and stores with it as hint."""
    memory = Memory()
    out = memory.empty(32, np.uint32)
    fraction = memory.buffer(np.linspace(0.25, 1.75, 32, dtype=np.float32))
    body = f"""mad.wide.u32 %rd3, %t, 4, %a1; ld.global.f32 %f1, [%rd3]; mov.u32 %r1, 16; mov.u32 %r2, 8;
    {line}
    mad.wide.u32 %rd2, %t, 4, %a0; st.global.L2::cache_hint.u32 [%rd2], %t, %rd1;"""
    result = run(body, [out, fraction], memory=memory, races=True)
    return result, out.numpy()


@pytest.mark.parametrize(
    "line",
    [
        "createpolicy.fractional.L2::evict_last.b64 %rd1;",
        "createpolicy.fractional.L2::evict_first.L2::evict_first.b64 %rd1, 0.5;",
        "createpolicy.fractional.L2::evict_normal.L2::evict_unchanged.b64 %rd1, 1.0;",
        "createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %rd1, [%a0], 0x40, 0x80;",
        "createpolicy.range.L2::evict_unchanged.b64 %rd1, [%a0+8], %r2, %r1;",
        "createpolicy.cvt.L2.b64 %rd1, %a1;",
    ],
)
def test_a_policy_is_a_hint(line: str) -> None:
    result, out = hinted(line)
    clean(result)
    assert (out == np.arange(32)).all()


@pytest.mark.parametrize(
    "line",
    [
        "createpolicy.fractional.L2::evict_last.b64 %rd1, %f1;",
        "createpolicy.range.L2::evict_last.b64 %rd1, [%a0], %r1, %r2;",
    ],
)
def test_operands_out_of_range(line: str) -> None:
    """PTX ISA 9.7.9.18: a fraction in (0, 1], a primary size of at most the whole."""
    result, out = hinted(line)
    assert codes(result) == {"cache-policy"} and (out == np.arange(32)).all()
    assert result.errors[0].count == (16 if "fractional" in line else 32)


@pytest.mark.parametrize(
    "line",
    [
        "createpolicy.fractional.L2::evict_last.L2::evict_last.b64 %rd1, 0.5;",
        "createpolicy.cvt.b64 %rd1, %rd2;",
        "createpolicy.range.shared.L2::evict_last.b64 %rd1, [%r1], 8, 16;",
    ],
)
def test_forms_that_ptx_does_not_have(line: str) -> None:
    with pytest.raises(UnsupportedInstruction):
        hinted(line)
