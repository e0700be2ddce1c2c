"""A run as tables of numbers, which the engine simulates (emulator/engine/timing.hpp)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, TypeVar

import numpy as np
from tileproof.conformance.beside.timing.machine_code import (
    ONE_LANE,
    MachineInstruction,
    codes,
    loops_over_lanes,
    tmem_bytes,
    width,
)
from tileproof.conformance.beside.timing.path import Warp
from tileproof.conformance.beside.timing.streams import MachineCode, Passage
from tileproof.conformance.beside.timing.units import SCHEDULERS, mma_of
from tileproof.conformance.beside.timing.work import Cta, Phase, Work
from tileproof.emulator._engine import TIMING_FIGURES, TimingProgram
from tileproof.spec.machine.types import Array

_Key = TypeVar("_Key", bound=Hashable)
_FIGURES = {name: number for number, name in enumerate(TIMING_FIGURES)}
# The order of timing.hpp's enumerations Does, Kind, What and Flag.
_DOES = ("load", "store", "addition", "exchange", "copy", "MMA", "commit", "remote store", "other")
_KINDS = ("other", "mbarrier", "named barrier", "cluster barrier")
_WHAT = (
    (), ("REDG", "RED", "ATOMG", "ATOM"), ("LDTM",), ("STTM",), ("MUFU",), ("LDS", "LDSM"), ("STS", "STSM"),
    ("LDGDEPBAR",), ("LDG", "LD"), ("STG", "ST"),
)  # fmt: skip
_WHAT_OF = {root: number for number, roots in enumerate(_WHAT) for root in roots}


class Numbering(Generic[_Key]):
    """Things and their numbers, in the order in which they are first asked for."""

    def __init__(self, known: Iterable[_Key] = ()) -> None:
        self.of: dict[_Key, int] = {}
        for key in known:
            self[key]

    def __getitem__(self, key: _Key) -> int:
        return self.of.setdefault(key, len(self.of))

    def all(self) -> list[_Key]:
        """The things by number."""
        return list(self.of)


class RunTables:
    """The tables of a run, and what the numbers in them are."""

    def __init__(self, code: MachineCode, streams: dict[Warp, list[Passage]], work: Work) -> None:
        self.warps = Numbering[Warp]([*streams, *work.steps])
        self.ctas = Numbering[Cta](warp[:3] for warp in self.warps.all())
        self.phases, self.opcodes = Numbering[Phase](work.needs), Numbering[str]()
        self._lines, self._roots = Numbering[int](), Numbering[tuple[str, ...]]()
        self._operations = {number: at for at, number in enumerate(work.operations)}
        made = {
            **self._of_steps(work),
            **self._of_streams(streams),
            **self._of_operations(work),
            **self._of_accesses(work),
            **self._of_code(code, work),
        }
        made["phases"] = [
            (_KINDS.index(str(phase[0])) if phase[0] in _KINDS else 0, work.needs.get(phase, 0))
            for phase in self.phases.all()
        ]
        made["twins"] = [self.ctas[work.twins[cta]] if cta in work.twins else -1 for cta in self.ctas.all()]
        tables: dict[str, object] = {name: _table(rows) for name, rows in made.items()}
        tables |= {"root_sets": len(self._roots.of), "lines": len(self._lines.of), "slots": self._slots}
        self.program = TimingProgram(tables)

    def _of_steps(self, work: Work) -> dict[str, Sequence[object] | Array]:
        groups: list[Sequence[int]] = []
        steps: list[Sequence[int]] = []
        arrives: list[Sequence[int]] = []
        issues: list[int] = []
        for warp, lines in work.steps.items():
            for line, own in lines.items():
                groups.append((self.warps[warp], self._lines[line], len(steps), len(own), line))
                for step in own:
                    waits = -1 if step.waits is None else self.phases[step.waits]
                    steps.append(
                        (
                            step.at, waits, step.after_copies, self._roots[step.roots],
                            len(arrives), len(step.arrives), len(issues), len(step.issues),
                        )
                    )  # fmt: skip
                    arrives += [(self.phases[phase], remote) for phase, remote in step.arrives]
                    issues += [self._operations[number] for number in step.issues]
        return {"step_groups": groups, "steps": steps, "arrives": arrives, "issues": issues}

    def _of_streams(self, streams: dict[Warp, list[Passage]]) -> dict[str, Sequence[object] | Array]:
        slots = Numbering[Hashable]()
        warps: list[Sequence[int]] = []
        passages: list[Passage] = []
        for warp in self.warps.all():
            own = streams.get(warp, [])
            scheduler = warp[3] % SCHEDULERS
            slot = slots[(warp[:3], scheduler)]
            warps.append((self.ctas[warp[:3]], scheduler, slot, len(passages), len(own)))
            passages += own
        self._slots = len(slots.of)
        return {"warps": warps, "passages": passages}

    def _of_operations(self, work: Work) -> dict[str, Sequence[object] | Array]:
        operations: list[Sequence[int]] = []
        rates: list[Sequence[float]] = []
        feeds: list[int] = []
        reads: list[int] = []
        places: list[int] = []
        for op in work.operations.values():
            clocks, operands, pair = mma_of(op.amount) if op.does == "MMA" else (0.0, 0.0, False)
            operations.append(
                (
                    _DOES.index(op.does), op.amount, self.ctas[op.cta], op.line, pair,
                    len(feeds), len(op.feeds), len(reads), len(op.reads), len(places), len(op.places),
                )
            )  # fmt: skip
            rates.append((clocks, operands, op.scattered))
            feeds += [self.phases[phase] for phase in op.feeds]
            reads += [self.phases[phase] for phase in op.reads]
            places += [self.ctas[cta] for cta in op.places]
        for twin in work.twins.values():
            self.ctas[twin]
        return {
            "operations": operations, "rates": np.array(rates, float), "feeds": feeds, "reads": reads,
            "places": places,
        }  # fmt: skip

    def _of_accesses(self, work: Work) -> dict[str, Sequence[object] | Array]:
        out: dict[str, Sequence[object] | Array] = {}
        for name, found in (("pass", work.passes), ("touched", work.touched)):
            groups: list[Sequence[int]] = []
            seen: list[object] = []
            for (warp, line), own in found.items():
                if warp in self.warps.of:
                    groups.append((self.warps[warp], self._lines[line], len(seen), len(own), line))
                    seen += own
            out[f"{name}_groups"] = groups
            out["passes" if name == "pass" else name] = np.array(seen, float)
        return out

    def _of_code(self, code: MachineCode, work: Work) -> dict[str, Sequence[object] | Array]:
        roots = Numbering[str]()
        rows = [self._instruction(instruction, roots) for instruction in codes(code, work)]
        sets = self._roots.all()
        does = [[root.startswith(starts) for starts in sets] for root in roots.all()]
        blocks = [
            (first, end, first < end and loops_over_lanes(code.sass[end - 1], first))
            for first, end in code.blocks
        ]
        return {"code": rows, "blocks": blocks, "does": np.array(does, np.uint8).reshape(-1)}

    def _instruction(self, code: MachineInstruction, roots: Numbering[str]) -> Sequence[int]:
        sass = code.sass
        flags = (
            code.straight, code.plain, code.served, code.stepped, code.loops, code.ends, bool(sass.guard),
            sass.root in ONE_LANE, sass.root == "UCGABAR_WAIT", sass.root == "MEMBAR", ".CTA" in sass.opcode,
        )  # fmt: skip
        in_tmem = sass.root in ("LDTM", "STTM")
        return (
            sass.line, code.stall, sum(1 << board for board in code.boards),
            sum(1 << bit for bit, is_set in enumerate(flags) if is_set),
            _FIGURES[code.figure], _WHAT_OF.get(sass.root, 0), sass.writes, sass.reads,
            self.opcodes[sass.opcode], roots[sass.root], self._lines.of.get(sass.line, -1),
            tmem_bytes(sass.opcode) if in_tmem else width(sass.opcode),
        )  # fmt: skip


def _table(rows: Sequence[object] | Array) -> Array:
    return rows if isinstance(rows, np.ndarray) else np.array(rows, np.int64)
