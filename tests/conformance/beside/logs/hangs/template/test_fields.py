"""Fields of line templates: rounds of two loops, barriers by address, context of earlier lines, counts."""

import pytest
from tileproof.conformance.beside.logs.hangs.as_data import Diagnosis
from tileproof.conformance.beside.logs.hangs.template.explain import explained, user_lines
from tileproof.conformance.beside.logs.hangs.template.pattern import parse
from tileproof.spec.machine.errors import TileproofError


def answer(log: str, *templates: str) -> Diagnosis:
    user = user_lines(templates)
    assert user is not None
    return explained(log, "run.log", user)


def first(log: str, *templates: str) -> tuple[str, str, str]:
    """The first cause, the barrier and the culprit."""
    found = answer(log, *templates)
    cause, root = found["causes"][0], found["root"]
    assert root is not None
    return cause["code"], root["copy"], (cause["culprit"] or {"name": ""})["name"]


# --- an outer loop: k begins again in each tile

WAITS = ("wait: {role} waits {barrier} {phase} t{tile} k{k}", "done: {role} passed {barrier}",
         "arrive: {role} arrives {barrier}")  # fmt: skip
TILES = """\
load arrives full
mma waits full 0 t0 k0
mma passed full
load arrives full
mma waits full {phase} t1 k0
"""


def test_a_tile_begins_the_rounds_again() -> None:
    """Two waits of k 0 for one phase are a mistake in two tiles, and one wait of two threads in one tile."""
    assert first(TILES.format(phase=0), *WAITS)[:2] == ("wrong-parity", "full")
    same = answer(TILES.format(phase=0).replace("t1", "t0"), *WAITS)
    assert same["causes"][0]["code"] != "wrong-parity"


def test_a_tile_is_a_field_of_its_own() -> None:
    assert parse(WAITS[0]).read("mma waits full 0 t3 k2") == [
        {"role": "mma", "barrier": "full", "phase": 0, "tile": 3, "k": 2}
    ]


def test_an_unknown_field_names_those_that_exist() -> None:
    with pytest.raises(TileproofError, match="unknown field") as error:
        parse("wait: {role} {barrier} {tyle}")
    assert "{tile}" in str(error.value) and "barrier" in str(error.value)


# --- barriers by address and by number

ADDRESSES = """\
{first} full x2
{second} empty x2
warps 0-0 load
warps 1-2 math
0 waits {second} 1
0 passed {second}
0 arrives {first}
0 waits {fourth} 1
0 passed {fourth}
0 arrives {third}
1 waits {first} 0
2 waits {first} 0
1 passed {first}
2 passed {first}
1 waits {third} 0
2 waits {third} 0
"""
BY_ID = ("init: {id} {barrier} x{stages}", "name: warps {warp}-{last} {role}",
         "wait: {warp} waits {id} {phase}", "done: {warp} passed {id}",
         "arrive: {warp} arrives {id}")  # fmt: skip


@pytest.mark.parametrize("apart, base", [(8, 0x400), (1, 3)])
def test_stages_lie_behind_the_address_or_the_number_of_a_barrier(apart: int, base: int) -> None:
    full, empty = base, base + 2 * apart
    log = ADDRESSES.format(
        first=hex(full), second=hex(empty), third=hex(full + apart), fourth=hex(empty + apart)
    )
    found = answer(log, *BY_ID)
    assert {row["copy"] for row in found["blocked"]} == {"full[1]"}
    assert {row["actor"]["name"] for row in found["blocked"]} == {"math warp 1", "math warp 2"}


# --- context of earlier lines


def test_a_barrier_named_by_an_earlier_line() -> None:
    templates = ("on: on barrier {barrier}:", "wait: {role} waits {phase}", "done: {role} passed",
                 "arrive: {role} arrives")  # fmt: skip
    log = "on barrier full:\n  load arrives\n  mma waits 0\n  mma passed\non barrier empty:\n  load waits 0\n"
    found = answer(log, *templates)
    assert [row["copy"] for row in found["blocked"]] == ["empty"]
    with pytest.raises(TileproofError, match="without its barrier"):
        user_lines(templates[1:])


def test_a_barrier_of_several_init_lines() -> None:
    templates = ("init: - name: {barrier}", "init: expected: {count}", "init: from: [{role}]",
                 "wait: {role} waits {barrier} {phase}", "arrive: {role} arrives {barrier}")  # fmt: skip
    log = "- name: full\n  expected: 2\n  from: [load]\n- name: empty\n  expected: 1\nload arrives full\n"
    assert first(log + "mma waits full 0\n", *templates) == ("too-few-arrivals", "full", "")


@pytest.mark.parametrize("begins", ["role", "warp"])
def test_lines_that_name_an_actor_in_parts(begins: str) -> None:
    """The field that the first of them names begins an actor; other lines add to it."""
    parts = {"role": ["role: load", "cta: 0", "warp: 4"], "warp": ["warp: 4", "cta: 0", "role: load"]}[begins]
    templates = (
        "actor: role: {role}",
        "actor: cta: {cta}",
        "actor: warp: {warp}",
        "wait: waits {barrier} {phase}",
    )
    log = "\n".join(
        [*parts, "waits empty 0", *(each.replace("load", "mma") for each in parts), "waits full 0"]
    )
    found = answer(log.replace("warp: 4\ncta", "warp: 5\ncta", 1), *templates)
    assert {row["actor"]["name"] for row in found["blocked"]} == {"CTA 0 load", "CTA 0 mma"}


def test_other_text_behind_the_roles_of_an_init_line_names_none() -> None:
    """`{role}` at the end of a template takes the rest of the line."""
    templates = ("init: {barrier} by {role}", "wait: {role} waits {barrier} {phase}",
                 "arrive: {role} arrives {barrier}")  # fmt: skip
    log = "full by load for math0+math1\nload arrives full\nmath0 waits full 1\nmath1 waits full 1\n"
    found = answer(log, *templates)
    assert all(not any(each["role"] == "math1" for each in row["waits_for"]) for row in found["blocked"])


def test_a_mask_alone_tells_the_ctas_apart() -> None:
    templates = (
        "wait: c{cta} {role} waits {barrier} {phase}",
        "arrive: c{cta} {role} arrives {barrier} to {mask}",
    )
    log = "c0 mma arrives free to 0x1\nc0 load waits free 0\nc1 load waits free 0\n"
    found = answer(log, *templates)
    assert {row["copy"] for row in found["blocked"]} == {"free in CTA 0", "free in CTA 1"}


# --- counts of a dump


def test_bytes_up_to_now_of_a_dump() -> None:
    templates = (
        "actor: {role}:", "state: {barrier} arrived {arrived} announced {announced}",
        "state: {barrier} copied {landed}", "wait: waits {barrier} {phase}", "init: {barrier} needs {count}",
        "state: {barrier} passed {passed}",
    )  # fmt: skip
    log = "full needs 1\nload:\n full arrived 2 announced 512\n full copied {}\n"
    log += "mma:\n full passed 1\n waits full 1\n"
    assert first(log.format(384), *templates)[:2] == ("bytes-missing", "full")
    assert first(log.format(512), *templates)[0] != "bytes-missing"


def test_arrivals_and_bytes_of_a_barriers_current_phase() -> None:
    templates = ("state: {barrier} done {completed} arrived {arrived}/{count} tx {landed}/{announced}",
                 "wait: {role} waits {barrier} {phase}")  # fmt: skip
    log = "mma waits full 0\nfull done 0 arrived 1/1 tx {}/256\n"
    assert first(log.format(128), *templates)[:2] == ("bytes-missing", "full")
    assert first(log.format(256), *templates)[0] != "bytes-missing"
