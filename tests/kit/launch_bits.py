"""Prints a hash of the outputs of every launch file in a folder, in fast and in exact mode:
`python -m tests.kit.launch_bits FOLDER`. Another processor prints the same lines.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Literal

from tileproof.conformance.api.calls import run

MODES: tuple[Literal["fast", "exact"], ...] = ("fast", "exact")

for path in sorted(Path(sys.argv[1]).rglob("launch.json")):
    for mode in MODES:
        result = run(path, schedule="random:seed=7", mma=mode)
        hashed = hashlib.sha256()
        for name, output in sorted(result.outputs.items()):
            hashed.update(name.encode() + output.values.tobytes())
        codes = " ".join(sorted({finding.code for finding in result.findings}))
        print(path.parent.name, mode, hashed.hexdigest()[:24], codes)
