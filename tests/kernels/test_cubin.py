"""Cubins: of each target that a kernel's PTX is assembled for, with a manifest."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from tileproof.conformance.beside.record.fatbin import ptx_of
from tileproof.conformance.cli.app import main
from tileproof.kernels import manifest
from tileproof.kernels.cubin import cubin, targets_of
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.errors import TileproofError

NAME, D_QK = "head128-part0", 576


def test_both_targets_are_built_and_what_was_there_is_kept(tmp_path: Path) -> None:
    other = {"entry": "of an earlier call", "launch": None}
    manifest.write([other], tmp_path)
    done = CliRunner().invoke(main, ["build", NAME, "--d-qk", str(D_QK), "--cubins", str(tmp_path)])
    assert done.exit_code == 0, done.output
    stated = json.loads((tmp_path / "manifest.json").read_text())
    (row,) = [row for row in stated["entries"] if row != other]
    assert other in stated["entries"] and row["launch"] is None  # head128-part0 is half of a backward
    assert [each["target"] for each in row["cubins"]] == ["sm_100a", "sm_100f"]
    for each in row["cubins"]:
        image = (tmp_path / each["file"]).read_bytes()
        assert image[:4] == b"\x7fELF" and row["entry"].encode() in image
        assert hashlib.sha256(image).hexdigest() == each["sha256"]
        assert each["resources"]["spill_stores"] == each["resources"]["spill_loads"] == 0
    assert row["cubins"][0]["sha256"] != row["cubins"][1]["sha256"]
    image = (tmp_path / row["image"]).read_bytes()
    assert hashlib.sha256(image).hexdigest() == row["sha256"]
    target = kernel(NAME)
    assert _words(ptx_of(image)) == _words(target.build(target.variant(d_qk=D_QK)).ptx)


def _words(ptx: str) -> list[str]:
    """Without comments and space, which `fatbinary` leaves out."""
    return re.sub(r"//.*", "", ptx).rstrip("\0").split()


def test_a_manifest_of_another_version_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(TileproofError, match="another version"):
        manifest.write([], tmp_path)
    assert (tmp_path / "manifest.json").read_text() == "[]"


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
