"""Causes that the rounds of a role show: a round without an arrival, or with one twice."""

import pytest
from tileproof.conformance.beside.logs.hangs.template.explain import explained, user_lines

TEMPLATES = (
    "init: {barrier} needs {count} from {role}", "wait: {role} waits {barrier} {phase} k{k}",
    "done: {role} passed {barrier}", "arrive: {role} arrives {barrier}", "end: {role} ends",
    "expect: {role} expects {bytes} on {barrier}", "copy: {role} copies {bytes} to {barrier}",
)  # fmt: skip
INITS = "full needs 1 from load\nempty needs 1 from mma\nout needs 1 from mma\n"


def cause(log: str) -> tuple[str, str, str]:
    """The first cause, the barrier and the certainty."""
    user = user_lines(TEMPLATES)
    assert user is not None
    found = explained(INITS + log, "run.log", user)
    assert found["root"] is not None
    return found["causes"][0]["code"], found["root"]["barrier"], found["certainty"]


FIRST = "load expects 8 on full\nload copies 8 to full\nmma waits full 0 k0\nmma passed full\n"
SECOND = "load waits empty 0 k1\n{}mma waits full 1 k1\n"


def test_a_first_round_without_its_arrival() -> None:
    """No earlier round shows where the arrival stands; the role waits again, so it is not before a wait."""
    assert cause(FIRST + SECOND.format("")) == ("skipped-arrive", "empty", "likely")


def test_a_role_in_its_first_round_may_arrive_later() -> None:
    log = FIRST + "load waits empty 0 k1\nmma waits out 0 k0\n"
    assert cause(log)[0] != "skipped-arrive"


def test_a_producer_may_take_its_next_buffer_before_it_hands_over_the_last() -> None:
    """The wait of a free buffer comes before the arrival that it needs: a cycle."""
    log = "load waits empty 1 k0\nload passed empty\nmma waits full 0 k0\nload waits empty 0 k1\n"
    assert cause(log)[0] == "cycle"


@pytest.mark.parametrize("again, code", [("out", "wrong-barrier"), ("", "skipped-arrive")])
def test_an_arrival_twice_in_a_round_stands_for_a_missing_one(again: str, code: str) -> None:
    """`out` after the wait on `full` and again before the next, and no arrival on `empty`."""
    twice = f"mma arrives {again}\n" if again else ""
    log = FIRST + "mma arrives out\n" + "store waits out 0 k0\nstore passed out\n" + SECOND.format(twice)
    assert cause(log)[:2] == (code, "empty")


@pytest.mark.parametrize("used, code", [(1, "wrong-barrier"), (3, "skipped-arrive")])
def test_arrivals_that_no_wait_used_stand_for_missing_ones(used: int, code: str) -> None:
    """Three arrivals on `out`, one in each round, and none on `empty`."""
    log = "".join(
        f"load waits empty[{k}] 1 k{k}\nload passed empty[{k}]\n"
        f"load expects 8 on full[{k}]\nload copies 8 to full[{k}]\n"
        f"mma waits full[{k}] 0 k{k}\nmma passed full[{k}]\nmma arrives out\n"
        for k in range(3)
    )
    log += "".join(f"store waits out {k % 2} k{k}\nstore passed out\n" for k in range(used))
    assert cause(log + "load waits empty[0] 0 k3\nmma waits full[0] 1 k3\n")[:2] == (code, "empty")


def test_an_arrival_without_the_bytes_of_the_others() -> None:
    """`load` owes an arrival on `next`, and arrives on `full` without bytes."""
    log = (
        "next needs 1 from load\n" + FIRST + "load arrives {}\nload waits empty 0 k1\nsched waits next 0 k0\n"
    )
    assert cause(log.format("full"))[:2] == ("wrong-barrier", "next")
    assert cause(log.format("next"))[:2] != ("wrong-barrier", "next")


def test_a_multicast_is_one_arrival_where_the_order_is_compared() -> None:
    """A commit on two barriers is skipped and the next stands in its place: its own, not a wrong one."""
    user = user_lines(
        ("wait: {role}@{cta} waits {barrier} {phase} k{k}", "done: {role}@{cta} passed {barrier}",
         "arrive: {role}@{cta} arrives {barrier} at {(}{owner}{[},{]}{)}")
    )  # fmt: skip
    assert user is not None
    rounds = [
        f"load@0 waits empty {1 - k % 2} k{k}\nload@0 passed empty\nload@0 arrives full at 0\n"
        f"mma@0 waits full {k % 2} k{k}\nmma@0 passed full\n"
        + ("mma@0 arrives empty at 0,1\n" if k != 1 else "")
        + "mma@0 arrives done at 0,1\n"
        for k in range(2)
    ]
    end = "load@0 waits empty 1 k2\nmma@0 waits full 0 k2\n"
    found = explained("".join(rounds) + end, "run.log", user)
    assert found["causes"][0]["code"] == "skipped-arrive"
    assert found["root"] is not None and found["root"]["barrier"] == "empty"
