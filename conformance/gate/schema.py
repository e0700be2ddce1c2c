"""`python -m tileproof.conformance.gate.schema` writes the evidence's published schema beside this file."""

from __future__ import annotations

import json
from pathlib import Path

from tileproof.conformance.gate.evidence import SCHEMA_VERSION, ReleaseEvidence
from tileproof.conformance.verdict import contract, jsonform

PATH = Path(__file__).with_name("evidence.schema.json")


def rendered() -> str:
    """The schema's text, as the file holds it."""
    made = jsonform.schema(ReleaseEvidence, f"Tileproof evidence, schema version {SCHEMA_VERSION}")
    for name, version in (("ReleaseEvidence", SCHEMA_VERSION), ("VerdictRecord", contract.SCHEMA_VERSION)):
        properties = made["$defs"][name]["properties"]
        properties["schema_version"] = {"const": version}
        properties["exit_code"] = {"enum": sorted(contract.EXIT_CODES.values())}
    return json.dumps(made, indent=1) + "\n"


if __name__ == "__main__":
    PATH.write_text(rendered(), encoding="utf-8")
