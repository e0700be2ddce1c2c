"""Published kernels as rows of resources: every published time lies in its interval, and what would hide a
wrong figure is looked for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from click.testing import CliRunner
from tileproof.conformance.beside.timing.design import time_design
from tileproof.conformance.beside.timing.peers import PeerTime, peers, time_peer
from tileproof.conformance.cli.app import main
from tileproof.spec.designs import Design, MmaRow, Part
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.timing import BLACKWELL, mma_clocks
from tileproof.spec.published import PEERS

WIDEST = 4.0  # worst over best: an interval beyond that would hold anything
# SemiAnalysis microbench-blackwell, umma_throughput: (pair, m, n): clocks with A in shared, in tensor memory.
PUBLISHED = {
    (False, 64, 64): (32, 32), (False, 64, 128): (64, 64), (False, 64, 256): (128, 128),
    (False, 128, 64): (48, 32), (False, 128, 128): (64, 64), (False, 128, 256): (128, 128),
    (True, 128, 64): (25, 18), (True, 128, 128): (32, 32), (True, 128, 256): (64, 64),
    (True, 256, 64): (43, 32), (True, 256, 128): (64, 64), (True, 256, 256): (128, 128),
}  # fmt: skip
# KevinZeng08/microbench-blackwell, umma_throughput/ws_tput.csv, 256 MMAs in flight.
WEIGHT_STATIONARY = {
    (32, 64): (28.5, 28.5), (32, 256): (76.5, 76.5), (64, 64): (32.5, 28.5), (64, 128): (48.5, 44.5),
    (64, 256): (80.5, 76.5), (128, 64): (48.6, 42.5), (128, 128): (74.6, 74.5), (128, 256): (138.6, 138.5),
}  # fmt: skip


@pytest.fixture(scope="module")
def times() -> list[PeerTime]:
    return peers()


def test_every_published_time_lies_in_its_interval(times: list[PeerTime]) -> None:
    assert not [time.peer.name for time in times if not time.held]
    assert {"cuDNN DSA, 1 CTA", "cuDNN DSA, 2 CTAs"} <= {
        ", ".join(time.peer.name.split(", ")[:2]) for time in times
    }
    assert [time for time in times if "FlashAttention-4" in time.peer.name]


def test_no_interval_is_so_wide_that_it_cannot_fail(times: list[PeerTime]) -> None:
    assert not [(time.peer.name, time.width) for time in times if time.width > WIDEST]
    assert max(abs(time.off) for time in times) < 0.25


@pytest.mark.parametrize(
    ("figure", "factor"), [("addition_rate_all", 0.4), ("memory_rate", 0.02), ("mma_latency", 40.0)]
)
def test_a_wrong_figure_puts_published_times_outside(figure: str, factor: float) -> None:
    value = getattr(BLACKWELL, figure).likely * factor
    wrong = [replace(peer, machine=peer.machine.fixed({figure: value})) for peer in (PEERS[3], PEERS[6])]
    assert [time_peer(peer) for peer in wrong if not time_peer(peer).held]


def test_the_published_tflops_are_what_the_source_says(times: list[PeerTime]) -> None:
    for said in (684, 659, 786, 528, 820):
        assert [time for time in times if abs(time.published_tflops - said) < 1], said


def row(*parts: Part) -> Design:
    return Design("row", parts, keys=64, ctas=1)


def test_a_row_of_one_unit_takes_that_unit_s_clocks() -> None:
    mma = row(Part("S", "mma", mmas=(MmaRow(128, 256, 10),)))
    assert time_design(mma, BLACKWELL, "likely").block == pytest.approx(10 * 128)
    add = row(Part("add", "export", added=131072))
    each = 131072 / BLACKWELL.values("likely")["addition_rate_all"]
    assert time_design(add, BLACKWELL, "likely").block == pytest.approx(each, rel=0.02)


def test_parts_that_wait_for_each_other_take_both_latencies() -> None:
    f = BLACKWELL
    serial = row(
        Part("S", "mma", mmas=(MmaRow(128, 256, 1),), after=(("P", 1),)),
        Part("P", "softmax", instructions=100, warps=1, after=(("S", 0),)),
    )
    clocks = 128 + f.mma_issue.likely + f.mma_latency.likely + f.commit.likely + f.wake.likely
    clocks += 100 * f.issue_gap.likely + f.arrive.likely + f.wake_lane.likely
    assert time_design(serial, f, "likely").block == pytest.approx(clocks)


def test_bad_rows_are_refused() -> None:
    with pytest.raises(TileproofError, match="waits for a part that does not exist"):
        time_design(row(Part("S", "mma", after=(("Z", 0),))), BLACKWELL, "likely")
    a, b = Part("A", "one", after=(("B", 0),)), Part("B", "two", after=(("A", 0),))
    with pytest.raises(TileproofError, match="wait for each other"):
        time_design(row(a, b), BLACKWELL, "likely")


def test_the_rule_of_mma_clocks_fits_what_was_published() -> None:
    for (pair, m, n), clocks in PUBLISHED.items():
        for a_in_tmem, seen in enumerate(clocks):
            assert abs(mma_clocks(m, n, False, bool(a_in_tmem), pair) - seen) <= 3, (pair, m, n, a_in_tmem)
    for (m, n), clocks_ in WEIGHT_STATIONARY.items():
        for a_in_tmem, at in enumerate(clocks_):
            assert abs(mma_clocks(m, n, True, bool(a_in_tmem), False) - at) <= 1, (m, n, a_in_tmem)


def test_the_command_prints_each_row_with_its_source(times: list[PeerTime]) -> None:
    del times
    done = CliRunner().invoke(main, ["time", "--peers"])
    assert done.exit_code == 0, done.output
    for said in ("pull 2621", "pull 318", "GB200".lower(), "Assumed:", "width", "7 rows held out"):
        assert said in done.output.lower() or said in done.output
