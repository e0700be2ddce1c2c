"""The kernel of docs/judging.md as files of a folder: PTX, launch file and reference, right and wrong."""

from __future__ import annotations

import re
from pathlib import Path

from tests.kit.paths import ROOT

WAIT = "    @!%p2 bra WAIT;\n"


def page_files() -> dict[str, str]:
    """The files that docs/judging.md writes, by name."""
    page = (ROOT / "docs" / "judging.md").read_text(encoding="utf-8")
    return dict(re.findall(r"```\w+ file=(\S+)\n(.*?)```", page, re.DOTALL))


def write_scale(folder: Path) -> Path:
    """Writes scale.ptx, scale.json and ref.py, and the same kernel without its wait loop: broken.json."""
    files = page_files()
    for name in ("scale.ptx", "scale.json", "ref.py"):
        (folder / name).write_text(files[name])
    assert WAIT in files["scale.ptx"]
    (folder / "broken.ptx").write_text(files["scale.ptx"].replace(WAIT, ""))
    (folder / "broken.json").write_text(files["scale.json"].replace("scale.ptx", "broken.ptx"))
    return folder / "scale.json"
