"""What actors owe a barrier: stated senders, copies of another actor, and an arrival made elsewhere."""

import pytest
from tileproof.conformance.beside.logs.hangs.as_data import Diagnosis
from tileproof.conformance.beside.logs.hangs.template.explain import explained, user_lines
from tileproof.spec.machine.errors import TileproofError

PAIR = ("init: {barrier} takes {count}: {(}{role}@{cta}->c{owner}{)}; all",
        "init: {barrier} takes {count} of {role}",
        "wait: {role}@{cta} naps on {barrier}/{stage} bit {phase}",
        "done: {role}@{cta} rose from {barrier}/{stage}",
        "expect: {role}@{cta} tells {barrier}/{stage} {bytes} at c{(}{owner}{)}",
        "copy: {role}@{cta} sends {barrier}/{stage} {bytes} at c{(}{owner}{)}",
        "arrive: {role}@{cta} bumps {barrier}/{stage} at c{(}{owner}{)}  {*}", "end: {role}@{cta} leaves",
        "tail: {role}@{cta} lost {lost}")  # fmt: skip


def answer(log: list[str], *more: str) -> Diagnosis:
    user = user_lines((*more, *PAIR))
    assert user is not None
    return explained("\n".join(log), "run.log", user)


def first(log: list[str]) -> tuple[str, str]:
    found = answer(log)
    assert found["root"] is not None
    return found["causes"][0]["code"], found["root"]["copy"]


def owing(found: Diagnosis) -> dict[str, list[tuple[str, int | None]]]:
    return {
        row["copy"]: [(each["role"], each["cta"]) for each in row["waits_for"]] for row in found["blocked"]
    }


@pytest.mark.parametrize("count, code", [(2, "too-few-arrivals"), (1, "skipped-arrive")])
def test_senders_of_their_own_cta_do_not_miss_the_other(count: int, code: str) -> None:
    """Each mma arrives in its own CTA, as the log states it: a count of two is wrong, no multicast is."""
    log = [f"s takes {count}: mma@0->c0, mma@1->c1; all"]
    for cta in (0, 1):
        log += [f"wg@{cta} naps on s/0 bit 0", f"mma@{cta} naps on p/0 bit 0"]
        log += [f"mma@{cta} bumps s/0 at c{cta}  k0"] * (count == 2 or cta == 1)
    found = answer(log)
    assert found["causes"][0]["code"] != "one-cta"
    if count == 2:
        assert found["causes"][0]["code"] == code
    else:
        assert owing(found)["s[0] in CTA 0"] == [("mma", 0)]


def test_a_stated_destination_in_two_ctas_is_owed_in_both() -> None:
    log = ["s takes 2: mma@0->c0+c1, mma@1->c0+c1; all", "wg@0 naps on s/0 bit 0", "wg@1 naps on s/0 bit 0",
           "mma@0 bumps s/0 at c0,1  k0", "mma@1 naps on p/0 bit 0"]  # fmt: skip
    found = owing(answer(log))
    assert found["s[0] in CTA 0"] == found["s[0] in CTA 1"] == [("mma", 1)]


def test_a_stated_sender_may_wait_on_the_barrier_in_its_own_cta() -> None:
    """They exchange over x: the arrival that red@1 makes in CTA 0 is not astray."""
    log = ["x takes 1: red@0->c1, red@1->c0; all", "red@1 bumps x/0 at c0  k0", "red@0 naps on x/0 bit 0",
           "red@0 rose from x/0", "red@1 naps on x/0 bit 0", "red@0 leaves"]  # fmt: skip
    assert first(log)[0] in ("k-count", "skipped-arrive", "never-arrived")


def copies(upto: int, tells: int = 8) -> list[str]:
    """Each loader copies 4 bytes to both CTAs in each round, and tells 8; loader 0 does `upto` rounds."""
    log = [f"full takes 1: load@{c}->c{c}; all" for c in (0, 1)]
    for k in range(3):
        for cta in (0, 1):
            if cta == 0 and k >= upto:
                continue
            log += [f"load@{cta} naps on free/0 bit {1 - k % 2}", f"load@{cta} rose from free/0"]
            log += [f"load@{cta} tells full/0 {tells if k == 2 else 8} at c{cta}"]
            log += [f"load@{cta} sends full/0 4 at c0,1"]
        if k < min(upto, 2):
            for cta in (0, 1):
                log += [f"mma@{cta} naps on full/0 bit {k % 2}", f"mma@{cta} rose from full/0"]
                log += [f"mma@{cta} bumps free/0 at c{0 if (k, cta) == (upto - 1, 0) else '0,1'}  k"]
    log += [f"mma@{cta} naps on full/0 bit {min(upto, 2) % 2}" for cta in (0, 1)]
    return log


def test_copies_of_a_blocked_actor_are_a_dependency() -> None:
    """Loader 0 waits for a free buffer: CTA 1 lacks its bytes, and CTA 0 has bytes ahead of its arrival."""
    log = [*copies(1), "load@0 naps on free/0 bit 0"]
    assert all(cause["code"] != "bytes-missing" for cause in answer(log)["causes"])


def test_copies_that_all_came_show_wrong_bytes() -> None:
    log = copies(3, tells=12)
    assert first(log)[0] == "bytes-missing"


def test_a_copier_that_ended_early_is_named() -> None:
    found = answer([*copies(1), "load@0 leaves"])
    assert found["causes"][0]["code"] == "k-count"
    culprit = found["causes"][0]["culprit"]
    assert culprit is not None and (culprit["role"], culprit["cta"]) == ("load", 0)


ONE = ("init: {barrier} takes {count} of {role}", "wait: {role} naps on {barrier}/{stage} bit {phase}",
       "done: {role} rose from {barrier}/{stage}", "arrive: {role} bumps {barrier}/{stage}",
       "end: {role} leaves", "state: {barrier}/{stage} did {completed} lacks {pending}",
       "name: r{roleid} is {role}@{cta}", "actor: r{roleid}:")  # fmt: skip


def of_one(log: list[str]) -> Diagnosis:
    user = user_lines(ONE)
    assert user is not None
    return explained("\n".join(log), "run.log", user)


@pytest.mark.parametrize("both, code", [(True, "cycle"), (False, "skipped-arrive")])
def test_roles_that_differ_in_a_number_are_one_program(both: bool, code: str) -> None:
    """None of two numbered roles released the buffer: they wait too early. One did: the other left it out."""
    log = ["free takes 2 of math0, math1", "full takes 1 of load", "load naps on free/0 bit 1",
           "load rose from free/0", "load bumps full/0", "load naps on free/0 bit 0"]  # fmt: skip
    for role in ("math0", "math1"):
        log += [f"{role} naps on full/0 bit 0", f"{role} rose from full/0"]
        log += ["math0 bumps free/0"] * (role == "math0" and not both) + [f"{role} naps on full/0 bit 1"]
    assert of_one(log)["causes"][0]["code"] == code


@pytest.mark.parametrize("odd, code", [("full/1", "wrong-barrier"), ("", "skipped-arrive")])
def test_an_odd_arrival_in_the_gap_took_the_place_of_the_missing_one(odd: str, code: str) -> None:
    log = ["free takes 1 of mma", "full takes 1 of load"]
    for k in range(4):
        log += [f"load naps on free/{k % 2} bit {1 - k // 2}", f"load rose from free/{k % 2}"]
        log += [f"load bumps full/{k % 2}", f"mma naps on full/{k % 2} bit {k // 2}"]
        log += [f"mma rose from full/{k % 2}"]
        log += [f"mma bumps free/{k % 2}"] if k != 1 else [f"mma bumps {odd}"] * bool(odd)
        if k == 2:
            break
    log += ["load naps on free/1 bit 0", "mma naps on full/1 bit 1"]
    assert of_one(log)["causes"][0]["code"] == code


def test_an_arrival_made_twice_stands_for_the_one_behind_it() -> None:
    log = ["free takes 1 of mma", "done takes 1 of mma", "full takes 1 of load"]
    for tile in range(3):
        log += [f"load bumps full/{tile % 2}", f"mma naps on full/{tile % 2} bit {tile // 2}"]
        log += [f"mma rose from full/{tile % 2}", f"mma bumps free/{tile % 2}"]
        log += ["mma bumps free/1" if tile == 2 else "mma bumps done/0"]
        log += [f"store naps on done/0 bit {tile % 2}"] + ["store rose from done/0"] * (tile < 2)
    found = of_one([*log, "mma leaves"])
    assert found["causes"][0]["code"] == "wrong-barrier" and found["certainty"] == "likely"


@pytest.mark.parametrize("came, code", [(True, "wrong-parity"), (False, "never-arrived")])
def test_a_first_wait_that_stands_needs_its_arrival(came: bool, code: str) -> None:
    """A wait for bit 1 that needs no arrival would end at once, unless one came."""
    log = ["probs takes 1 of mma"] + ["mma bumps probs/0"] * came + ["wg naps on probs/0 bit 1",
           "mma naps on gate/0 bit 0"]  # fmt: skip
    assert (of_one(log)["causes"][0]["code"] == "wrong-parity") == (code == "wrong-parity")


@pytest.mark.parametrize("bit, wrong", [(1, False), (0, True)])
def test_a_dumps_phase_follows_the_wait_on_the_stage_before(bit: int, wrong: bool) -> None:
    log = ["empty takes 1 of mma", "load naps on empty/0 bit 1", "load rose from empty/0",
           "load naps on empty/1 bit 1", "load rose from empty/1", f"load naps on empty/2 bit {bit}",
           "mma naps on full/2 bit 0", "empty/0 did 0 lacks 1", "empty/1 did 0 lacks 1",
           "empty/2 did 0 lacks 1"]  # fmt: skip
    user = user_lines((*ONE, "state: {role} counts {passed} on {barrier}/{stage}"))
    assert user is not None
    found = explained("\n".join([*log, "mma counts 0 on full/2"]), "run.log", user)
    assert (found["causes"][0]["code"] == "wrong-parity") == wrong


def test_a_short_name_may_be_of_a_role_in_one_cta() -> None:
    log = ["r4 is load@1", "r5 is load@0", "r4:", "naps on full/0 bit 0"]
    user = user_lines((*ONE[6:], "wait: naps on {barrier}/{stage} bit {phase}"))
    assert user is not None
    row = explained("\n".join(log), "run.log", user)["blocked"][0]
    assert (row["actor"]["role"], row["actor"]["cta"]) == ("load", 1)


def test_a_repeat_in_an_optional_part_is_refused_with_its_reason() -> None:
    with pytest.raises(TileproofError, match=r"does not stand in"):
        user_lines(("arrive: {role} bumps {barrier}{[} at {(}{owner}{)}{]}",))
