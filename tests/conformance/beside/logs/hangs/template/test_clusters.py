"""Clusters of line templates: numbers of the grid beside ranks, counts that CTAs share, roles by threads."""

from tileproof.conformance.beside.logs.hangs.as_data import Diagnosis
from tileproof.conformance.beside.logs.hangs.template.explain import explained, user_lines

PAIR = ("wait: g{cta} {role} sleeps on {barrier} until {phase}", "done: g{cta} {role} left {barrier}",
        "arrive: g{cta} {role} rings {barrier} at {(}rank{owner}{)}")  # fmt: skip


def answer(log: str, *templates: str) -> Diagnosis:
    user = user_lines(templates)
    assert user is not None
    return explained(log, "run.log", user)


def test_ranks_beside_numbers_of_the_grid_are_the_same_ctas() -> None:
    log = "g6 load sleeps on gate until 0\ng7 load sleeps on gate until 0\ng6 mma rings gate at rank0\n"
    found = answer(log, *PAIR)
    assert [row["copy"] for row in found["blocked"]] == ["gate in CTA 0", "gate in CTA 1"]
    assert found["causes"][0]["code"] in ("one-cta", "wrong-copy")
    culprit = found["causes"][0]["culprit"]
    assert culprit is not None and culprit["name"] == "cluster 3 CTA 0 mma"


def test_a_rank_in_an_init_line_is_no_further_cta() -> None:
    templates = ("init: {barrier} needs {count} on rank{owner}", *PAIR[:2],
                 "arrive: g{cta} {role} rings {barrier} at g{owner}")  # fmt: skip
    log = (
        "full needs 2 on rank0\ng6 mma sleeps on full until 0\n"
        "g6 load rings full at g6\ng7 load rings full at g6\ng6 mma left full\n"
        "g6 mma sleeps on full until 1\ng7 load rings full at g6\ng6 load sleeps on gate until 0\n"
    )
    found = answer(log, *templates)
    assert {row["copy"] for row in found["blocked"]} == {"full in CTA 0", "gate in CTA 0"}


def test_a_count_that_ctas_share_needs_the_roles_of_all() -> None:
    """`{ctas=2}` states what the words mean; without them, the other CTA's role owes nothing."""
    templates = ("init: {barrier} needs {count} by {role} everywhere{ctas=2}", *PAIR)
    log = (
        "gate needs 2 by mma everywhere\ng6 load sleeps on gate until 0\n"
        "g6 mma rings gate at rank0\ng7 mma sleeps on full until 0\n"
    )
    waits = {
        row["copy"]: [each["cta"] for each in row["waits_for"]] for row in answer(log, *templates)["blocked"]
    }
    assert waits["gate in CTA 0"] == [1]


def test_a_thread_has_the_role_of_its_warp() -> None:
    templates = ("name: warps {(}{warp}={role}{)}", "wait: t{thread} sleeps on {barrier} until {phase}",
                 "arrive: t{thread} rings {barrier}")  # fmt: skip
    found = answer("warps 0=load 1=mma\nt0 rings full\nt33 sleeps on free until 0\n", *templates)
    assert [row["actor"]["role"] for row in found["blocked"]] == ["mma"]
    assert {row["role"] for row in found["actors"]} == {"load", "mma"}


def test_roles_without_names_are_not_certain() -> None:
    templates = ("wait: t{thread} sleeps on {barrier} until {phase}", "done: t{thread} left {barrier}",
                 "arrive: t{thread} rings {barrier}")  # fmt: skip
    log = (
        "t0 rings a.0\nt0 rings a.1\nt0 rings a.1\n"
        "t32 sleeps on a.0 until 0\nt32 left a.0\nt32 sleeps on a.0 until 1\n"
    )
    found = answer(log, *templates)
    assert found["certainty"] == "likely"
    assert any("numbers of threads" in each for each in found["why"])


def test_numbers_without_names_are_different_barriers() -> None:
    templates = ("wait: {role} sleeps on {id:x}", "arrive: {role} rings {id:x}")
    log = "load rings 1c0\nload rings 1c8\nmma sleeps on 1c1\nepi sleeps on 1c8\n"
    assert {row["barrier"] for row in answer(log, *templates)["blocked"]} == {"@0x1c1", "@0x1c8"}
