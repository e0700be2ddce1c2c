# ruff: noqa: E501 - log lines are kept whole
"""Layouts that show a wait's end or the open wait alone: reports of timeouts, histories by actor, ranks, ranges."""

import pytest
from tileproof.conformance.beside.logs.hangs.lines.arrays import records
from tileproof.conformance.beside.logs.hangs.lines.arrows import with_actors_first
from tileproof.conformance.beside.logs.hangs.lines.labels import with_labels
from tileproof.conformance.beside.logs.hangs.lines.legend import with_names
from tileproof.conformance.beside.logs.hangs.lines.ranks import with_ranks
from tileproof.conformance.beside.logs.hangs.lines.returned import with_begins
from tileproof.conformance.beside.logs.hangs.lines.sections import with_histories

RETURNED = [f"block 0 load it {k}: waited empty_bar[0] phase bit {k % 2}, ok" for k in range(4)]
FOCUS = "[Switching focus to CUDA kernel 0, grid 1, cluster (0,0,0), block ({cta},0,0), thread ({thread},0,0), device 0, sm 0, warp 1, lane 0]"
CALLS = ["  clk 1222  mbar_wait (bar=empty[0], parity=1, k=0)", "  clk 1518  mbar_arrive (bar=full[0], k=0)"]


@pytest.mark.parametrize(
    "report",
    [
        "!! mbar_wait timed out after 4.0 s: block 0 load it 4, empty_bar[0], phase bit 0",
        "TRAP: empty_bar[0], phase bit 0, still waiting: block 0 load it 4",
    ],
)
def test_a_report_of_a_timeout_is_an_open_wait(report: str) -> None:
    found = [text for _, text in with_begins([*enumerate([*RETURNED, report, report], 1)])]
    assert found[0] == "block 0 load it 0: wait empty_bar[0] phase bit 0"
    assert found[1].endswith("done")
    assert found[8:] == ["block 0 load it 4: wait empty_bar[0] phase bit 0"]


def test_rows_that_begin_waits_stay() -> None:
    rows = [*RETURNED, *(row.replace("waited", "wait").replace(", ok", "") for row in RETURNED)]
    lines = [*enumerate([*rows, "watchdog: block 0 load is stuck in empty_bar[0]"], 1)]
    assert with_begins(lines) == lines


def test_frames_and_a_history() -> None:
    lines = []
    for thread in (0, 32):
        lines += [
            FOCUS.format(cta=1, thread=thread),
            "#0  mbar_wait (bar=empty[0], parity=0, k=1) at a.cuh:61",
        ]
        lines += [f"#1  role{thread}_loop () at b.cu:200", "history, calls that returned:", *CALLS, ""]
    moved: dict[int, int] = {}
    found = with_histories([*enumerate(lines, 1)], moved)
    assert [text for _, text in found][:4] == [
        "block 1 warp 0 role=role0_loop: mbar_wait (bar=empty[0], parity=1, k=0)",
        "block 1 warp 0 role=role0_loop: mbar_wait (bar=empty[0], parity=1, k=0) done",
        "block 1 warp 0 role=role0_loop: mbar_arrive (bar=full[0], k=0)",
        "block 1 warp 0 role=role0_loop: mbar_wait (bar=empty[0], parity=0, k=1)",
    ]
    assert moved == {7: 2, 14: 9}


def test_a_history_in_other_words_from_its_end() -> None:
    lines = []
    for warp in (0, 1):
        lines += [f"--- CTA 0 warp {warp} role{warp}_loop ---", "  past calls (newest first)", *CALLS[::-1]]
        lines += ["  present call: mbar_wait (empty[0], parity=0, k=1)", ""]
    moved: dict[int, int] = {}
    found = with_histories([*enumerate(lines, 1)], moved)
    assert [text.split(": ")[1].split(" ")[0] for _, text in found[:4]] == [
        "mbar_wait",
        "mbar_wait",
        "mbar_arrive",
        "mbar_wait",
    ]
    assert [number for number, _ in found] == sorted(number for number, _ in found)
    assert (moved[3], moved[4]) == (4, 3)


def test_an_actor_has_one_section() -> None:
    lines = [FOCUS.format(cta=0, thread=0), "history:", *CALLS, ""] * 2
    rows = [*enumerate(lines, 1)]
    assert with_histories(rows, {}) == rows


@pytest.mark.parametrize("label", ["r{}", "(cluster_idx={})", "ctx{}:"])
def test_a_number_in_front_of_the_same_roles_is_the_rank(label: str) -> None:
    rows = [f"{label.format(k % 2)} {role} wait full[0]" for k in range(8) for role in ("MMA", "LOAD")]
    found = [text for _, text in with_ranks([*enumerate(rows, 1)])]
    assert "cta=1" in found[2]
    assert all("cta=" in text for text in found)


def test_a_number_that_only_rises_is_no_rank() -> None:
    rows = [*enumerate([f"r{k} {role} wait full[0]" for k in range(8) for role in ("MMA", "LOAD")], 1)]
    assert with_ranks(rows) == rows


def test_an_element_and_an_argument() -> None:
    found = with_labels([(1, "mma: before full.at[2].wait_parity(1)")])
    assert found[0][1] == "mma: before full[2].wait(parity=1)"


def test_a_legend_of_ranges() -> None:
    legend = [
        "; 0x400..0x408 full_bar[2]",
        "; 0x410 acc_bar[1]",
        ";   0x418  out_bar[1]  init 1  (LoadWarp -> MmaWarp)",
    ]
    found = with_names(
        [*enumerate([*legend, "mma: wait(0x1000408, 1)", "mma: arrive(0x410)", "mma: wait(0x418, 0)"], 1)]
    )
    assert [text for _, text in found][-3:] == [
        "mma: wait(full_bar[1]@1, 1)",
        "mma: arrive(acc_bar[0])",
        "mma: wait(out_bar[0], 0)",
    ]


@pytest.mark.parametrize(
    "legend",
    [
        ["map (offsets): 0x410=scores1[0] 0x418=scores1[1] 0x400=q_full[0]"],
        ["bars: q_full @ 0x400, scores1 @ 0x410 (2 stages)"],
        ["// q_full = 0x0400 (slot 0)", "// scores1 = 0x0410..0x0418 (slots 0..1)"],
        [
            "# CTA 0",
            "# q_full -> 0x400",
            "# scores1 -> 0x410",
            "# CTA 1",
            "# q_full -> 0x400",
            "# scores1 -> 0x410",
        ],
    ],
)
def test_a_legend_of_pairs(legend: list[str]) -> None:
    rows = ["mma: wait(0x400, 1)", "mma: arrive(0x0418)", "mb 0x410@cta1 par 0 mma spins"]
    found = with_names([*enumerate([*legend, *rows], 1)])
    assert [text for _, text in found][-3:] == [
        "mma: wait(q_full[0], 1)",
        "mma: arrive(scores1[1])",
        "mb scores1[0]@cta1 par 0 mma spins",
    ]


def test_pointers_with_a_stride_and_a_legend_of_warps() -> None:
    head = ["warps: w00 = load", "barriers, 16 bytes apart:"]
    legend = ["  0x7fe3f8032000  k_full[2]", "  0x7fe3f8032020  dk_done[1]"]
    rows = ["w00 0x7fe3f8032010 try_wait", "w00 0x7fe3f9032020 arrive"]
    found = with_names([*enumerate([*head, *legend, *rows], 1)])
    assert [text for _, text in found] == [*head, "w00 k_full[1] try_wait", "w00 dk_done[0]@1 arrive"]


def test_a_role_with_hyphens() -> None:
    lines = [(1, "cta=0 softmax-lo wait(full[0], 1)"), (2, "mma try-wait full-bar[0]")]
    assert with_labels(lines) == [(1, "cta=0 softmax_lo wait(full[0], 1)"), lines[1]]


def test_an_actor_behind_an_arrow() -> None:
    rows = [
        "10 full.0 <- ld.1 sleeps, wants p1",
        "20 full.1/c0,1 <- mma.0 arrives",
        "30 bar.sync(2,256) <- red.0 sleeps",
        "40 full[1] @ cta1 <-- mma/0: woken",
    ]
    assert [text for _, text in with_actors_first([*enumerate(rows, 1)])] == [
        "10 cta1 ld: full[0] sleeps, wants p1",
        "20 cta0 mma: full[1]@cta0,1 arrives",
        "30 cta0 red: bar.sync(2,256) sleeps",
        "40 cta0 mma: full[1]@cta1 woken",
    ]


@pytest.mark.parametrize(("bullet", "nowhere"), [("* ", "waits in  (no barrier call)"), ("", "at none")])
def test_sections_over_indented_lines(bullet: str, nowhere: str) -> None:
    lines = []
    for warp, place in (("0  load_main ()", nowhere), ("1  mma_main ()", "waits in  mbar_wait (empty[0])")):
        lines += [f"{bullet}CTA 0  warp {warp}", f"    {place}", "    finished calls, latest first (2):"]
        lines += ["      -1   clk 20  mbar_arrive (full[0])", "      -2   clk 10  mbar_wait (empty[0])"]
    found = [text for _, text in with_histories([*enumerate(["(cuda-gdb) warps", *lines], 1)], {})]
    assert found == [
        "(cuda-gdb) warps",
        "CTA 0  warp 0  role=load_main: mbar_wait (empty[0])",
        "CTA 0  warp 0  role=load_main: mbar_wait (empty[0]) done",
        "CTA 0  warp 0  role=load_main: mbar_arrive (full[0])",
        "CTA 0  warp 1  role=mma_main: mbar_wait (empty[0])",
        "CTA 0  warp 1  role=mma_main: mbar_wait (empty[0]) done",
        "CTA 0  warp 1  role=mma_main: mbar_arrive (full[0])",
        "CTA 0  warp 1  role=mma_main: waits in  mbar_wait (empty[0])",
    ]


def test_a_history_with_the_open_wait() -> None:
    lines = []
    for role, place in (
        ("MMA warp", "not in a barrier call"),
        ("load warp", "blocked in mbar_wait empty[0]"),
    ):
        lines += [f"CTA 0 {role}: {place}", "  10  mbar_wait empty[0]  [3 clk]", "  20  mbar_arrive full[0]"]
    lines += ["  30  mbar_wait empty[0]  [still in here]", "CTA 0 store warp: blocked in __syncthreads()"]
    lines += ["  40  mbar_wait empty[0]  [3 clk]", "  50  __syncthreads()  [still in here]"]
    found = [text for _, text in with_histories([*enumerate(lines, 1)], {})]
    assert found[0] == "CTA 0 MMA warp: mbar_wait empty[0]  [3 clk]"
    assert found[6:7] == ["CTA 0 load warp: mbar_wait empty[0]  [still in here]"]
    assert found[9:] == ["CTA 0 store warp: __syncthreads()  [still in here]"]


def test_records_of_an_array() -> None:
    rows = [
        '{cta = 1, ev = WAIT, bar = FULL, parity = -1, tx_bytes = 0, bar_cta_mask = 2, msg = ""}'
        for _ in range(4)
    ]
    lines = ["$2 = {[0] = " + rows[0] + ",", *(f"  [{k}] = {row}," for k, row in enumerate(rows[1:], 1))]
    found = records([*enumerate(["(cuda-gdb) p a", *lines], 1)])
    assert [text.split() for _, text in found] == [["cta=1,", "ev=WAIT,", "bar=FULL,", "cta_mask=0x2"]] * 4
