"""Logs that print the barriers' states at the end, and logs of which lines are missing."""

import random

import pytest
from tileproof.conformance.beside.logs.hangs.as_data import Diagnosis
from tileproof.conformance.beside.logs.hangs.template.explain import explained, user_lines

from tests.conformance.beside.logs.hangs.template.test_templates import DEFECTS, TEMPLATES, lines, ring

WAITS = (
    "init: {barrier} needs {count} from {role}", "wait: {role} waits {barrier}{[}[{stage}]{]} {phase}",
    "done: {role} passed {barrier}{[}[{stage}]{]}", "end: {role} ends",
    "state: {barrier}[{stage}] done {completed} arrived {arrived} of {count}",
    "state: {role} counts {passed} on {barrier}",
)  # fmt: skip
LOADS = "empty needs 1 from mma\nfull needs {} from load\n"


def cause(log: str) -> tuple[str, str]:
    user = user_lines(WAITS)
    assert user is not None
    found = explained(log, "run.log", user)
    assert found["root"] is not None and found["certainty"] == "likely"
    return found["causes"][0]["code"], found["root"]["copy"]


@pytest.mark.parametrize("came, code", [(1, "too-few-arrivals"), (0, "skipped-arrive")])
def test_a_part_of_a_phase_came(came: int, code: str) -> None:
    """Two of three arrivals by the only producer: the count is wrong. None: its arrival is missing."""
    log = LOADS.format(3) + "load waits empty 1\nload passed empty\nmma waits full 0\nload waits empty 0\n"
    log += f"full[0] done 0 arrived {2 * came} of 3\nempty[0] done 0 arrived 0 of 1\n"
    found = cause(log)
    assert found == (code, "full[0]")


def test_a_phase_that_completed_shows_a_wrong_parity() -> None:
    log = LOADS.format(1) + "load waits empty 1\nload passed empty\nload ends\nmma waits full {}\n"
    log += "full[0] done 1 arrived 0 of 1\n"
    assert cause(log.format(1)) == ("wrong-parity", "full[0]")


def test_stages_of_a_ring_show_a_skipped_arrival() -> None:
    """Six rounds of the loader on three stages, and five arrivals: stage 1 lacks its second."""
    rounds = [f"load waits empty[{k % 3}] {1 - k // 3 % 2}\nload passed empty[{k % 3}]\n" for k in range(6)]
    takes = [f"mma waits full[{k % 3}] {k // 3}\nmma passed full[{k % 3}]\n" for k in range(4)]
    ends = "mma waits full[1] 1\nload waits empty[0] 1\n"
    states = "".join(f"full[{s}] done {n} arrived 0 of 1\n" for s, n in enumerate((2, 1, 2)))
    states += "".join(f"empty[{s}] done {n} arrived 0 of 1\n" for s, n in enumerate((1, 1, 1)))
    found = cause(LOADS.format(1) + "".join(rounds + takes) + ends + states)
    assert found == ("skipped-arrive", "full[1]")


def test_waits_counted_over_all_stages_are_dealt_in_turn() -> None:
    """Five waits on three stages: two of stage 0 and of stage 1, and the next is the second of stage 2."""
    log = LOADS.format(1) + "mma waits full[2] {}\nmma counts 5 on full\n"
    log += "".join(f"full[{s}] done 2 arrived 0 of 1\n" for s in range(3))
    assert cause(log.format(0)) == ("wrong-parity", "full[2]")


# --- lines that are missing

TAIL = (
    "tail: {role}: {lost} lines lost", "wait: {role} waits {barrier} {phase}", "done: {role} ended {barrier}",
    "arrive: {role} arrives {barrier}", "init: {barrier} needs {count}",
)  # fmt: skip


def tail(lost: int) -> Diagnosis:
    user = user_lines(TAIL)
    assert user is not None
    log = f"full needs 2\nmma: {lost} lines lost\nload: {lost} lines lost\n"
    return explained(log + "load arrives full\nmma waits full 1\n", "run.log", user)


def test_a_lost_head_leaves_counts_and_parities_open() -> None:
    assert {each["code"] for each in tail(0)["causes"]} & {"too-few-arrivals", "wrong-parity"}
    found = tail(7)
    assert not {each["code"] for each in found["causes"]} & {"too-few-arrivals", "wrong-parity"}
    assert found["certainty"] == "likely" and "first lines" in " ".join(found["why"])


@pytest.mark.parametrize("defect, codes, barrier, culprit", DEFECTS)
def test_lines_that_are_lost_without_a_notice_make_no_answer_certain_and_wrong(
    defect: str, codes: set[str], barrier: str, culprit: str
) -> None:
    whole = ring(defect).splitlines()
    inits = [line for line in whole if line.startswith("init")]
    for seed in range(12):
        draw = random.Random(f"{defect} {seed}")
        events = [line for line in whole if not line.startswith("init") and draw.random() > 0.05]
        kept = events[draw.choice((0, len(events) // 4)) :]
        found = explained("\n".join([*inits, *kept]), defect, lines(*TEMPLATES))
        if found["outcome"] == "hang" and found["certainty"] == "certain":
            first, root = found["causes"][0], found["root"]
            assert root is not None
            right = first["code"] in codes and root["barrier"] == barrier
            assert right, (seed, first["what"])


def test_a_role_that_neither_waits_nor_ends_is_a_sign_of_missing_lines() -> None:
    log = ring("bytes")
    last = next(line for line in reversed(log.splitlines()) if line.startswith("load@0"))
    found = explained(log.replace(last + "\n", "") + "other@0 end\n", "x", lines(*TEMPLATES))
    assert found["certainty"] == "likely" and "neither waits nor ends" in " ".join(found["why"])


def test_a_wait_that_no_line_begins_is_a_sign_of_missing_lines() -> None:
    log = ring("bytes")
    assert explained(log, "x", lines(*TEMPLATES))["certainty"] == "certain"
    begin = next(line for line in log.splitlines() if line.startswith("mma@0 1 ?"))
    found = explained(log.replace(begin + "\n", ""), "x", lines(*TEMPLATES))
    assert found["certainty"] == "likely" and "no line begins" in " ".join(found["why"])
