"""`emulate()` for Triton and Gluon: inside the block, launches over CPU tensors run on the emulator.

Tensors are torch CPU tensors or numpy arrays. `@triton.autotune` takes its first configuration. Rejected with
an error: cuda tensors, and kernels made for Triton's interpreter.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from tileproof.conformance.beside.frontends.block import Emulate, asked_addresses, patched
from tileproof.conformance.beside.frontends.run import EmulatedRun
from tileproof.emulator.errors import LaunchError
from tileproof.spec.machine import limits

if TYPE_CHECKING:
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

Launch = Callable[..., object]


@contextlib.contextmanager
def _active(run: EmulatedRun, _version: str) -> Iterator[None]:
    """Triton with this driver, without its interpreter, and with autotuners that do not measure; everything
    is restored afterwards.
    """
    import triton
    from tileproof.conformance.beside.frontends.triton_driver import Sm100Driver, stopped_at_ptx
    from triton import knobs
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    users, files = knobs.runtime.add_stages_inspection_hook, [""]

    def hook(*stages: dict[str, Callable[..., object]]) -> tuple[str, ...] | None:
        """The user's hook for the stages, then ours."""
        theirs = users(*stages) if users is not None else None
        ours = stopped_at_ptx(files[-1], *stages)
        if stages:
            _check_architecture(stages[1], run.hopper)
            return None
        return (
            ours if not theirs or not ours else tuple(f"{a} {b}" for a, b in zip(theirs, ours, strict=True))
        )

    with contextlib.ExitStack() as stack:
        settings = triton.runtime.driver
        stack.callback(setattr, settings, "_active", settings._active)
        stack.enter_context(knobs.runtime.scope())
        stack.enter_context(knobs.autotuning.scope())
        settings.set_active(Sm100Driver(run))
        driver = triton.backends.backends["nvidia"].driver  # whether it is active decides triton's is_cuda()
        stack.callback(setattr, driver, "is_active", driver.__dict__["is_active"])
        driver.is_active = staticmethod(lambda: True)
        if (interpreted := os.environ.pop("TRITON_INTERPRET", None)) is not None:  # is_interpreter() reads it
            stack.callback(os.environ.__setitem__, "TRITON_INTERPRET", interpreted)
        for name in ("add_stages_inspection_hook", "interpret", "override_arch"):
            knobs.runtime.__dict__.pop(name, None)
        # Set past the descriptors, which would write environment variables.
        knobs.runtime.__dict__.update(add_stages_inspection_hook=hook, interpret=False, override_arch=None)
        knobs.autotuning.__dict__["listener"] = None
        stack.enter_context(patched(JITFunction, "run", functools.partial(_with_arrays, files, run.hopper)))
        stack.enter_context(_autotuned(Autotuner, run))
        if interpreter := sys.modules.get("triton.runtime.interpreter"):
            stack.enter_context(patched(interpreter.InterpretedFunction, "run", _refuse_interpreted))
        stack.enter_context(_device_for_torch(run.hopper))
        stack.enter_context(asked_addresses(run.addresses))
        yield


def _check_architecture(stages: dict[str, Callable[[object, object], object]], hopper: bool) -> None:
    """Refuse `wgmma` for sm_100a by name: LLVM would end the process."""
    lower = stages["llir"]

    def checked(module: object, metadata: object) -> object:
        if not hopper and "ttng.warp_group_dot" in (text := str(module)):
            name = re.search(r"tt\.func public @(\w+)", text)
            raise LaunchError(
                "a kernel of another architecture",
                where=name[1] if name else "",
                expected="a kernel for sm_100a",
                found="wgmma (warpgroup_mma), which only sm_90a has",
                do="emulate(hopper=True)",
            )
        return lower(module, metadata)

    stages["llir"] = checked


def _with_arrays(files: list[str], hopper: bool, launch: Launch) -> Launch:
    """`JITFunction.run` that also accepts numpy arrays, as tensors over the same memory; the last entry of
    `files` is the kernel's file during the call.
    """

    def run(self: JITFunction, *args: object, **named: object) -> object:
        files.append(self.fn.__code__.co_filename)
        try:
            named = {name: _as_tensor(array) for name, array in named.items()}
            return launch(self, *map(_as_tensor, args), **named)
        except RuntimeError as error:  # Triton has printed the operations
            if not hopper or not str(error).startswith("error encountered during parsing"):
                raise
            raise LaunchError(
                "Triton does not compile this kernel for sm_90a",
                where=self.fn.__name__,
                found=str(error),
                do="see Triton's messages; tcgen05 and tensor memory are of sm_100a: leave hopper out",
            ) from error
        finally:
            files.pop()

    return run


def _as_tensor(value: object) -> object:
    if not isinstance(value, np.ndarray):
        return value
    import torch

    try:
        return torch.from_numpy(value)
    except TypeError as error:
        raise LaunchError("a numpy array cannot be passed to a kernel", found=str(error)) from None


def _refuse_interpreted(launch: Launch) -> Launch:
    """`InterpretedFunction.run`: the kernel was decorated for the interpreter and cannot be compiled."""

    def run(self: InterpretedFunction, *args: object, **named: object) -> object:
        raise LaunchError(
            "the kernel was made for Triton's interpreter",
            where=self.__name__,
            expected="a kernel decorated without TRITON_INTERPRET=1",
            do="unset TRITON_INTERPRET before the module with the kernel is imported",
        )

    return run


@contextlib.contextmanager
def _autotuned(autotuner: type[Autotuner], run: EmulatedRun) -> Iterator[None]:
    """Make autotuners take the first configuration after pruning, and forget it after the block."""
    before: dict[int, tuple[Autotuner, dict[object, object]]] = {}

    def chosen(launch: Launch) -> Launch:
        def made(self: Autotuner, *args: object, **named: object) -> object:
            if id(self) not in before:
                before[id(self)] = (self, self.cache)
                self.cache = {}
            out = launch(self, *args, **named)
            if len(self.configs) > 1:
                run.note(
                    f"{self.base_fn.__name__}: autotuning took the first of {len(self.configs)} "
                    f"configurations: {self.best_config}"
                )
            return out

        return made

    def unmeasured(_: object) -> Launch:
        def bench(self: Autotuner, *args: object, config: object, **named: object) -> list[float]:
            return [float(self.configs.index(config)) if config in self.configs else 0.0] * 3

        return bench

    def unstored(_: object) -> Launch:
        def check(self: object, key: object, configs: object, benchmark: Callable[[], object]) -> bool:
            benchmark()
            return False

        return check

    with contextlib.ExitStack() as stack:
        stack.enter_context(patched(autotuner, "run", chosen))
        stack.enter_context(patched(autotuner, "_bench", unmeasured))
        stack.enter_context(patched(autotuner, "check_disk_cache", unstored))
        try:
            yield
        finally:
            for tuner, cache in before.values():
                tuner.cache = cache


@contextlib.contextmanager
def _device_for_torch(hopper: bool) -> Iterator[None]:
    """Patch torch so that host code sees an SM100 device, or an SM90; `synchronize` is a no-op."""
    import torch

    class Properties:
        """Properties of a B200, or an H200, that kernels' host code queries."""

        name, major, minor = f"Tileproof's emulated sm_{'90a' if hopper else '100a'}", 9 if hopper else 10, 0
        multi_processor_count, warp_size = limits.PROCESSORS, 32
        shared_memory_per_block_optin = limits.MAX_SHARED_BYTES

    def answering(answer: object) -> Callable[[object], Launch]:
        return lambda _: lambda *args, **named: answer

    with contextlib.ExitStack() as stack:
        for name, answer in (
            ("get_device_capability", (9 if hopper else 10, 0)),
            ("get_device_properties", Properties()),
            ("synchronize", None),
        ):
            stack.enter_context(patched(torch.cuda, name, answering(answer)))
        yield


emulate = Emulate("triton", _active)
