"""TileLang kernels on the emulator, without a change to them or to the code that launches them.

    with tileproof.tilelang.emulate(races=True) as run:
        kernel = function(M, N, K)
        kernel(tensors_on_the_cpu, ...)

Needs the extras `tileproof[tilelang]` and `tileproof[kernels]`.
"""

from tileproof.conformance.beside.frontends.run import EmulatedLaunch, EmulatedRun, KernelDefects
from tileproof.conformance.beside.frontends.tilelang_host import emulate

__all__ = ["EmulatedLaunch", "EmulatedRun", "KernelDefects", "emulate"]
