"""Line templates: what they read, their errors, and the causes found by the accounts."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from tileproof.conformance.beside.logs.hangs.template.explain import UserLines, explained, user_lines
from tileproof.conformance.beside.logs.hangs.template.pattern import parse
from tileproof.conformance.beside.logs.hangs.template.propose import proposed
from tileproof.conformance.beside.logs.hangs.text import proposal, text
from tileproof.conformance.cli.explain import explain
from tileproof.spec.machine.errors import TileproofError

from tests.kit.paths import ROOT

DOC = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")


def fence(name: str) -> str:
    (found,) = re.findall(rf"```{name}[^\n]*\n(.*?)```", DOC, re.DOTALL)
    return str(found)


def lines(*templates: str, events: tuple[str, ...] = (), roles: tuple[str, ...] = ()) -> UserLines:
    user = user_lines(templates, events=events, roles=roles)
    assert user is not None
    return user


def test_the_documented_example_is_what_is_printed(tmp_path: Path) -> None:
    (tmp_path / "ring.log").write_text(fence("trace"))
    (tmp_path / "lines.txt").write_text(fence("lines"))
    user = user_lines(file=tmp_path / "lines.txt")
    assert user is not None
    answer = explained(fence("trace"), "ring.log", user)
    assert text(answer, full=False) + "\n" == fence("answer")
    assert "\n".join(proposal(proposed(fence("trace")))) + "\n" == fence("proposal")


def test_the_command_proposes_templates_and_takes_them(tmp_path: Path) -> None:
    log = tmp_path / "ring.log"
    log.write_text(fence("trace"))
    bare = CliRunner().invoke(explain, [str(log)])
    assert isinstance(bare.exception, TileproofError)
    assert "--line '?: {?} {?} .{?}'" in bare.output
    given = [item for line in fence("lines").splitlines()[:6] for item in ("--line", line)]
    told = CliRunner().invoke(explain, [str(log), *given, "--role", "loader=L", "--role", "mma=M"])
    assert told.output.startswith("HANG: loader waits on E1")


READ = [
    ("wait: warp {warp} ({role}) on {barrier}[{stage}] phase {parity}", "warp 3 (mma) on full[1] phase 0",
     {"warp": 3, "role": "mma", "barrier": "full", "stage": 1, "phase": 0}),
    ("wait: {role}{[}@{cta}{]} {barrier}{[}[{stage}]{]}", "tma  empty", {"role": "tma", "barrier": "empty"}),
    ("wait: {role}{[}@{cta}{]} {barrier}{[}[{stage}]{]}", "tma@1 empty[2]",
     {"role": "tma", "cta": 1, "barrier": "empty", "stage": 2}),
    ("wait: {id:2x}{phase:1} {*}", "0f1 x", {"id": 15, "phase": 1}),
    ("wait: [{id}] {phase?} end", "[0x10] - end", {"id": 16}),
    ("wait: {{{barrier}}} <{role}>", "{kv full} <the loader>", {"barrier": "kv full", "role": "the loader"}),
    ("{role} waiting for {barrier}", "生产者 waiting for 满", {"role": "生产者", "barrier": "满"}),
]  # fmt: skip


@pytest.mark.parametrize("template, line, values", READ)
def test_a_template_reads(template: str, line: str, values: dict[str, object]) -> None:
    assert parse(template).read(line) == [values]
    assert parse(template).event == "wait"


def test_a_repeated_part_gives_its_values_each() -> None:
    found = parse("arrive: commit {(}{barrier}@{owner}{)} done").read("commit a[0]@0, b@1 done")
    assert found == [{"barrier": "a[0]", "owner": 0}, {"barrier": "b", "owner": 1}]
    assert parse("arrive: commit {(}{barrier}@{owner}{)} done").read("commit done") is None


ERRORS = [
    ("wait: {role} {barier}", "did you mean {barrier}"),
    ("{role} at {barrier}", "without an event"),
    ("?: {role} {barrier}", "is a blank"),
    ("wait: {role} {?} {barrier}", "{?} is a blank"),
    ("wait: {role} {phase}", "without its barrier"),
    ("wait: {role", "written {{ or }}"),
    ("arrive: {(}{barrier}", "{(} and {)}"),
    ("wait: {barrier}{[}[{stage}]", "do not match"),
    ("done: nothing", "without a field"),
]


@pytest.mark.parametrize("template, words", ERRORS)
def test_a_wrong_template_is_an_error_that_says_why(template: str, words: str) -> None:
    with pytest.raises(TileproofError) as error:
        parse(template)
    assert words in str(error.value)


def test_wrong_tables_and_a_log_that_no_template_matches_are_errors() -> None:
    bad: list[tuple[tuple[str, ...], tuple[str, ...]]]
    bad = [(("wait",), ()), (("weit=1",), ()), ((), ("=x",))]
    for events, roles in bad:
        with pytest.raises(TileproofError):
            user_lines(("wait: {event} {role} {barrier}",), events=events, roles=roles)
    with pytest.raises(TileproofError, match="need a line template"):
        user_lines(roles=("a=b",))
    with pytest.raises(TileproofError, match="no line matches"):
        explained("hello\n", "x", lines("wait: {role} at {barrier}"))
    with pytest.raises(TileproofError, match="is unknown"):
        explained("7 mma full\n", "x", lines("{event} {role} {barrier}", events=("wait=1",)))


def test_a_regular_expression_does_the_same() -> None:
    user = user_lines(regexes=(r"wait: (?P<role>\w+)->(?P<barrier>\w+):(?P<parity>[01])",))
    assert user is not None
    found = explained("mma->full:0\n", "x", user)
    assert found["blocked"][0]["copy"] == "full" and found["blocked"][0]["phase"] == 0


# --- a ring of two stages: a loader and an MMA warp, in each CTA of a pair where `pair` says so

TEMPLATES = (
    "init: init {barrier}[{stage}]@{owner} {count}",
    "wait: {role}@{cta} {k} ? {barrier}[{stage}]@{owner} {phase}",
    "done: {role}@{cta} {k} ! {barrier}[{stage}]@{owner}",
    "expect: {role}@{cta} {k} + {barrier}[{stage}]@{owner} {bytes}",
    "copy: {role}@{cta} {k} ~ {barrier}[{stage}]@{owner} {bytes}",
    "arrive: {role}@{cta} {k} > {(}{barrier}[{stage}]@{owner}{)}",
    "end: {role}@{cta} end",
)


def ring(defect: str, rounds: int = 6) -> str:
    """A log of a pair whose CTA 0 issues the MMAs of both; the loaders arrive on CTA 0's barrier."""
    out = [f"init full[{s}]@0 {3 if defect == 'count' else 2}" for s in (0, 1)]
    out += [f"init empty[{s}]@{c} 1" for s in (0, 1) for c in (0, 1)]
    full = {0: 0, 1: 0}  # arrivals on full[s]
    empty = {(s, c): 0 for s in (0, 1) for c in (0, 1)}
    at = {"load@0": 0, "load@1": 0, "mma@0": 0}
    waiting: dict[str, bool] = dict.fromkeys(at, False)
    stopped: set[str] = set()
    bytes_left = {0: 0, 1: 0}
    moved = True
    while moved:
        moved = False
        for who in at:
            k, cta, role = at[who], int(who[-1]), who[:-2]
            stage, turn = k % 2, k // 2
            if who in stopped:
                continue
            last = 2 if defect == "exit" and who == "load@1" else rounds
            if k == last:
                out.append(f"{who} end")
                stopped.add(who)
                continue
            bar = f"empty[{stage}]@{cta}" if role == "load" else f"full[{stage}]@0"
            phase = (turn + 1) % 2 if role == "load" else turn % 2
            wrong = defect == "parity" and who == "load@1" and k == 3
            if wrong:
                phase = 1 - phase
            if not waiting[who]:
                out.append(f"{who} {k} ? {bar} {phase}")
                waiting[who] = moved = True
            if role == "load":
                done = turn == 0 or empty[stage, cta] >= turn
                if wrong:
                    done = False
            else:
                need = 3 if defect == "count" else 2
                done = full[stage] >= need * (turn + 1) and not bytes_left[stage]
            if not done:
                continue
            out.append(f"{who} {k} ! {bar}")
            waiting[who], moved = False, True
            at[who] += 1
            if role == "load":
                place = 1 - stage if defect == "stage" and who == "load@1" and k == 3 else stage
                if not (defect == "skip" and who == "load@1" and k == 3):
                    full[place] += 1
                    out.append(f"{who} {k} + full[{place}]@0 256")
                    size = 128 if defect == "bytes" and who == "load@1" and k == 3 else 256
                    bytes_left[place] += 256 - size
                    out.append(f"{who} {k} ~ full[{place}]@0 {size}")
                continue
            ctas = [0] if defect == "multicast" and k == 1 else [0, 1]
            for each in ctas:
                empty[stage, each] += 1
            out.append(f"{who} {k} > " + ", ".join(f"empty[{stage}]@{rank}" for rank in ctas))
    return "\n".join(out) + "\n"


DEFECTS = [
    ("skip", {"skipped-arrive"}, "full", "load"),
    ("stage", {"wrong-stage"}, "full", "load"),
    ("parity", {"wrong-parity"}, "empty", "load"),
    ("count", {"too-few-arrivals"}, "full", ""),
    ("bytes", {"bytes-missing"}, "full", "load"),
    ("exit", {"k-count"}, "full", "load"),
    ("multicast", {"one-cta"}, "empty", "mma"),
]


@pytest.mark.parametrize("defect, codes, barrier, culprit", DEFECTS)
def test_a_planted_defect_of_a_ring_is_named(
    defect: str, codes: set[str], barrier: str, culprit: str
) -> None:
    found = explained(ring(defect), defect, lines(*TEMPLATES))
    cause = found["causes"][0]
    assert cause["code"] in codes, [(each["code"], each["what"]) for each in found["causes"]]
    assert found["root"] is not None and found["root"]["barrier"] == barrier
    assert (cause["culprit"] or {"role": ""})["role"] == culprit
    assert found["read"]["not_understood"] == 0


def test_a_ring_without_a_defect_has_no_hang() -> None:
    found = explained(ring(""), "right", lines(*TEMPLATES))
    assert found["outcome"] == "no hang seen" and not found["causes"]


def test_an_unread_line_about_a_barrier_makes_an_answer_uncertain() -> None:
    log = ring("bytes")
    assert explained(log, "x", lines(*TEMPLATES))["certainty"] == "certain"
    found = explained(log + "load@1 resets full[1]\n", "x", lines(*TEMPLATES))
    assert found["certainty"] == "likely" and "match no template" in " ".join(found["why"])


# ---- init lines that state who arrives

STATED = (
    "init: {barrier} of {*} stages: {count} from {role}",
    "wait: {role}@{cta} waits {barrier}[{stage}] {phase} k={k}",
    "done: {role}@{cta} passed {barrier}[{stage}] {phase}",
    "arrive: {role}@{cta} arrives {barrier}[{stage}] at {(}{owner}{[},{]}{)}",
)
ASTRAY = """\
full of 1 stages: 1 from "load"
empty of 1 stages: 1 from mma
done of 1 stages: 1 from mma
out of 1 stages: 1 from store + load
load@0 waits empty[0] 1 k=0
load@0 passed empty[0] 1
load@0 arrives full[0] at 0
mma@0 waits full[0] 0 k=0
mma@0 passed full[0] 0
mma@0 arrives done[0] at 0
store@0 waits done[0] 0 k=0
store@0 passed done[0] 0
store@0 arrives {to}[0] at 0
mma@0 waits out[0] 0 k=0
store@0 waits done[0] 1 k=1
"""
OWN_CTA = """\
free of 2 stages: 2 from mma
load@0 waits free[0] 0 k=1
load@1 waits free[0] 0 k=1
mma@0 arrives free[0] at {0}
mma@1 arrives free[0] at {1}
"""


def first_cause(log: str, templates: tuple[str, ...]) -> tuple[str, str, str]:
    found = explained(log, "run.log", lines(*templates))
    root = found["root"]
    assert root is not None
    return found["causes"][0]["code"], root["barrier"], found["certainty"]


def test_an_arrival_where_another_role_should_arrive() -> None:
    assert first_cause(ASTRAY.format(to="full"), STATED)[:2] == ("wrong-barrier", "out")
    found = explained(ASTRAY.format(to="full"), "run.log", lines(*STATED))
    assert "on which load should arrive" in found["causes"][0]["what"]


def test_a_phase_that_needs_the_arrivals_of_both_ctas() -> None:
    """The count stands once for all stages; without the role it may as well be the count that is wrong."""
    assert first_cause(OWN_CTA.format("0", "1"), STATED) == ("one-cta", "free", "likely")
    unstated = ("init: {barrier} of {*} stages: {count} from {*}", *STATED[1:])
    assert first_cause(OWN_CTA.format("0", "1"), unstated)[0] == "too-few-arrivals"
    both = explained(OWN_CTA.format("0,1", "0,1"), "run.log", lines(*STATED))
    assert both["outcome"] != "hang" or both["causes"][0]["code"] != "one-cta"
