"""Recorded launches on a driver: every buffer must equal the emulator's in exact mode, bit for bit.

    python -m tileproof.tools.card.launches FOLDER DRIVER PATTERN...

FOLDER is written by `tools/card/record.py`. A pattern is FILE.py::EXPRESSION, a regular expression for names
of that file's tests, whose launches are run. The driver `dry-run` runs on the card what a card without
SM100's own instructions can run, and the rest on the emulator.
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from tileproof.conformance.drivers.cuda import CudaDriver
from tileproof.conformance.drivers.emulator import launch_on, outputs_of
from tileproof.kernels.launch.model import LaunchFile
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.machine.types import UncheckedObject
from tileproof.tools.card.row import Answer
from tileproof.tools.silicon.record import ONLY_SM100
from tileproof.tools.silicon.replay import RecordedFile, Verdict, replay

# Its launches' words are kept, for tests/emulator/test_spelled_values.py.
KEPT = "test_spelled_values.py"
DRIVERS = ("cuda", "emulator", "dry-run")
HANG_SECONDS = 5.0  # of a launch of a few microseconds
MAX_SHOWN = 60


class Emulated:
    """The emulator in exact mode, as `replay` asks a driver."""

    def observe(self, launch: LaunchFile) -> RunResult:
        """The launch's buffers afterwards, and its findings that are errors."""
        result, buffers = launch_on(launch, mma="exact")
        errors = tuple(found for found in result.findings if found.severity == "error")
        return RunResult(outputs=outputs_of(launch, buffers), findings=errors)


def by_spelling(ran: Sequence[tuple[Sequence[str], str]]) -> dict[str, dict[str, int]]:
    """Launches by verdict for each spelling, from (executed opcodes, verdict) of launches on a card.

    A launch that differs counts against the executed spellings with the smallest share of equal launches:
    nearly every launch executes `mov`, `ld` and `st`.
    """
    same, all_ = (
        Counter(opcode for executed, verdict in ran if verdict in wanted for opcode in executed)
        for wanted in (("same",), ("same", "differs", "failed"))
    )
    out = {opcode: {"same": count} for opcode, count in sorted(same.items())}
    for executed, verdict in ran:
        if verdict in ("differs", "failed"):
            share = {opcode: same[opcode] / all_[opcode] for opcode in executed}
            lowest = min(share.values(), default=0.0)
            for opcode in (opcode for opcode in executed if share[opcode] == lowest):
                counts = out.setdefault(opcode, {})
                counts[verdict] = counts.get(verdict, 0) + 1
    return out


def digest(text: str, before: Iterable[np.ndarray], after: Iterable[np.ndarray]) -> tuple[str, str]:
    """What a launch is, and what it left in its buffers, as 16 hexadecimal digits each."""
    given, result = (hashlib.sha256(b"".join(array.tobytes() for array in side)) for side in (before, after))
    given.update(text.encode())
    return given.hexdigest()[:16], result.hexdigest()[:16]


def answer(
    verdicts: list[tuple[str, str, Verdict]],
    on_card: Sequence[tuple[Sequence[str], str]] = (),
    words: Mapping[str, str] | None = None,
) -> Answer:
    """The answer of a row, from (test, where it ran, verdict) of each launch; `on_card`: `by_spelling`'s.

    words: digests of launches that were the same on a card.
    """
    counts = Counter(verdict for _, _, (verdict, _) in verdicts)
    data: UncheckedObject = {"launches": dict(counts), "on": dict(Counter(on for _, on, _ in verdicts))}
    if on_card:
        data["spellings"] = by_spelling(on_card)
    if words:
        data["words"] = dict(words)
    for word in ("differs", "failed", "refused"):
        shown = [[test, on, detail] for test, on, (verdict, detail) in verdicts if verdict == word]
        if shown:
            data[word] = shown[:MAX_SHOWN]
    wrong = counts["differs"] + counts["failed"]
    if wrong:
        return Answer("differs", f"{wrong} of {len(verdicts)} launches", data)
    if counts["refused"] == len(verdicts):
        detail = verdicts[0][2][1] if verdicts else "no launch was recorded for it"
        return Answer("not run", str(detail), data)
    if counts["refused"]:
        return Answer("in part", f"{counts['refused']} of {len(verdicts)} launches are refused", data)
    return Answer("as expected", data=data)


def run(folder: Path, patterns: Sequence[str], name: str) -> Answer:
    """Repeat the launches of these patterns on the driver `name`."""
    verdicts, executed, words = [], [], {}
    emulated = Emulated()
    with CudaDriver(HANG_SECONDS) as card:
        if name != "emulator":
            try:
                card.start()
            except TileproofError as error:
                return Answer("not run", str(error.found))
        for pattern in patterns:
            file, expression = pattern.split("::", 1)
            path = folder / f"{file.removesuffix('.py')}.npz"
            if not path.exists():
                return Answer("not run", f"{file} was not recorded")
            recorded = RecordedFile(path)
            for number in recorded.chosen(expression):
                case = recorded.cases[number]
                on_card = name == "cuda" or (name == "dry-run" and not ONLY_SM100.search(case["text"]))
                verdict: Verdict = ("refused", "")
                on = "emulator"
                if on_card:
                    on, verdict = card.name, replay(card, case, *recorded.buffers(number))
                if not on_card or (name == "dry-run" and verdict[0] == "refused"):
                    on, verdict = "emulator", replay(emulated, case, *recorded.buffers(number))
                if on == card.name:
                    executed.append((case.get("executed", ()), verdict[0]))
                    if file == KEPT and verdict[0] == "same":
                        given, result = digest(case["text"], *recorded.buffers(number))
                        words[given] = result
                verdicts.append((case["test"], on, verdict))
    return answer(verdicts, executed, words)


def main(arguments: list[str]) -> None:
    """Print the answer of the row."""
    folder, driver, *patterns = arguments
    run(Path(folder), patterns, driver).print()


if __name__ == "__main__":
    main(sys.argv[1:])
