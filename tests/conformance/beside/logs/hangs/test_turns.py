# ruff: noqa: E501, RUF001 - log lines are kept whole
"""Waits and their ends by the order of rows, and fields by their place: logs in wordings of no language."""

from collections import Counter

import pytest
from tileproof.conformance.beside.logs.hangs.forms import operations
from tileproof.conformance.beside.logs.hangs.general import lexicon
from tileproof.conformance.beside.logs.hangs.general.read import read_general, tell
from tileproof.conformance.beside.logs.hangs.log import Log, LogEvent
from tileproof.conformance.beside.logs.hangs.runs import with_values
from tileproof.spec.machine.types import UncheckedObject

from benchmarks.hang_strangers import explain

FINNISH = {
    "wait": "{role} (lohko {cta}) nukkuu esteellä {bar}[{stage}]{far}, pariteetti {phase}, kierros {k}",
    "done": "{role} (lohko {cta}) heräsi esteeltä {bar}[{stage}]{far}, pariteetti {phase}, kierros {k}",
    "arrive": "{role} (lohko {cta}) ilmoittautui esteelle {bar}[{stage}]{far}, kierros {k}",
    "expect": "{role} (lohko {cta}) ilmoittautui esteelle {bar}[{stage}], tulossa {size} tavua, kierros {k}",
    "copy": "{role} (lohko {cta}) tilasi {size} tavua esteelle {bar}[{stage}], kierros {k}",
    "far": " lohkossa {owner}",
}
STYLES = {
    "unknown language": FINNISH,
    "negated words": {
        "wait": "run_{role}<<<blk {cta}>>> going to stop; {bar} entry {stage}{far} is to end parity {phase} (it {k})",
        "done": "run_{role}<<<blk {cta}>>> no longer stopped; {bar} entry {stage}{far} ended parity {phase} (it {k})",
        "arrive": "run_{role}<<<blk {cta}>>> will arrive; {bar} entry {stage}{far} (it {k})",
        "expect": "run_{role}<<<blk {cta}>>> will arrive with tx; {bar} entry {stage} {size} bytes (it {k})",
        "copy": "run_{role}<<<blk {cta}>>> will start TMA; {bar} entry {stage} {size} bytes (it {k})",
        "far": " at blk {owner}",
    },
    "signs": {
        "wait": '{{"c":{cta},"r":"{role}","e":"w+","b":"{bar}","s":{stage},"p":{phase},"k":{k}}}',
        "done": '{{"c":{cta},"r":"{role}","e":"w-","b":"{bar}","s":{stage},"p":{phase},"k":{k}}}',
        "arrive": '{{"c":{cta},"r":"{role}","e":"up","b":"{bar}","s":{stage},"k":{k}}}',
        "expect": '{{"c":{cta},"r":"{role}","e":"up","b":"{bar}","s":{stage},"tx":{size},"k":{k}}}',
        "copy": '{{"c":{cta},"r":"{role}","e":"tma","b":"{bar}","s":{stage},"bytes":{size},"k":{k}}}',
        "far": "",
    },
    "values in their types": {
        "wait": 'Ev {{ who: Actor("{role}", Cta({cta})), op: Wait {{ on: Barrier("{bar}", {stage}), parity: Bit({phase}), k: {k} }} }}',
        "done": 'Ev {{ who: Actor("{role}", Cta({cta})), op: Woke {{ on: Barrier("{bar}", {stage}), parity: Bit({phase}), k: {k} }} }}',
        "arrive": 'Ev {{ who: Actor("{role}", Cta({cta})), op: Arrive {{ on: Barrier("{bar}", {stage}), tx: None, k: {k} }} }}',
        "expect": 'Ev {{ who: Actor("{role}", Cta({cta})), op: Arrive {{ on: Barrier("{bar}", {stage}), tx: Some({size}), k: {k} }} }}',
        "copy": 'Ev {{ who: Actor("{role}", Cta({cta})), op: Load {{ on: Barrier("{bar}", {stage}), len: {size}, k: {k} }} }}',
        "far": "",
    },
    "marks of a script": {
        "wait": "खंड {cta} {role}: {bar}[{stage}] पर रुका, चरण {phase}, फेरा {k}",
        "done": "खंड {cta} {role}: {bar}[{stage}] से आगे बढ़ा, चरण {phase}, फेरा {k}",
        "arrive": "खंड {cta} {role}: {bar}[{stage}] पर पहुँचा, फेरा {k}",
        "expect": "खंड {cta} {role}: {bar}[{stage}] पर पहुँचा, {size} बाइट आएँगे, फेरा {k}",
        "copy": "खंड {cta} {role}: {size} बाइट की प्रति, {bar}[{stage}], फेरा {k}",
        "far": "",
    },
    "keywords": {
        "wait": "(ev :what park :role {role} :cta {cta} :bar {bar} :stage {stage} :parity {phase} :k {k})",
        "done": "(ev :what unpark :role {role} :cta {cta} :bar {bar} :stage {stage} :parity {phase} :k {k})",
        "arrive": "(ev :what tick :role {role} :cta {cta} :bar {bar} :stage {stage} :k {k})",
        "expect": "(ev :what tick :role {role} :cta {cta} :bar {bar} :stage {stage} :bytes {size} :k {k})",
        "copy": "(ev :what bulk :role {role} :cta {cta} :bar {bar} :stage {stage} :bytes {size} :k {k})",
        "far": "",
    },
    "codes": {
        "wait": "ev=7 cta={cta} who={role} bar={bar} st={stage} ph={phase} k={k}",
        "done": "ev=8 cta={cta} who={role} bar={bar} st={stage} ph={phase} k={k}",
        "arrive": "ev=2 cta={cta} who={role} bar={bar} st={stage} k={k}",
        "expect": "ev=2 cta={cta} who={role} bar={bar} st={stage} k={k} tx={size}",
        "copy": "ev=5 cta={cta} who={role} bar={bar} st={stage} k={k} tx={size}",
        "far": "",
    },
    "brackets": {
        "wait": "{role} (cta {cta}) k={k}: [ {bar}.{stage} {phase}",
        "done": "{role} (cta {cta}) k={k}: ] {bar}.{stage} {phase}",
        "arrive": "{role} (cta {cta}) k={k}: ^ {bar}.{stage}",
        "expect": "{role} (cta {cta}) k={k}: ^ {bar}.{stage} {size} bytes",
        "copy": "{role} (cta {cta}) k={k}: ~ {bar}.{stage} {size} bytes",
        "far": "",
    },
    "cells": {
        "wait": "{cta}\t{role}\tΑΝΑΜΟΝΗ\t{bar}\t{stage}\t{phase}\t{k}\t",
        "done": "{cta}\t{role}\tΤΕΛΟΣ\t{bar}\t{stage}\t{phase}\t{k}\t",
        "arrive": "{cta}\t{role}\tΑΦΙΞΗ\t{bar}\t{stage}\t\t{k}\t",
        "expect": "{cta}\t{role}\tΑΦΙΞΗ\t{bar}\t{stage}\t\t{k}\t\t{size}",
        "copy": "{cta}\t{role}\tΑΝΤΙΓΡΑΦΗ\t{bar}\t{stage}\t\t{k}\t\t{size}",
        "far": "",
    },
    "arguments": {
        "wait": "{role} of rank {cta}, k_block_idx {k}: {bar}[{stage}]->wait({phase}) enters",
        "done": "{role} of rank {cta}, k_block_idx {k}: {bar}[{stage}]->wait({phase}) leaves",
        "arrive": "{role} of rank {cta}, k_block_idx {k}: {bar}[{stage}]->arrive()",
        "expect": "{role} of rank {cta}, k_block_idx {k}: {bar}[{stage}]->arrive_and_expect_tx({size}u)",
        "copy": "{role} of rank {cta}, k_block_idx {k}: tma_copy({bar}[{stage}], SIZE={size})",
        "far": "",
    },
    "role at its CTA": {
        "wait": '"{role}@{cta}" -> "{bar}[{stage}]" : try_wait({phase}), k={k}',
        "done": '"{role}@{cta}" <-- "{bar}[{stage}]" : complete ({phase}), k={k}',
        "arrive": '"{role}@{cta}" ->> "{bar}[{stage}]{far}" : arrive(), k={k}',
        "expect": '"{role}@{cta}" ->> "{bar}[{stage}]" : arrive_expect_tx({size}), k={k}',
        "copy": '"{role}@{cta}" ->> "TMA" : load {size} bytes, complete_tx on "{bar}[{stage}]", k={k}',
        "far": " in CTA {owner}",
    },
    "list of tasks": {
        "wait": "* [ ] {role}/{cta} round {k} on {bar}[{stage}]{far}, parity {phase}",
        "done": "* [x] {role}/{cta} round {k} on {bar}[{stage}]{far}, parity {phase}",
        "arrive": "* {role}/{cta} round {k} gives {bar}[{stage}]{far}",
        "expect": "* {role}/{cta} round {k} gives {bar}[{stage}], announces {size} bytes",
        "copy": "* {role}/{cta} round {k} copies {size} bytes towards {bar}[{stage}]",
        "far": "",
    },
    "name, then a stage by its label": {
        "wait": "{role} of block {cta} lines up at {bar}, slot {stage}{far}, with phase {phase} in round {k}",
        "done": "{role} of block {cta} gets beyond {bar}, slot {stage}{far}, with phase {phase} in round {k}",
        "arrive": "{role} of block {cta} reports to {bar}, slot {stage}{far} in round {k}",
        "expect": "{role} of block {cta} reports to {bar}, slot {stage}, {size} bytes in round {k}",
        "copy": "{role} of block {cta} copies {size} bytes for {bar}, slot {stage} in round {k}",
        "far": "",
    },
}  # fmt: skip
CODED = {
    "wait": "c{cta}{role}| {bar}[{stage}]{far} parity {phase}: not yet, poll (k{k})",
    "done": "c{cta}{role}| {bar}[{stage}]{far} parity {phase}: there (k{k})",
    "arrive": "c{cta}{role}| {bar}[{stage}]{far} <= an arrival (k{k})",
    "expect": "c{cta}{role}| {bar}[{stage}] <= an arrival, tx {size} (k{k})",
    "copy": "c{cta}{role}| {bar}[{stage}] <= bulk copy, {size} bytes (k{k})",
    "far": " of c{owner},1",
}


def ring(style: dict[str, str], rounds: int = 8, missed: int = 4, far: int | None = None) -> str:
    """A log of a ring of two stages in which the reader does not give back the buffer of round `missed`."""
    lines: list[str] = []

    def say(kind: str, role: str, bar: str, k: int, phase: int = 0) -> None:
        other = style["far"].format(owner=far) if far is not None and bar == "tile_empty" else ""
        lines.append(
            style[kind].format(role=role, cta=0, bar=bar, stage=k % 2, phase=phase, k=k, size=8192, far=other)
        )

    for k in range(rounds):
        say("wait", "filler", "tile_empty", k, 1 - k // 2 % 2)
        if k >= missed + 2 and k % 2 == missed % 2:
            break
        say("done", "filler", "tile_empty", k, 1 - k // 2 % 2)
        say("expect", "filler", "tile_full", k)
        say("copy", "filler", "tile_full", k)
        say("wait", "eater", "tile_full", k, k // 2 % 2)
        say("done", "eater", "tile_full", k, k // 2 % 2)
        if k != missed:
            say("arrive", "eater", "tile_empty", k)
    return "\n".join(lines) + "\n"


def events(text: str) -> list[LogEvent]:
    lines = text.splitlines()
    log = read_general("log", lines, list(enumerate(lines, 1)))
    assert isinstance(log, Log)
    return log.events


def answer(text: str) -> UncheckedObject:
    found = explain(text)
    assert found is not None and found["outcome"] == "hang" and found["root"] is not None
    return found


@pytest.mark.parametrize("style", STYLES)
def test_kinds_and_fields_of_rows(style: str) -> None:
    text = ring(STYLES[style])
    found = events(text)
    kinds = Counter(event.kind for event in found)
    assert kinds == {"wait": 13, "done": 12, "arrive": 11, "copy": 6}
    assert {event.actor.cta for event in found} == {0}
    assert len({event.actor.role for event in found}) == 2
    assert {event.phase for event in found if event.kind == "wait"} == {0, 1}
    assert {event.stage for event in found} == {0, 1}
    assert {event.size for event in found if event.kind == "copy"} == {8192}
    assert max(event.k or 0 for event in found) == 6


@pytest.mark.parametrize("style", STYLES)
def test_the_cause_is_found(style: str) -> None:
    found = answer(ring(STYLES[style]))
    assert found["root"]["barrier"].lower() == "tile_empty" and found["root"]["stage"] == 0
    assert "filler" in found["root"]["actor"]["role"]
    assert found["causes"][0]["code"] == "skipped-arrive"
    assert "eater" in found["causes"][0]["culprit"]["role"]


@pytest.mark.parametrize("style", ["unknown language", "negated words"])
def test_the_word_before_the_actors_cta_names_other_ctas(style: str) -> None:
    found = events(ring(STYLES[style], far=1))
    waits = [event for event in found if event.kind == "wait" and event.barrier == "tileempty"]
    assert {event.owner for event in waits} == {1} and {event.actor.cta for event in found} == {0}
    arrivals = [event for event in found if event.kind == "arrive" and event.barrier == "tileempty"]
    assert {event.to for event in arrivals} == {2}


def test_known_words_are_not_overruled() -> None:
    lines = ring({**FINNISH, "wait": "{role} wait {bar}[{stage}] parity {phase} kierros {k} lohko {cta}",
                  "done": "{role} wait done {bar}[{stage}] parity {phase} kierros {k} lohko {cta}"}).splitlines()  # fmt: skip
    reading = tell(list(enumerate(lines, 1)))
    assert reading is not None and not any(told.turn for told in reading.told)


def test_labels_of_several_parts() -> None:
    assert lexicon.field("k_block_idx") == "k" and lexicon.field("block_idx") == "cta"


@pytest.mark.parametrize("parity", ["1'b{phase}", "4'h{phase}", "'d{phase}"])
def test_literals_of_hardware_languages(parity: str) -> None:
    style = {
        "wait": "tb.sm{cta}.{role}: {bar}[{stage}] blocked on parity " + parity + ", k={k}",
        "done": "tb.sm{cta}.{role}: {bar}[{stage}] passed parity " + parity + ", k={k}",
        "arrive": "tb.sm{cta}.{role}: {bar}[{stage}] arrive, k={k}",
        "expect": "tb.sm{cta}.{role}: {bar}[{stage}] arrive, expects {size} bytes, k={k}",
        "copy": "tb.sm{cta}.{role}: {bar}[{stage}] copy of {size} bytes, k={k}",
        "far": "",
    }
    found = answer(ring(style))
    assert found["root"]["stage"] == 0 and found["root"]["phase"] == 0
    assert found["causes"][0]["code"] == "skipped-arrive"


def test_values_of_literals() -> None:
    lines = [(1, "a 8'hff b 3'b101 'd12 12'o17 1'sb1"), (2, "the barrier's b1, 'b2, 2'b9 don't")]
    assert with_values(lines) == [(1, "a 255 b 5 12 15 1"), (2, lines[1][1])]


def test_waits_in_several_wordings() -> None:
    first = STYLES["name, then a stage by its label"]
    other = {
        **first,
        "wait": "{role} of block {cta} requests phase {phase} of {bar}, slot {stage} in round {k}",
        "done": "{role} of block {cta} receives phase {phase} of {bar}, slot {stage} in round {k}",
    }
    pairs = zip(ring(first).splitlines(), ring(other).splitlines(), strict=True)
    text = "\n".join(pair[at // 3 % 2] for at, pair in enumerate(pairs)) + "\n"
    head = "Every phase of tile_full takes 1 arrival.\nEvery phase of tile_empty takes 1 arrival.\n"
    found = events(head + text)
    assert Counter(event.kind for event in found) == {"wait": 13, "done": 12, "arrive": 11, "copy": 6}
    assert {event.actor.role for event in found} == {"filler", "eater"}
    assert answer(head + text)["causes"][0]["code"] == "skipped-arrive"


def test_codes_of_actors_and_their_names() -> None:
    text = ring(CODED, far=0).replace("filler", "w0").replace("eater", "w5")
    found = events("# c: rank; w0 = filler, w5 = eater\n" + text)
    assert {(event.actor.role, event.actor.cta) for event in found} == {("filler", 0), ("eater", 0)}
    assert {event.to for event in found if event.kind == "arrive" and event.barrier == "tileempty"} == {3}


def test_functions_of_cuda_ptx() -> None:
    assert operations("cuda::ptx::barrier_sync(3, 64) begins").split() == [
        "cuda::ptx::", "named_barrier_3", ")", "begins",
    ]  # fmt: skip
    assert "target_cta=0 and 2 " in operations("arrive(&bar[1]) via map_shared_rank(0, 2)")
