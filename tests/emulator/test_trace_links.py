"""Who waits for whom in a trace: links, the arrows of the Chrome format, arrivals together, choices."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest
from tileproof.emulator import Schedule
from tileproof.emulator.trace import Trace, TraceNames
from tileproof.emulator.trace_chrome import SHORTEST
from tileproof.emulator.trace_links import chosen, label, links, merged_arrivals
from tileproof.spec.machine.errors import TileproofError

from tests.emulator.test_trace import BODY, FULL, traced
from tests.kit.ptx import POLICIES, clean, run, wait

# Warp 1's 32 lanes arrive at A, for which warp 0 waits; warp 0's lane 0 arrives at B, for which warp 1 waits.
A, B = FULL, FULL + 8
HANDSHAKE = f"""
setp.eq.u32 %p0, %t, 0; setp.lt.u32 %p1, %t, 32;
@%p0 mbarrier.init.shared::cta.b64 [{A}], 32;
@%p0 mbarrier.init.shared::cta.b64 [{B}], 1;
bar.sync 0;
@%p1 bra FIRST;
mbarrier.arrive.shared::cta.b64 _, [{A}];
{wait(B)}
bra LAST;
FIRST: {wait(A)}
@%p0 mbarrier.arrive.shared::cta.b64 _, [{B}];
LAST: bar.sync 0;"""


def handshake(schedule: Schedule = POLICIES[0]) -> Trace:
    trace = clean(run(HANDSHAKE, threads=64, shared_bytes=4096, schedule=schedule, trace=True)).trace
    assert trace is not None
    return trace


@pytest.mark.parametrize("schedule", POLICIES)
def test_each_wait_has_what_completed_its_phase(schedule: Schedule) -> None:
    found = {(link.begin.warp, link.begin.barrier): link for link in links(handshake(schedule))}
    for (warp, barrier), link in found.items():
        assert link.end is not None and link.by is not None and not link.op
        assert (barrier, link.by.warp) == ((A - 1024, 1) if warp == 0 else (B - 1024, 0))
        assert link.begin.time <= link.by.time <= link.end.time
        assert label(link, TraceNames()) == f"warp {1 - warp}"
    assert found


def test_a_copy_completes_a_phase() -> None:
    trace = clean(traced(Schedule("late"))).trace
    assert trace is not None
    (issue,) = [event for event in trace if event.kind == "tma-issue"]
    found = links(trace)
    assert found and {(link.op, link.by and link.by.kind) for link in found} == {(issue.op, "phase")}


def test_a_wait_that_is_never_over_has_no_completion() -> None:
    trace = traced(body=BODY.replace(f"[{FULL}], 256", f"[{FULL}], 512")).trace
    assert trace is not None
    assert {(link.end, link.by) for link in links(trace)} == {(None, None)}
    assert {label(link, TraceNames()) for link in links(trace)} == {"nothing completed it"}


def test_the_arrivals_of_a_warp_are_one_line() -> None:
    trace = handshake()
    single = [event for event in trace if event.kind == "arrive" and event.barrier == A - 1024]
    (arrival,) = [
        event for event in merged_arrivals(trace) if event.kind == "arrive" and event.barrier == A - 1024
    ]
    assert len(single) == 32 and (arrival.value, arrival.lanes, arrival.warp) == (32, 0xFFFFFFFF, 1)
    (line,) = [line for line in trace.to_text().splitlines() if "arrive" in line and "0x10 " in line]
    assert "warp 1  arrive 32 to mbarrier 0x10 phase 0" in line
    others = [event for event in trace if event.kind != "arrive"]
    assert [event for event in merged_arrivals(trace) if event.kind != "arrive"] == others


def slices(chrome: dict[str, Any]) -> dict[tuple[int, int], list[dict[str, Any]]]:
    tracks = defaultdict(list)
    for event in chrome["traceEvents"]:
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append(event)
    return tracks


def check_arrows(chrome: dict[str, Any]) -> int:
    """Each arrow has a begin and a later end, inside slices of their tracks; slices nest. Their number."""
    tracks = slices(chrome)
    for track in tracks.values():
        spans = [(slice_["ts"], slice_["ts"] + slice_["dur"]) for slice_ in track]
        for begin, end in spans:
            assert end - begin >= SHORTEST
            assert all(b >= end or e <= begin or (b <= begin and end <= e) or (begin <= b and e <= end)
                       for b, e in spans)  # fmt: skip
    ends: dict[int, dict[str, dict[str, Any]]] = defaultdict(dict)
    for event in chrome["traceEvents"]:
        if event["ph"] in ("s", "f"):
            assert event["ph"] not in ends[event["id"]]
            ends[event["id"]][event["ph"]] = event
    for both in ends.values():
        start, finish = both["s"], both["f"]
        assert finish["bp"] == "e" and start["ts"] <= finish["ts"]
        assert (start["name"], start["cat"]) == (finish["name"], finish["cat"])
        for event, word in ((start, ""), (finish, "wait ")):
            assert any(
                slice_["ts"] <= event["ts"] <= slice_["ts"] + slice_["dur"]
                and slice_["name"].startswith(word)
                for slice_ in tracks[event["pid"], event["tid"]]
            )
    return len(ends)


@pytest.mark.parametrize("schedule", POLICIES)
def test_arrows_of_the_chrome_format_are_valid(schedule: Schedule) -> None:
    arrows = 0
    for trace in (handshake(schedule), clean(traced(schedule)).trace):
        assert trace is not None
        chrome = json.loads(json.dumps(trace.to_chrome()))
        over = [link for link in links(trace) if link.end is not None and link.by is not None]
        arrows += len(over)
        assert check_arrows(chrome) == len(over)
    assert arrows > 0


def test_a_wrong_arrow_is_seen() -> None:
    chrome = json.loads(json.dumps(handshake().to_chrome()))
    (flow, *_) = [event for event in chrome["traceEvents"] if event["ph"] == "f"]
    for change in ({"ts": -5}, {"tid": 77}, {"id": 999}, {"bp": ""}):
        old = dict(flow)
        flow.update(change)
        with pytest.raises((AssertionError, KeyError)):
            check_arrows(chrome)
        flow.clear()
        flow.update(old)
    assert check_arrows(chrome)


def test_only_chosen_warps_and_barriers() -> None:
    trace, names = handshake(), TraceNames()
    assert {event.warp for event in chosen(trace, names, ["warp 1"], [])} == {1}
    on_b = chosen(trace, names, [], ["mbarrier 0x18"])
    assert len(on_b) and {event.barrier for event in on_b} == {B - 1024}
    both = chosen(trace, names, ["warp 0"], ["mbarrier 0x18"])
    assert {(event.warp, event.barrier) for event in both} == {(0, B - 1024)}
    for roles, barriers in ((["mma"], []), ([], ["kv_ready"])):
        with pytest.raises(TileproofError) as error:
            chosen(trace, names, roles, barriers)
        assert error.value.expected is not None and "0" in error.value.expected


def test_a_choice_of_a_barrier_keeps_the_operations_that_act_on_it() -> None:
    trace = clean(traced(Schedule("late"))).trace
    assert trace is not None
    kinds = {event.kind for event in chosen(trace, TraceNames(), [], ["mbarrier 0x10"])}
    assert {"tma-issue", "tma-complete", "deliver", "phase", "wait", "pass"} <= kinds
    assert "exit" not in kinds
