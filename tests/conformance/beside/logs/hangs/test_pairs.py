"""Producer and consumer in each CTA, each CTA for itself: other causes, and logs that name no CTA."""

from dataclasses import replace

import pytest
from tileproof.conformance.beside.logs.hangs.causes import causes
from tileproof.conformance.beside.logs.hangs.graph import WaitGraph
from tileproof.conformance.beside.logs.hangs.graph_build import build
from tileproof.conformance.beside.logs.hangs.reader import read_text

from tests.kit.hang_logs.wordings import log
from tests.kit.pipelines import Machine, Op, Program, Said

BLOCKS = 4


def _producer(cta: int, defect: str) -> Program:
    for k in range(BLOCKS):
        if defect != "lapped":
            yield Op("wait", "slot_free", k, parity=1 - (k & 1))
        to = (1,) if defect == "wrong-copy" and cta == 1 else (0,) if defect == "wrong-copy" else (cta,)
        tx = 0 if defect in ("wrong-copy", "lapped", "too-few-arrivals") else 64
        yield Op("arrive", "slot_full", k, to=to, expect=tx)
        if tx and not (defect == "bytes-missing" and cta == 1 and k == 1):
            yield Op("tma", "slot_full", k, expect=tx)
        if defect == "lapped" and k == 1:
            return
    if defect == "k-count":
        yield Op("note", k=BLOCKS - 1, note="loop finished")


def _consumer(cta: int, defect: str) -> Program:
    if defect == "lapped":
        yield Op("silent", "never")
    for k in range(BLOCKS + (defect == "k-count" and cta == 1)):
        yield Op("wait", "slot_full", k, parity=k & 1)
        yield Op("arrive", "slot_free", k)


def pair(defect: str) -> tuple[list[Said], Machine]:
    """A run of both CTAs; "wrong-copy" and "too-few-arrivals": slot_full counts two arrivals."""
    count = 2 if defect in ("wrong-copy", "too-few-arrivals") else 1
    roles = {("producer", cta): _producer(cta, defect) for cta in (0, 1)}
    programs = {**roles, **{("consumer", cta): _consumer(cta, defect) for cta in (0, 1)}}
    machine = Machine(programs, {"slot_full": count, "slot_free": 1, "never": 1}, {})
    return machine.run(0), machine


def _graph(said: list[Said]) -> WaitGraph:
    return build(read_text(log(said, "keys")))


def _without_cta(said: list[Said], cta: int) -> str:
    lines = log([event for event in said if event.who[1] == cta], "keys")
    return lines.replace(f" CTA={cta}", "")


@pytest.mark.parametrize("defect", ["bytes-missing", "k-count"])
def test_one_cta_of_two_hangs(defect: str) -> None:
    said, machine = pair(defect)
    assert machine.hung
    graph = _graph(said)
    assert str(graph.roots[0].actor) == "CTA 1 consumer"
    assert causes(graph)[0].code == defect
    alone = build(read_text(_without_cta(said, 1)))
    assert str(alone.roots[0].actor) == "consumer"
    assert causes(alone)[0].code == defect


def test_too_few_arrivals() -> None:
    said, machine = pair("too-few-arrivals")
    assert {role for role, _ in machine.hung} == {"producer", "consumer"}
    graph = _graph(said)
    assert graph.roots[0].actor.role == "consumer"
    assert causes(graph)[0].code == "too-few-arrivals"


def test_an_arrival_on_the_wrong_copy() -> None:
    """CTA 0's consumer needs both producers; CTA 1's arrives on its own copy."""
    said, machine = pair("wrong-copy")
    assert machine.hung
    told = [event for event in said if event.who != ("consumer", 1)]
    found = causes(_graph(told))
    assert found[0].code == "wrong-copy", [cause.what for cause in found]


def test_a_waiter_lapped_by_two_phases() -> None:
    """Both phases complete before the consumer looks: the parity it waits for is under way again."""
    actor = ("consumer", 0)
    arrives = [Said(("producer", 0), "arrive", "slot_full", k=k) for k in (0, 1)]
    graph = _graph([*arrives, Said(actor, "wait", "slot_full", k=0, phase=0)])
    assert causes(graph)[0].code == "lapped"
    # With one arrival it is not lapped.
    graph = _graph([arrives[0], Said(actor, "wait", "slot_full", k=0, phase=0)])
    assert "lapped" not in {cause.code for cause in causes(graph)}


def test_clean_pairs_are_clean() -> None:
    said, machine = pair("")
    assert not machine.hung
    assert not _graph(said).blocked


def test_a_hang_in_a_later_launch_of_a_log() -> None:
    """Barriers start again with each launch; the phases' restart is no wrong parity."""
    clean, _ = pair("")
    said, _ = pair("bytes-missing")
    graph = _graph([*clean, *clean, *clean, *said])
    assert str(graph.roots[0].actor) == "CTA 1 consumer"
    assert causes(graph)[0].code == "bytes-missing"


def test_each_line_that_a_cause_shows_is_of_the_barrier_or_its_producer() -> None:
    said, _ = pair("bytes-missing")
    graph = _graph(said)
    first = causes(graph)[0]
    assert first.lines
    for line in first.lines:
        assert "SLOT_FULL" in graph.log.lines[line - 1]


def test_without_phases_a_wrong_parity_is_offered() -> None:
    said, _ = pair("bytes-missing")
    graph = _graph([replace(event, phase=None) for event in said])
    found = [cause.code for cause in causes(graph)]
    assert found[0] == "bytes-missing"
    assert "wrong-parity" in found
