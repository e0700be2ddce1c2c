"""Repeats recorded launches (tools/silicon/record.py) on a CUDA card and compares every buffer bit for bit.

    python -m tileproof.tools.silicon.replay build/silicon.npz evidence.json.xz [--all]

Needs a CUDA driver and cuda-bindings; PTX is retargeted to the card's own architecture. Launches whose PTX
the driver does not assemble for this card are counted by the assembler's words. A launch that breaks the
context ends its process; the next launch continues in a fresh process. `--all` also writes the verdict of
each launch.
"""

from __future__ import annotations

import datetime
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Protocol

import numpy as np
from tileproof.conformance.drivers.cuda import CudaDriver
from tileproof.kernels.launch.arguments import LaunchArgument, ScalarArgument
from tileproof.kernels.launch.builder import LaunchBuilder, tensor_map
from tileproof.kernels.launch.contents import ArrayContent, name_of
from tileproof.kernels.launch.model import LaunchBuffer, LaunchFile
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.machine.types import Json, UncheckedObject
from tileproof.tools import evidence

Verdict = tuple[str, Json]
SCALARS = {
    ("f", 4): "f32",
    ("f", 8): "f64",
    ("i", 1): "u8",
    ("i", 2): "u16",
    ("i", 4): "u32",
    ("i", 8): "u64",
}


class Observer(Protocol):
    """What repeats a launch: a card, or the emulator in its place."""

    def observe(self, launch: LaunchFile) -> RunResult:
        """The launch's buffers afterwards, and its findings."""


class RecordedFile:
    """The launches of a recorded file."""

    def __init__(self, path: Path) -> None:
        self._data = np.load(path)
        self.cases: list[UncheckedObject] = json.loads(self._data["cases"].tobytes())

    def buffers(self, number: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """A launch's buffers before and after, as bytes."""
        count = self.cases[number]["buffers"]
        before, after = ([self._data[f"{number}_{i + k * count}"] for i in range(count)] for k in (0, 1))
        return before, after

    def chosen(self, expression: str) -> list[int]:
        """The numbers of the launches whose test's name, with its parameters, holds the expression."""
        names = [case["test"].split("::", 1)[1] for case in self.cases]
        return [number for number, name in enumerate(names) if re.search(expression, name)]


def launch_of(case: UncheckedObject, before: list[np.ndarray]) -> LaunchFile:
    """The recorded case as a launch; every buffer is read back."""
    made = LaunchBuilder(case["test"], case["text"])
    buffers = [
        made.add(LaunchBuffer(f"buffer {n}", name_of(a.dtype), a.shape, "inout", ArrayContent(a)))
        for n, a in enumerate(before)
    ]
    made.launch(
        case["entry"],
        grid=tuple(case["grid"]),
        cluster=tuple(case["cluster"]),
        block=tuple(case["block"]),
        shared_bytes=case["shared"],
        arguments=[
            _argument(*argument, buffers) for argument in zip(case["args"], case["sizes"], strict=True)
        ],
    )
    return made.file()


def _argument(item: UncheckedObject, size: int, buffers: list[LaunchBuffer]) -> LaunchArgument | LaunchBuffer:
    if "map" in item:
        fields: UncheckedObject = {n: tuple(v) if isinstance(v, list) else v for n, v in item["map"].items()}
        return tensor_map(buffers[item["buffer"]], offset=item["offset"], **fields)
    if "buffer" in item:
        return buffers[item["buffer"]]
    value = item["number"]
    if item["kind"] == "i":
        value %= 1 << 8 * size
    return ScalarArgument(SCALARS[item["kind"], size], value)


def differing(want: list[np.ndarray], got: list[np.ndarray]) -> list[UncheckedObject]:
    """The 32-bit words that differ, the first few of each buffer."""
    out = []
    for index, (w, g) in enumerate(zip(want, got, strict=True)):
        where = np.nonzero(w != g)[0]
        if len(where):
            words = sorted({int(at) // 4 * 4 for at in where})[:8]
            pairs = [[at, w[at : at + 4].tobytes().hex(), g[at : at + 4].tobytes().hex()] for at in words]
            out.append({"buffer": index, "bytes": len(where), "of": len(w), "first": pairs})
    return out


def replay(
    driver: Observer, case: UncheckedObject, before: list[np.ndarray], want: list[np.ndarray]
) -> Verdict:
    """One of "same", "differs" (where), "refused" (why), "failed" (how it ended)."""
    try:
        seen = driver.observe(launch_of(case, before))
    except TileproofError as error:
        return "refused", error.found or str(error)
    if seen.findings:
        return "failed", "; ".join(f"{finding.code}: {finding.message}" for finding in seen.findings)
    got = [
        seen.outputs[name].values if name in seen.outputs else array
        for name, array in ((f"buffer {n}", array) for n, array in enumerate(before))
    ]
    unlike = differing(want, got)
    return ("differs", unlike) if unlike else ("same", None)


def report(cases: list[UncheckedObject], verdicts: list[Verdict], card: UncheckedObject) -> UncheckedObject:
    """The evidence file's content."""
    reasons = Counter(
        f"{verdict}: {detail} ({case['test'].split('::')[-1].split('[')[0]})"
        for case, (verdict, detail) in zip(cases, verdicts, strict=True)
        if verdict in ("refused", "failed")
    )
    unlike: dict[str, UncheckedObject] = {}
    for case, (verdict, detail) in zip(cases, verdicts, strict=True):
        if verdict == "differs":
            fresh = {"launches": 0, "example": detail, "text": case["text"][-500:]}
            unlike.setdefault(case["test"], fresh)["launches"] += 1
    same = {
        case["test"].split("[")[0]
        for case, (verdict, _) in zip(cases, verdicts, strict=True)
        if verdict == "same"
    }
    return {
        "date": datetime.date.today().isoformat(),
        "card": card,
        "launches": len(cases),
        "verdicts": dict(Counter(verdict for verdict, _ in verdicts)),
        "tests": sorted(same),
        "differs": unlike,
        "not run": dict(reasons),
    }


def main() -> None:
    path, out = sys.argv[1:3]
    recorded, verdicts = RecordedFile(Path(path)), []
    cases = recorded.cases
    with CudaDriver() as driver:
        card = vars(driver.start())
        for number, case in enumerate(cases):
            verdicts.append(replay(driver, case, *recorded.buffers(number)))
            if (number + 1) % 100 == 0:
                print(f"{number + 1} of {len(cases)}", file=sys.stderr, flush=True)
    result = report(cases, verdicts, card)
    if "--all" in sys.argv:
        result["each"] = [[case["test"], verdict] for case, (verdict, _) in zip(cases, verdicts, strict=True)]
    evidence.write_json(Path(out), result)
    print(json.dumps({k: result[k] for k in ("date", "card", "launches", "verdicts")}))
    for test, value in result["differs"].items():
        print("differs", test, value["launches"], json.dumps(value["example"])[:300])
    for reason, number in Counter[str](result["not run"]).most_common(20):
        print(number, reason)


if __name__ == "__main__":
    main()
