# ruff: noqa: E501 - PTX lines are kept whole
"""Lanes of one warp, and warps, that write one place: the same bytes, values that differ by rounding, others;
and a lane's own word after the whole warp has read it.
"""

from __future__ import annotations

import pytest

from tests.kit.ptx import run

PLACE = 1024


def codes(body: str, threads: int = 32, strict: bool = False) -> dict[str, str]:
    """Severity by code."""
    result = run(body, threads=threads, shared_bytes=256, races=True, strict=strict)
    return {finding.code: finding.severity for finding in result.findings}


def store(value: str, more: str = "") -> str:
    """All threads store f32 `value` + (1 where the thread's number is odd) x `more`, or u32 `value`."""
    last = f"@%p1 mov.b32 %r3, {more};" if more else ""
    return f"and.b32 %r2, %t, 1; setp.eq.u32 %p1, %r2, 1; mov.b32 %r3, {value}; {last} st.shared.b32 [{PLACE}], %r3;"


@pytest.mark.parametrize("threads", [32, 64])
@pytest.mark.parametrize(
    ("value", "other", "code"),
    [
        ("0x3F800000", "0x3F800001", "race-rounded-value"),  # 1 and the next
        ("0x3F800000", "0x3F80007F", "race-rounded-value"),  # 127 units in the last place
        ("0x3F800000", "0x3F800081", "race-unordered"),  # more than 2^-16
        ("0xBF800000", "0x3F800000", "race-unordered"),
        ("0x7F800000", "0x7F7FFFFF", "race-unordered"),  # infinity
        ("0x7FC00000", "0x7FC00001", "race-unordered"),  # NaN
        ("100000", "100001", "race-unordered"),  # whole numbers
        ("0", "0x80000000", "race-unordered"),  # 0 and -0
    ],
)
def test_two_values_at_one_place(threads: int, value: str, other: str, code: str) -> None:
    assert set(codes(store(value, other), threads)) == {code}
    assert set(codes(store(value, value), threads)) <= {"race-same-value"}


def test_two_roundings_are_an_error_by_the_letter() -> None:
    body = store("0x3F800000", "0x3F800001")
    assert codes(body) == {"race-rounded-value": "warning"}
    assert codes(body, strict=True) == {"race-rounded-value": "error"}


def test_a_small_value_beside_a_large_one_is_rounded_with_it() -> None:
    """What a vector store of sums leaves: one near 0 has the rounding of the terms, as large as its neighbours'."""
    body = "and.b32 %r2, %t, 1; setp.eq.u32 %p1, %r2, 1; mov.b32 %r4, 0x3F800000; mov.b32 %r3, 0x33800000; @%p1 mov.b32 %r3, 0x34000000; OUT"
    pair, alone = f"st.shared.v2.b32 [{PLACE}], {{%r3, %r4}};", f"st.shared.b32 [{PLACE}], %r3;"
    assert set(codes(body.replace("OUT", pair))) == {"race-rounded-value"}
    assert set(codes(body.replace("OUT", alone))) == {"race-unordered"}


def test_half_of_a_word_has_no_rounding() -> None:
    body = f"and.b32 %r2, %t, 1; cvt.u16.u32 %h2, %r2; st.shared.b16 [{PLACE}], %h2;"
    assert set(codes(body)) == {"race-unordered"}


@pytest.mark.parametrize(
    ("barrier", "found"), [("bar.sync 0;", set()), ("bar.warp.sync -1;", set()), ("", {"race-unordered"})]
)
def test_a_lane_writes_its_word_after_all_lanes_have_read_it(barrier: str, found: set[str]) -> None:
    """A read by all lanes, ordered before the lane's own, is no read of several lanes any more."""
    body = f"mad.lo.u32 %r1, %t, 4, {PLACE}; st.shared.b32 [%r1], %t; bar.sync 0; ld.shared.b32 %r5, [{PLACE + 12}]; {barrier} ld.shared.b32 %r6, [%r1]; add.u32 %r6, %r6, %r5; st.shared.b32 [%r1], %r6;"
    assert set(codes(body)) == found
