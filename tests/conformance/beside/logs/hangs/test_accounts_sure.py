"""What the accounts are sure of: stages of a role's own, first waits, counts, and a role's twins."""

from tileproof.conformance.beside.logs.hangs.as_data import Diagnosis
from tileproof.conformance.beside.logs.hangs.reader import read_text
from tileproof.conformance.beside.logs.hangs.render import diagnosis
from tileproof.conformance.beside.logs.hangs.template.explain import explained, user_lines

LINES = ("init: {barrier} takes {count} of {role}", "wait: {role} naps on {barrier}/{stage} bit {phase}",
         "done: {role} rose from {barrier}/{stage}", "arrive: {role} bumps {barrier}/{stage}")  # fmt: skip


def answer(log: list[str]) -> Diagnosis:
    user = user_lines(LINES)
    assert user is not None
    return explained("\n".join(log), "run.log", user)


def test_a_role_with_a_stage_of_its_own_owes_nothing_on_the_others() -> None:
    """left bumps p/0 in each round, right p/1: neither is on a wrong stage."""
    log = ["mma naps on p/0 bit 0"]
    for bit in (0, 1):
        log += ["left bumps p/0", "right bumps p/1", "mma rose from p/0"]
        log += [f"mma naps on p/1 bit {bit}", "mma rose from p/1", f"mma naps on p/0 bit {1 - bit}"]
    log += ["left naps on s/0 bit 0", "right naps on s/1 bit 0"]
    found = answer(log)
    owing = {row["copy"]: [each["role"] for each in row["waits_for"]] for row in found["blocked"]}
    assert owing["p[0]"] == ["left"]
    assert all(cause["code"] != "wrong-stage" for cause in found["causes"])


def test_a_name_alone_does_not_tell_that_a_first_wait_passes() -> None:
    """The wait for bit 0 of an empty barrier may need the first arrival: then the cycle is real."""
    log = ["store naps on slot_empty/0 bit 0", "other bumps slot_empty/0", "store rose from slot_empty/0",
           "store naps on slot_empty/0 bit 1", "other naps on gate/0 bit 0"]  # fmt: skip
    found = answer(log)
    assert found["certainty"] != "certain"


def test_a_count_is_certain_only_where_the_roles_are_stated() -> None:
    """Two of four arrivals came: a role that has not come so far may make the others."""
    log = ["done takes 4 of {}", "reader naps on done/0 bit 0", "alpha bumps done/0", "beta bumps done/0",
           "alpha naps on next/0 bit 0", "beta naps on next/0 bit 0", "gamma naps on next/0 bit 0",
           "reader bumps gate/0"]  # fmt: skip
    log.pop()
    stated = [line.format("alpha, beta") for line in log]
    silent = [line for line in log if "takes" not in line] + ["done takes 4 of nobody"]
    assert answer(stated)["causes"][0]["code"] == "too-few-arrivals"
    assert answer(stated)["certainty"] == "certain"
    assert answer(silent)["certainty"] != "certain"


def test_a_stated_role_is_that_of_its_numbered_warps() -> None:
    log = ["done takes 3 of epi, mma", "reader naps on done/0 bit 0", "mma bumps done/0", "epi0 bumps done/0",
           "epi1 naps on next/0 bit 0"]  # fmt: skip
    owing = {row["copy"]: [each["role"] for each in row["waits_for"]] for row in answer(log)["blocked"]}
    assert owing["done[0]"] == ["epi1"]


def test_one_of_two_warps_omits_an_arrival() -> None:
    """Both warps stand in the same wait, and one arrived: no order of the program."""
    log = ["store naps on out/0 bit 0"]
    log += [f"w{warp} bumps out/0" for warp in (0, 1)] + ["store rose from out/0", "store bumps back/0"]
    log += ["store naps on out/0 bit 1"]
    for warp in (0, 1):
        log += [f"w{warp} naps on back/0 bit 0", f"w{warp} rose from back/0"]
    log += ["w1 bumps out/0", *(f"w{warp} naps on back/0 bit 1" for warp in (0, 1))]
    log.insert(0, "out takes 2 of w")
    cause = answer(log)["causes"][0]
    assert cause["code"] == "skipped-arrive"
    assert cause["culprit"] is not None and cause["culprit"]["role"] == "w0"


def test_a_log_without_templates_uses_the_counts_that_it_states() -> None:
    """The first lines state each barrier's arrivals and roles: one of two warps omitted the second."""
    lines = ["mbar out_full slots 1 count 2 from math", "mbar out_empty slots 1 count 1 from store"]
    lines += [f"[math{warp} CTA0] k=0 arrive out_full" for warp in (0, 1)]
    lines += ["[store CTA0] k=0 wait out_full phase=0", "[store CTA0] k=0 wait out_full phase=0 done",
              "[store CTA0] k=0 arrive out_empty", "[store CTA0] k=1 wait out_full phase=1"]  # fmt: skip
    for warp in (0, 1):
        wait = f"[math{warp} CTA0] k=1 wait out_empty phase=0"
        lines += [wait, wait + " done"]
    lines += ["[math1 CTA0] k=1 arrive out_full"]
    lines += [f"[math{warp} CTA0] k=2 wait out_empty phase=1" for warp in (0, 1)]
    found = diagnosis(read_text("\n".join(lines) + "\n"))
    cause = found["causes"][0]
    assert cause["code"] == "skipped-arrive"
    assert cause["culprit"] is not None and cause["culprit"]["role"] == "math0"
    assert found["certainty"] == "likely"
