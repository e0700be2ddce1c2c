# ruff: noqa: E501 - log lines are kept whole
"""Forms in which engineers print hang logs: flags, calls, legends, output of tools, and where the actor stands."""

import pytest
from tileproof.conformance.beside.logs.hangs.lines.flags import with_flags
from tileproof.conformance.beside.logs.hangs.lines.labels import with_labels
from tileproof.conformance.beside.logs.hangs.lines.legend import with_names
from tileproof.conformance.beside.logs.hangs.lines.pipelines import with_sides
from tileproof.conformance.beside.logs.hangs.lines.ranks import with_ranks
from tileproof.conformance.beside.logs.hangs.lines.returned import with_begins
from tileproof.conformance.beside.logs.hangs.lines.syncs import with_syncs
from tileproof.conformance.beside.logs.hangs.log import LogEvent
from tileproof.conformance.beside.logs.hangs.runs import split_streams

from benchmarks.hang_strangers import explain
from benchmarks.strangers.exams.grade import logs, verdict
from tests.conformance.beside.logs.hangs.test_lines import told
from tests.conformance.beside.logs.hangs.test_turns import answer, ring

# Logs of blind exams that were answered wrongly before the reader knew their form.
MENDED = {
    "twelfth": ("want-have-7", "asks-gets-1", "asks-gets-10", "calling-back-15", "calling-back-21"),
    "thirteenth": (
        "gdb-session-8", "logfmt-done-1", "logfmt-done-17", "pipe-methods-1", "pipe-methods-4",
        "hex-watching-5", "de-warten-beendet-13",
    ),
    "fourteenth": (
        "wait-offset-10", "wait-offset-16", "ja-polling-2", "sim-landed-2", "gdb-session-1",
        "synccheck-tail-9", "py-pipes-3", "zh-flip-17", "entering-leaving-1",
    ),
    "sixteenth": (
        "jsonl-progress-2", "pipe-decorator-4", "pipe-decorator-8", "gdb-session-1", "synccheck-4",
        "ja-kanryou-4", "gdb-session-13",
    ),
    "seventeenth": ("hex-init-7", "gdb-threads-12"),
    "nineteenth": ("call-from-1", "pipe-try-ok-4", "gave-up-12", "gdb-backtraces-9"),
}  # fmt: skip
PLAIN = {
    "wait": "cta {cta} {role} k {k}: wait {bar}[{stage}] phase {phase}",
    "done": "cta {cta} {role} k {k}: passed {bar}[{stage}] phase {phase}",
    "arrive": "cta {cta} {role} k {k}: arrive {bar}[{stage}]",
    "expect": "cta {cta} {role} k {k}: arrive {bar}[{stage}] expect_tx {size}",
    "copy": "cta {cta} {role} k {k}: copy {size} bytes to {bar}[{stage}]",
    "far": "",
}
BACKTRACE = """^C
Thread 1 "a.out" received signal SIGINT, Interrupt.
(cuda-gdb) cuda block (0,0,0) thread (32,0,0)
[Switching focus to CUDA kernel 0, grid 1, block (0,0,0), thread (32,0,0), device 0, sm 0, warp 1, lane 0]
(cuda-gdb) bt
#0  mbar_wait (bar=tile_empty, stage=0, parity=0, cta=0) at sync.cuh:57
#1  filler () at ws.cuh:210
"""
REPORT = """========= Barrier error detected. Divergent thread(s) in block.
=========     at 0x2c40 in ws.cu:417
=========     by thread (64,0,0) in block (0,0,0)
========= ERROR SUMMARY: 1 error
"""


def rows(*texts: str) -> list[tuple[int, str]]:
    return [*enumerate(texts, 1)]


@pytest.mark.parametrize("exam", MENDED)
def test_logs_of_exams(exam: str) -> None:
    found = {log.name.split(" ")[0]: log for log in logs(exam, 22)}
    wrong = {name for name in MENDED[exam] if verdict(found[name], explain(found[name].text)) != "correct"}
    assert not wrong


def test_a_flag_that_ends_what_it_began() -> None:
    lines = rows(
        *(f"clk={1000 + 7 * n} role=a op=wait ok={n % 2} bar=full[0] phase={n // 2 % 2}" for n in range(6))
    )
    found = [text for _, text in with_flags(lines)]
    assert found[0] == "clk=1000 role=a op=wait begin bar=full[0] phase=0"
    assert found[1] == "clk=1007 role=a op=wait done bar=full[0] phase=0"


def test_a_phase_is_no_flag() -> None:
    lines = rows(*(f"a waits full[0] phase={n % 2}" for n in range(6)))
    assert with_flags(lines) == lines


def test_a_flag_that_does_not_repeat_is_none() -> None:
    lines = rows(*(f"role=a op=wait slot={n} ok={n % 2} bar=full[0]" for n in range(8)))
    assert with_flags(lines) == lines


@pytest.mark.parametrize(
    "call",
    [
        "cute.arch.barrier(2, 256)", "barSync(2, 256)", "NamedBarrier(256, 2)", "named_sync(id=2, threads=256)",
        "tl::sync_thread_partial<2, 256>()", "cute.arch.barrier(barrier_id=2, number_of_threads=256)",
    ],
)  # fmt: skip
def test_barriers_of_threads(call: str) -> None:
    ((_, found),) = with_syncs(rows(f"cta 0 math: enter {call}"))
    assert found.startswith("cta 0 math: enter bar.sync(2,256)")


@pytest.mark.parametrize(
    "call", ["mbarrier_wait(2, 256)", "wait(2, 256)", "sync(2, 256)", "barrier(2, 255)", "barrier(20, 256)"]
)
def test_other_calls_are_no_barriers_of_threads(call: str) -> None:
    lines = rows(f"cta 0 math: enter {call}")
    assert with_syncs(lines) == lines


def test_a_legend_of_names_that_are_no_states() -> None:
    head = [f"cta 0: mbarrier.init {0x400 + 8 * n:#x}, 1  ({name})" for n, name in
            enumerate(("kv_empty[0]", "kv_full[0]", "scores0[0]", "scores1[0]"))]  # fmt: skip
    events = [f"cta 0 mma k {n}: mbarrier.arrive {0x400 + 8 * (n % 4):#x}" for n in range(8)]
    found = [text for _, text in with_names(rows(*head, *events))]
    assert (
        "cta 0 mma k 2: mbarrier.arrive scores0[0]" in found
        and "cta 0 mma k 3: mbarrier.arrive scores1[0]" in found
    )


def test_ranks_of_a_cluster() -> None:
    mixed = [f"[rank {n % 2}] mma k={n} wait full[0] phase=0" for n in range(6)]
    assert len(split_streams(mixed)) == 2  # a launcher's ranks: nothing names a CTA
    ((_, found),) = split_streams([*mixed, "[rank 0] mma commit full[0] to cta 1", "[rank 0] cluster_wait"])
    assert found[1] == (2, "[cta 1] mma k=1 wait full[0] phase=0")


def test_a_role_and_its_index() -> None:
    both = [f"cta 0 softmax-{n % 2}: wait s[{n % 2}]" for n in range(4)]
    assert with_labels(rows(*both))[1] == (2, "cta 0 softmax_1: wait s[1]")
    alone = [f"loader-{n % 2}: wait s[0]" for n in range(4)]  # it may be the CTA
    assert with_labels(rows(*alone)) == rows(*alone)


def barriers(found: list[LogEvent]) -> list[LogEvent]:
    return [event for event in found if event.barrier == "tileempty"]


def test_the_actors_cta_is_beside_its_role() -> None:
    style = {
        "wait": "WANT {bar}[{stage}]{far} par {phase} <{role} cta{cta} it{k}>",
        "done": "HAVE {bar}[{stage}]{far} par {phase} <{role} cta{cta} it{k}>",
        "arrive": "GIVE {bar}[{stage}]{far} <{role} cta{cta} it{k}>",
        "expect": "GIVE {bar}[{stage}] expect_tx {size} <{role} cta{cta} it{k}>",
        "copy": "LOAD {bar}[{stage}] bytes {size} <{role} cta{cta} it{k}>",
        "far": " on cta{owner}",
    }
    found = told(ring(style, far=1))
    assert {event.actor.cta for event in found} == {0}
    assert {event.owner for event in barriers(found) if event.kind == "wait"} == {1}
    assert {event.to for event in barriers(found) if event.kind == "arrive"} == {2}


def test_a_role_that_other_words_move() -> None:
    style = {
        "wait": "{bar}, entry {stage}{far}: {role} of block {cta} asks for phase {phase}, step {k}",
        "done": "{bar}, entry {stage}{far}: {role} of block {cta} gets phase {phase}, step {k}",
        "arrive": "{bar}, entry {stage}{far}: {role} of block {cta} arrives, step {k}",
        "expect": "{bar}, entry {stage}: {role} of block {cta} arrives and announces {size} bytes, step {k}",
        "copy": "{bar}, entry {stage}: {role} of block {cta} sends a TMA load of {size} bytes, step {k}",
        "far": " in block {owner}",
    }
    found = told(ring(style, far=1))
    assert {event.actor.role for event in found} == {"filler", "eater"}
    assert {event.owner for event in barriers(found) if event.kind == "wait"} == {1}


def test_words_behind_a_role_that_tell_two_apart() -> None:
    lines = []
    for n in range(6):
        for part in "AB":
            lines.append(
                f"{part.lower()}_full, entry 0: math wg {part} of block 0 asks for phase {n % 2}, step {n}"
            )
        for part in "BA":
            lines.append(
                f"{part.lower()}_full, entry 0: math wg {part} of block 0 gets phase {n % 2}, step {n}"
            )
        for verb in ("asks for", "gets"):
            lines.append(f"q_full, entry 0: mma warp of block 0 {verb} phase {n % 2}, step {n}")
        lines += [f"{part}_full, entry 0: mma warp of block 0 arrives, step {n}" for part in "ab"]
    assert {event.actor.role for event in told("\n".join(lines))} == {"math wg a", "math wg b", "mma warp"}


def test_a_role_with_the_name_of_a_field() -> None:
    style = {
        kind: text.replace("cta {cta} {role} k {k}", "b{cta} {role} #{k}") for kind, text in PLAIN.items()
    }
    text = ring(style).replace("filler", "nextTile").replace("eater", "issueMma")
    assert {event.actor.role for event in told(text)} == {"nexttile", "issuemma"}


def test_what_the_kernel_printed_in_a_debugger() -> None:
    text = "(cuda-gdb) run\nStarting program: a.out\n" + ring(PLAIN) + BACKTRACE
    found = answer(text)
    assert found["causes"][0]["code"] == "skipped-arrive" and found["root"]["barrier"] == "tile_empty"
    lines = ring(PLAIN).splitlines()
    last = max(at for at, line in enumerate(lines) if "filler" in line)
    assert "wait" in lines[last]
    del lines[last]  # the backtrace alone has it
    found = answer("(cuda-gdb) run\n" + "\n".join(lines) + "\n" + BACKTRACE)
    assert found["causes"][0]["code"] == "skipped-arrive" and "filler" in found["root"]["actor"]["role"]


def test_a_debugger_without_a_history() -> None:
    found = answer("(cuda-gdb) run\nStarting program: a.out\n" + BACKTRACE)
    assert found["certainty"] == "open"


def test_synccheck_names_the_roles_that_the_kernel_printed() -> None:
    style = {kind: text.replace("{role}", "{role} thread") for kind, text in PLAIN.items()}
    text = ring(style).replace("filler thread", "filler thread 0").replace("eater thread", "eater thread 64")
    found = answer(text + REPORT)
    assert "eater" in found["root"]["actor"]["role"] and found["causes"][0]["code"] == "sync-missing"


@pytest.mark.parametrize(
    "legend",
    [
        "warps: 0 filler, 1 eater",
        "; warp 0 = filler\n; warp 1 = eater",
        "warp roles: filler = warp 0, eater = warp 1",
    ],
)
def test_names_of_warps_by_a_legend(legend: str) -> None:
    text = ring(PLAIN).replace("filler", "warp 0").replace("eater", "warp 1")
    found = answer(f"{legend}\n{text}")
    assert found["root"]["actor"]["role"] == "filler" and found["causes"][0]["culprit"]["role"] == "eater"
    assert answer(text)["root"]["actor"]["role"] == "warp 0"


def test_pipelines_have_two_barriers() -> None:
    found = with_sides(
        rows(
            "load try k_pipe.producer_acquire(stage=0, phase=1)",
            "load k_pipe.producer_arrive_and_expect_tx(stage=0, tx_bytes=16)",
            "load tma_copy(bytes=16, mbar=k_pipe.producer_get_barrier(stage=0))",
            "mma try k_pipe.consumer_wait(stage=0, phase=0)",
            "mma s_pipe.producer_commit(stage=0)",
            "mma k_pipe.consumer_release(stage=0)",
        )
    )
    assert [text for _, text in found] == [
        "load try wait k_empty (stage=0, phase=1)",
        "load arrive_expect_tx k_full (stage=0, tx_bytes=16)",
        "load tma_copy(bytes=16, mbar=k_full (stage=0))",
        "mma try wait k_full (stage=0, phase=0)",
        "mma arrive s_full (stage=0)",
        "mma arrive k_empty (stage=0)",
    ]


def test_pipelines_with_a_name_for_each_barrier_stay() -> None:
    lines = rows("a kv_full.consumer_wait(stage=0)", "b kv_empty.producer_acquire(stage=0)")
    assert with_sides(lines) == lines


def test_ends_of_waits_alone() -> None:
    ends = [f"cta=0 mma passed full[0] phase={k % 2} k={k}" for k in range(4)]
    report = "!!! cta=0 mma gave up on full[0] phase=0 k=4 after 1000 polls"
    found = [text for _, text in with_begins(rows(*ends, report))]
    assert found[:2] == ["cta=0 mma wait full[0] phase=0 k=0", "cta=0 mma wait full[0] phase=0 k=0 done"]
    assert found[-1] == "cta=0 mma wait on full[0] phase=0 k=4"
    assert with_begins(rows(*ends)) == rows(*ends)
    assert len(with_begins(rows(*ends), seen=True)) == 8


def test_a_cta_behind_its_role() -> None:
    lines = [f"{role}_loop({cta}): k {k}, wait full[0] phase {k % 2}" for k in range(3)
             for role in ("load", "mma") for cta in (0, 1)]  # fmt: skip
    assert with_ranks(rows(*lines))[1] == (2, "cta=1 load_loop: k 0, wait full[0] phase 0")
    alone = [line.replace("(1)", "(0)") for line in lines]
    assert with_ranks(rows(*alone)) == rows(*alone)
