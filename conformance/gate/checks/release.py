"""Checks of the whole release: docs in step with the spec, rows of the corpus marked in tests."""

from __future__ import annotations

import contextlib
import importlib
import io

from tileproof.conformance.beside.corpus import rows as corpus_rows
from tileproof.conformance.gate.model import CheckReport, GatedVariant, gate_check
from tileproof.conformance.verdict.program import ROOT

# Modules whose `main(["--check"])` says whether the page that they write is current.
PAGES = ("tileproof.spec.docs", "tileproof.emulator.docs", "tileproof.conformance.beside.corpus.rows")


@gate_check("docs in step", release=True)
def docs(_gated: GatedVariant) -> CheckReport:
    """The generated pages agree with the spec, the instruction table and the corpus."""
    if not (ROOT / "docs").is_dir():
        return CheckReport("unsupported", "an installed package has no docs; run the gate in a checkout")
    wrong = []
    for name in PAGES:
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            code = importlib.import_module(name).main(["--check"])
        if code:
            wrong.append(said.getvalue().strip().replace(f"{ROOT}/", "") or f"{name} says {code}")
    return CheckReport.of("; ".join(wrong), details={"pages": len(PAGES)})


@gate_check("corpus rows", release=True)
def corpus(_gated: GatedVariant) -> CheckReport:
    """Every public bug of the corpus that applies has a test that is marked as its cover. The tests do not
    run here but in `make test`.
    """
    if not corpus_rows.TESTS.is_dir():
        return CheckReport("unsupported", "an installed package has no tests; run the gate in a checkout")
    covered = corpus_rows.coverage()
    without = corpus_rows.missing(covered)
    tests = len({test for bug in covered for test in bug.tests})
    return CheckReport.of(
        f"no test covers {', '.join(without)}" if without else "",
        details={"rows": len(covered), "tests that are marked": tests, "tests that ran here": 0},
    )
