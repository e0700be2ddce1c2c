"""The backend `emulator`: the compiled SM100 kernels on CPU tensors, in the launches of `steps.py`."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt
import torch
from tileproof.conformance.drivers import emulator
from tileproof.kernels.launch.builder import LaunchBuilder
from tileproof.kernels.launch.contents import ArrayContent, name_of
from tileproof.kernels.launch.model import BufferRole, LaunchBuffer
from tileproof.ops import steps
from tileproof.ops.plan import CallStep
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding_text import brief
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.problems.sparse_mla_bwd.sink import validate as validate_sink

Array = npt.NDArray[np.generic]


def backward(call: steps.Call) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As `steps.backward`; TileproofError where the emulator reports an error of a kernel."""
    if call.sink is not None:
        lse = array(call.lse_base_2)
        validate_sink(lse, np.zeros_like(lse), array(call.sink))
    return steps.backward(EmulatedLauncher(), call)


class EmulatedLauncher:
    """Launches on the emulator; their results are copied to the step's tensors."""

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """As `steps.KernelLauncher`."""
        return torch.empty(shape, dtype=dtype)

    def start(self, step: CallStep, tensors: steps.Tensors) -> None:
        """As `steps.KernelLauncher`; the launch has ended."""
        built = step.entry.built()
        made = LaunchBuilder(step.entry.name, built.ptx)
        buffers: dict[str, LaunchBuffer | None] = {}
        arrays = {}
        for name, of in step.tensors.items():
            tensor = None if of is None else tensors[of]
            if tensor is None:
                buffers[name] = None
                continue
            arrays[name] = own = array(tensor)
            if name in step.outputs:
                buffers[name] = made.output(name, own.shape, own.dtype)
            else:
                role: BufferRole = "inout" if name in step.adds else "input"
                content = ArrayContent(own)
                buffers[name] = made.add(LaunchBuffer(name, name_of(own.dtype), own.shape, role, content))
        step.entry.layout.launch(made, step.entry.name, buffers, step.sizes)
        launch = made.file()
        run, placed = emulator.launch_on(
            launch, schedule=Schedule("early"), host_threads=torch.get_num_threads()
        )
        if run.errors:
            raise TileproofError("the kernel failed on the emulator", found=brief(run.errors[0]))
        for name, output in emulator.outputs_of(launch, placed).items():
            arrays[name][...] = output.values


def array(tensor: torch.Tensor) -> Array:
    """A CPU tensor as a C-contiguous array, bf16 as `ml_dtypes.bfloat16`; of its memory where that fits."""
    whole = tensor.detach().contiguous()
    if whole.dtype == torch.bfloat16:
        return whole.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return whole.numpy()
