"""Records of line templates: several in a line, the newest first, objects over several lines."""

import re
from pathlib import Path

from tileproof.conformance.beside.logs.hangs.as_data import Diagnosis
from tileproof.conformance.beside.logs.hangs.template.explain import explained, user_lines
from tileproof.conformance.beside.logs.hangs.text import text

from tests.kit.paths import ROOT

STEPS = ("wait: sleep {barrier} {phase}", "done: up {barrier}", "arrive: ring {barrier}")


def answer(log: str, *templates: str) -> Diagnosis:
    user = user_lines(templates)
    assert user is not None
    return explained(log, "run.log", user)


def waits(found: Diagnosis) -> set[tuple[str, str]]:
    return {(row["actor"]["role"], row["barrier"]) for row in found["blocked"]}


def test_a_line_holds_the_records_of_a_role() -> None:
    log = "load: ring full, sleep free 1\nmma: sleep full 0, up full, sleep done 0\n"
    assert waits(answer(log, "parts: {role}: {parts}", *STEPS)) == {("load", "free"), ("mma", "done")}


def test_the_newest_record_may_stand_first() -> None:
    log = (
        "history, latest on top\nload: sleep free 1 < ring full\nmma: sleep done 0 < up full < sleep full 0\n"
    )
    found = answer(log, "newest: history, latest on top", "parts: {role}: {parts}", *STEPS)
    assert waits(found) == {("load", "free"), ("mma", "done")}


def test_an_object_over_several_lines_is_one_record() -> None:
    log = '[\n {\n  "who": "load",\n  "bar": "full"\n },\n {\n  "who": "mma",\n  "bar": "free"\n }\n]\n'
    found = answer(log, 'wait: {{ "who": "{role}", "bar": "{barrier}" }}{*}', "skip: {*}")
    assert waits(found) == {("load", "full"), ("mma", "free")}


def test_counts_of_a_list_are_the_roles() -> None:
    """`arrived so far` of each role stands beside the counts of the barrier's phase."""
    log = (
        "full lacks 1 of 2; so far epi.0:1 epi.1:0\n"
        "epi0: sleep gate 0\nepi1: sleep gate 0\nmma: sleep full 0\n"
    )
    found = answer(
        log,
        "state: {barrier} lacks {pending} of {count}; so far {(}{role}:{arrived}{)}",
        "parts: {role}: {parts}",
        *STEPS,
    )
    lacks = {row["barrier"]: [each["role"] for each in row["waits_for"]] for row in found["blocked"]}
    assert lacks["full"] == []
    assert {row["role"] for row in found["actors"]} == {"epi0", "epi1", "mma"}


def test_a_value_in_an_optional_part_holds_where_the_part_stands() -> None:
    user = user_lines(("init: {barrier} {count}{[} on all{ctas=2}{]}", *STEPS[:1]))
    assert user is not None
    template = user.templates[0]
    assert template.read("full 2 on all") == [{"barrier": "full", "count": 2, "ctas": 2}]
    assert template.read("full 2") == [{"barrier": "full", "count": 2}]


def fence(name: str) -> str:
    """A block of the documentation."""
    whole = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"```{name} [^\n]*/test_records.py\n(.*?)```", whole, re.DOTALL)
    return str(found)


def test_the_documented_history_is_read_as_documented(tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text(fence("historylines"))
    user = user_lines(file=tmp_path / "rows.txt")
    assert user is not None
    assert text(explained(fence("history"), "rows.log", user), full=False) + "\n" == fence("text")
