"""Words: general rooms name no kernel, a class name stands for one thing, what is cited exists."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tileproof.conformance.cli.app import main
from tileproof.kernels.registry import kernels
from tileproof.spec.machine.pages import unwrapped

from tests.kit.paths import ROOT
from tests.kit.python_text import of_kind

TRACKED = [
    name
    for name in subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    if (ROOT / name).is_file()
]

# ---- names of kernels, problems and stages, and their widths, in rooms that are for all of them

GENERAL = ("conformance/", "emulator/", "kernels/")
NAMES = re.compile(
    r"head128|head64|part0|sparse_mla_bwd|\bd_qk\b|\b(?:512|576)\b|\b(?:dKV|dQ|dP|dS)\b|[\"']P[\"']"
)
_HOST = "a variant's example in words, and the width as the name of one of its sizes"
# Files and folders that still name them, and why. The list only shrinks.
STANDING = {
    "conformance/cli/variants.py": "the option --d-qk, short for a size that the first kernels have",
    "kernels/edit.py": _HOST,
    "kernels/kernel.py": _HOST,
    "kernels/tutorials.py": "the tutorials' sizes, whose tile is 512 wide",
    "kernels/variant.py": _HOST,
}


def standing(name: str) -> bool:
    """Whether the list names this file or its folder."""
    return name in STANDING or f"{name.rpartition('/')[0]}/" in STANDING


def named(text: str) -> list[str]:
    """The names of kernels, problems, stages and widths in a text."""
    return NAMES.findall(text)


def general() -> Iterator[str]:
    """The Python files that must serve any kernel: mutants and the corpus are about single ones."""
    for name in TRACKED:
        own = name.startswith(
            ("conformance/planted/", "conformance/beside/corpus/", "kernels/sm", "kernels/host/")
        )
        machine = name.startswith("emulator/")  # 512 columns of tensor memory, 512 bytes
        if name.startswith(GENERAL) and name.endswith(".py") and not own and not machine:
            yield name


def test_no_general_room_names_a_kernel() -> None:
    found = {name for name in general() if named((ROOT / name).read_text())}
    new = {name for name in found if not standing(name)}
    assert not new, "a general room names a kernel, a problem, a stage or a width"


def test_the_emulator_names_no_kernel() -> None:
    for name in TRACKED:
        if name.startswith("emulator/") and name.endswith((".py", ".cpp", ".hpp")):
            assert not re.search(r"head128|head64|part0|sparse_mla|\bd_qk\b", (ROOT / name).read_text()), name


def test_what_still_names_one_says_why() -> None:
    assert all(why for why in STANDING.values())
    assert not standing("conformance/report/terminal.py") and not standing("conformance/compare/new.py")
    assert standing("conformance/cli/variants.py")


def test_a_name_in_a_general_room_is_seen() -> None:
    for text in ("if name == 'head64':", "range(0, 576)", 'STAGES["dS"]', 'stage == "P"', "inputs.d_qk"):
        assert named(text), text
    assert not named("lanes 128, 5120 bytes, 128 rows")


# ---- the files at the top

TOP = re.compile(
    r"CITATION\.cff|\.[\w-]+|\.pre-commit-config\.yaml|[A-Z]+(\.md)?|Makefile|CMakeLists\.txt|setup\.py|pyproject\.toml"
    r"|constraints\.txt|requirements(-\w+)?\.txt"
)


def test_no_output_of_a_command_lies_at_the_top() -> None:
    kept = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [name for name in kept.splitlines() if "/" not in name and not TOP.fullmatch(name)] == []
    assert not any(map(TOP.fullmatch, ("trace.json", "explore-2.schedule", "kernel.ptx", "layout.svg")))


# ---- class names

FOLDERS = ("spec/", "reference/", "kernels/", "emulator/", "conformance/", "ops/", "tools/")

# Names that two public classes still have, and what the two are. The list only shrinks.
SHARED = {
    "Launch": "the launch description; a launch as the emulator's judge of schedules calls it",
    "Finding": "the emulator's; the judge's; what a mutant must be found by",
    "Cause": "the emulator's grouping of findings alone, beside build and hang logs' own names",
    "Graph": "the emulator's of waits; the spec's of stages",
    "Sizes": "of a synchronisation mutant's case; of a kernel's mutant",
    "Outcome": "of a synchronisation mutant; of a launch, to the emulator's judge",
    "Buffer": "of a launch description; of the emulator",
    "Place": "of an edit; of a tile",
    "Row": "of the synchronisation catalogue; of the instruction table",
    "Inputs": "of each problem: chosen by the problem's folder",
}


def classes(text: str) -> list[str]:
    """The public classes at the top of a module."""
    return [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]


def test_no_class_name_stands_for_two_things() -> None:
    where: dict[str, list[str]] = defaultdict(list)
    for name in TRACKED:
        if name.endswith(".py") and name.startswith(
            ("spec/", "reference/", "kernels/", "emulator/", "conformance/", "ops/", "tools/")
        ):
            for defined in classes((ROOT / name).read_text()):
                if not defined.startswith("_"):
                    where[defined].append(name)
    twice = {defined: files for defined, files in where.items() if len(files) > 1}
    assert not {defined: files for defined, files in twice.items() if defined not in SHARED}


def test_a_class_is_seen() -> None:
    assert classes("class Run: ...\ndef f():\n    class Inner: ...") == ["Run"]


# ---- vague names

# Each by the field's word that took its place.
VAGUE = {
    "orders": "synchronisation (planted), enumerations, schedules: what is ordered",
    "prove": "crosscheck",
    "Trial": "Run: a case and a schedule",
    "trial": "run",
    "trials": "runs",
    "subject": "under_test, the kernel under test; gated, in the gate",
    "observed": "run_result, beside Observation",
    "suspect": "fault, of a fault hypothesis",
    "suspects": "faults",
    "Suspect": "FaultHypothesis",
    "honest": "unplanted, within_bound: what it is that is right",
}
VAGUE_FILES = {*VAGUE, "captures"}  # one word for modules: capture; several `Capture` are captures


def identifiers(text: str) -> set[str]:
    """The names that a module binds, uses or imports, without leading underscores. A test's is a sentence."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            found |= {node.name} if not node.name.startswith("test_") else set()
        elif isinstance(node, ast.arg | ast.keyword):
            found.add(node.arg or "")
        elif isinstance(node, ast.alias):
            found |= {*node.name.split("."), node.asname or ""}
    return {name.lstrip("_") for name in found}


def vague(text: str) -> set[str]:
    """The vague names of a module, also as a part of a name: `edge_trials`, `subject_of`."""
    return {part for name in identifiers(text) for part in (name, *name.split("_")) if part in VAGUE}


def test_no_name_is_vague() -> None:
    for name in TRACKED:
        if name.endswith(".py"):
            assert not vague((ROOT / name).read_text()), name
        assert not set(Path(name).parts[:-1]) & VAGUE_FILES and Path(name).stem not in VAGUE_FILES, name


def test_no_command_is_vague() -> None:
    assert len(main.commands) > 10
    assert not {part for name in main.commands for part in name.split("-")} & VAGUE_FILES


def test_a_vague_name_is_seen() -> None:
    for text in (
        "def orders(): ...", "import a.orders", "from a import captures as trials", "for _ in trials: ...",
        "subject.plan()", "run(honest=True)", "def f(observed): ...", "class Trial: ...", "self.suspects = 1",
        "edge_trials = ()", "_subject = None",
    ):  # fmt: skip
        assert vague(text), text
    assert not vague("def reordered(captures): return proved, observation, 'orders'")


# ---- what is cited

PATH = re.compile(
    r"(?<![\w/.<>{}*$@:-])((?:[\w-]+/)+[\w-]+(?:\.[\w-]+)*\.(?:py|pyi|md|cpp|hpp|cu|cuh|toml|json|txt|svg|xz|h))\b"
)
FOLDER = re.compile(
    r"(?<![\w/.<>{}*$@:-])((?:spec|reference|kernels|emulator|conformance|tests|tools|docs|facts)/[\w/]*\w)(?![\w.*{<-])"
)
# What is cited of others: CuTe's, CUTLASS's, CUDA's and sentryward's files, and what the build generates.
OTHERS = re.compile(
    r"cute/|cutlass/|cu13/|\d\d_blackwell|slots/|build/|path/to/|recorded/|benchmark/dsa/|docs/(?:input|output)-json|torch/|tools/util/include|.*FAMILY"
)
ENDS = {"/".join(name.split("/")[first:]) for name in TRACKED for first in range(name.count("/") + 1)}


@cache
def prose(name: str, text: str) -> str:
    """What a file says to a reader: all of a page, the comments and docstrings of code."""
    if name.endswith(".md"):
        return text
    if name.endswith((".cpp", ".hpp", ".cu", ".cuh")):
        return "\n".join(re.findall(r"//[^\n]*", text))
    said = of_kind(text, "comment")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            said.append(ast.get_docstring(node, clean=False) or "")
    return "\n".join(said)


def lost(name: str, said: str) -> list[str]:
    """The paths that a text cites and that are not in the repository."""
    out = []
    for path in {*PATH.findall(said), *FOLDER.findall(said)}:
        here = ROOT / Path(name).parent / path
        known = path in ENDS or here.exists() or (ROOT / path).exists()
        module = any((ROOT / f"{path}{end}").exists() for end in (".py", ".cpp", ".hpp"))
        if not known and not module and not OTHERS.match(path):
            out.append(path)
    return out


def test_every_path_that_is_cited_exists() -> None:
    for name in TRACKED:
        if name.endswith((".py", ".md", ".cpp", ".hpp", ".cu", ".cuh")) and not name.startswith(
            "tests/kit/wrong/"
        ):
            assert not lost(name, prose(name, (ROOT / name).read_text())), name


def test_a_path_that_is_not_there_is_seen() -> None:
    assert lost("docs/x.md", "see `facts/sm100.md`") and lost("docs/x.md", "`tests/orders` plants")
    assert lost("a.py", prose("a.py", "# the rules of docs/nowhere.md\n"))
    assert not lost("docs/x.md", "`tests/spec/test_house.py` and [a page](races.md) and kernels/sm100")


BARRIER = re.compile(r"\b[a-z][a-z0-9_]*_(?:ready|free)\b")


def barriers() -> set[str]:
    """Every barrier of every variant's plan, in this repository."""
    return {
        barrier.name
        for target in kernels().values()
        for variant in target.variants
        for barrier in target.plan(variant).barriers
    }


def test_every_barrier_that_is_cited_exists() -> None:
    known = barriers()
    assert known
    for name in TRACKED:
        if name.startswith(("kernels/sm", "spec/plans/")) and name.endswith((".cu", ".cuh", ".py")):
            said = prose(name, (ROOT / name).read_text())
            assert not set(BARRIER.findall(said)) - known, name


def test_a_barrier_that_no_plan_has_is_seen() -> None:
    assert set(BARRIER.findall("// -> dkv_ready, then s_gone_free")) - barriers() == {"s_gone_free"}


# ---- lines

LONG = 110


def too_long(text: str) -> list[int]:
    """The numbers of the lines that are longer than code may be."""
    return [number for number, line in enumerate(text.splitlines(), 1) if len(line) > LONG]


# One product, verdict or description per line; descriptions of a generated schema; the schema of OASIS.
TABLES = (
    "conformance/verdict/verdict.schema.json",
    "conformance/gate/evidence.schema.json",
    "kernels/launch/launch.schema.json",
    "docs/evidence/",
    "tests/conformance/beside/symptom_exams/",
    "tests/kit/long-tests.txt",
    "tests/conformance/verdict/data/",
    "tests/spec/data/",
    "tests/tools/operand_constraints/data/",
)


DATA = (".toml", ".json", ".txt", ".yaml", ".j2", ".pyi", "Makefile", ".ci/run", ".ci/package", ".ci/aarch64")


def test_data_keeps_the_line_length() -> None:
    for name in TRACKED:
        if name.endswith(DATA) and not name.startswith(TABLES):
            assert not too_long((ROOT / name).read_text()), name


def test_pages_keep_the_line_length() -> None:
    for name in TRACKED:
        if name.endswith(".md"):
            told = f"{name}: run python -m tileproof.tools.pages.wrap {name}"
            assert not unwrapped((ROOT / name).read_text(encoding="utf-8")), told


def test_a_long_line_is_seen() -> None:
    assert too_long("x" * 111) == [1] and not too_long("x" * 110)
    assert unwrapped("a\n" + "word " * 23) == [2] and not unwrapped("word " * 21)


# ---- functions

MAX_LINES = 80  # of a function, without its docstring


def long_functions(text: str) -> list[str]:
    """The functions of a source with too many lines; a decorator and a docstring do not count."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            if ast.get_docstring(node) is not None:
                lines -= (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
            found += [f"{node.name}: {lines}"] if lines > MAX_LINES else []
    return found


def test_no_function_is_long() -> None:
    for name in TRACKED:
        if name.endswith(".py") and not name.startswith("tests/"):
            assert not long_functions((ROOT / name).read_text(encoding="utf-8")), name


def test_a_long_function_is_seen() -> None:
    documented = ["def f():", '    """Two', '    lines."""', *["    x = 1"] * (MAX_LINES - 1)]
    assert not long_functions("\n".join(documented))
    longer = [*documented, "    y = 2"]
    assert long_functions("\n".join(longer)) == [f"f: {MAX_LINES + 1}"]
    method = ["class A:", "    @property", *(f"    {line}" for line in longer)]
    assert long_functions("\n".join(method)) == [f"f: {MAX_LINES + 1}"]


# ---- `Any`, by folder: for JSON spec/machine/types.py has the words. The numbers only fall.

ANY = {
    "benchmarks": 6,
    "conformance": 35,
    "emulator": 6,
    "kernels": 6,
    "ops": 8,
    "package": 5,
    "reference": 0,
    "spec": 23,
    "tools": 0,
}


def anys(text: str) -> int:
    """How often a source names the type `Any`."""
    return of_kind(text, "name").count("Any")


def test_any_becomes_rarer() -> None:
    found: dict[str, int] = defaultdict(int)
    for name in TRACKED:
        if name.endswith(".py") and name.split("/")[0] in ANY:
            found[name.split("/")[0]] += anys((ROOT / name).read_text())
    assert {where: n for where, n in found.items() if n > ANY[where]} == {}


def test_any_is_seen() -> None:
    assert anys('"""Any sizes."""\nfrom typing import Any\n\nmade: dict[str, Any] = {}  # Any of them\n') == 2
