"""Asks ptxas which lines it takes: hundreds in one process, without generating code."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tileproof.emulator.spelling import Target
from tileproof.kernels import toolchain

from tests.kit.spelling_operands import AFTER, BEFORE, TABLE, declarations


def refusals(lines: Sequence[str], target: Target) -> dict[str, str]:
    """Why ptxas refuses each of `lines` that it refuses, under this target and version."""
    name = f"sm_{target.number}{target.suffix}"
    header = (
        f".version {target.version[0]}.{target.version[1]} .target {name} .address_size 64 "
        f"{BEFORE if target.version >= (6, 3) else ''} .visible .entry k(.param .align 16 .b8 whole[64]) "
        f"{{ {declarations(target)} "
        f"{TABLE}\n"
    )
    alive, found = list(dict.fromkeys(lines)), dict[str, str]()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "lines.ptx"
        while True:
            source.write_text(header + "\n".join(alive) + f"\n{AFTER}\nret;\n}}\n")
            command = [
                str(toolchain.find().ptxas),
                f"-arch=compute_{name[3:]}",
                "-o",
                "/dev/null",
                str(source),
            ]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            output = done.stdout + done.stderr
            hits: dict[int, str] = {}
            for number, why in re.findall(r"line (\d+); (?:error|fatal)\s*: (.*)", output):
                at = int(number) - 2
                named = re.search(r"for instruction '([a-z_]+)", why)
                # A message about what an instruction expands to is reported for some other line.
                if "formal parameter" in why:
                    continue
                if not named or (0 <= at < len(alive) and named.group(1) in alive[at]):
                    hits.setdefault(at, why)
            if not hits and done.returncode == 0:
                return found
            if not hits and ("for instruction" in output or "formal parameter" in output):
                half = len(alive) // 2
                if not half:
                    return found | {alive[0]: output.strip()}
                return found | refusals(alive[:half], target) | refusals(alive[half:], target)
            if not hits or not all(0 <= at < len(alive) for at in hits):
                raise AssertionError(f"ptxas stops outside the lines in question:\n{output[:2000]}")
            found |= {alive[at]: why for at, why in hits.items()}
            alive = [line for at, line in enumerate(alive) if at not in hits]
