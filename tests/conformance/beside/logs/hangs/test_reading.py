"""The grammar: single lines in many wordings, records over several lines, and what cannot be read."""

from pathlib import Path

import pytest
from tileproof.conformance.beside.logs.hangs.reader import read, read_text
from tileproof.conformance.beside.logs.hangs.render import diagnose
from tileproof.conformance.beside.logs.hangs.text import text
from tileproof.spec.machine.errors import TileproofError

# line: actor, kind, barrier, stage, k, phase
LINES = {
    "WG0 cta0: waiting on bar_q_ready, phase 0": ("CTA 0 WG0", "wait", "qready", None, None, 0),
    "[cta_rank=1 warp_idx=5] mbarrier_wait(bar_kv_full, stage=1, phase=0) begin": (
        "CTA 1 warp 5", "wait", "kvfull", 1, None, 0,
    ),
    "[cta_rank=1 warp_idx=5] mbarrier_wait(bar_kv_full, stage=1, phase=0) returned": (
        "CTA 1 warp 5", "done", "kvfull", 1, None, 0,
    ),
    "blockIdx.x=3 threadIdx.x=96 k_iter 4: about to wait full_barrier[2] parity 1": (
        "CTA 3 warp 3", "wait", "full", 2, 4, 1,
    ),
    "(cta 1, wg 2) still waiting for dq_ready (k=3, phase=1)": ("CTA 1 WG2", "wait", "dqready", None, 3, 1),
    "(cta 1, wg 2) timeout waiting for dq_ready (k=3)": ("CTA 1 WG2", "wait", "dqready", None, 3, None),
    "CTA#0 Producer kb 2 acquire empty[0]": ("CTA 0 producer", "wait", "empty", 0, 2, None),
    "CTA#0 Producer kb 2 committed full[0]": ("CTA 0 producer", "arrive", "full", 0, 2, None),
    "consumer | CTA 0 | kblock: 2 | barrier wait done p_ready | parity=0": (
        "CTA 0 consumer", "done", "pready", None, 2, 0,
    ),
    "mma cta=0 it=7 tcgen05.commit -> mbar_dq_ready": ("CTA 0 mma", "arrive", "dqready", None, 7, None),
    "cta0 rescaler: bar 3 wait phase=0": ("CTA 0 rescaler", "wait", "#3", None, None, 0),
    "WG1 CTA0 not done: bar_p_ready": ("CTA 0 WG1", "wait", "pready", None, None, None),
    "CTA:1 WG:2 K:0 BAR:P_READY PHASE:1 OP:WAIT_END": ("CTA 1 WG2", "done", "pready", None, 0, 1),
    '{"cta": 1, "role": "mma", "k": 3, "event": "wait_done", "barrier": "p_ready", "phase": 1}': (
        "CTA 1 mma", "done", "pready", None, 3, 1,
    ),
    "[mma@cta1] k=3 wait(p_ready, 1)": ("CTA 1 mma", "wait", "pready", None, 3, 1),
    "WG3 CTA0 leaving wait bar_z ph=0": ("CTA 0 WG3", "done", "z", None, None, 0),
    "WG3 CTA0 k=3 arrived at bar_y after wait": ("CTA 0 WG3", "arrive", "y", None, 3, None),
    "warp group 2 of cta 1 blocked in mbarrier.try_wait on dkv_ready[1]": (
        "CTA 1 WG2", "wait", "dkvready", 1, None, None,
    ),
    "2025-11-20T10:00:00Z gpu0 cta=1 wg=3 k=0 mbarrier.arrive.expect_tx kv_ready bytes=73728": (
        "CTA 1 WG3", "arrive", "kvready", None, 0, None,
    ),
    "CTA0-WG1-k2-WAIT-p_ready-ph0": ("CTA 0 WG1", "wait", "pready", None, 2, 0),
    "\x1b[1;31mmma\x1b[0m cta 1 wait s_ready": ("CTA 1 mma", "wait", "sready", None, None, None),
    "load k=2 arrive kv_ready": ("load", "arrive", "kvready", None, 2, None),
}  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_fields_of_a_line(line: str) -> None:
    (event,) = read_text(line + "\n").events
    found = (str(event.actor), event.kind, event.barrier, event.stage, event.k, event.phase)
    assert found == LINES[line]


def test_two_barriers_on_a_line() -> None:
    events = read_text("mma cta=0 it=7 wait s_ready done, arrive p_ready\n").events
    assert [(event.kind, event.barrier) for event in events] == [("done", "sready"), ("arrive", "pready")]


def test_two_messages_torn_into_one_line() -> None:
    events = read_text("[WG3 CTA0] k=1 wait bar_a phase=1[WG1 CTA1] k=1 bar_b arrive\n").events
    assert [(str(event.actor), event.kind, event.phase) for event in events] == [
        ("CTA 0 WG3", "wait", 1),
        ("CTA 1 WG1", "arrive", None),
    ]


def test_a_record_of_one_field_a_line() -> None:
    log = read_text("role: mma\ncta: 1\nk: 3\nbarrier: p_ready\nphase: 1\nevent: wait\n")
    (event,) = log.events
    assert (str(event.actor), event.kind, event.barrier, event.k, event.phase) == (
        "CTA 1 mma", "wait", "pready", 3, 1,
    )  # fmt: skip


def test_host_lines_do_not_join_a_record() -> None:
    log = read_text(
        "[WG1 CTA0] k=1 launched\nninja: build done\nwaiting for the device\n[WG1 CTA0] wait bar_a\n"
    )
    assert len(log.events) == 1
    assert log.unread == [2, 3]


def test_words_instead_of_a_barriers_name() -> None:
    """`P is ready` is observed by its waiters, `ds ready for WG3` is made so; known names only."""
    lines = [
        "[WG3 CTA0] P done, bar_p_ready",
        "[WG0 CTA0] P is ready, computing softmax",
        "[WG3 CTA0] wait bar_ds_ready phase=0",
        "[WG0 CTA0] ds ready for WG3",
        "[WG0 CTA0] the answer is ready",
    ]
    log = read_text("\n".join(lines) + "\n")
    assert [(str(e.actor), e.kind, e.barrier, e.loose) for e in log.events] == [
        ("CTA 0 WG3", "arrive", "pready", True),
        ("CTA 0 WG0", "done", "pready", True),
        ("CTA 0 WG3", "wait", "dsready", False),
        ("CTA 0 WG0", "arrive", "dsready", True),
    ]


def test_a_last_line_that_was_cut() -> None:
    whole = "[WG0 CTA0] wait bar_p_ready phase=0\n[WG0 CTA0] bar_p_ready done\n"
    log = read_text(whole + "[WG0 CTA0] wait bar_p_re")
    assert [event.barrier for event in log.events] == ["pready", "pready"]
    assert log.unread == [3]
    assert any("may be truncated" in remark for remark in log.remarks)
    assert not read_text(whole).remarks


def test_a_repeated_line_of_a_spinning_wait_is_one_wait(tmp_path: Path) -> None:
    path = tmp_path / "spin.txt"
    path.write_text(
        "[WG0 CTA0] k=1 still waiting for bar_a phase=1\n" * 1000 + "[WG1 CTA0] k=1 bar_b arrive\n"
    )
    (blocked,) = diagnose(path)["blocked"]
    assert blocked["line"] == 1


def test_a_log_without_lines_before_waits_is_unclear(tmp_path: Path) -> None:
    path = tmp_path / "half.txt"
    path.write_text("[WG0 CTA0] k=0 bar_a wait done\n[WG1 CTA0] k=0 bar_a arrive\n")
    found = diagnose(path)
    assert found["outcome"] == "unclear"
    assert "UNCLEAR" in text(found)


def test_a_log_without_lines_after_waits_says_so(tmp_path: Path) -> None:
    path = tmp_path / "half.txt"
    path.write_text("[WG1 CTA0] k=0 arrive bar_a\n[WG0 CTA0] k=0 wait bar_a\n")
    found = diagnose(path)
    assert found["outcome"] == "unclear"
    assert any("no line reports the end of a wait" in remark for remark in found["remarks"])


def test_what_was_not_understood_is_counted_and_shown(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("[WG0 CTA0] wait bar_a\n[WG1 CTA0] waiting, waiting\nSegmentation fault\n")
    counts = diagnose(path)["read"]
    assert counts["not_understood"] == 2
    assert [count["line"] for count in counts["examples"]] == [2, 3]
    assert "Segmentation fault" in text(diagnose(path))


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "empty"),
        (b" \n\n\t\n", "empty"),
        (bytes(range(256)) * 40, "not text"),
        (b"\x7fELF\x02\x01\x01" + bytes(5000), "not text"),
        (b"hello\nworld\n", "no line of the log"),
        (b"[WG0 CTA0] waiting\n[WG0 CTA0] done\n", "no line of the log"),
    ],
)
def test_a_file_that_is_no_such_log(tmp_path: Path, data: bytes, what: str) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(data)
    with pytest.raises(TileproofError, match=what):
        read(path)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.txt", tmp_path):
        with pytest.raises(TileproofError, match="cannot be read"):
            read(path)


def test_a_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tileproof.conformance.beside.logs.hangs.log.MAX_BYTES", 1000)
    path = tmp_path / "log.txt"
    line = "[WG0 CTA0] wait bar_a\n"
    path.write_text(line * 40)
    assert read(path).events
    path.write_text(line * 60)
    with pytest.raises(TileproofError, match="too large"):
        read(path)


def test_other_encodings_and_line_ends(tmp_path: Path) -> None:
    line = "[WG0 CTA0] wait bar_a phase=0\r\n[WG1 CTA0] arrive bar_b\r\n"
    for encoding in ("utf-8-sig", "utf-16", "latin-1"):
        path = tmp_path / encoding
        path.write_bytes(("übung\r\n" + line).encode(encoding))
        assert [event.kind for event in read(path).events] == ["wait", "arrive"]
