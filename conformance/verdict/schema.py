"""Writes the published schema of the verdict beside this file: `python -m
tileproof.conformance.verdict.schema`.
"""

from __future__ import annotations

import json
from pathlib import Path

from tileproof.conformance.verdict import contract, jsonform

PATH = Path(__file__).with_name("verdict.schema.json")


def rendered() -> str:
    """The schema's text, as the file holds it."""
    made = jsonform.schema(
        contract.VerdictRecord, f"Tileproof verdict, schema version {contract.SCHEMA_VERSION}"
    )
    properties = made["$defs"]["VerdictRecord"]["properties"]
    properties["schema_version"] = {"const": contract.SCHEMA_VERSION}
    properties["exit_code"] = {"enum": sorted(contract.EXIT_CODES.values())}
    made["$defs"]["JudgedProgram"]["properties"]["ptx_sha256"]["pattern"] = "^[0-9a-f]{64}$"
    made["$defs"]["VerdictRecord"]["allOf"] = [
        {
            "if": {"properties": {"verdict": {"const": word}}},
            "then": {"properties": {"exit_code": {"const": code}}},
        }
        for word, code in contract.EXIT_CODES.items()
    ]
    return json.dumps(made, indent=1) + "\n"


if __name__ == "__main__":
    PATH.write_text(rendered(), encoding="utf-8")
