"""`tileproof judge --many`: cases from standard input, a line of JSON for each, from forks of a warm process.

Each case has a fork of its own, which answers with JSON: a crash, a hang or too much memory affects only
this case, and no case can access the memory of another case. The processes of references stay warm.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from tileproof.conformance.api.replay import judge_words
from tileproof.conformance.api.verdicts import Judging, judge_file
from tileproof.conformance.cases import resolve
from tileproof.conformance.check.stopped import Stopped
from tileproof.conformance.cli.stopping import closed_pipe_is_fine, stoppable
from tileproof.conformance.judging import reference, reference_file
from tileproof.conformance.judging.judging import JudgeOptions
from tileproof.conformance.judging.record import refused
from tileproof.conformance.processes.children import Children, ChildResult
from tileproof.conformance.verdict import jsonform
from tileproof.conformance.verdict.contract import EXIT_CODES, VerdictRecord, Word, worst
from tileproof.conformance.verdict.program import tool_identity
from tileproof.kernels.foreign.limits import MEMORY_PART, ForeignLimits
from tileproof.kernels.foreign.process import ForeignProcess
from tileproof.kernels.launch import jsonform as launches
from tileproof.kernels.launch.model import SCHEMA, LaunchFile
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Json, UncheckedObject

MORE_S = 60.0  # that a case may take beside `seconds`: reading, compiling, its report
LOOK_S = 0.5
MAX_LINE = 1 << 28  # bytes
KEYS = ("launch", "expect", "id", "seconds", "schedules", "seed", "folder")
_INPUT = 0


@dataclass(frozen=True)
class AskedCase:
    """A line of the input: a launch file by its path or as JSON, and how it is judged."""

    number: int
    launch: str | UncheckedObject
    expect: str | None
    options: JudgeOptions
    id: Json = None
    folder: str = "."

    @property
    def name(self) -> str:
        """The launch file's, for the answer."""
        return self.launch if isinstance(self.launch, str) else str(self.launch.get("name", ""))


@dataclass
class _Warm:
    """Processes of references that wait for a case, by file."""

    idle: dict[Path, list[ForeignProcess]] = field(default_factory=dict)

    def take(self, expect: str | None) -> ForeignProcess | None:
        """A process for the file of `expect`."""
        if expect is None:
            return None
        path = reference.named(expect)[0]
        ready = self.idle.setdefault(path, [])
        return ready.pop() if ready else reference_file.server(path)

    def give(self, expect: str | None, process: ForeignProcess | None, fine: bool) -> None:
        """Takes it back, where it waits for a question."""
        if process is not None and expect is not None:
            if fine and process.usable:
                self.idle[reference.named(expect)[0]].append(process)
            else:
                process.end()


def judge_many(options: JudgeOptions, expect: str | None, workers: int) -> int:
    """Answers each line of standard input with a line of JSON, in the order in which cases end; the exit code
    of the worst verdict, that of "error" where there was no case.
    """
    tool_identity()  # once, and not once for each fork
    warm, words = _Warm(), []
    running: dict[int, tuple[AskedCase, ForeignProcess | None]] = {}
    lines = _lines(options, expect)
    more = True
    with stoppable(), closed_pipe_is_fine(), Children[str](as_json=True) as children:

        def print_answer(case: AskedCase, text: str) -> None:
            print(text, flush=True)
            words.append(json.loads(text)["verdict"])

        def ended(number: int, result: ChildResult[str]) -> None:
            case, process = running.pop(number)
            warm.give(case.expect, process, not result.fault)
            print_answer(
                case, result.value if isinstance(result.value, str) else _answer(case, _broken(case, result))
            )

        try:
            while more or running:
                asked = next(lines, "end") if more and len(running) < workers else None
                if asked == "end":
                    more = False
                elif isinstance(asked, AskedCase):
                    process = warm.take(asked.expect)
                    running[asked.number] = asked, process
                    children.start(asked.number, partial(_work, asked, process, MEMORY_PART / workers))
                    continue
                elif isinstance(asked, tuple):
                    print_answer(*asked)
                    continue
                also = [_INPUT] if more and len(running) < workers else []
                for number, result in children.ended(LOOK_S, also):
                    ended(number, result)
                for number in children.end_older(options.seconds + MORE_S):
                    ended(number, ChildResult(fault=f"no verdict in {options.seconds + MORE_S:.0f} s"))
        except (KeyboardInterrupt, Stopped):
            for case, _ in running.values():
                print(json.dumps(_head(case, "incomplete", ["it was interrupted"])), flush=True)
            words.append("incomplete")
    return EXIT_CODES[worst(words) if words else "error"]


def _lines(options: JudgeOptions, expect: str | None) -> Iterator[AskedCase | tuple[AskedCase, str] | None]:
    """The cases of the input as they arrive, or the answer to a line without a case; None if no line is
    ready.
    """
    rest, number, open_ = b"", 0, True
    os.set_blocking(_INPUT, False)
    while open_ or rest:
        line, found, after = rest.partition(b"\n")
        if not found and open_:
            try:
                piece = os.read(_INPUT, 1 << 20)
            except BlockingIOError:
                yield None
                continue
            rest += piece
            open_ = bool(piece) and len(rest) <= MAX_LINE
            continue
        rest = after
        if line.strip():
            number += 1
            try:
                yield _asked(number, line.decode(), options, expect)
            except (TileproofError, UnicodeDecodeError, RecursionError) as error:
                stated = error if isinstance(error, TileproofError) else TileproofError(str(error))
                case = AskedCase(number, line[:60].decode(errors="replace"), None, options)
                yield case, _answer(case, refused(case.name, options.seed, stated))


def _asked(number: int, line: str, options: JudgeOptions, expect: str | None) -> AskedCase:
    if not line.lstrip().startswith("{"):
        return AskedCase(number, line.strip(), expect, options)
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise TileproofError("the line is not valid JSON", where=f"line {number}", found=str(error)) from None
    if given.get("schema") == SCHEMA:
        return AskedCase(number, given, expect, options)
    wanted = {"seconds": int | float, "schedules": int, "seed": int, "folder": str, "expect": str | None}
    wrong = [key for key in given if key not in KEYS]
    wrong += [key for key, kind in wanted.items() if key in given and not isinstance(given[key], kind)]
    wrong += [] if isinstance(given.get("launch"), str | dict) else ["launch"]
    wrong += [
        key
        for key in ("seconds", "schedules")
        if key in given and key not in wrong and not 0 < given[key] < math.inf
    ]
    if wrong:
        raise TileproofError(
            "the line has no case", where=f"line {number}: {', '.join(wrong)}",
            expected=f"a path, a launch file, or an object of {', '.join(KEYS)}", found=line[:80],
        )  # fmt: skip
    changed = {key: given[key] for key in ("schedules", "seed") if key in given}
    seconds = min(float(given.get("seconds", options.seconds)), options.seconds)
    own = replace(options, seconds=seconds, **changed)
    where = given.get("folder", ".")
    return AskedCase(number, given["launch"], given.get("expect", expect), own, given.get("id"), where)


def _work(case: AskedCase, process: ForeignProcess | None, share: float) -> str:
    """In a fork: the answer to a case."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    ForeignLimits(seconds=case.options.seconds + MORE_S, memory=int(share * whole)).apply()
    if process is not None:
        process.adopt()
    try:
        made = _verdict(case, process)
    except TileproofError as error:
        made = refused(case.name, case.options.seed, error)
    except MemoryError:
        made = refused(case.name, case.options.seed, TileproofError("the case takes too much memory"))
    return _answer(case, made)


def _verdict(case: AskedCase, process: ForeignProcess | None) -> VerdictRecord:
    run = case.options.run
    path: Path | None = None
    file: LaunchFile
    if isinstance(case.launch, str):
        path = Path(case.folder) / case.launch
        file = resolve.launch_file(path)
    else:
        file = launches.parse(case.launch, Path(case.folder))
    words: list[str] = []
    if path is not None:
        options = judge_words(case.expect, case.options.seed, run.races, run.strict, run.mma, run.allow)
        words = ["tileproof", "judge", str(path), *options]
    expected = None if case.expect is None else reference.load(case.expect, process)
    return judge_file(file, path, expected, case.options, Judging(words))


def _answer(case: AskedCase, made: VerdictRecord) -> str:
    head = _head(case, made.verdict, made.why)
    return json.dumps({**head, "record": jsonform.dump(made)}, allow_nan=False)


def _head(case: AskedCase, word: Word, why: Sequence[str]) -> Mapping[str, Json]:
    own = {} if case.id is None else {"id": case.id}
    return {
        "number": case.number, **own, "launch": case.name, "verdict": word, "exit_code": EXIT_CODES[word],
        "why": list(why),
    }  # fmt: skip


def _broken(case: AskedCase, result: ChildResult[str]) -> VerdictRecord:
    """The verdict on a case whose process gave none."""
    error = result.error or TileproofError("the case ended its process", found=result.fault)
    return refused(case.name, case.options.seed, error)
