# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Misuse of the Python interface: each raises an error of this package that names the argument; none crashes the process."""

from __future__ import annotations

import dataclasses
import itertools
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tileproof.emulator import (
    Fields,
    LaunchError,
    Memory,
    Module,
    Schedule,
    SmemRegion,
    Stream,
    Tap,
    TensorMap,
    TmemRegion,
)
from tileproof.emulator.options import LaunchOptions
from tileproof.emulator.stream import HostAccess, host_copy
from tileproof.spec.machine.errors import TileproofError

from tests.kit.paths import ROOT
from tests.kit.ptx import clean, kernel_text

TEXT = kernel_text("st.global.u32 [%a0], 1;", [False])
ODD: list[Any] = [
    None, object(), "text", -1, 0, True, 2**31, 2**63, 2**70, 1.5, float("nan"), [], {}, [None], [object()], b"x", np.array([object(), None]), np.zeros(3), (2**70,),
    ("a",), [2**40], lambda: 1, np.float32(3), "x" * 100_000, ["early"], {1: None}, {"a": 1},
]  # fmt: skip


def odd(call: Callable[[Any], Any]) -> None:
    """Each odd value is taken, or is an error of this package whose text stays short."""
    for value in ODD:
        try:
            call(value)
        except TileproofError as error:
            assert error.what and len(str(error)) < 5000, str(error)[:200]


def launch(**change: Any) -> Any:
    memory = Memory()
    fits: dict[str, Any] = {
        "entry": "k",
        "grid": (1,),
        "block": (1,),
        "memory": memory,
        "args": [memory.empty(4, np.uint32)],
    } | change
    return Module.from_ptx(TEXT).launch(fits.pop("entry"), **fits)


@pytest.mark.parametrize(
    "name",
    ["entry", "grid", "block", "cluster", "shared_bytes", "args", "memory", "schedule", "grids", *(f.name for f in dataclasses.fields(LaunchOptions))],
)  # fmt: skip
def test_every_argument_of_a_launch(name: str) -> None:
    odd(lambda value: launch(**{name: value}))
    odd(lambda value: launch(**{name: value} | {"trace": True} if name != "trace" else {"trace": value}))
    odd(lambda value: launch(**{name: [value]}))


@pytest.mark.parametrize("name", [f.name for f in dataclasses.fields(Schedule)])
@pytest.mark.parametrize("policy", ["random", "replay", "pct"])
def test_every_field_of_a_schedule(name: str, policy: str) -> None:
    odd(lambda value: launch(schedule=Schedule(**({"policy": policy} | {name: value}))))


def test_memory_and_buffers() -> None:
    buffer = Memory().empty(3, np.float32)
    odd(lambda value: Memory().buffer(value))
    odd(lambda value: Memory().buffer(np.zeros(3), value))
    odd(lambda value: Memory().buffer(np.zeros(3), "n", value))
    odd(lambda value: Memory().empty(value, np.float32) if value is not ODD[6] else None)  # 8 GiB: it fits
    odd(lambda value: Memory().empty(3, value))
    odd(lambda value: Memory().empty(3, np.float32, "n", value))
    odd(lambda value: Memory().free(value))
    odd(lambda value: buffer.write(value))
    odd(lambda value: buffer.write(np.zeros(1, np.uint8), value))


def test_modules_maps_taps_and_streams() -> None:
    module, memory = Module.from_ptx(TEXT), Memory()
    buffer = memory.empty(64, np.uint8)
    odd(Module.from_ptx)
    odd(lambda value: Module.from_ptx(TEXT, value))
    odd(Module.from_file)
    odd(module.variable)
    odd(module.decode)
    good: dict[str, Any] = {"shape": (64,), "strides": (), "box": (64,)}
    for name in ("shape", "strides", "box", "element_strides", "swizzle", "oob_fill", "dtype", "offset"):
        odd(lambda value, name=name: TensorMap.tiled(buffer, **(good | {name: value})).encode())  # type: ignore[misc]
    odd(lambda value: TensorMap.tiled(value, **good))
    odd(TensorMap.read)
    odd(TensorMap.decode)
    odd(lambda value: Fields(value, {}).pack())
    odd(lambda value: Fields(8, value).pack())
    odd(lambda value: Fields(8, {0: value}).pack())
    for field in ("name", "barrier_offset", "region"):
        tap: dict[str, Any] = {"name": "t", "barrier_offset": 0, "region": TmemRegion(0, 32)}
        odd(lambda value, field=field, tap=tap: launch(taps=[Tap(**(tap | {field: value}))]))  # type: ignore[misc]
    for region in (TmemRegion, SmemRegion):
        odd(lambda value, region=region: launch(taps=[Tap("t", 0, region(value, 32))]))  # type: ignore[misc]
        odd(lambda value, region=region: launch(taps=[Tap("t", 0, region(0, value))]))  # type: ignore[misc]
    odd(lambda value: Stream(value).launch(module, "k", grid=(1,), block=(1,), args=[0]))
    odd(lambda value: Stream(memory).launch(value, "k", grid=(1,), block=(1,), args=[0]))
    odd(lambda value: Stream(memory).launch(module, "k", unordered=value, grid=(1,), block=(1,), args=[0]))
    for access in itertools.chain.from_iterable(
        (HostAccess(buffer, v, 2, True), HostAccess(buffer, 0, v, True), HostAccess(v, 0, 1, True))
        for v in ODD
    ):
        try:
            host_copy([access], "copy", "here")
        except TileproofError as error:
            assert error.what


def test_arrays_of_objects_are_refused() -> None:
    for array in (np.array([object(), None]), np.zeros(2, [("a", "i4"), ("b", "O")])):
        with pytest.raises(LaunchError, match="not Python objects"):
            Memory().buffer(array)
        with pytest.raises(LaunchError, match="not Python objects"):
            Memory().empty(2, array.dtype)
        with pytest.raises(LaunchError, match="not Python objects"):
            Memory().empty(64, np.uint8).write(array)


def test_an_array_that_is_read_only_stays_so() -> None:
    memory = Memory()
    constant = np.frombuffer(b"\0" * 16, np.uint8)
    buffer = memory.buffer(constant)
    buffer.writable = True  # numpy knows better
    assert "global-read-only" in {f.code for f in launch(memory=memory, args=[buffer]).findings}


def test_a_buffer_is_freed_once() -> None:
    memory, other = Memory(), Memory()
    buffer = memory.empty(4, np.uint32)
    with pytest.raises(LaunchError, match="buffer does not belong to this memory"):
        other.free(buffer)
    memory.free(buffer)
    with pytest.raises(LaunchError, match="free each buffer once"):
        memory.free(buffer)
    assert {f.code for f in launch(memory=memory, args=[buffer]).findings} == {"global-out-of-bounds"}


def test_windows_of_generic_addresses_are_no_place_for_a_buffer() -> None:
    for address in (0x7000_0000_0000 - 8, 0x7000_0000_0400, 0x7100_0000_0000, 0x72FF_FFFF_FFFF):
        with pytest.raises(LaunchError, match="generic window"):
            Memory().empty(16, np.uint8, "n", address)
    Memory().empty(16, np.uint8, "n", 0x7F00_0000_0000)


ENDLESS = kernel_text("L: st.global.u32 [%a0], %r1;\nadd.u32 %r1, %r1, 1;\nbra.uni L;", [False])


def test_a_buffer_is_not_freed_under_a_launch() -> None:
    """Its memory stays until the launch in the other thread is over."""
    memory = Memory()
    buffer, unused = memory.buffer(np.zeros(1, np.uint32)), memory.empty(1, np.uint32)
    began = threading.Event()

    def run() -> None:
        module = Module.from_ptx(ENDLESS)
        module.decode("k")
        began.set()
        module.launch("k", grid=(1,), block=(1,), args=[buffer], memory=memory, seconds_limit=1)

    thread = threading.Thread(target=run)
    thread.start()
    began.wait()
    while buffer.numpy()[0] == 0:
        pass
    for taken in (buffer, unused):
        with pytest.raises(LaunchError, match="freed while a launch uses it"):
            memory.free(taken)
    memory.free(memory.empty(1, np.uint32))  # a later buffer is not of the launch
    thread.join()
    memory.free(buffer)


PROGRAM = """
import atexit, os, sys, threading, time
import numpy as np
from tileproof.emulator import LaunchError, Memory, Module
from tests.emulator.test_misuse import ENDLESS, TEXT
how = sys.argv[1]

def endless(seconds=0):
    memory = Memory()
    counter = memory.buffer(np.zeros(1, np.uint32))
    try:
        Module.from_ptx(ENDLESS).launch("k", grid=(1,), block=(1,), args=[counter], memory=memory, seconds_limit=seconds)
    except LaunchError as error:
        assert "the interpreter ends" in str(error)

def short(memory=None):
    memory = Memory()
    return Module.from_ptx(TEXT).launch("k", grid=(1,), block=(1,), args=[memory.empty(1, np.uint32)], memory=memory)

def again():
    try:
        while True:
            short()
    except LaunchError as error:
        assert "the interpreter ends" in str(error)

if how == "daemon":  # a launch without end in a thread that nobody joins
    for _ in range(3):
        threading.Thread(target=endless, daemon=True).start()
    time.sleep(0.2)
elif how == "often":  # many launches in turn
    for _ in range(3):
        threading.Thread(target=again, daemon=True).start()
    time.sleep(0.2)
elif how == "atexit":  # the thread that ends the interpreter may launch
    atexit.register(lambda: print("launched", short().counters.warp_instructions > 0))
elif how == "finalizer":
    class Late:
        def __del__(self, short=short):
            short()
    late = Late()
elif how == "fork":  # children of a process whose other thread launches
    threading.Thread(target=endless, args=(1.0,)).start()
    time.sleep(0.2)
    children = []
    for _ in range(5):
        child = os.fork()
        if not child:
            ran = short().counters.warp_instructions
            os._exit(0 if ran else 1)
        children.append(child)
    assert all(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 for child in children)
elif how == "fork-exit":  # the same, and the child ends as a program does
    threading.Thread(target=endless, args=(1.0,)).start()
    time.sleep(0.2)
    child = os.fork()
    if not child:
        short()
        sys.exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("ended", flush=True)
"""


@pytest.mark.parametrize(
    "how", ["daemon", "daemon", "often", "often", "often", "atexit", "finalizer", "fork", "fork-exit"]
)
def test_the_end_of_the_interpreter_and_fork(how: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", PROGRAM, how],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    assert not done.stderr or how == "finalizer", done.stderr[
        -2000:
    ]  # modules are gone by then: an error there
    assert "ended" in done.stdout and ("launched True" in done.stdout) == (how == "atexit")


def test_the_program_that_others_here_change_is_clean() -> None:
    clean(launch())
