# ruff: noqa: E501 - log lines are kept whole
"""Logs in forms that others print: the CTA of a barrier, other languages, addresses, calls, debuggers.

Each form has a log with a planted mistake, which must be named, and a log that ends well.
"""

from __future__ import annotations

from itertools import islice

import pytest
from tileproof.conformance.beside.logs.hangs.reader import read_text
from tileproof.conformance.beside.logs.hangs.render import diagnosis
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Json

from benchmarks.strangers.score import Score, logs


def explain(text: str) -> Json:
    return diagnosis(read_text(text))


def pair(peer: str, multicast: bool = True, flip: bool = False, blocks: int = 4) -> str:
    """A 2-CTA GEMM with one stage: the leader waits on its own kv_full, then on the other CTA's."""
    lines = []
    for k in range(blocks):
        for cta in (0, 1):
            lines.append(f"[LOAD CTA{cta}] k={k} wait kv_empty phase={1 - (k & 1)}")
            if cta and k > 1 and not multicast:
                continue
            lines.append(f"[LOAD CTA{cta}] k={k} wait kv_empty phase={1 - (k & 1)} done")
            lines.append(f"[LOAD CTA{cta}] k={k} arrive kv_full")
        phase = k & 1 ^ (flip and k == 2)
        lines.append(f"[MMA CTA0] k={k} wait kv_full phase={phase}")
        if flip and k == 2:
            break
        lines.append(f"[MMA CTA0] k={k} wait kv_full phase={k & 1} done")
        lines.append(f"[MMA CTA0] k={k} wait {peer} phase={k & 1}")
        if not multicast and k > 1:
            break
        lines.append(f"[MMA CTA0] k={k} wait {peer} phase={k & 1} done")
        lines.append(f"[MMA CTA0] k={k} commit kv_empty")
    return "\n".join(lines) + "\n"


PEERS = ("kv_full (peer)", "kv_full (peer CTA 1)", "peer.kv_full", "kv_full@cta1", "kv_full of CTA 1")


@pytest.mark.parametrize("peer", PEERS)
def test_a_commit_that_is_not_multicast_is_no_wrong_parity(peer: str) -> None:
    found = explain(pair(peer, multicast=False))
    cause = found["causes"][0]
    assert (found["outcome"], cause["code"]) == ("hang", "one-cta")
    assert (found["root"]["barrier"], found["root"]["actor"]["cta"]) == ("kv_empty", 1)
    assert all(cause["code"] != "wrong-parity" for cause in found["causes"])


@pytest.mark.parametrize("peer", PEERS)
def test_a_flipped_parity_beside_a_peers_barrier_is_still_named(peer: str) -> None:
    found = explain(pair(peer, flip=True))
    assert (found["outcome"], found["causes"][0]["code"]) == ("hang", "wrong-parity")
    assert explain(pair(peer))["outcome"] == "no hang seen"


def test_one_cta_is_certain_only_where_a_mask_lost_the_cta() -> None:
    """Without masks a role that prints nothing may have signalled the other CTA in earlier phases."""
    plain = pair("peer.kv_full", multicast=False)
    assert explain(plain)["certainty"] == "likely"

    def masked(*masks: str) -> str:
        found = iter(masks)
        return "".join(
            line.replace("commit kv_empty", f"commit kv_empty mask={next(found)}")
            if "commit" in line
            else line
            for line in plain.splitlines(keepends=True)
        )

    assert explain(masked("0x3", "0x1"))["certainty"] == "certain"
    for masks in (("0x3", "0x3"), ("0x1", "0x1")):
        assert explain(masked(*masks))["certainty"] != "certain"


def meeting(lines: dict[str, str], rounds: int = 3, missing: bool = False) -> str:
    """Two roles of a CTA that meet; the second leaves the meeting of the last round out."""
    out = []
    for k in range(rounds):
        for role in ("first", "second"):
            out.append(f"[{role} CTA0] k={k} wait in_full phase={k & 1}")
            out.append(f"[{role} CTA0] k={k} wait in_full phase={k & 1} done")
            if not (missing and role == "second" and k == rounds - 1):
                out.append(f"[{role} CTA0] k={k} {lines['enter']}")
        for role in ("first", "second") if not missing or k < rounds - 1 else ():
            out.append(f"[{role} CTA0] k={k} {lines['leave']}")
        out.append(f"[load CTA0] k={k + 1} arrive in_full")
    if missing:
        out.append("[second CTA0] done, exiting")
    return "[load CTA0] k=0 arrive in_full\n" + "\n".join(out) + "\n"


MEETINGS = {
    "bar.sync": {"enter": "bar.sync 3, 256", "leave": "bar.sync 3, 256 done"},
    "NamedBarrier": {"enter": "enter NamedBarrier 3", "leave": "left NamedBarrier 3"},
    "__syncthreads": {"enter": "before __syncthreads()", "leave": "after __syncthreads()"},
    "cluster": {"enter": "waiting at cluster barrier", "leave": "passed cluster barrier"},
}


@pytest.mark.parametrize("form", MEETINGS)
def test_a_participant_that_does_not_come(form: str) -> None:
    found = explain(meeting(MEETINGS[form], missing=True))
    cause = found["causes"][0]
    assert (found["outcome"], cause["code"]) == ("hang", "sync-missing")
    assert (cause["culprit"]["role"], found["root"]["actor"]["role"]) == ("second", "first")
    assert explain(meeting(MEETINGS[form]))["outcome"] == "no hang seen"


def test_an_allocation_that_does_not_return() -> None:
    held = "CTA 0 warp 0 tcgen05.alloc(512)\nCTA 0 warp 0 tcgen05.alloc(512) = ok\nCTA 1 warp 0 tcgen05.alloc(512)\n"
    found = explain(held + "CTA 0 warp 0 finished\n")
    cause = found["causes"][0]
    assert (found["outcome"], cause["code"], cause["culprit"]["cta"]) == ("hang", "alloc-blocked", 0)
    freed = held + "CTA 0 warp 0 tcgen05.dealloc(512)\nCTA 1 warp 0 tcgen05.alloc(512) = ok\n"
    assert explain(freed)["outcome"] == "no hang seen"


def test_addresses_in_a_row_are_the_stages_of_a_ring() -> None:
    lines = []
    for k in range(6):
        lines += [f"cta0 w0 arrive(0x{0x400 + 8 * (k % 3):x}) ; k={k}"]
        lines += [f"cta0 w4 wait(0x{0x400 + 8 * (k % 3):x}, {k // 3 & 1}) ; k={k}"]
        lines += [f"cta0 w4 wait(0x{0x400 + 8 * (k % 3):x}, {k // 3 & 1}) = ok ; k={k}"]
    found = explain("\n".join(lines) + "\n")
    assert found["outcome"] == "no hang seen"
    assert {(row["barrier"], row["stage"]) for row in found["barriers"]} == {
        ("@0x400", at) for at in range(3)
    }


GDB = """(cuda-gdb) info cuda warps
[Switching focus to CUDA kernel 0, grid 1, cluster (0,0,0), block (1,0,0), thread (128,0,0), device 0, sm 2, warp 9, lane 0]
#0  0x00007fff90a3c5d0 in ClusterBarrier::wait (smem_ptr=0x38048, phase=0) at barrier.h:394
#1  0x00007fff90a3d120 in mma_loop<<<(2,1,1),(512,1,1)>>> (params=...) at kernel.cu:231
[Switching focus to CUDA kernel 0, grid 1, cluster (0,0,0), block (0,0,0), thread (0,0,0), device 0, sm 2, warp 1, lane 0]
118\t    mbarrier_wait(smem_empty[1], 1);
"""
SYNCCHECK = """========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in block
=========     at kernel(Params)+0x1240 in /src/kernel.cu:292
=========     by thread (32,0,0) in block (2,0,0)
========= ERROR SUMMARY: 1 error
"""


def test_a_debugger_shows_where_warps_stand_and_no_cause() -> None:
    found = explain(GDB)
    stand = {(item["actor"]["name"], item["barrier"], item["phase"]) for item in found["blocked"]}
    assert stand == {("CTA 1 warp 4", "@0x38048", 0), ("CTA 0 warp 0", "smem_empty", 1)}
    assert (found["outcome"], found["certainty"], found["causes"][0]["code"]) == ("hang", "open", "snapshot")


def test_synccheck() -> None:
    found = explain(SYNCCHECK)
    assert (found["causes"][0]["code"], found["root"]["actor"]["name"]) == ("sync-missing", "CTA 2 warp 1")
    assert "kernel.cu:292" in found["root"]["barrier"]


@pytest.mark.parametrize("role", ["загрузчик", "計算", "φορτωτής", "lädt_1"])
def test_a_role_in_any_script(role: str) -> None:
    found = explain(f"[{role} CTA0] k=0 arrive x_full\n[{role} CTA0] k=1 wait x_empty[0] phase=0\n")
    assert found["root"]["actor"]["role"] == role


@pytest.mark.parametrize(
    ("which", "step"),
    [("all", 8), ("later", 16), ("later-held", 16), ("third", 24), ("mixed", 20), ("mixed-held", 20)],
)
def test_the_score_over_strangers(which: str, step: int) -> None:
    score = Score()
    for log in islice(logs(seed=11, rounds=1, which=which), 0, None, step):
        try:
            score.add(log, explain(log.text))
        except TileproofError:
            score.add(log, None)
    assert score.passes(), score.table()


def events(text: str) -> list[tuple[str, int, str, str, int | None, int | None]]:
    return [
        (event.actor.role, event.actor.cta, event.kind, event.barrier, event.stage, event.phase)
        for event in read_text(text).events
    ]


@pytest.mark.parametrize(
    ("line", "role", "cta"),
    [
        ("<1:issue> blocked on d_full.2 p0", "issue", 1),
        ("[blk 1][issue] wait on d_full[2] ph=0", "issue", 1),
        ("issue, cta 1, tile 3 -- wait d_full[2] phase 0", "issue", 1),
        ("1/issue k=3 | d_full[2] | try_wait parity=0", "issue", 1),
        ("The issue warp in CTA 1 waits for d_full stage 2, parity 0", "issue", 1),
        ("b1 t032 wait(d_full[2], 0)", "warp 1", 1),
        ("cta1/issue k3: d_full[2].wait(0)", "issue", 1),
        (
            "\u3010CTA 1 \u642c\u8fd0\u3011\u6b63\u5728\u7b49\u5f85 d_full[2]\uff0c\u76f8\u4f4d 0",
            "\u642c\u8fd0",
            1,
        ),
    ],
)
def test_a_role_by_its_place(line: str, role: str, cta: int) -> None:
    assert events(line + "\n") == [(role, cta, "wait", "dfull", 2, 0)]


def test_an_event_at_the_place_of_a_role_is_no_role() -> None:
    assert events("[cta 1][wait] d_full[2] phase 0 role=mma\n") == [("mma", 1, "wait", "dfull", 2, 0)]


def test_addresses_of_a_peers_barriers() -> None:
    log = read_text(
        "cta0 w1 wait(0x428, 0) ; k=0\ncta0 w1 wait(0x1000428, 0) ; k=0\n"
        "cta1 w1 wait(0x1000428, 0) ; k=0\ncta1 w1 arrive(0x428) ; k=0\n"
    )
    assert {event.barrier for event in log.events} == {"@0x428"}
    assert [(event.actor.cta, event.cta) for event in log.events if event.kind == "wait"] == [
        (0, 0),
        (0, 1),
        (1, 1),
    ]
    assert [event.to for event in log.events if event.kind == "arrive"] == [1]
    own = read_text("cta1 w1 wait(0x428, 0) ; k=0\ncta0 w1 wait(0x1000428, 0) ; k=0\n")
    assert [event.cta for event in own.events] == [1, 1]  # CTA 1 prints its own barrier without its rank


def test_phases_of_a_ring_without_printed_stages_are_no_wrong_parity() -> None:
    lines = []
    for k in range(4):
        lines += [f"[mma CTA0] k={k} wait x_full phase={k // 2 & 1}"]
        if k < 3:
            lines += [f"[mma CTA0] k={k} x_full done", f"[mma CTA0] k={k} arrive x_empty"]
        if k < 3:
            lines += [f"[load CTA0] k={k} arrive x_full"]
    found = explain("\n".join(lines) + "\n")
    assert found["outcome"] == "hang"
    assert all(cause["code"] != "wrong-parity" for cause in found["causes"])


def test_lines_that_are_not_understood_leave_no_certainty() -> None:
    text = pair("peer.kv_full", flip=True).replace("kv_full", "kv_full[0]").replace("kv_empty", "kv_empty[0]")
    assert explain(text)["certainty"] == "certain"
    assert explain("kv_full wait phase 0\n" * 3 + text)["certainty"] != "certain"


@pytest.mark.parametrize("rounds", [True, False])
def test_a_parity_is_certain_only_where_no_wait_was_lost(rounds: bool) -> None:
    lines = pair("peer.kv_full", flip=True).splitlines()
    lost = [line for line in lines if not line.startswith("[MMA CTA0] k=1 wait kv_full")]
    text = "\n".join(lost if rounds else [line.replace("k=", "#") for line in lost]) + "\n"
    assert explain(text)["certainty"] != "certain"
