"""`emulate()`: a block in which a frontend's kernels run on the emulator."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Literal, Unpack

from tileproof.conformance.beside.frontends import versions
from tileproof.conformance.beside.frontends.host_memory import Addresses
from tileproof.conformance.beside.frontends.run import EmulatedRun, KernelDefects
from tileproof.emulator import Allow, Schedule
from tileproof.emulator.causes import accepted
from tileproof.emulator.errors import LaunchError
from tileproof.emulator.options import LaunchKeywords


class Emulate:
    """`with emulate(...) as run:` for a frontend.

    `active`: the context manager that redirects the frontend's launches to the emulator; it takes the run and
    the frontend's version.
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
        hopper: bool = False,
    ) -> Iterator[EmulatedRun]:
        """Run kernels that are launched inside the block on the emulator as an sm_100a, in place on CPU
        tensors. At the end of the block, a finding of severity error raises `KernelDefects`.

        Parameters
        ----------
        races: check that happens-before orders conflicting accesses (`docs/races.md`).
        policy, seed: the schedule (`emulator/schedule.py`): a policy, or "POLICY:FIELD=VALUE:...".
        strict: follow the ISA to the letter: warnings about violations of it become errors.
        raises: if False, keep findings in the run without raising.
        mma, allow, seconds_limit: as in `Module.launch`, for each launch.
        keep: the maximum number of input bytes that the run keeps, so that launches can run again.
        hopper: compile for sm_90a instead of sm_100a.

        Raises LaunchError for an untested version of the frontend, for nested blocks or a block of another
        thread, and for launches that cannot run.
        """
        version = versions.require(self.frontend)
        run = opened(
            policy, seed, keep, races=races, strict=strict, mma=mma, allow=allow, seconds_limit=seconds_limit
        )
        run = replace(run, hopper=hopper)
        where = f"tileproof.{self.frontend}.emulate"
        with alone(where), ended(run, raises), self._active(run, version):
            yield run


def opened(policy: str, seed: int, keep: int, **how: Unpack[LaunchKeywords]) -> EmulatedRun:
    """A run under this schedule; `how` is passed to `Module.launch`. LaunchError for an invalid policy, seed
    or allowance.
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
    """Allow a single block per process at a time; LaunchError if another block is open."""
    if not _ONE.acquire(blocking=False):
        raise LaunchError(
            "an emulated block is already open",
            where=where,
            expected="a single block at a time: a block patches the whole process",
            do="end the other block first",
        )
    try:
        yield
    finally:
        _ONE.release()


@contextlib.contextmanager
def patched(
    owner: object, name: str, made: Callable[[Callable[..., object]], Callable[..., object]]
) -> Iterator[None]:
    """Replace the attribute `name` of `owner` by made(old value) inside the block."""
    before = getattr(owner, name)
    setattr(owner, name, made(before))
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextlib.contextmanager
def asked_addresses(addresses: Addresses) -> Iterator[None]:
    """Note the tensors whose address the program asks for by `data_ptr()`."""
    import torch

    def noting(data_ptr: Callable[..., object]) -> Callable[..., object]:
        def noted(tensor: torch.Tensor) -> object:
            addresses.ask(tensor)
            return data_ptr(tensor)

        return noted

    with patched(torch.Tensor, "data_ptr", noting):
        yield


@contextlib.contextmanager
def ended(run: EmulatedRun, raises: bool) -> Iterator[None]:
    """Close the run at the end of its block and raise its findings.

    An exception of the block itself propagates with the findings as its note: they may explain a wrong value.
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
