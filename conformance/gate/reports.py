"""The files that the gate writes: the evidence as JSON, JUnit XML, SARIF and a page."""

from __future__ import annotations

from pathlib import Path

from tileproof.conformance.gate.evidence import ReleaseEvidence
from tileproof.conformance.gate.page import page
from tileproof.conformance.gate.store import write_whole
from tileproof.conformance.verdict import jsonform, junit, sarif

ROOT = Path(__file__).resolve().parents[2]  # of the checkout, or of the installed package


def write_all(made: ReleaseEvidence, folder: Path) -> dict[str, Path]:
    """Writes all forms of an evidence, the JSON first; TileproofError when one cannot be written."""
    paths = {
        "evidence": folder / "evidence.json",
        "junit": folder / "junit.xml",
        "sarif": folder / "findings.sarif",
        "page": folder / "report.html",
    }
    write_whole(paths["evidence"], jsonform.text(made))
    write_whole(paths["junit"], junit.text(made.kernels, made.checks, "tileproof gate", made.run.checks))
    write_whole(paths["sarif"], sarif.text(made.kernels, (ROOT,)))
    write_whole(paths["page"], page(made))
    return paths
