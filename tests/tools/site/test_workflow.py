"""The workflow of docs/gate.md: its gate runs on a launch file and writes what the later steps upload."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]
from click.testing import CliRunner
from tileproof.conformance.cli.app import main
from tileproof.tools.site.executed import blocks

from tests.kit.newcomer import write_scale
from tests.kit.paths import ROOT


def test_the_gate_writes_what_is_uploaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (shown,) = (b for b in blocks((ROOT / "docs" / "gate.md").read_text()) if b.language == "yaml")
    steps = yaml.safe_load(shown.content)["jobs"]["gate"]["steps"]
    (gate,) = (step["run"] for step in steps if "gate" in step.get("run", ""))
    monkeypatch.chdir(tmp_path)
    write_scale(tmp_path).rename("launch.json")
    done = CliRunner().invoke(main, shlex.split(gate)[1:])
    assert done.exit_code == 0, done.output
    for step in steps:
        given = step.get("with", {})
        for path in (given.get("sarif_file"), given.get("path")):
            assert path is None or Path(path).exists(), path
    assert {path.name for path in Path("gate").iterdir()} >= {"junit.xml", "report.html"}
