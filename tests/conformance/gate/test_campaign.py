"""Campaigns: shards, what they find and share, lost workers, and the evidence with a campaign in it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tileproof.conformance.beside.mutate.draw import Drawn
from tileproof.conformance.beside.mutate.judged import SAME_CODE, Judgement
from tileproof.conformance.beside.mutate.parts import judgements, scored
from tileproof.conformance.beside.mutate.score import as_json
from tileproof.conformance.cli.mutate import mutate
from tileproof.conformance.gate import campaign
from tileproof.conformance.gate.campaign import CampaignPlan, Shard, known_failures, merged, shards, summary
from tileproof.conformance.gate.store import ResultStore, RunIdentity, StoredResult
from tileproof.conformance.verdict import jsonform
from tileproof.conformance.verdict.contract import CheckOutcome
from tileproof.kernels.image import Ptx
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.errors import TileproofError

from tests.kit.evidences import DEFECT, record, release

KERNEL = kernel("head128-part0")
VARIANT = KERNEL.variants[0]
SUBJECTS = [(KERNEL, VARIANT)]
IDENTITY = RunIdentity("campaign", 0, False, "", {}, "", False)


def wrong_kernel() -> Kernel:
    """The kernel without a store of one of its outputs."""
    built = KERNEL.build(VARIANT)
    line = next(line for line in built.ptx.splitlines() if "st.global" in line)
    text = built.ptx.replace(line, "", 1)
    image = Ptx(lambda variant, probe: text, lambda variant, probe: built.entry)
    return replace(KERNEL, image=image, probe=False)


def test_a_campaign_is_cut_into_shards_by_the_plan_alone() -> None:
    plan = CampaignPlan(examples=60, schedules=50, planted=2, a_shard=25, seed=7, database="/nowhere")
    made = shards(SUBJECTS, plan)
    assert [(shard.work, shard.seed, shard.count) for shard in made[:6]] == [
        ("known failures", 7, 0), ("examples", 7, 25), ("examples", 8, 25), ("examples", 9, 10),
        ("schedules", 7, 25), ("schedules", 32, 25),
    ]  # fmt: skip
    assert [shard.planted for shard in made[6:]] == [defect.id for defect in KERNEL.defects()[:2]]
    assert len({shard.name for shard in made}) == len(made) and made == shards(SUBJECTS, plan)
    for shard in made:
        assert jsonform.parse(Shard, jsonform.dump(shard), "shard") == shard


def test_drawn_mutants_are_cut_into_shards_by_their_numbers() -> None:
    made = shards(
        SUBJECTS, CampaignPlan(examples=0, schedules=0, a_shard=4, seed=7, drawn=10, profile="full")
    )
    assert [(shard.first, shard.count) for shard in made] == [(0, 4), (4, 4), (8, 2)]
    assert {(shard.work, shard.seed, shard.profile) for shard in made} == {("drawn mutants", 7, "full")}
    assert len({shard.name for shard in made}) == 3
    for shard in made:
        assert jsonform.parse(Shard, jsonform.dump(shard), "shard") == shard


@pytest.mark.slow
def test_drawn_mutants_have_the_score_of_one_process_when_a_worker_is_lost(
    tmp_path: Path, client: Any
) -> None:
    plan = CampaignPlan(examples=0, schedules=0, a_shard=2, seed=5, drawn=6)
    wanted = shards(SUBJECTS, plan)
    killed: list[int] = []
    store = ResultStore(tmp_path / "results.jsonl", IDENTITY, False)
    found = campaign.run(wanted, store, client, killer(client, killed))
    store.close()
    assert killed and {result.check.outcome for result in found.values()} == {"passed"}
    gated = campaign.GatedVariant(KERNEL, VARIANT)  # type: ignore[attr-defined]
    how: dict[str, Any] = {"seed": 5, "count": 6, "profile": "quick"}
    built = KERNEL.build(VARIANT)
    apart = scored(KERNEL, VARIANT, built, campaign.rows(wanted, found, gated), **how)
    sizes = ",".join(f"{name}={size}" for name, size in VARIANT.sizes)
    told = CliRunner().invoke(
        mutate, [KERNEL.name, "--variant", sizes, "--seed", "5", "--count", "6", "--json"]
    )
    whole = json.loads(told.stdout)
    assert {name: apart[name] for name in whole["score"]} == whole["score"] and apart["drawn"] == 6
    assert (apart["by operator"], apart["by check"]) == (whole["by operator"], whole["by check"])
    # Without one of its shards there is no score.
    with pytest.raises(TileproofError, match="have no score"):
        campaign.rows(wanted, dict(list(found.items())[1:]), gated)


def test_mutants_that_cannot_be_judged_are_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = subprocess.CompletedProcess([], 2, "", "building\nerror: the disk is full\n")
    monkeypatch.setattr(campaign.subprocess, "run", lambda *_, **__: broken)  # type: ignore[attr-defined]
    (wanted,) = shards(SUBJECTS, CampaignPlan(examples=0, schedules=0, drawn=1))
    result = ran(wanted)
    assert result.check.outcome == "not run" and "the disk is full" in result.check.fault
    gated = campaign.GatedVariant(KERNEL, VARIANT)  # type: ignore[attr-defined]
    with pytest.raises(TileproofError, match="have no score"):
        campaign.rows([wanted], {result.key: result}, gated)


def test_the_score_of_rows_is_that_of_their_judgements() -> None:
    drawn = [Drawn(n, "remove-sync", f"removed {n}", (("a.cuh", n),)) for n in range(3)]
    judged = [
        Judgement(drawn[0], "killed", by="value dS", kind="value", stage="dS", differs="dS", cause="swizzle"),
        Judgement(drawn[1], "survived", same=True),
        Judgement(drawn[2], "equivalent", argument=SAME_CODE),
    ]
    rows = [json.loads(json.dumps(judgement.as_dict())) for judgement in judged]
    assert as_json(judgements(drawn, rows[::-1])) == as_json(judged)
    for wrong in (rows[:2], [*rows[:2], {**rows[2], "what": "removed another"}]):
        with pytest.raises(TileproofError, match="belong to another draw"):
            judgements(drawn, wrong)


def ran(shard: Shard) -> StoredResult:
    return jsonform.parse(StoredResult, campaign.run_shard(jsonform.dump(shard)), "result")


def test_a_failure_is_shared_tried_first_and_forgotten_when_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = dict(VARIANT.sizes)
    examples = Shard(KERNEL.name, sizes, "examples", 0, 0, 2, "", str(tmp_path))
    known = replace(examples, work="known failures", count=0)
    assert ran(known).check.details["known"] == 0
    monkeypatch.setattr(campaign, "kernel", lambda name: wrong_kernel())
    found = ran(examples)
    assert found.check.outcome == "failed" and "--case=" in found.findings[0].replay
    key = campaign._key(campaign.GatedVariant(KERNEL, VARIANT))  # type: ignore[attr-defined]
    (value,) = known_failures(str(tmp_path)).fetch(key)
    again = ran(known)
    assert again.check.outcome == "failed" and again.check.details["known"] == 1
    known_failures(str(tmp_path)).save(key, b"of another version")
    monkeypatch.undo()
    mended = ran(known)
    assert mended.check.outcome == "passed" and mended.check.details["known"] == 1
    assert not list(known_failures(str(tmp_path)).fetch(key)) and value


# ---- workers


def killer(client: Any, killed: list[int]) -> Callable[[str], None]:
    """What kills one worker when the first result comes, and adds its process to `killed`."""

    def kill(line: str) -> None:
        if not killed:
            (pid, *_) = client.run(os.getpid).values()
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    return kill


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    pytest.importorskip("distributed", reason="Dask is not installed")
    with campaign.connected("", 2) as made:
        yield made
        made.wait_for_workers(
            2, timeout=60
        )  # a worker that was killed starts again, and is not closed meanwhile


def test_a_lost_worker_loses_no_result(tmp_path: Path, client: Any) -> None:
    wanted = shards(SUBJECTS, CampaignPlan(examples=0, schedules=24, a_shard=4))
    killed: list[int] = []
    store = ResultStore(tmp_path / "results.jsonl", IDENTITY, False)
    found = campaign.run(wanted, store, client, killer(client, killed))
    store.close()
    assert killed and len(found) == len(wanted) == 6
    assert {result.check.outcome for result in found.values()} == {"passed"}
    stored = ResultStore(tmp_path / "results.jsonl", IDENTITY, True)
    assert stored.done.keys() == found.keys()
    # What a worker gives is what the shard gives here, and nothing that is stored runs again.
    here = ran(wanted[0])
    assert without_time(found[here.key]) == without_time(here)
    assert campaign.run(wanted, stored, None) == found


def without_time(stored_result: StoredResult) -> StoredResult:
    """The result without how long it took."""
    return replace(stored_result, seconds=0.0)


def test_a_shard_that_ends_its_workers_is_named_and_the_others_are_kept(
    tmp_path: Path, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deadly(data: Any) -> Any:
        if data["number"] == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return template

    wanted = shards(SUBJECTS, CampaignPlan(examples=0, schedules=2, a_shard=1))
    template = jsonform.dump(ran(wanted[0]))
    import cloudpickle

    deadly_bytes = cloudpickle.dumps(deadly)
    monkeypatch.setattr(campaign, "run_shard", cloudpickle.loads(deadly_bytes))
    store = ResultStore(tmp_path / "results.jsonl", IDENTITY, False)
    found = campaign.run(wanted, store, client)
    outcomes = {key.rpartition(": ")[2]: result.check for key, result in found.items()}
    assert outcomes["schedules 0"].outcome == "passed"
    assert (
        outcomes["schedules 1"].outcome == "not run" and outcomes["schedules 1"].reason == "its worker died"
    )
    assert summary(wanted, found)["without_result"] == 1


def test_a_scheduler_that_nobody_runs_is_named() -> None:
    pytest.importorskip("distributed", reason="Dask is not installed")
    with pytest.raises(TileproofError, match="cannot be reached"), campaign.connected("tcp://127.0.0.1:9", 1):
        pass


def test_without_dask_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(TileproofError, match=r"tileproof\[campaign\]"), campaign.connected("", 1):
        pass


# ---- the evidence


def results(**outcomes: Any) -> dict[str, StoredResult]:
    key = campaign.GatedVariant(KERNEL, VARIANT).key  # type: ignore[attr-defined]
    return {
        f"{key}: {name}": StoredResult(key, check, findings) for name, (check, findings) in outcomes.items()
    }


def judged() -> Any:
    made = record(KERNEL.name)
    return release(
        replace(made, program=replace(made.program, variant=dict(VARIANT.sizes))), record("another")
    )


WANTED = shards(SUBJECTS, CampaignPlan(examples=10, schedules=0, a_shard=5))
GOOD = CheckOutcome("examples 0", True, "passed")
BAD = CheckOutcome("examples 1", True, "failed", "P differs")
LOST = CheckOutcome("examples 1", True, "not run", "its worker died", "KilledWorker")


@pytest.mark.parametrize(
    ("second", "findings", "complete", "word"),
    [
        (replace(GOOD, name="examples 1"), (), True, "clean"),
        (BAD, (replace(DEFECT, check="examples 1"),), True, "defect"),
        (LOST, (), True, "error"),
        (replace(GOOD, name="examples 1"), (), False, "incomplete"),
    ],
)
def test_a_campaign_merges_into_the_evidence(
    second: CheckOutcome, findings: Any, complete: bool, word: str
) -> None:
    found = results(a=(GOOD, ()), b=(second, findings))
    made = merged(judged(), WANTED, found, complete)
    assert made.verdict == word and made.sections["campaign"]["shards"] == 2
    assert made.kernels[0].sections["campaign"]["finished"] == 2
    assert [check.name for check in made.kernels[0].checks].count("campaign") == 1
    assert "campaign" not in made.kernels[1].sections
    # A second campaign takes the place of the first.
    clean = results(a=(GOOD, ()), b=(replace(GOOD, name="examples 1"), ()))
    assert merged(made, WANTED, clean, True).kernels[0].verdict == "clean"


def test_an_evidence_that_judges_another_kernel_is_refused() -> None:
    with pytest.raises(TileproofError, match="does not judge a kernel"):
        merged(release(), WANTED, {}, True)
