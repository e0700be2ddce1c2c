"""Cubins: of each target that a kernel's PTX is assembled for, with a manifest."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from tileproof.conformance.cli.app import main
from tileproof.kernels.cubin import cubin, targets_of
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.errors import TileproofError

NAME, D_QK = "head128-part0", 576


def test_both_targets_are_built_and_the_manifest_names_both(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["build", NAME, "--d-qk", str(D_QK), "--cubins", str(tmp_path)])
    assert done.exit_code == 0, done.output
    rows = json.loads((tmp_path / "manifest.json").read_text())
    assert [row["target"] for row in rows] == ["sm_100a", "sm_100f"]
    for row in rows:
        image = (tmp_path / row["file"]).read_bytes()
        assert image[:4] == b"\x7fELF" and row["entry"].encode() in image
        assert hashlib.sha256(image).hexdigest() == row["sha256"]
        assert row["resources"]["spill_stores"] == row["resources"]["spill_loads"] == 0
    assert rows[0]["sha256"] != rows[1]["sha256"]


def test_what_the_family_does_not_have_is_refused() -> None:
    """Planted: products of 8-bit integers, which are of sm_100a (PTX ISA 9.7.16.2)."""
    target = kernel(NAME)
    built = target.build(target.variant(d_qk=D_QK))
    integers = replace(built, ptx=built.ptx.replace("kind::f16", "kind::i8"))
    with pytest.raises(TileproofError, match="i8"):
        cubin(integers, "sm_100f")


def test_another_architecture_has_no_family() -> None:
    assert targets_of(".version 8.7\n.target sm_90a\n") == ("sm_90a",)
    with pytest.raises(TileproofError, match="names no"):
        targets_of(".version 8.7\n")
