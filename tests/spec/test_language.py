"""Plain technical English: the glossary holds, and the worst phrases and pronouns stay out."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.kit.paths import ROOT
from tests.kit.python_text import of_kind
from tests.spec.test_house import TRACKED

GLOSSARY = ROOT / "docs/glossary.md"
CODE = (".py", ".cpp", ".hpp", ".cu", ".cuh")
HERE = "tests/spec/test_language.py"

# ---- the glossary

TYPE = re.compile(r"`(\w+)` in `([\w/]+)/`")


def rows(text: str) -> list[tuple[str, str, str, str]]:
    """(term, meaning, not, in code) of every row of the glossary's tables."""
    lines = (line.strip("|").split("|") for line in text.splitlines() if line.startswith("| "))
    cells = [tuple(cell.strip() for cell in line) for line in lines]
    return [(a, b, c, d) for a, b, c, d in cells if a != "term"]


def missing_types(text: str) -> list[str]:
    """The classes that the glossary names and that their folder does not define."""
    wanted = [pair for row in rows(text) for pair in TYPE.findall(row[3])]
    defined = {folder: set[str]() for _, folder in wanted}
    for name in TRACKED:
        for folder in defined:
            if name.endswith(".py") and name.startswith(f"{folder}/"):
                tree = ast.parse((ROOT / name).read_text())
                defined[folder] |= {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    return [name for name, folder in wanted if name not in defined[folder]]


def test_the_glossary_is_linked_and_its_types_exist() -> None:
    text = GLOSSARY.read_text()
    assert "docs/glossary.md" in (ROOT / "README.md").read_text()
    assert len(TYPE.findall(text)) > 20 and not missing_types(text)


def test_a_term_stands_once_and_every_row_has_its_columns() -> None:
    table = rows(GLOSSARY.read_text())
    assert len(table) > 40
    assert [term for term, count in Counter(term for term, *_ in table).items() if count > 1] == []
    assert all(meaning.endswith(".") for _, meaning, _, _ in table)
    assert all(not code or TYPE.fullmatch(code) for *_, code in table)


def test_a_type_that_is_gone_is_seen() -> None:
    assert missing_types("| kernel | A function. | | `Subject` in `kernels/` |") == ["Subject"]


# ---- phrases

# Each with what to write instead. Applied to strings, comments, docstrings and pages.
PHRASES = {
    r"tells? nobody|told nobody": "has no observable effect; publishes nothing",
    r"is no extent": "has an invalid extent",
    r"\b(?:has|have) not(?:[,;:\"']|\.(?:\W|$))": "lacks; has none",
    r"\b(?:is|are) dear\b|\bdearer\b|\bdear to\b": "expensive",
    r"\bgoes? on to\b": "continues with; is passed to",
    r"\bwhat there is\b": "name it",
    r"\bas it comes\b": "unchecked; as each result arrives",
    r"\bof which nobody\b": "that no ... observes",
    r"which the kernel has not": "the kernel has none",
    r"\bbefore its time\b": "early",
    r"\bfor want of\b": "for lack of; without",
    r"\b[Ww]hoever\b": "the author; a process that; anyone who",
    r"\bone's own\b": "your own; name the owner",
    r"\bown affair\b": "who decides it; is ignored",
    r"\bin whatever order\b": "in any order",
    r"\bsays nothing (?:of|about)\b": "does not define; does not order",
    r"\b(?:is|are) no (?:JSON|PTX|integer|text|tensor|dict|list)\b": "is not a",
}
# The same, applied to pages only.
PAGE_PHRASES = {
    r"\b[Ss]omebody\b": "name the role",
    r"\b[Ss]trangers?\b": "untrusted; others",
    r"\b[Bb]elieves?\b": "validates; assumes",
    r"\b(?:tool|check|emulator|engine|judge|gate|report|model) (?:tells|says|knows|learns)\b": (
        "reports; prints; records; detects"
    ),
    r"\bWhat it knows\b": "name what the section lists",
    r"\b(?:findings?|remark|verdict|answer|certificate|sentryward) (?:says?|tells?|knows|is told)\b": (
        "reports; lists; supports"
    ),
    r"\bexit code is that of\b": "determines the exit code",
    r"\b[Nn]othing of (?:it|them) (?:is|was)\b": "it is not",
}
# Identifiers, each with the name that took its place.
NAMES = {
    "TELLING_S": "REPORT_SECONDS",
    "Kept": "StageValue",
    "_told_elsewhere": "_cause_from_other_tiles",
    "_taken_as_written": "_assume_all_written",
    "less_times": "without_timestamps",
    "_all_right": "_all_within_bounds",
    "lying": "storage",
    "heeded": "unused_waits",
    "unheeded": "unused_waits",
    "left_out": "skipped; not_judged",
    "MOST": "MAX_ and what it counts",
    "LEAST": "MIN_ and what it counts",
    "Mutant": "PlantedDefect, for a defect that is written by hand",
}


def prose(name: str, text: str) -> str:
    """What people read of a file: all of a page; comments and strings of Python; comments of C++."""
    if name.endswith(".md"):
        return text
    if not name.endswith(".py"):
        return "\n".join(re.findall(r"//[^\n]*", text))
    return "\n".join(of_kind(text, "comment", "string"))


def phrases(said: str, page: bool = False) -> list[str]:
    """The phrases to replace in a text, each with its replacement; `page`: also those of pages."""
    flat = re.sub(r"\s+(?:#|//)?\s*", " ", said)
    return [
        f"{found[0]!r}: {instead}"
        for pattern, instead in (PHRASES | (PAGE_PHRASES if page else {})).items()
        for found in re.finditer(pattern, flat)
    ]


def read() -> list[tuple[str, str]]:
    """(name, text) of every page and source, without stored evidence and without this file."""
    return [
        (name, (ROOT / name).read_text(encoding="utf-8"))
        for name in TRACKED
        if name.endswith((*CODE, ".md")) and not name.startswith("docs/evidence/") and name != HERE
    ]


def test_no_text_has_a_phrase_to_replace() -> None:
    found = {
        name: hits
        for name, text in read()
        if (hits := phrases(prose(name, text), name.endswith(".md") and name != "docs/glossary.md"))
    }
    assert not found


def test_no_name_is_one_of_the_old() -> None:
    for name, text in read():
        if name.endswith(".py"):
            assert not set(re.findall(r"\w+", text)) & set(NAMES) - {"lying", "Kept"}, name
            assert Path(name).stem not in NAMES, name


@pytest.mark.parametrize(
    "said",
    [
        "the launch file is no JSON", "the grid is no extent", "a wait that tells nobody\n    # anything",
        "the probe build, which the kernel has not", "what is known is dear to find", "ends before its time",
        "tokens that it has not.", "goes on to `Module.launch`",
        "Whoever writes the file chooses.", "a kernel of one's own", "that is the kernel's own affair",
        "in whatever order they come", "the use says nothing of the read", "the module is no PTX text",
    ],
)  # fmt: skip
def test_a_bad_sentence_is_seen(said: str) -> None:
    assert phrases(prose("x.py", f"'''{said}'''"))
    assert phrases(prose("x.cpp", f"int x;  // {said}".replace("\n    #", "\n  //")))


@pytest.mark.parametrize(
    "said",
    [
        "the emulator knows the order",
        "## What it knows", "the certificate says `sums`", "nothing of it is compiled",
        "the exit code is that of the worst verdict",
    ],
)  # fmt: skip
def test_a_bad_sentence_of_a_page_is_seen(said: str) -> None:
    assert phrases(said, page=True)


def test_a_plain_sentence_passes() -> None:
    assert not phrases("The launch file is not valid JSON: line 3. It has not been read. Dear is a word.")


# ---- "one" in the place of a noun

PRONOUN = re.compile(
    r"\bones\b|(?<!off by )(?<!::)\bone\b(?=[.,;:)\"'`]|\s+(?:that|which|whose|who|is|are|was|were|has|may"
    r"|must|does|in|on|at|with|for|from|to|as|and|where|after|before)\b)",
    re.IGNORECASE,
)
# How often prose says "one" for a noun, by folder. It only shrinks. No name of a source is `one` or `ones`.
PROSE = {
    "": 1,
    "benchmarks": 6,
    "conformance": 81,
    "docs": 45,
    "emulator": 86,
    "kernels": 37,
    "package": 0,
    "reference": 2,
    "spec": 14,
    "tests": 142,
    "tools": 12,
}


def called_one(text: str) -> int:
    """How many names of a Python source are `one` or `ones`; the arrays of 1 of numpy and torch are not."""
    own = re.sub(r"\b(?:np|torch)\.ones\b", "", text)
    return sum(piece in ("one", "ones") for piece in of_kind(own, "name"))


def folder(name: str) -> str:
    """The folder at the top that a file counts for; "" for pages at the top."""
    return name.split("/")[0] if "/" in name else ""


def counted() -> tuple[Counter[str], Counter[str]]:
    """How often prose says "one" for a noun, and how many names are `one`, by folder."""
    said, called = Counter[str](), Counter[str]()
    for name, text in read():
        said[folder(name)] += len(PRONOUN.findall(prose(name, text)))
        if name.endswith(".py"):
            called[folder(name)] += called_one(text)
    return said, called


def test_one_stands_for_a_noun_less_and_less() -> None:
    said, called = counted()
    assert {where: n for where, n in said.items() if n > PROSE.get(where, 0)} == {}
    assert +called == Counter()


def test_one_for_a_noun_is_seen() -> None:
    assert len(PRONOUN.findall("the right one, and each one; other ones. The one that is read.")) == 4
    assert not PRONOUN.findall("one cluster of one CTA, one by one warp, one of two")


def test_a_name_that_is_one_is_seen() -> None:
    assert called_one("def f(one): return [one.x for one in ones]") == 4
    assert called_one("one_token = np.ones(3)  # one of\nsay('one')") == 0
