"""Pytest plugin: keeps the launches without an error of the emulator's tests, to be repeated on a card.

    python -m pytest -p tools.silicon.record tests/emulator -q --silicon-out build/silicon.npz

A launch is kept when it gave no error, its arguments are buffers, tensor maps and numbers, and its PTX
holds nothing that only SM100 has. `--silicon-sm100` keeps such launches too, and runs all with the exact
arithmetic of the tensor core. Launches that differ in their schedule alone are kept once. `--silicon-each N`
keeps N launches of each test, and every launch that executes a spelling which no kept launch has.
`tools/silicon/replay.py` and `tools/card` run the file on a GPU and compare the buffers bit for bit.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tileproof.emulator import Buffer, Memory, Module, TensorMap
from tileproof.emulator.arguments import Argument
from tileproof.emulator.coverage import instructions
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.machine.types import Json, UncheckedObject

OTHER_TARGET = re.compile(r"\.target (?!sm_100a|sm_90)")
ONLY_SM100 = re.compile(rf"tcgen05|gather4|scatter4|cta_group|f32x2|{OTHER_TARGET.pattern}")
MAX_RECORDS = 12000
_records: dict[str, tuple[UncheckedObject, list[np.ndarray]]] = {}
_ran = 0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--silicon-out", default="build/silicon.npz", help="where the kept launches go")
    parser.addoption("--silicon-each", default=MAX_RECORDS, type=int, help="launches of one test, at most")
    parser.addoption("--silicon-sm100", action="store_true", help="keep what only SM100 has, in exact mode")


def portable(text: str) -> str:
    """Shared addresses that are written as numbers, which the emulator takes and ptxas does not, go into
    registers, with the CTA's rank: an asynchronous copy takes a number without it for CTA 0's memory.
    """
    numbers = sorted({int(n) for n in re.findall(r"(?<=[\s,])\[(\d+)[\],+]", text)})
    if not numbers:
        return text
    moves = "".join(f".reg .b32 %at{n};\nmapa.shared::cluster.u32 %at{n}, {n}, %at_rank;\n" for n in numbers)
    moves = f".reg .b32 %at_rank;\nmov.u32 %at_rank, %cluster_ctarank;\n{moves}"
    text = re.sub(r"(?<=[\s,])\[(\d+)(?=[\],+])", r"[%at\1", text)
    return text.replace("mov.u32 %t, %tid.x;\n", f"mov.u32 %t, %tid.x;\n{moves}", 1)


def _argument(argument: Argument, memory: Memory) -> UncheckedObject | None:
    if isinstance(argument, Buffer):
        return {"buffer": memory.buffers.index(argument)}
    if isinstance(argument, TensorMap):
        for index, buffer in enumerate(memory.buffers):
            if buffer.address <= argument.address < buffer.address + buffer.bytes:
                names = ("dtype", "shape", "strides", "box", "element_strides", "swizzle", "oob_fill")
                fields = {name: getattr(argument, name) for name in names}
                return {"map": fields, "buffer": index, "offset": argument.address - buffer.address}
        return None
    if isinstance(argument, (int, float, np.generic)):
        kind = "f" if isinstance(argument, float | np.floating) else "i"
        return {"number": argument.item() if isinstance(argument, np.generic) else argument, "kind": kind}
    return None


@pytest.fixture(autouse=True, scope="session")
def _record(request: pytest.FixtureRequest) -> Iterator[None]:
    original, from_ptx = Module.launch, Module.from_ptx
    sm100 = request.config.getoption("--silicon-sm100")
    each: int = request.config.getoption("--silicon-each")
    by_test: Counter[str] = Counter()
    spelled: set[str] = set()
    unwanted = OTHER_TARGET if sm100 else ONLY_SM100
    texts: dict[int, str] = {}

    def parse(text: str) -> Module:
        module = from_ptx(text)
        texts[id(module)] = text
        _alive.append(module)
        return module

    def launch(self: Module, entry: str, **given: Json) -> RunResult:
        global _ran
        _ran += 1
        memory, args = given.get("memory"), given.get("args", ())
        before = [b.numpy().reshape(-1).view(np.uint8).copy() for b in memory.buffers] if memory else []
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rsplit(" (", 1)[0]
        if sm100:
            given["mma"] = "exact"
        result = original(self, entry, **given)
        text = texts.get(id(self), "")
        if not text or unwanted.search(text) or result.errors or given.get("taps") or not memory:
            return result
        described = [_argument(argument, memory) for argument in args]
        if None in described or sum(len(b) for b in before) > 1 << 20 or len(_records) >= MAX_RECORDS:
            return result
        sizes = [size for _, size, _ in self.entries[entry]]
        executed = sorted({i.opcode for i in instructions(self.decode(entry), result.executed) if i.ran})
        case = {
            "entry": entry,
            "text": portable(text),
            "args": described,
            "sizes": sizes,
            "grid": list(given["grid"]),
            "block": list(given["block"]),
            "cluster": list(given.get("cluster") or (1, 1, 1)),
            "shared": given.get("shared_bytes", 0),
            "executed": executed,
            "test": test,
            "policy": getattr(given.get("schedule"), "policy", "early"),
        }
        after = [b.numpy().reshape(-1).view(np.uint8).copy() for b in memory.buffers]
        same = {name: value for name, value in case.items() if name not in ("test", "policy")}
        key = hashlib.sha256(
            json.dumps(same, default=str).encode() + b"".join(b.tobytes() for b in before)
        ).hexdigest()
        if key not in _records and (by_test[test] < each or not spelled.issuperset(executed)):
            by_test[test] += 1
            spelled.update(executed)
            _records[key] = (case, [*before, *after])
        return result

    _alive: list[Module] = []
    Module.launch, Module.from_ptx = launch, staticmethod(parse)  # type: ignore[method-assign,assignment]
    yield
    Module.launch, Module.from_ptx = original, from_ptx  # type: ignore[method-assign]
    out = Path(request.config.getoption("--silicon-out"))
    out.parent.mkdir(parents=True, exist_ok=True)
    arrays: UncheckedObject = {}  # of arrays: savez's own parameters come by name too
    cases = []
    for number, (case, data) in enumerate(_records.values()):
        cases.append({**case, "buffers": len(data) // 2})
        for index, array in enumerate(data):
            arrays[f"{number}_{index}"] = array
    arrays["cases"] = np.frombuffer(json.dumps(cases, default=str).encode(), dtype=np.uint8)
    np.savez_compressed(out, **arrays)
    print(f"\nsilicon: kept {len(cases)} of {_ran} launches in {out}")
