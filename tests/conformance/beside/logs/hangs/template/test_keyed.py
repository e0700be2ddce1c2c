"""Logs whose lines name their fields are read by their keys: JSON objects, `key=value` lines, CSV."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable

import pytest
from tileproof.conformance.beside.logs.hangs.reader import read_text
from tileproof.conformance.beside.logs.hangs.render import diagnosis
from tileproof.conformance.beside.logs.hangs.template.explain import explained, user_lines
from tileproof.conformance.beside.logs.hangs.template.keyed import keyed
from tileproof.spec.machine.errors import TileproofError

Event = dict[str, object]
# A ring of two stages: the copier fills, the worker frees; the worker's arrival of round 1 is missing.
INIT = [("filled", 1, "copier"), ("freed", 1, "worker")]


def events(skipped: int = 1) -> list[Event]:
    made: list[Event] = []

    def put(who: str, op: str, bar: str, round_: int, **more: object) -> None:
        row: Event = {"who": who, "op": op, "bar": bar, "slot": round_ % 2, "round": round_, **more}
        made.append({key: value for key, value in row.items() if value is not None})

    for k in range(6):
        put("copier", "wait_begin", "freed", k, parity=1 - k // 2 % 2)
        if k - 2 == skipped:
            break
        put("copier", "wait_end", "freed", k)
        put("copier", "expect_tx", "filled", k, bytes=4096)
        put("copier", "copy", "filled", k, bytes=4096)
        put("worker", "wait_begin", "filled", k, parity=k // 2 % 2)
        put("worker", "wait_end", "filled", k)
        if k != skipped:
            put("worker", "arrive", "freed", k, n=1)
    put("worker", "wait_begin", "filled", skipped + 2, parity=(skipped + 2) // 2 % 2)
    return made


def as_json(rows: list[Event]) -> list[str]:
    init = [{"op": "barrier", "bar": b, "slots": 2, "init": n, "arrivers": [r]} for b, n, r in INIT]
    return [json.dumps(row) for row in (*init, *rows)]


def as_pairs(rows: list[Event]) -> list[str]:
    init = [f'level=info msg="barrier init" bar={b} depth=2 count={n} arrivers="{r}"' for b, n, r in INIT]
    return [*init, *("level=debug " + " ".join(f"{k}={v}" for k, v in row.items()) for row in rows)]


def as_csv(rows: list[Event]) -> list[str]:
    names = ("who", "op", "bar", "slot", "round", "parity", "bytes", "n")
    init = [f"# barrier,{b},slots=2,count={n},by={r}" for b, n, r in INIT]
    return [*init, ",".join(names), *(",".join(str(row.get(name, "")) for name in names) for row in rows)]


FORMS: list[Callable[[list[Event]], list[str]]] = [as_json, as_pairs, as_csv]


@pytest.mark.parametrize("form", FORMS)
def test_a_skipped_arrival_is_found_in_each_form(form: Callable[[list[Event]], list[str]]) -> None:
    lines = form(events())
    made = keyed(lines)
    assert made is not None
    inits = {values["barrier"]: values for _, event, values in made.made if event == "init"}
    assert {name: (each["count"], each["role"]) for name, each in inits.items()} == {
        "filled": (1, "copier"),
        "freed": (1, "worker"),
    }
    kinds = [event for _, event, _ in made.made if event != "init"]
    assert kinds[:4] == ["wait", "done", "expect", "copy"]
    found = diagnosis(read_text("\n".join(lines) + "\n"))
    assert found["outcome"] == "hang" and found["certainty"] == "likely"
    assert found["why"][0] == "the meaning of the fields was inferred from their names"
    cause = found["causes"][0]
    assert cause["code"] == "skipped-arrive" and cause["culprit"] is not None, cause
    assert cause["culprit"]["role"] == "worker"
    assert found["root"] is not None and found["root"]["copy"].startswith("freed[1]")


def test_a_block_is_a_cta_where_the_round_stands_beside_it() -> None:
    """Else it is the round itself: a loop over blocks."""
    grid = keyed(as_pairs([{"block": 7, **row} for row in events()]))
    loop = [{("block" if key == "round" else key): value for key, value in row.items()} for row in events()]
    rounds = keyed(as_pairs(loop))
    assert grid is not None and rounds is not None
    assert {values.get("cta") for _, event, values in grid.made if event != "init"} == {7}
    steps = [values for _, event, values in rounds.made if event != "init"]
    assert not any("cta" in values for values in steps) and {values["k"] for values in steps} == {0, 1, 2, 3}


def test_a_role_with_its_cta_and_the_ctas_that_an_arrival_reaches() -> None:
    rows: list[Event] = [
        {"ev": "commit", "who": "issuer@1", "bar": "done[0]", "dst_cta": [0, 1], "k": 0},
        {"ev": "wait_begin", "who": "cta0.saver", "bar": "done.0", "parity": 0, "k": 0},
        {"ev": "exit", "who": "issuer@1", "k": 1, "t": 3},
    ]
    made = keyed([json.dumps(row) for row in rows])
    assert made is not None
    commits = [values for _, event, values in made.made if event == "arrive"]
    assert [values["owner"] for values in commits] == [0, 1]
    assert {(values["role"], values["cta"]) for values in commits} == {("issuer", 1)}
    (wait,) = (values for _, event, values in made.made if event == "wait")
    assert (wait["role"], wait["cta"], wait["barrier"], wait["stage"]) == ("saver", 0, "done", 0)
    assert [event for _, event, _ in made.made][-1] == "end"


def test_bytes_that_landed_are_no_arrival_of_a_role() -> None:
    rows = [*events(), {"who": "hw", "op": "tx_complete", "bar": "filled", "slot": 0, "bytes": 4096}]
    made = keyed(as_json(rows))
    assert made is not None and made.made[-1][1] == "skip"


@pytest.mark.parametrize(
    "lines",
    [
        ["copier waits for freed[0], parity 1", "copier passed freed[0]", "worker arrives on freed[0]"],
        [json.dumps({"ts": at, "level": "info", "message": "epoch", "loss": 0.5}) for at in range(9)],
        ["a,b,c,d", "1,2,3,4"],
        [],
    ],
)
def test_other_logs_are_not_read_by_keys(lines: list[str]) -> None:
    assert keyed(lines) is None


@pytest.mark.parametrize(
    "value", [10**15, "9" * 4000, "²", -1, None, [], {"a": {}}, "\0", '"', "cta99999999999"]
)
@pytest.mark.parametrize(
    "key", ["slot", "round", "parity", "bytes", "count", "stages", "block", "dst_cta", "who"]
)
def test_nonsense_as_a_value_is_no_error(key: str, value: object) -> None:
    """An answer, or a named refusal, for hostile numbers and objects in each form."""
    rows = [{**row, key: value} if at % 3 == 0 else row for at, row in enumerate(events())]
    init = {"op": "barrier", "bar": "freed", "slots": 2, "init": 1, "arrivers": ["worker"], key: value}
    for form in FORMS:
        with contextlib.suppress(TileproofError):
            diagnosis(read_text("\n".join([json.dumps(init), *form(rows)]) + "\n"))


def test_deep_objects_and_bytes_that_are_no_text_are_other_lines() -> None:
    deep = '{"a":' + "[" * 3000 + "]" * 3000 + "}"
    assert keyed([deep, "a\0b,c,d,e", *as_json(events())]) is not None


def test_without_counts_the_waits_decide() -> None:
    """A log that states no count of a barrier is read by its words."""
    found = diagnosis(read_text("\n".join(as_pairs(events())[2:]) + "\n"))
    assert found["outcome"] == "hang"
    assert "the meaning of the fields was inferred from their names" not in found["why"]


def test_templates_that_read_fewer_lines_than_the_keys() -> None:
    """By a template of the waits alone: the keys read the arrivals and counts as well."""
    waits = "wait: level=debug who={role} op=wait_begin bar={barrier} slot={stage} round={k} parity={phase}"
    user = user_lines((waits,))
    assert user is not None
    text = "\n".join(as_pairs(events()))
    found = explained(text, "some.log", user)
    assert found["causes"][0]["code"] == "skipped-arrive" and found["certainty"] == "likely"
    assert found["why"][0] == "the meaning of the fields was inferred from their names"
    assert [row["lines"] for row in found["templates"]] == [8]
    unstated = "\n".join(as_pairs(events())[2:])  # without the counts the templates' answer stands
    alone = explained(unstated, "some.log", user)
    assert alone["why"][:1] != found["why"][:1] and alone["read"]["events"] == 8
