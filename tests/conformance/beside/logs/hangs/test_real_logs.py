"""Logs as people have them: what each lacks, and what is said of it."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tileproof.conformance.beside.logs.hangs.reader import read_text
from tileproof.conformance.beside.logs.hangs.render import diagnosis
from tileproof.conformance.beside.logs.hangs.rewrite import parse_words
from tileproof.conformance.beside.logs.hangs.text import text
from tileproof.conformance.cli.explain import explain
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Json

from tests.kit.hang_logs.emulated import run
from tests.kit.hang_logs.large import long_log
from tests.kit.hang_logs.programs import Shape, attention, chain, gemm
from tests.kit.hang_logs.wordings import WORDINGS, lines
from tests.kit.pipelines import Said

GEMM = Shape(1, 2, 5, ("full", "empty", "acc_full", "acc_empty"), ("producer", "mma", "epilogue"))
CHAIN = Shape(1, 2, 5, ("in_full", "in_empty", "out_full", "out_empty"), ("load", "math", "store"))


def told(log: str, **how: Any) -> Json:
    return diagnosis(read_text(log, **how))


def printed(
    said: tuple[Said, ...], wording: str = "keys", roles: tuple[str, ...] = Shape().roles
) -> list[str]:
    return [line for block in lines(said, WORDINGS[wording], roles) for line in block]


def hung(defect: str, at: int = 2, shape: Shape | None = None, seed: int = 1) -> tuple[Said, ...]:
    return run(attention(shape or Shape(), defect, at), seed).said


def test_of_a_missing_head_the_last_known_states_count() -> None:
    """Counts of arrivals that the cut took away say nothing; that one CTA passed and the other did not
    does.
    """
    whole = printed(hung("one-cta", 3))
    assert told("\n".join(whole) + "\n")["causes"][0]["code"] == "one-cta"
    for cut in range(12, len(whole) - 12, 6):
        found = told("\n".join(whole[cut:]) + "\n")
        if not any("CTA=1" in line and "P_READY" in line for line in whole[cut:]):
            continue  # the one that hangs is gone
        if found["causes"][0]["code"] == "one-cta" and found["root"]["actor"]["cta"] == 1:
            assert any("missing" in remark for remark in found["remarks"])
            assert found["certainty"] == "open"
            continue
        assert found["certainty"] != "certain", text(found)


def test_two_runs_one_after_the_other_are_judged_apart() -> None:
    first, second = hung("one-cta"), hung("wrong-bytes")
    log = "\n".join(["Launching kernel", *printed(first), "^C", "Launching kernel", *printed(second)]) + "\n"
    found = told(log)
    assert [error["cause"]["code"] for error in found["runs"]] == [
        "one-cta",
        "bytes-missing",
    ]
    assert found["causes"][0]["code"] == "bytes-missing"
    assert text(found, full=False).startswith("2 runs in this log:")
    clean = run(attention(Shape(), "", 0), 1).said
    again = told("\n".join(["Launching kernel", *printed(first), "Launching kernel", *printed(clean)]) + "\n")
    assert [error["outcome"] for error in again["runs"]] == ["hang", "no hang seen"]
    assert again["root"]["actor"] == told("\n".join(printed(first)) + "\n")["root"]["actor"]


@pytest.mark.parametrize("form", ["[rank{}]: ", "[{}]: ", "{}: ", "rank {} | ", "[1,{}]<stdout>:"])
def test_ranks_in_one_file_are_judged_apart(form: str) -> None:
    both = [
        [form.format(rank) + line for line in printed(hung(d))]
        for rank, d in enumerate(("one-cta", "parity"))
    ]
    mixed = [line for pair in zip(*both, strict=False) for line in pair]
    mixed += both[0][len(both[1]) :] + both[1][len(both[0]) :]
    found = told("\n".join(mixed) + "\n")
    assert {error["title"]: error["cause"]["code"] for error in found["runs"]} == {
        "rank 0": "one-cta",
        "rank 1": "wrong-parity",
    }


def test_blocks_and_threads_in_brackets() -> None:
    log = (
        "(0,0,0)/(256,0,0) wait bar_a ph=0\n(1,0,0)/(256,0,0) wait bar_a ph=0\n(1,0,0)/(256,0,0) done bar_a\n"
    )
    found = told(log)
    assert [(error["actor"]["role"], error["actor"]["cta"]) for error in found["blocked"]] == [("warp 8", 0)]
    assert [
        actor["role"] for actor in told(log.replace("(0,0,0)/(256,0,0)", "block=0 thread=256"))["actors"]
    ] == [
        "warp 8",
        "warp 8",
    ]


@pytest.mark.parametrize("wording", ["opaque", "numbers"])
def test_what_is_not_understood_is_never_called_well(wording: str) -> None:
    text_ = "\n".join(printed(hung("one-cta"), wording)) + "\n"
    for log in (text_, text_ + "[WG0 CTA0] wait bar_a phase=0\n[WG0 CTA0] bar_a wait done\n"):
        try:
            found = told(log)
        except TileproofError as error:
            assert "wait, done or arrive" in str(error)
            continue
        if wording == "numbers":
            assert found["outcome"] == "unclear"
            assert "The log needs: print a line before each wait" in text(found, full=False)


def test_without_a_cta_it_says_that_roles_are_merged_and_what_is_open() -> None:
    said = hung("one-cta", 2)
    log = "\n".join(line.replace("CTA=0 ", "").replace("CTA=1 ", "") for line in printed(said)) + "\n"
    found = told(log)
    assert found["certainty"] == "open"
    assert any("CTAs are merged" in remark for remark in found["remarks"])
    assert found["causes"][0]["code"] == "one-cta" and found["root"]["actor"]["cta"] is None


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("ring", ["gemm", "chain"])
def test_a_stage_that_is_never_released(stages: int, ring: str) -> None:
    """The consumer that did not release it is to blame, not the producer that waits for it."""
    base, make, role, barrier = (
        (GEMM, gemm, "mma", "EMPTY") if ring == "gemm" else (CHAIN, chain, "math", "IN_EMPTY")
    )
    shape = Shape(1, stages, 6, base.names, base.roles)
    found = told("\n".join(printed(run(make(shape, "unreleased", 0), 2).said, roles=base.roles)) + "\n")
    first = found["causes"][0]
    assert (first["code"], first["culprit"]["role"]) == ("skipped-arrive", role), text(found)
    assert (found["root"]["barrier"], found["root"]["stage"]) == (barrier, stages - 1)
    assert not found["others"]


@pytest.mark.parametrize(
    ("make", "defect", "role"),
    [(gemm, "stopped-first", "epilogue"), (chain, "stopped-first", "math"), (gemm, "stopped", "producer")],
)
def test_a_role_that_stops_in_the_first_round_is_one_root(make: Any, defect: str, role: str) -> None:
    shape = GEMM if make is gemm else CHAIN
    found = told("\n".join(printed(run(make(shape, defect, 0), 3).said, roles=shape.roles)) + "\n")
    assert found["causes"][0]["code"] == "producer-stopped", text(found)
    assert found["causes"][0]["culprit"]["role"] == role
    assert not found["others"]


def _in_cluster(cluster: int, some: list[str]) -> list[str]:
    first = 2 * cluster
    return [line.replace("CTA=1 ", f"CTA={first + 1} ").replace("CTA=0 ", f"CTA={first} ") for line in some]


def test_independent_hangs_each_have_a_cause_and_copies_are_told_once() -> None:
    many = [line for cluster in range(8) for line in _in_cluster(cluster, printed(hung("one-cta")))]
    found = told("\n".join(many) + "\n", cluster=2)
    assert found["causes"][0]["code"] == "one-cta" and not found["others"]
    assert found["causes"][0]["copies"].startswith("cluster 1, cluster 2")
    other = _in_cluster(8, printed(hung("wrong-bytes")))
    found = told("\n".join(many + other) + "\n", cluster=2)
    codes = {
        found["causes"][0]["code"],
        *(error["causes"][0]["code"] for error in found["others"]),
    }
    assert codes == {"one-cta", "bytes-missing"}


@pytest.mark.parametrize(
    ("defect", "words"), [("wrong-bytes", "copies of 128"), ("copy-lost", "copies of 0")]
)
def test_bytes_in_numbers(defect: str, words: str) -> None:
    planted = attention(Shape(), defect, 2)
    said = []
    for event in run(planted, 1).said:
        said.append(event)
        short = event.who == ("load", 1) and event.k == 2
        if event.kind == "arrive" and event.tx and not (short and defect == "copy-lost"):
            size = 128 if short else event.bytes
            said.append(Said(event.who, "copy", event.barrier, event.stage, event.k, tx=True, bytes=size))
    found = told("\n".join(printed(tuple(said), "bytes")) + "\n")
    first = found["causes"][0]
    assert first["code"] == "bytes-missing"
    assert "announced 256 bytes" in first["what"] and words in first["what"], first["what"]


def test_cutlass_pipelines() -> None:
    log = read_text(
        "[load cta=0] kv_pipeline.producer_acquire: acquiring index=1 phase=0 count=3\n"
        "[load cta=0] kv_pipeline.producer_acquire: acquired index=1 phase=0 count=3\n"
        "[load cta=0] kv_pipeline.producer_commit index=1 count=3\n"
        "[mma cta=0] kv_pipeline->consumer_wait index=1 phase=1 count=3\n"
        "[mma cta=0] after consumer_release(index=1)\n"
    )
    assert [(event.kind, event.barrier, event.stage, event.k) for event in log.events] == [
        ("wait", "kvempty", 1, 3),
        ("done", "kvempty", 1, 3),
        ("arrive", "kvfull", 1, 3),
        ("wait", "kvfull", 1, 3),
        ("arrive", "pipelineempty", 1, None),
    ]


def test_json_lines() -> None:
    message = json.dumps({"time": "10:00:00", "log": "[WG 3 CTA 1] k=2 wait bar_p_ready phase=0\n"})
    fields = json.dumps(
        {"cta": 1, "role": "mma", "k": 2, "event": "wait_done", "barrier": "p_ready", "phase": 0}
    )
    log = read_text(message + "\n" + fields + "\n")
    assert [(str(event.actor), event.kind, event.k, event.phase) for event in log.events] == [
        ("CTA 1 WG3", "wait", 2, 0),
        ("CTA 1 mma", "done", 2, 0),
    ]


def test_words_of_other_languages(tmp_path: Path) -> None:
    words = "# eigene\nwait: espera, 等待\ndone: sigue, weiter nach\narrive: llega\nphase: fase\n"
    log = read_text(
        "[WG0 CTA0] espera bar_a fase=1\n[WG0 CTA0] weiter nach bar_a\n[WG1 CTA0] 等待bar_b fase=0\n[WG1 "
        "CTA0] llega bar_a\n",
        words=parse_words(words),
    )
    assert [(event.kind, event.barrier, event.phase) for event in log.events] == [
        ("wait", "a", 1),
        ("done", "a", None),
        ("wait", "b", 0),
        ("arrive", "a", None),
    ]
    with pytest.raises(TileproofError, match="line 1"):
        parse_words("warten wartet\n")
    with pytest.raises(TileproofError, match="cannot be parsed"):
        parse_words("sleep: schläft\n")


def test_standard_input_the_short_answer_and_the_picture(tmp_path: Path) -> None:
    log = "\n".join(printed(hung("one-cta"))) + "\n"
    short = CliRunner().invoke(explain, ["-", "--as", "hang"], input=log, standalone_mode=False)
    assert short.return_value == 0
    assert "Fix: " in short.output and "Wait-for graph" not in short.output
    assert len(short.output.splitlines()) <= 14
    long = CliRunner().invoke(explain, ["-", "--waits"], input=log, standalone_mode=False)
    assert "Wait-for graph" in long.output
    words = tmp_path / "words.txt"
    words.write_text("wait: wartet\n")
    with pytest.raises(TileproofError, match="cannot be read"):
        CliRunner().invoke(
            explain, ["-", "--words", "missing"], input=log, standalone_mode=False, catch_exceptions=False
        )


def test_time_grows_with_the_size_and_no_faster() -> None:
    def seconds(size: int) -> float:
        log = long_log(size)
        start = time.process_time()
        found = told(log)
        assert found["outcome"] == "hang" and found["root"]["actor"]["role"] == "mma"
        return time.process_time() - start

    seconds(1 << 16)
    small, large = min(seconds(1 << 19) for _ in range(2)), seconds(1 << 21)
    # Another process may slow it down, never speed it up.
    assert large < 8 * small + 0.5 or seconds(1 << 21) < 8 * small + 0.5


def test_an_endless_line_is_cut_and_said() -> None:
    start = time.process_time()
    found = told("[WG0 CTA0] wait bar_a " * 200_000 + "\n[WG0 CTA0] k=1 wait bar_b phase=0\n")
    assert time.process_time() - start < 3
    assert any("longer than 4096 characters" in remark for remark in found["remarks"])
