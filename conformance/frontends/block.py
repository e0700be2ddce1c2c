"""`emulate()`: one block of the process, in which a frontend's kernels run on the emulator."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Literal

from tileproof.conformance.frontends import versions
from tileproof.conformance.frontends.run import EmulatedRun, KernelDefects
from tileproof.emulator import Allow, Schedule
from tileproof.emulator.causes import accepted
from tileproof.emulator.errors import LaunchError


class Emulate:
    """`with emulate(...) as run:` of one frontend.

    `active` is what makes the frontend launch on the emulator, given the run and the frontend's version.
    """

    def __init__(self, frontend: str, active: Callable[[EmulatedRun, str], AbstractContextManager[None]]):
        self.frontend, self._active = frontend, active

    @contextlib.contextmanager
    def __call__(
        self,
        *,
        races: bool = True,
        policy: str = "early",
        seed: int = 0,
        strict: bool = False,
        raises: bool = True,
        mma: Literal["fast", "exact"] = "fast",
        allow: Sequence[Allow | str] = (),
        seconds_limit: float = 0.0,
        keep: int = 1 << 30,
    ) -> Iterator[EmulatedRun]:
        """Kernels that are launched inside run on the emulator as an sm_100a would run them, over tensors on
        the CPU, in place. On leaving the block a finding of severity error raises `KernelDefects`.

        Parameters
        ----------
        races: checks that conflicting accesses are ordered by happens-before (`docs/races.md`).
        policy, seed: the schedule (`emulator/schedule.py`): a policy, or "POLICY:FIELD=VALUE:...".
        strict: the ISA by the letter: warnings that are errors by it are errors.
        raises: False keeps what was found in the run without raising.
        mma, allow, seconds_limit: as of `Module.launch`, for each launch.
        keep: bytes of inputs that the run keeps at most, so that its launches can be run again.

        Raises LaunchError for a version of the frontend that was not tested, for a block inside a block or
        beside another thread's, and for launches that cannot be run.
        """
        version = versions.require(self.frontend)
        how = {"races": races, "strict": strict, "mma": mma, "allow": allow, "seconds_limit": seconds_limit}
        run = opened(policy, seed, keep, **how)
        where = f"tileproof.{self.frontend}.emulate"
        with alone(where), ended(run, raises), self._active(run, version):
            yield run


def opened(policy: str, seed: int, keep: int, **how: Any) -> EmulatedRun:
    """A run under the schedule of these words; `how` goes on to `Module.launch`. LaunchError names what is
    no policy, seed or allowance.
    """
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise LaunchError("seed of a block", expected="an integer from 0", found=repr(seed))
    if not isinstance(keep, int) or keep < 0:
        raise LaunchError("keep of a block", expected="bytes, an integer from 0", found=repr(keep))
    schedule = Schedule.parse(policy)
    accepted(how.get("allow", ()))
    return EmulatedRun(replace(schedule, seed=seed) if seed else schedule, how, keep)


_ONE = threading.Lock()


@contextlib.contextmanager
def alone(where: str) -> Iterator[None]:
    """One block of the process at a time; LaunchError when one is open already."""
    if not _ONE.acquire(blocking=False):
        raise LaunchError(
            "an emulated block is open already",
            where=where,
            expected="one block at a time: what is active in it is the whole process's",
            do="leave the other block first",
        )
    try:
        yield
    finally:
        _ONE.release()


@contextlib.contextmanager
def patched(owner: Any, name: str, made: Callable[[Any], Any]) -> Iterator[None]:
    """The attribute `name` of `owner` is made(what it was) inside."""
    before = getattr(owner, name)
    setattr(owner, name, made(before))
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextlib.contextmanager
def ended(run: EmulatedRun, raises: bool) -> Iterator[None]:
    """Closes the run at the end of its block, and raises what it found.

    What the block itself raises goes on, the findings as its note: the cause of a wrong value may be there.
    """
    try:
        yield
    except BaseException as error:
        if run.errors and not isinstance(error, KernelDefects):
            error.add_note(f"found on the emulator before:\n{run.text(run.errors)}")
        raise
    finally:
        run.open = False
    if raises:
        run.raise_errors()
