"""Results of random kernels on the emulator."""

from __future__ import annotations

import numpy as np
from tileproof.emulator import Memory, Module
from tileproof.emulator.arguments import Argument
from tileproof.spec.machine.errors import TileproofError
from tileproof.tools.silicon.fuzz.program import SLOTS, THREADS, inputs


def results(
    ptx: str, names: list[str], given: np.ndarray | None = None, struct: bool = False
) -> dict[str, np.ndarray | str]:
    """What each kernel writes, [SLOTS, THREADS] u64, or why the emulator does not run it or complains.

    `given`: the words that they read (`inputs()`). `struct`: the kernels have one parameter, the bytes of the
    three pointers.
    """
    module = Module.from_ptx(ptx)
    given = inputs() if given is None else given
    return {name: _result(module, name, given, struct) for name in names}


def _result(module: Module, name: str, words_read: np.ndarray, struct: bool) -> np.ndarray | str:
    memory = Memory()
    words = memory.buffer(words_read)
    out = memory.buffer(np.zeros((SLOTS, THREADS), np.uint64))
    scratch = memory.buffer(np.zeros(16 * THREADS, np.uint8))
    given: list[Argument] = [words, out, scratch]
    if struct:
        given = [np.array([b.address for b in (words, out, scratch)], np.uint64).tobytes()]
    try:
        ran = module.launch(name, grid=(1,), block=(THREADS,), args=given, memory=memory)
    except TileproofError as error:
        return f"{error}"
    if ran.findings:
        return "; ".join(f"{f.code}: {f.message}" for f in ran.findings)
    return np.array(out.numpy())
