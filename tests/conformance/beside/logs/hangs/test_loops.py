"""Loops of roles that a log states tell a missing arrival from a wait before the arrival."""

from __future__ import annotations

import pytest
from tileproof.conformance.beside.logs.hangs.accounts.loops import StatedLoop, loop_of, stated_loops
from tileproof.conformance.beside.logs.hangs.log import Actor
from tileproof.conformance.beside.logs.hangs.template.explain import explained, user_lines

ROLES, BARRIERS = {"load", "mma"}, {"full", "empty", "acc"}
FORMS = (
    "loop of mma: k x4 { wait full; commit empty(k-1) }",
    "order mma : k*4[ ? full ^ empty(k-1) ]",
    "  mma(CTA 0): [k, 4 rounds: wait full; commit empty(k - 1)]",
    '{"type": "role", "who": "mma", "body": "k x4 { wait full; commit empty(k-1) }"}',
    "flow CTA0.mma:k loop 4(wait full->commit empty(k-1))",
)


@pytest.mark.parametrize("text", FORMS)
def test_forms(text: str) -> None:
    (loop,) = stated_loops([text], ROLES, BARRIERS)
    assert loop.role == "mma" and loop.steps == (("full", 0), ("empty", 1))


def test_parts_with_the_same_words_are_a_loop() -> None:
    text = "mma@1 :: tile x2 { wait acc } k x4 { wait full } tile x2 { commit acc } k x4 {commit empty(k-2)}"
    found = stated_loops([text], ROLES, BARRIERS)
    assert StatedLoop("mma", frozenset({1}), (("full", 0), ("empty", 2))) in found
    assert loop_of(found, Actor(0, "mma", 1), "full", "empty") is not None
    assert loop_of(found, Actor(0, "mma", 0), "full", "empty") is None
    assert loop_of(found, Actor(0, "load", 1), "full", "empty") is None


OTHERS = ("load waits for full, then empty", "barrier full (load -> mma) empty", "", "mma { full")


@pytest.mark.parametrize("text", OTHERS)
def test_other_lines(text: str) -> None:
    assert stated_loops([text], ROLES, BARRIERS) == []


TEMPLATES = (
    "skip: loop of {*}",
    "init: init {barrier} count {count} by {role}",
    "wait: {role} waits {barrier}[{stage}] p{phase}",
    "done: {role} has {barrier}[{stage}]",
    "arrive: {role} frees {barrier}[{stage}]",
    "copy: {role} copies {bytes} to {barrier}[{stage}]",
    "expect: {role} expects {bytes} on {barrier}[{stage}]",
)


def log(stated: str) -> str:
    """Two rounds of a ring of two stages, of which `mma` frees none; its loop commits `stated`."""
    lines = [
        "init full count 1 by load",
        "init empty count 1 by mma",
        "loop of load: k x8 { wait empty; expect full }",
        f"loop of mma: k x8 {{ wait full; commit {stated} }}",
    ]
    for k in (0, 1):
        lines += [f"load waits empty[{k}] p1", f"load has empty[{k}]", f"load expects 64 on full[{k}]"]
        lines += [f"load copies 64 to full[{k}]", f"mma waits full[{k}] p0", f"mma has full[{k}]"]
    return "\n".join([*lines, "load waits empty[0] p0", "mma waits full[0] p1"])


@pytest.mark.parametrize(("stated", "code"), [("empty", "skipped-arrive"), ("empty(k-2)", "cycle")])
def test_the_stated_order_decides(stated: str, code: str) -> None:
    """The same steps: no stage is freed, by an omission or by the order of the loop."""
    user = user_lines(TEMPLATES)
    assert user is not None
    found = explained(log(stated), "some.log", user)
    assert found["outcome"] == "hang" and found["certainty"] == "likely"
    cause = found["causes"][0]
    assert cause["code"] == code and cause["culprit"] is not None and cause["culprit"]["role"] == "mma"


def test_hostile_lines() -> None:
    """Long lines, brackets without an end, and rounds of many digits."""
    lines = [
        "mma " + "full { " * 5000,
        "mma { full; empty(k-" + "9" * 5000 + ") }",
        "mma" * 3000 + " { full; empty }",
        "mma(CTA " + "7" * 5000 + "): { full; empty }",
    ]
    for text in lines:
        stated_loops([text], ROLES, BARRIERS)
