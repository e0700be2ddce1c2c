"""The build cache: an entry that was cut off, or holds another PTX than was put there, is built again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tileproof.kernels import compile as compiling
from tileproof.kernels.compile import Unit, compile_unit

UNIT = Unit("k", "k.cu", {"k.cu": "text"}, {})
PTX = ".visible .entry k() { ret; }"
USE = {"registers": 8, "static_smem": 0, "stack": 0, "spill_stores": 0, "spill_loads": 0}


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was compiled, by a compiler that writes the same PTX each time."""
    done: list[str] = []

    def build_in(work: Path, unit: Unit) -> None:
        done.append(unit.entry)
        (work / "kernel.ptx").write_text(PTX)
        digest = hashlib.sha256(PTX.encode()).hexdigest()
        meta = {"resources": USE, "log": "", "ptx_sha256": digest}
        (work / "built.json").write_text(json.dumps(meta))

    monkeypatch.setenv("TILEPROOF_CACHE", str(tmp_path))
    monkeypatch.setattr(compiling, "_build_in", build_in)
    return done


def test_a_whole_entry_is_not_built_again(builds: list[str]) -> None:
    assert compile_unit(UNIT).ptx == compile_unit(UNIT).ptx == PTX
    assert builds == ["k"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: (entry / "built.json").write_text('{"resources": {"regis'),
        lambda entry: (entry / "built.json").write_text("{}"),
        lambda entry: (entry / "built.json").unlink(),
        lambda entry: (entry / "kernel.ptx").write_text(PTX[:10]),
        lambda entry: (entry / "kernel.ptx").unlink(),
    ],
    ids=["cut off", "empty", "no description", "PTX cut off", "no PTX"],
)
def test_a_damaged_entry_is_built_again(builds: list[str], damage: Callable[[Path], object]) -> None:
    damage(compile_unit(UNIT).ptx_path.parent)
    again = compile_unit(UNIT)
    assert again.ptx == PTX and again.resources and again.resources.registers == 8
    assert builds == ["k", "k"]
