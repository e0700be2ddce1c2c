"""Instructions that real kernels were refused for, or executed wrongly, each with the form that showed it."""

from __future__ import annotations

import numpy as np

from tests.kit.ptx import outputs, store


def test_a_predicate_may_be_moved_from_a_literal() -> None:
    """nvcc writes `mov.pred %p, 0` and `mov.pred %p, -1` for a condition that one branch settles."""
    body = f"""
    setp.lt.u32 %p1, %t, 7; mov.pred %p2, -1; mov.pred %p3, 0;
    @%p1 mov.pred %p2, 0;
    @%p1 mov.pred %p3, -1;
    selp.b32 %r1, 1, 0, %p2; selp.b32 %r2, 2, 0, %p3; or.b32 %r1, %r1, %r2;
    {store("%r1")}"""
    assert (outputs(body) == np.where(np.arange(32) < 7, 2, 1)).all()
