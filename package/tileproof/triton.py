"""Triton and Gluon kernels on the emulator, without a change to them or to the code that launches them.

    with tileproof.triton.emulate(races=True) as run:
        kernel[grid](tensors_on_the_cpu, ...)

Needs the extra `tileproof[triton]`.
"""

from tileproof.conformance.beside.frontends.run import EmulatedLaunch, EmulatedRun, KernelDefects
from tileproof.conformance.beside.frontends.triton_host import emulate

__all__ = ["EmulatedLaunch", "EmulatedRun", "KernelDefects", "emulate"]
