"""Dependencies point one way: what each folder may import of the project; torch stays in the oracle."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from tests.kit.paths import ROOT

ALLOWED = {
    "spec/machine": ("tileproof.spec.machine",),
    "spec": ("tileproof.spec",),
    "reference": ("tileproof.spec", "tileproof.reference"),
    "kernels": ("tileproof.spec", "tileproof.kernels"),
    "emulator": ("tileproof.spec.machine", "tileproof.emulator"),
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


def test_a_wrong_import_is_seen() -> None:
    assert forbidden("from tileproof.kernels import build", ALLOWED["reference"])
    assert forbidden("import tileproof.spec.problems.base", ALLOWED["emulator"])
    assert forbidden("from tileproof.spec import problem", ALLOWED["emulator"])
    assert forbidden("from ..conformance import check", ALLOWED["spec"])
    assert not forbidden("from tileproof.spec.machine import tmem", ALLOWED["emulator"])


@pytest.mark.parametrize(("module", "loads"), [("walk", False), ("chain", False), ("oracle", True)])
def test_only_the_oracle_needs_torch(module: str, loads: bool) -> None:
    code = f"import sys, tileproof.reference.{module}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(loads)
