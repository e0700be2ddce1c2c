# ruff: noqa: E501 - log lines are kept whole
"""Fields of rows by their place, by the word before them and by their form: tuples, ordinals, owners, edges."""

import tarfile
from collections import Counter
from pathlib import Path

import pytest
from tileproof.conformance.beside.logs.hangs.forms import operations
from tileproof.conformance.beside.logs.hangs.general import lexicon
from tileproof.conformance.beside.logs.hangs.general.items import scan
from tileproof.conformance.beside.logs.hangs.general.rows import rows
from tileproof.conformance.beside.logs.hangs.reader import read_text
from tileproof.conformance.beside.logs.hangs.render import diagnosis

from tests.conformance.beside.logs.hangs.test_turns import answer, events, ring

EVIDENCE = Path(__file__).resolve().parents[5] / "docs" / "evidence"
STYLES = {
    "time of day, ordinals and owners": {
        "wait": "[09:14] <{role}|{cta}> k={k}, blocked until {bar} no. {stage}{far} flips (parity {phase})",
        "done": "[09:14] <{role}|{cta}> k={k}, awake, {bar} no. {stage}{far} flipped (parity {phase})",
        "arrive": "[09:14] <{role}|{cta}> k={k}, arrives on {bar} no. {stage}{far}",
        "expect": "[09:14] <{role}|{cta}> k={k}, arrives on {bar} no. {stage}, {size} bytes to follow",
        "copy": "[09:14] <{role}|{cta}> k={k}, issued a copy of {size} bytes to {bar} no. {stage}",
        "far": " (cta {owner}'s)",
    },
    "tuples": {
        "wait": "{{{role},{cta}}},{{waits,{{mbar,{bar},{stage}{far}}},{{parity,{phase}}},{{k,{k}}}}}.",
        "done": "{{{role},{cta}}},{{resumed,{{mbar,{bar},{stage}{far}}},{{parity,{phase}}},{{k,{k}}}}}.",
        "arrive": "{{{role},{cta}}},{{arrived,{{mbar,{bar},{stage}{far}}},{{k,{k}}}}}.",
        "expect": "{{{role},{cta}}},{{arrived,{{mbar,{bar},{stage}}},{{expect_bytes,{size}}},{{k,{k}}}}}.",
        "copy": "{{{role},{cta}}},{{copy_started,{{mbar,{bar},{stage}}},{{bytes,{size}}},{{k,{k}}}}}.",
        "far": ",{{owner_ctas,[{owner}]}}",
    },
    "words of PTX": {
        "wait": "Block {cta}, {role} warp, iteration {k}: parity-{phase} phase of mbarrier {bar} (element {stage}){far} has not completed",
        "done": "Block {cta}, {role} warp, iteration {k}: parity-{phase} phase of mbarrier {bar} (element {stage}){far} has completed",
        "arrive": "Block {cta}, {role} warp, iteration {k}: pending count of mbarrier {bar} (element {stage}){far} decremented",
        "expect": "Block {cta}, {role} warp, iteration {k}: pending count of mbarrier {bar} (element {stage}) decremented, tx-count increased by {size}",
        "copy": "Block {cta}, {role} warp, iteration {k}: bulk copy of {size} bytes issued on mbarrier {bar} (element {stage})",
        "far": " in block {owner}",
    },
    "edges of signals": {
        "wait": "cta{cta}.{role}.waiting( {bar}[{stage}]{far} parity {phase} k {k} ) 0->1",
        "done": "cta{cta}.{role}.waiting( {bar}[{stage}]{far} parity {phase} k {k} ) 1->0",
        "arrive": "cta{cta}.{role}.arrive( {bar}[{stage}]{far} k {k} ) pulse",
        "expect": "cta{cta}.{role}.arrive( {bar}[{stage}] expect_tx {size} k {k} ) pulse",
        "copy": "cta{cta}.{role}.bulk_copy( {bar}[{stage}] bytes {size} k {k} ) pulse",
        "far": " of cta {owner}",
    },
    "inflected words, a parity before the barrier": {
        "wait": "блок №{cta} » {role}, оберт {k} » жде, доки біт {phase} на {bar}[{stage}]{far}",
        "done": "блок №{cta} » {role}, оберт {k} » дочекався, біт {phase} на {bar}[{stage}]{far}",
        "arrive": "блок №{cta} » {role}, оберт {k} » відмітився на {bar}[{stage}]{far}",
        "expect": "блок №{cta} » {role}, оберт {k} » відмітився на {bar}[{stage}], надійде {size}",
        "copy": "блок №{cta} » {role}, оберт {k} » запустив копію {size} для {bar}[{stage}]",
        "far": " з блоку №{owner}",
    },
    "words in front of the role": {
        "wait": "{bar}/{stage}{far}: {role} (lohko {cta}) jää odottamaan, pariteetti {phase}, kierros {k}",
        "done": "{bar}/{stage}{far}: {role} (lohko {cta}) pääsi läpi, pariteetti {phase}, kierros {k}",
        "arrive": "{bar}/{stage}{far}: {role} (lohko {cta}) ilmoittautuu, kierros {k}",
        "expect": "{bar}/{stage}: {role} (lohko {cta}) ilmoittautuu, tulossa {size} tavua, kierros {k}",
        "copy": "{bar}/{stage}: {role} (lohko {cta}) lähettää matkaan {size} tavun kopion, kierros {k}",
        "far": " lohkosta {owner}",
    },
}  # fmt: skip
# A barrier of threads between rounds: its rows have the words of a CTA, none of a stage or a round.
FINNISH_SYNC = (
    "bar.sync 2, 64: {role} (lohko 0) jää odottamaan\nbar.sync 2, 64: {role} (lohko 0) pääsi läpi\n"
)


def log(style: str, far: int | None = None) -> str:
    head = "".join(FINNISH_SYNC.format(role=role) for role in ("filler", "eater"))
    return ring(STYLES[style], far=far) + (head if "lohko" in STYLES[style]["wait"] else "")


@pytest.mark.parametrize("style", STYLES)
def test_fields_of_rows(style: str) -> None:
    found = [event for event in events(log(style)) if event.scope == "mbarrier"]
    assert Counter(event.kind for event in found) == {"wait": 13, "done": 12, "arrive": 11, "copy": 6}
    assert {event.actor.cta for event in found} == {0}
    assert {event.actor.role for event in found} == {"filler", "eater"}
    assert {event.stage for event in found} == {0, 1}
    assert all(event.phase == 1 - event.k // 2 % 2 for event in found
               if event.kind == "wait" and event.barrier == "tileempty" and event.k is not None)  # fmt: skip
    assert {event.phase for event in found if event.kind == "wait"} == {0, 1}
    assert {event.size for event in found if event.kind == "copy"} == {8192}
    assert max(event.k or 0 for event in found) == 6


@pytest.mark.parametrize("style", STYLES)
def test_owners_of_barriers(style: str) -> None:
    found = [event for event in events(log(style, far=1)) if event.barrier == "tileempty"]
    assert {event.actor.role for event in found} == {"filler", "eater"}
    assert {event.owner for event in found if event.kind == "wait"} == {1}
    assert {event.to for event in found if event.kind == "arrive"} == {2}


def test_a_number_before_a_label_of_bytes_is_no_size() -> None:
    style = {
        "wait": "{role} {cta}: blocked {bar} stage {stage} phase {phase} k {k}",
        "done": "{role} {cta}: passed {bar} stage {stage} phase {phase} k {k}",
        "arrive": "{role} {cta}: arrive {bar} stage {stage} k {k}",
        "expect": "{role} {cta}: arrive {bar} stage {stage} tx {size} k {k}",
        "copy": "{role} {cta}: copy {bar} stage {stage} tx {size} k {k}",
        "far": "",
    }
    found = events(ring(style))
    assert {(event.stage, event.size) for event in found if event.kind == "copy"} == {(0, 8192), (1, 8192)}


def test_a_label_that_expects_is_of_bytes() -> None:
    style = {
        "wait": "(cta = {cta}, who = {role}, act = wait, at = entry, mbar = {bar}, slot = {stage}, bit = {phase}, k = {k})",
        "done": "(cta = {cta}, who = {role}, act = wait, at = return, mbar = {bar}, slot = {stage}, bit = {phase}, k = {k})",
        "arrive": "(cta = {cta}, who = {role}, act = arrive, mbar = {bar}, slot = {stage}, k = {k})",
        "expect": "(cta = {cta}, who = {role}, act = arrive, mbar = {bar}, slot = {stage}, expecting = {size}, k = {k})",
        "copy": "(cta = {cta}, who = {role}, act = bulkcopy, mbar = {bar}, slot = {stage}, sizeof = {size}, k = {k})",
        "far": "",
    }  # fmt: skip
    found = events(ring(style))
    assert {event.size for event in found if event.kind == "arrive" and event.barrier == "tilefull"} == {8192}


def test_a_name_with_a_field_in_front_is_no_label() -> None:
    assert lexicon.field("work_penuh") == "" and lexicon.field("consumer_iter") == "k"
    style = "time of day, ordinals and owners"
    text = log(style).replace("tile_full", "work_penuh").replace("tile_empty", "work_kosong")
    assert answer(text)["root"]["barrier"] == "work_kosong"


def test_a_time_of_day_never_falls() -> None:
    steady = scan([(1, "[00:04] mma waits"), (2, "[00:05] load waits")])
    falls = scan([(1, "[01:04] mma waits"), (2, "[00:04] load waits")])
    assert [num.value for row in steady for num in row.nums] == []
    assert [num.value for row in falls for num in row.nums] == [1, 4, 0, 4]


def test_groups_and_qualified_barriers_of_threads() -> None:
    assert operations("kittens::group::sync(2) begins").split()[1] == "named_barrier_2"
    assert "named_barrier_3" in operations("pipeline.NamedBarrier(barrier_id=3, num_threads=64) begins")
    assert "named_barrier" not in operations("group::sync(rank)")


def test_a_namespace_tells_no_copy() -> None:
    said = "lib::tma::expect_bytes(bar[0], 16384) and lib::tma::load_async(tile, bar[0])"
    assert operations(said) == "expect_bytes(bar[0], 16384) and lib::tma::load_async(tile, bar[0])"


def test_an_arrival_with_a_mask_and_a_wait_in_no_cta() -> None:
    """A log of another author, whose diagnosis shifted the mask by the CTA that the log does not name."""
    with tarfile.open(EVIDENCE / "2026-11-29-hang-logs.tar.xz") as logs:
        member = logs.extractfile("exam/spanish-006.log")
        assert member is not None
        found = diagnosis(read_text(member.read().decode()))
    assert found["outcome"] in ("hang", "unclear")


def test_a_name_that_ends_like_a_label_is_a_name() -> None:
    """`st` may be a stage: with no number behind it, `st_warp` labels nothing."""
    row = scan([(1, "wid=4  st_warp: wait(d_full[0], 1) enter")])[0]
    assert [word.text for word in row.words] == ["st_warp", "wait", "d_full", "enter"]


def test_a_call_behind_a_number_is_no_unit() -> None:
    row = scan([(1, "loader cta 0 mbarrier_arrive_and_expect_tx full idx 1 bytes 4096")])[0]
    assert [num.value for num in row.labelled("bytes")] == [4096]


@pytest.mark.parametrize(
    "call", ["NamedBarrier::sync(256 threads, id 2)", "barrier_sync<2>(256)", "named_barrier(n=64, id=2)"]
)
def test_the_number_of_a_named_barrier_among_arguments(call: str) -> None:
    assert "named_barrier_2" in operations(call)


def test_the_object_of_a_barrier_has_its_index_and_its_cta() -> None:
    text = '{"blk":0,"fn":"mbarArrive","mbar":{"id":"readyS","i":1,"blks":[0,1]},"it":5}'
    assert (
        rows([(1, text)] * 4)[0][1]
        == "blk=0 ; fn=mbarArrive ; mbar_id=readyS ; stage=1 ; bar_cta=[0,1] ; it=5"
    )


def test_an_object_is_no_legend_of_codes() -> None:
    text = '{"wg":"MmaIssue","fn":"mbarArrive","it":0,"id":"readyS"}'
    assert len(rows([(1, text), (2, text)])) == 2


def test_a_header_with_digits_in_its_names() -> None:
    lines = ["clock64\tctaRank\trole\tevent\tslot"]
    lines += [f"{clock}\t0\tTMAld\tWBEG\t{clock & 1}" for clock in range(1000, 1009)]
    assert rows([*enumerate(lines, 1)])[1][1].startswith("clock64=1000 ; ctaRank=0 ; role=TMAld")


def test_a_word_without_spaces_that_ends_in_warp_is_a_name() -> None:
    row = scan([(1, "ブロック0 ロードワープ k=3: full[1] を待つ")])[0]
    assert row.words[0].text == "ロードワープ"
    assert [num.value for num in row.labelled("k")] == [3]
