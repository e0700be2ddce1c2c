"""Diagnosis against a kernel plan, the command, large logs, and the log of a real kernel that hung."""

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from tileproof.conformance.beside.logs.hangs.render import diagnose
from tileproof.conformance.beside.logs.hangs.text import text
from tileproof.conformance.cli.app import main
from tileproof.conformance.cli.explain import explain
from tileproof.spec.plans import head128_columns

from tests.kit.hang_logs.wordings import log
from tests.kit.pipelines import kernel

SEED = Path(__file__).parent / "hung_mla_bwd.txt"

DEADLOCK = """\
[load CTA0] k=0 arrive kv_lo_ready tx
[load CTA1] k=0 arrive kv_lo_ready tx
[mma CTA0] k=0 wait kv_lo_ready phase 0
[mma CTA0] k=0 wait kv_lo_ready done
[mma CTA0] k=0 wait s_ready phase 0
[softmax CTA0] k=0 wait p_ready phase 0
"""


def test_the_plan_tells_who_would_have_arrived(tmp_path: Path) -> None:
    """mma waits for softmax before its first commit: no arrival was ever logged, so only the plan knows."""
    path = tmp_path / "log.txt"
    path.write_text(DEADLOCK)
    assert diagnose(path)["causes"][0]["code"] == "never-arrived"
    found = diagnose(path, head128_columns.plan(576))
    assert found["causes"][0]["code"] == "cycle", text(found)
    waits = {wait["actor"]["role"]: wait["waits_for"] for wait in found["blocked"]}
    assert [wait["role"] for wait in waits["mma"]] == ["softmax"]
    assert [wait["role"] for wait in waits["softmax"]] == ["mma"]


def test_warpgroups_blocks_and_offsets_in_the_plans_words(tmp_path: Path) -> None:
    """WG1 is softmax (warps 4 to 7), block 5 is CTA 1 of cluster 2, the offset is p_ready's."""
    plan = head128_columns.plan(576)
    path = tmp_path / "log.txt"
    path.write_text(f"WG1 block 5 k=0 waits at mbar 0x{plan.barrier('p_ready').offset:x} parity 0\n")
    found = diagnose(path, plan)
    (row,) = found["actors"]
    assert (row["plan_role"], row["cta"], row["cluster"]) == ("softmax", 1, 2)
    assert found["root"] is not None and found["root"]["barrier"] == "p_ready"


def test_barriers_that_the_plan_lacks_are_told(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("[mma CTA0] wait bar_elsewhere phase 0\n")
    assert any(
        "no barrier called bar_elsewhere" in remark
        for remark in diagnose(path, head128_columns.plan(576))["remarks"]
    )


def test_clusters_are_kept_apart(tmp_path: Path) -> None:
    """An arrival in one cluster is none in another."""
    path = tmp_path / "log.txt"
    path.write_text(
        "cluster 0 cta 0 load k=0 arrive kv_ready\ncluster 0 cta 0 mma k=0 wait kv_ready\n"
        "cluster 0 cta 0 mma k=0 kv_ready wait done\ncluster 1 cta 0 mma k=0 wait kv_ready\n"
    )
    found = diagnose(path)
    assert [wait["actor"]["cluster"] for wait in found["blocked"]] == [1]
    assert found["causes"][0]["code"] == "never-arrived"


def test_missing_done_lines_of_a_role_that_went_on(tmp_path: Path) -> None:
    """A lost line is remarked on and is not taken for the hang."""
    machine = kernel()
    said = machine.run(3)
    dropped = next(at for at, event in enumerate(said) if event.kind == "done" and event.k == 2)
    path = tmp_path / "log.txt"
    path.write_text(log(said[:dropped] + said[dropped + 1 :], "terse"))
    found = diagnose(path)
    assert found["outcome"] == "no hang seen", text(found)
    assert any("lines were lost" in remark for remark in found["remarks"])


def test_command_prints_a_diagnosis_and_exits_0(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(DEADLOCK)
    result = CliRunner().invoke(explain, [str(path), "--kernel", "head128-columns"], standalone_mode=False)
    assert result.return_value == 0
    assert result.output.startswith("HANG: ")
    result = CliRunner().invoke(explain, [str(path), "--json"], standalone_mode=False)
    assert json.loads(result.output)["outcome"] == "hang"


@pytest.mark.parametrize(
    "words", [["missing.txt"], ["empty.txt"], ["log.txt", "--kernel", "no-such-kernel"], []]
)
def test_command_exits_2_with_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "log.txt").write_text(DEADLOCK)
    with pytest.raises(SystemExit) as stopped:
        main.main(["explain", *words])
    assert stopped.value.code == 2
    shown = capsys.readouterr()
    assert "error: " in shown.err and "Traceback" not in shown.err
    assert shown.out == ""


def test_megabytes_are_read_in_seconds(tmp_path: Path) -> None:
    said = kernel("one-cta").run(0)
    clean = kernel().run(0)
    rounds = 300
    path = tmp_path / "long.txt"
    path.write_text(log(clean, "bracketed") * rounds + log(said, "bracketed"))
    assert path.stat().st_size > 1 << 20
    start = time.perf_counter()
    found = diagnose(path)
    assert time.perf_counter() - start < 20
    assert found["root"] is not None
    assert (found["root"]["actor"]["role"], found["root"]["actor"]["cta"]) == ("WG0", 1)
    assert found["root"]["barrier"] == "bar_p_ready"
    assert found["causes"][0]["code"] == "one-cta", [cause["what"] for cause in found["causes"]]


def test_the_log_of_a_real_kernel_that_hung() -> None:
    """What a careful reading of it yields.

    WG3 of CTA 0 issues the MMAs of both CTAs. In k-block 0 its commits for P and dP reached CTA 1 (WG0 of CTA
    1 goes on, lines 38 and 54), but those on bar_dkv_part0_ready (line 64) and bar_dq_ready (line 70)
    completed in CTA 0 only (lines 65 and 71): in CTA 1, WG2 (line 28) and the loader WG1 (line 46) wait on
    them for ever. So CTA 1 never posts its half of k-block 1, WG3 waits on bar_prologue_kv phase 1 (line 88),
    and WG2 of CTA 0 waits on WG3 (line 86). WG0 of either CTA is in no wait that is printed.
    """
    found = diagnose(SEED)
    assert found["outcome"] == "hang"
    root = found["root"]
    assert root is not None
    assert (root["actor"]["role"], root["actor"]["cta"], root["barrier"], root["line"]) == (
        "WG1", 1, "bar_dq_ready", 46,
    )  # fmt: skip
    assert {(wait["role"], wait["cta"]) for wait in root["waits_behind_it"]} == {("WG3", 0), ("WG2", 0)}
    blocked = {}
    for wait in found["blocked"]:
        behind = [(who["role"], who["cta"]) for who in wait["waits_for"]]
        what = wait["barrier"], wait["phase"], wait["line"], behind
        blocked[wait["actor"]["role"], wait["actor"]["cta"]] = what
    assert blocked == {
        ("WG1", 1): ("bar_dq_ready", 0, 46, []),
        ("WG2", 1): ("bar_dkv_part0_ready", 0, 28, []),
        ("WG3", 0): ("bar_prologue_kv", 1, 88, [("WG1", 1)]),
        ("WG2", 0): ("bar_dkv_part0_ready", 1, 86, [("WG3", 0)]),
    }
    first = found["causes"][0]
    assert first["code"] == "one-cta"
    assert "bar_p_ready, bar_dp_ready, from the same producer, did reach CTA 1" in first["what"]
    assert "bar_dkv_part0_ready in CTA 1" in first["also"][0]
    assert {28, 38, 46, 54, 64, 65, 70, 71} == {quote["line"] for quote in first["lines"]}
    assert len(found["asymmetries"]) == 2
    assert (found["read"]["host"], found["read"]["not_understood"]) == (15, 0)
    assert (found["facts"]["q shape"], found["facts"]["CUDA Capability"]) == ("[128, 576]", "(10, 0)")
    assert {row["role"] for row in found["actors"] if row["role"]} == {"WG0", "WG1", "WG2", "WG3"}
