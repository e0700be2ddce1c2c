"""Dependencies point one way: what each folder may import of the project; torch stays in the oracle."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.paths import ROOT

ALLOWED = {
    "spec/machine": ("tileproof.spec.machine",),
    "spec": ("tileproof.spec",),
    "reference": ("tileproof.spec", "tileproof.reference"),
    "kernels": ("tileproof.spec", "tileproof.kernels"),
    "emulator": ("tileproof.spec.machine", "tileproof.emulator"),
    # What torch calls: kernels and the driver that runs them. Nothing imports it.
    "ops": ("tileproof.spec", "tileproof.kernels", "tileproof.conformance.drivers", "tileproof.ops"),
}
# Each room of conformance/: what it may import of the project beside itself and the spec. What judges comes
# first; `beside` holds what stands beside it.
ROOMS = {
    "processes": (),
    "launches": ("kernels", "emulator"),
    "cases": ("kernels",),
    "drivers": ("conformance.launches", "kernels", "emulator"),
    "observe": ("reference",),
    "compare": (
        "conformance.drivers.plan_names",
        "conformance.observe",
        "reference",
        "kernels",
    ),
    "diagnose": ("conformance.observe", "conformance.compare"),
    "verdict": ("__version__", "conformance.observe", "kernels.foreign", "emulator"),
    "judging": (
        "conformance.processes",
        "conformance.launches",
        "conformance.drivers",
        "kernels.foreign",
        "kernels.paths",
        "kernels.launch",
        "conformance.compare",
        "conformance.diagnose",
        "conformance.verdict",
        "emulator",
    ),
    "tensors": (
        "conformance.observe",
        "conformance.compare",
        "conformance.diagnose",
        "conformance.verdict",
        "reference",
    ),
    "vectors": ("reference",),
    "planted": (
        "conformance.cases",
        "conformance.drivers",
        "kernels",
        "emulator",
    ),
    "check": (
        "__version__",
        "conformance.processes",
        "conformance.cases",
        "conformance.verdict",
        "conformance.judging",
        "conformance.drivers",
        "conformance.observe",
        "conformance.compare",
        "conformance.diagnose",
        "conformance.planted",
        "reference",
        "kernels",
        "emulator",
    ),
    "explore": (
        "conformance.launches",
        "conformance.cases",
        "conformance.judging",
        "conformance.check",
        "conformance.drivers",
        "conformance.observe",
        "conformance.compare",
        "kernels",
        "emulator",
    ),
    "api": (
        "conformance.launches",
        "conformance.cases",
        "conformance.judging",
        "conformance.drivers",
        "conformance.planted",
        "conformance.check",
        "conformance.verdict",
        "kernels",
        "emulator",
    ),
    "beside.corpus": (),
    "beside.symptoms": ("conformance.beside.corpus",),
    "beside.locate": ("conformance.launches", "conformance.tensors", "conformance.vectors", "kernels"),
    "beside.record": ("conformance.launches", "kernels", "emulator"),
    "beside.layouts": ("emulator",),
    "beside.logs": ("kernels",),
    "beside.timing": (
        "conformance.launches",
        "conformance.cases",
        "conformance.drivers",
        "conformance.explore",
        "kernels",
        "emulator",
    ),
    "beside.frontends": (
        "conformance.launches",
        "conformance.judging",
        "conformance.api",
        "conformance.verdict",
        "kernels",
        "emulator",
    ),
    "gate": (
        "conformance.processes",
        "conformance.launches",
        "conformance.judging",
        "conformance.cases",
        "conformance.drivers",
        "conformance.observe",
        "conformance.compare",
        "conformance.verdict",
        "conformance.planted",
        "conformance.check",
        "conformance.explore",
        "conformance.beside.corpus",
        "conformance.beside.timing",
        "kernels",
        "emulator",
    ),
    "beside.equal": ("emulator",),
    "beside.mutate": (
        "conformance.beside.equal",
        "conformance.processes",
        "conformance.launches",
        "conformance.judging",
        "conformance.cases",
        "conformance.drivers",
        "conformance.observe",
        "conformance.check",
        "conformance.gate",
        "kernels",
        "emulator",
    ),
    "report": ("conformance.check", "emulator"),
    "cli": ("__version__", "conformance", "reference", "kernels", "emulator", "tools"),
}


def forbidden(source: str, allowed: tuple[str, ...]) -> list[str]:
    """Modules of the project that `source` imports though it may not; relative imports count as forbidden."""
    bad = []
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            names = [f"{module}.{alias.name}" for alias in node.names]
        for name in names:
            ours = name.startswith(("tileproof", "."))
            if ours and not any(f"{name}.".startswith(f"{a}.") for a in allowed):
                bad.append(name)
    return bad


@pytest.mark.parametrize("folder", ALLOWED)
def test_folder_imports_only_what_it_may(folder: str) -> None:
    files = list((ROOT / folder).rglob("*.py"))
    assert files
    for path in files:
        assert not forbidden(path.read_text(encoding="utf-8"), ALLOWED[folder]), path


def through(room: str) -> tuple[str, ...]:
    """The modules that a room's doors lead to, itself and the spec among them."""
    return tuple(f"tileproof.{name}" for name in (f"conformance.{room}", "spec", *ROOMS[room]))


def files_of(room: str) -> list[Path]:
    """The modules of a room."""
    return list((ROOT / "conformance" / room.replace(".", "/")).rglob("*.py"))


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_opens_only_its_doors(room: str) -> None:
    files = files_of(room)
    assert files
    for path in files:
        assert not forbidden(path.read_text(encoding="utf-8"), through(room)), path


@pytest.mark.parametrize("room", [name for name in ROOMS if name not in ("planted", "beside.corpus")])
def test_no_general_room_imports_a_problem(room: str) -> None:
    for path in files_of(room):
        assert not problems_in(path.read_text(encoding="utf-8")), path


def test_no_general_module_of_the_spec_and_the_reference_imports_a_problem() -> None:
    """Beside each problem's folder, plans, which are made for one, and the references and oracles of one."""
    general = [
        *(ROOT / "spec").glob("*.py"),
        *(ROOT / "spec" / "arithmetic").glob("*.py"),
        *(ROOT / "spec" / "problems").glob("*.py"),
        *(ROOT / "reference" / f"{name}.py" for name in ("tile", "evaluate", "chain", "stream")),
        *(ROOT / "kernels").glob("*.py"),
    ]
    assert len(general) > 30
    for path in general:
        if path.name != "tutorials.py":  # NVIDIA's, all of one problem
            assert not problems_in(path.read_text(encoding="utf-8")), path


OF_TILES = ("tileproof.reference.tile", "tileproof.spec.problems.base.TileCoord")


def used(source: str) -> str:
    """A module without what it imports for its types alone."""
    tree = ast.parse(source)
    tree.body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    ]
    return ast.unparse(tree)


def test_loops_and_oracles_share_nothing_with_the_spec() -> None:
    """They take inputs and share the type of a tile: their formulas and masks are a second opinion."""
    machines = ("__init__", "tile", "evaluate", "chain", "stream")
    files = [path for path in (ROOT / "reference").glob("*.py") if path.stem not in machines]
    assert len(files) >= 5
    for path in files:
        allowed = () if path.stem.endswith("oracle") else OF_TILES
        assert not forbidden(used(path.read_text(encoding="utf-8")), allowed), path


def test_a_shared_mask_is_seen() -> None:
    typed = "if TYPE_CHECKING:\n    from tileproof.spec.problems.gemm.inputs import Inputs\n"
    assert not forbidden(used(typed), ()) and not forbidden(
        used("from tileproof.spec.problems.base import TileCoord"), OF_TILES
    )
    for shared in (
        "from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs, key_mask",
        "from tileproof.spec.problems.base import Tiling",
        "def f():\n    from tileproof.spec.numerics import LOG2_E",
    ):
        assert forbidden(used(typed + shared), OF_TILES)


def problems_in(source: str) -> list[str]:
    """The modules of single problem types that `source` imports."""
    folders = [path.parent.name for path in (ROOT / "spec" / "problems").glob("*/__init__.py")]
    return [
        name
        for folder in folders
        for name in forbidden(source, ("tileproof.conformance",))
        if f"{name}.".startswith(f"tileproof.spec.problems.{folder}.")
    ]


def test_an_import_of_a_problem_is_seen() -> None:
    assert problems_in("from tileproof.spec.problems.gemm.inputs import Inputs")
    assert problems_in("def f():\n    from tileproof.spec.problems.sparse_mla_bwd import stages")
    assert not problems_in("from tileproof.spec.problems.base import ProblemType")


def test_every_room_has_doors_and_they_lead_one_way() -> None:
    folders = {path.parent.name for path in (ROOT / "conformance").glob("*/__init__.py")} - {"beside"}
    folders |= {f"beside.{path.parent.name}" for path in (ROOT / "conformance/beside").glob("*/__init__.py")}
    assert folders == set(ROOMS)
    for hall in ("conformance", "conformance/beside"):
        assert [path.name for path in (ROOT / hall).glob("*.py")] == ["__init__.py"]
    seen: set[str] = set()
    for room in (*(name for name in ROOMS if name != "cli"), "cli"):
        doors = {name.removeprefix("conformance.") for name in ROOMS[room] if name.startswith("conformance")}
        doors = {".".join(door.split(".")[: 2 if door.startswith("beside") else 1]) for door in doors}
        assert doors <= seen | {"conformance"}, f"{room} opens to a room behind it"
        seen.add(room)


def test_only_the_cli_reaches_the_tools() -> None:
    for folder in ("spec", "reference", "kernels", "emulator", "conformance"):
        for path in (ROOT / folder).rglob("*.py"):
            if "tileproof.tools" in path.read_text(encoding="utf-8"):
                assert path.relative_to(ROOT).parts[:2] == ("conformance", "cli"), path


def test_a_wrong_door_is_seen() -> None:
    assert forbidden("from tileproof.conformance.check.property import run", through("compare"))
    assert forbidden("from tileproof.conformance.drivers import emulator", through("observe"))
    assert forbidden("from tileproof.emulator import Module", through("diagnose"))
    assert forbidden("from tileproof.tools.crosscheck import opinion", through("explore"))
    assert not forbidden("from tileproof.spec.machine.run_result import Capture", through("observe"))


# Modules that lie beside a test of its folder are its own; what several share is in tests/kit.
LOCAL = {path.stem for path in (ROOT / "tests").rglob("*.py")} - {"__init__", "conftest"}


def strays(name: str, text: str) -> list[str]:
    """How a file of the tests imports past the package `tests`: by a path, or by a bare or relative name."""
    found = []
    for node in ast.walk(ast.parse(text)):
        by_path = isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.path"
        relative = isinstance(node, ast.ImportFrom) and (node.level or node.module in LOCAL)
        bare = isinstance(node, ast.Import) and LOCAL & {alias.name for alias in node.names}
        if by_path or relative or bare:
            found.append(ast.unparse(node))
    if not name.startswith(("test_", "conftest", "__init__")):
        found.append(f"{name} is no test and belongs to tests/kit")
    return found


def test_tests_are_imported_as_a_package() -> None:
    for path in (ROOT / "tests").rglob("*.py"):
        name = "__init__" if "kit" in path.parts else path.name
        assert not strays(name, path.read_text(encoding="utf-8")), path


def test_a_stray_import_of_a_test_is_seen() -> None:
    assert strays("test_x.py", "from ptx import run") and strays("test_x.py", "import backward_runs")
    assert strays("test_x.py", "from .conftest import inputs") and strays("helpers.py", "")
    assert strays("test_x.py", "import sys\nsys.path.insert(0, '.')")
    assert not strays("test_x.py", "from tests.kit.ptx import run")


def test_a_wrong_import_is_seen() -> None:
    assert forbidden("from tileproof.kernels import build", ALLOWED["reference"])
    assert forbidden("import tileproof.spec.problems.base", ALLOWED["emulator"])
    assert forbidden("from tileproof.spec import problem", ALLOWED["emulator"])
    assert forbidden("from ..conformance import check", ALLOWED["spec"])
    assert not forbidden("from tileproof.spec.machine import tmem", ALLOWED["emulator"])


@pytest.mark.parametrize(
    ("module", "loads"),
    [("sparse_mla_bwd", False), ("chain", False), ("oracle", True), ("dense_oracle", True)],
)
def test_only_the_oracle_needs_torch(module: str, loads: bool) -> None:
    code = f"import sys, tileproof.reference.{module}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(loads)
