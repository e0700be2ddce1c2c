"""Results of chosen instructions, execution by execution: values that a kernel holds only in registers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tileproof.emulator.misuse import whole
from tileproof.emulator.program import Decoded
from tileproof.spec.machine.run_result import RecordedResults


def chosen(decoded: Decoded, instructions: Sequence[int]) -> list[int]:
    """The numbers of the instructions, increasing; LaunchError for a number that the entry does not have."""
    last = len(decoded.code) - 1
    return sorted({whole(number, "registers", maximum=last) for number in instructions})


def recorded(
    decoded: Decoded, instructions: Sequence[int], raw: Sequence[tuple[int, bytes]]
) -> dict[int, RecordedResults]:
    """What the engine recorded, by number of the instruction."""
    results = {}
    for number, (registers, words) in zip(instructions, raw, strict=True):
        rows = np.frombuffer(words, "<u4").reshape(-1, 3 + 32 * registers)
        values = rows[:, 3:].reshape(len(rows), registers, 32)
        lanes = (rows[:, 2:3] >> np.arange(32, dtype=np.uint32) & 1).astype(bool)
        line, source = int(decoded.code["line"][number]), int(decoded.code["source"][number])
        results[number] = RecordedResults(
            decoded.names[int(decoded.code["name"][number])], line,
            decoded.sources[source] if source >= 0 else "", rows[:, 0], rows[:, 1], lanes, values,
        )  # fmt: skip
    return results
