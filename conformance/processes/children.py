"""Work in a child process: a crashed or killed child is reported, and its messages so far are kept."""

from __future__ import annotations

import contextlib
import ctypes
import json
import multiprocessing
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkContext, ForkProcess
from pathlib import Path
from types import FrameType, ModuleType
from typing import IO, Any, Generic, TypeVar

from tileproof.spec.machine.errors import TileproofError

T = TypeVar("T")
LOOK_S = 0.2
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class ChildResult(Generic[T]):
    """What a child gave: a value, an error of the work's own, or how its process ended without either.

    `fault` is the last: "its process was ended by SIGSEGV", or "" where there is a value or an error; then
    `code` is its exit code, or less than 0 the signal that ended it.
    """

    value: T | None = None
    error: TileproofError | None = None
    fault: str = ""
    code: int = 0
    seconds: float = 0.0


SignalHandler = Callable[[int, FrameType | None], object]


@dataclass
class _Child:
    number: int
    process: ForkProcess
    pipe: Connection
    began: float
    used: int = 0  # processor time, as it was last seen to change, at `since`
    since: float = 0.0

    def __post_init__(self) -> None:
        self.since = self.began


class Children(Generic[T]):
    """Children that run at once: `start` work in one, take what `ended`, `end` the rest.

    Leaving the context ends what still runs. `ended` raises an exception of a signal handler again if Python
    dropped it. `as_json`: results are plain data and travel as JSON, which no child can make more of.
    """

    def __init__(self, as_json: bool = False) -> None:
        self._form: ModuleType = json if as_json else pickle
        self._context = multiprocessing.get_context("fork")
        self._running: list[_Child] = []
        self._signals = contextlib.ExitStack()

    def __enter__(self) -> Children[T]:
        self._raise_again = self._signals.enter_context(_signals_kept())
        return self

    def __exit__(self, *_: object) -> None:
        with self._signals:
            self.end()

    def __len__(self) -> int:
        return len(self._running)

    def start(self, number: int, work: Callable[[], T]) -> None:
        """Starts `work` in a child, which is called `number` from here on."""
        self._running.append(_start(self._context, number, work, self._form))

    def ended(self, seconds: float, also: Sequence[int] = ()) -> Iterator[tuple[int, ChildResult[T]]]:
        """(number, result) of each child that has ended; waits for a child, or for input on the files `also`,
        at most `seconds`.
        """
        self._raise_again()
        ready = set(wait([*(_child.pipe for _child in self._running), *also], seconds))
        for child in [child for child in self._running if child.pipe in ready]:
            self._running.remove(child)
            yield child.number, _received(child, self._form)
        self._raise_again()

    def end_older(self, seconds: float) -> list[int]:
        """Ends every child that has run for more than `seconds`; the number of each."""
        now = time.monotonic()
        old = [child for child in self._running if now - child.began > seconds]
        for child in old:
            _end(child)
            self._running.remove(child)
        return [child.number for child in old]

    def end(self, longer_than: float = 0.0) -> list[tuple[int, float]]:
        """Ends every child that has used no processor time for `longer_than` seconds, its own children's
        included; (number, seconds it has run) of each.
        """
        stopped = []
        now = time.monotonic()
        for child in self._running if longer_than else ():
            used = _used(child.process.pid)
            if used != child.used:
                child.used, child.since = used, now
        for child in [child for child in self._running if now - child.since >= longer_than]:
            _end(child)
            self._running.remove(child)
            stopped.append((child.number, time.monotonic() - child.began))
        return stopped


def in_children(
    work: Sequence[Callable[[], T]], *, processes: int, deadline: float | None = None
) -> Iterator[tuple[int, ChildResult[T]]]:
    """(number, result) of each piece of work as it ends, at most `processes` at a time.

    Work that runs at `deadline` (of `time.monotonic`) is ended, and work that has not begun is skipped;
    neither is reported. Closing the iterator ends running work.
    """
    at = 0
    with Children[T]() as children:
        while len(children) or at < len(work):
            if deadline is not None and time.monotonic() >= deadline:
                break
            while at < len(work) and len(children) < processes:
                children.start(at, work[at])
                at += 1
            yield from children.ended(until(deadline))


def _used(root: int | None) -> int:
    """Ticks of processor time of a process and of those below it; 0 if unknown."""
    total, pending = 0, [root]
    while pending:
        pid = pending.pop()
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            pending += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        except (OSError, ValueError):
            continue
        total += sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime
    return total


def until(deadline: float | None) -> float:
    """Seconds to wait until the next look."""
    return LOOK_S if deadline is None else min(LOOK_S, max(deadline - time.monotonic(), 0.0))


@contextlib.contextmanager
def _signals_kept() -> Iterator[Callable[[], None]]:
    """What a signal's handler raises is lost where Python was in a finaliser or a callback just then: it is
    not printed as ignored, and the function given calls the handlers of the signals seen meanwhile again.
    """
    seen: list[tuple[int, SignalHandler]] = []
    raised: list[BaseException] = []
    ours: dict[int, tuple[SignalHandler, SignalHandler]] = {}

    def keep(number: int) -> None:
        before = signal.getsignal(number)
        if not callable(before):
            return

        def note(which: int, frame: FrameType | None) -> None:
            seen.append((which, before))
            try:
                before(which, frame)
            except BaseException as error:
                raised.append(error)
                raise

        with contextlib.suppress(ValueError):  # not the main thread: signals are its caller's
            signal.signal(number, note)
            ours[number] = note, before

    def raise_again() -> None:
        for number, handler in seen:
            handler(number, None)

    hook = sys.unraisablehook

    def ignored(unraisable: sys.UnraisableHookArgs) -> None:
        if not any(unraisable.exc_value is error for error in raised):
            hook(unraisable)

    for number in _SIGNALS:
        keep(number)
    sys.unraisablehook = ignored
    try:
        yield raise_again
    finally:
        if sys.unraisablehook is ignored:
            sys.unraisablehook = hook
        raised.clear()  # their frames
        for which, (note, before) in ours.items():
            if signal.getsignal(which) is note:
                signal.signal(which, before)


def in_child(work: Callable[[], T], seconds: float | None = None) -> ChildResult[T]:
    """The result of one piece of work in a process of its own; ended after `seconds`."""
    deadline = None if seconds is None else time.monotonic() + seconds
    for _, result in in_children([work], processes=1, deadline=deadline):
        return result
    return ChildResult(fault=f"it did not end in {seconds:.0f} s")


def _start(context: ForkContext, number: int, work: Callable[[], object], form: ModuleType) -> _Child:
    sys.stdout.flush()
    sys.stderr.flush()
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(work, theirs, os.getpid(), form))
    # What a signal raises inside a hook of fork is lost: it waits until the child is there.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    theirs.close()
    return _Child(number, process, ours, time.monotonic())


def _end_with(parent: int) -> None:
    """Ends this process when its parent is killed, which could no longer end it (prctl(2), Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it was killed before
            os._exit(1)


def _child(work: Callable[[], object], pipe: Connection, parent: int, form: ModuleType) -> None:
    _end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to every process of the terminal
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    os.dup2(sys.stderr.fileno() if _has_file(sys.stderr) else 2, 1)  # standard output is the verdict's
    try:
        sent = _sent(form, ("value", work()))
    except TileproofError as error:
        sent = _sent(form, ("error", error.as_dict()))
    except BaseException as error:  # SystemExit of a stranger's code too
        last = traceback.extract_tb(error.__traceback__)[-1]
        found = f"{type(error).__name__}: {error} ({last.filename}, line {last.lineno})"
        sent = _sent(form, ("error", {"what": "internal error", "found": found}))
    with contextlib.suppress(BrokenPipeError):
        pipe.send_bytes(sent)
    pipe.close()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # what the parent's libraries do at exit is the parent's affair


def _has_file(stream: IO[str] | None) -> bool:
    try:
        return stream is not None and bool(stream.fileno() >= 0)
    except (OSError, ValueError, AttributeError):
        return False


def _sent(form: ModuleType, value: object) -> bytes:
    if form is json:
        return json.dumps(value).encode()
    return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)


def _received(child: _Child, form: ModuleType) -> ChildResult[Any]:
    seconds = time.monotonic() - child.began
    try:
        kind, value = form.loads(child.pipe.recv_bytes())
    except (EOFError, OSError, json.JSONDecodeError):
        child.process.join()
        code = child.process.exitcode or 0
        return ChildResult(fault=ended(code), code=code, seconds=seconds)
    finally:
        child.pipe.close()
    child.process.join()
    if kind == "value":
        return ChildResult(value=value, seconds=seconds)
    return ChildResult(error=TileproofError(value.pop("what"), **value), seconds=seconds)


def ended(code: int) -> str:
    """How a process ended that gave no result."""
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"its process was killed by {signal.Signals(-code).name}"
    return f"its process ended with code {code} and no result"


def _end(child: _Child) -> None:
    child.process.terminate()
    child.process.join(5)
    if child.process.is_alive():
        child.process.kill()
        child.process.join()
    child.pipe.close()
