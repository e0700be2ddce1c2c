"""The backend `emulator`: the compiled SM100 kernels on CPU tensors, through the launch that `check` runs.

Heads are padded to 64 or 128 with zeros and an lse of +inf, so that S of a padded head is 0; topk is padded
to whole k-blocks with -1. dKV is cleared by the host; it is converted, and d_sink computed, by the kernels of
`kernels/sm90/mla_around`.
"""

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes
import numpy as np
import numpy.typing as npt
import torch
from tileproof.conformance.drivers import emulator
from tileproof.kernels.launch.model import LaunchFile
from tileproof.kernels.registry import kernel
from tileproof.kernels.sm90.mla_around import launches, ordered
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding_text import brief
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.problems.sparse_mla_bwd.inputs import B_TOPK, D_QK_SUPPORTED, D_V, Inputs, Problem
from tileproof.spec.problems.sparse_mla_bwd.sink import validate as validate_sink
from tileproof.spec.problems.tensors import base_2

KERNELS = {64: "head64", 128: "head128-columns"}  # by the heads that each computes
MAX_HEADS = max(KERNELS)
Array = npt.NDArray[np.generic]


def check_supported(q: torch.Tensor, sizes: Mapping[str, int]) -> None:
    """TileproofError names what the kernels are not made for."""
    wrong = None
    if q.device.type != "cpu":
        wrong = "q", "a CPU tensor", str(q.device)
    elif q.dtype != torch.bfloat16:
        wrong = "q", "torch.bfloat16", str(q.dtype)
    elif not sizes["h_q"] <= MAX_HEADS:
        wrong = "q", f"at most {MAX_HEADS} heads", str(sizes["h_q"])
    elif sizes["d_qk"] not in D_QK_SUPPORTED:
        wrong = "q", f"d_qk {' or '.join(map(str, D_QK_SUPPORTED))}", str(sizes["d_qk"])
    elif sizes["d_v"] != D_V:
        wrong = "o", f"d_v {D_V}", str(sizes["d_v"])
    if wrong is not None:
        where, expected, found = wrong
        raise TileproofError(
            'backend="emulator" does not compute this', where=where, expected=expected, found=found,
            do='use backend="reference", which runs on any device',
        )  # fmt: skip


def backward(
    q: torch.Tensor,
    kv: torch.Tensor,
    o: torch.Tensor,
    dO: torch.Tensor,
    lse: torch.Tensor,
    indices: torch.Tensor,
    topk_length: torch.Tensor | None,
    sink: torch.Tensor | None,
    sm_scale: float,
    lse_base: str,
    dkv_dtype: torch.dtype,
    deterministic: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As `reference.backward`; TileproofError where the emulator reports an error of the kernel."""
    heads = q.shape[1]
    inputs = padded_inputs(q, kv, o, dO, lse, indices, topk_length, sm_scale, lse_base)
    if sink is not None:
        own_lse = np.ascontiguousarray(inputs.lse[:, :heads])
        validate_sink(own_lse, np.zeros_like(own_lse), array(sink))
    slots, whole = None, inputs
    if deterministic:
        made = _results(ordered.expand(inputs))
        slots = made["slots"]
        inputs = ordered.expanded(inputs, slots, made["rows"])
    own = kernel(KERNELS[inputs.problem.h_q])
    variant = own.variant_of(inputs)
    launch = own.launch(inputs, own.build(variant))
    run = emulator.run(launch, own.plan(variant), schedule=Schedule("early"), taps=False)
    _require_no_errors(run)
    delta, dQ, dKV = (run.outputs[name].values for name in ("delta", "dQ", "dKV"))
    if slots is not None:
        dKV = _results(ordered.collect(dKV, whole, slots))["dKV"]
    gradient = lse.new_empty(0)
    if sink is not None:
        own_delta = np.ascontiguousarray(delta[:, :heads])
        gradient = torch.from_numpy(_results(launches.d_sink(own_lse, own_delta, array(sink)))["d_sink"])
    if dkv_dtype != torch.float32:
        half: launches.Half = "bfloat16" if dkv_dtype == torch.bfloat16 else "float16"
        dKV = _results(launches.convert(dKV, half))["narrow"]
    return tensor(dQ[:, :heads]), tensor(dKV), gradient


def _results(launch: LaunchFile) -> dict[str, Array]:
    """The outputs of a launch without a plan."""
    run, buffers = emulator.launch_on(launch, schedule=Schedule("early"))
    _require_no_errors(run)
    return {name: each.values for name, each in emulator.outputs_of(launch, buffers).items()}


def _require_no_errors(run: RunResult) -> None:
    if run.errors:
        raise TileproofError("the kernel failed on the emulator", found=brief(run.errors[0]))


def padded_inputs(
    q: torch.Tensor,
    kv: torch.Tensor,
    o: torch.Tensor,
    dO: torch.Tensor,
    lse: torch.Tensor,
    indices: torch.Tensor,
    topk_length: torch.Tensor | None,
    sm_scale: float,
    lse_base: str,
) -> Inputs:
    """The problem that a kernel is launched on."""
    (s_q, heads, d_qk), s_kv, topk = q.shape, kv.shape[0], indices.shape[1]
    more = min(size for size in KERNELS if size >= heads) - heads
    slots = -topk % B_TOPK
    problem = Problem(s_q, s_kv, heads + more, d_qk, topk + slots, sm_scale)

    def with_heads(x: Array, fill: float = 0.0) -> Array:
        return np.pad(x, [(0, 0), (0, more), *[(0, 0)] * (x.ndim - 2)], constant_values=fill)

    statistics = np.asarray(array(lse), np.float32)
    statistics = base_2(statistics) if lse_base == "e" else statistics
    index = torch.where((indices < 0) | (indices >= s_kv), -1, indices).to(torch.int32)
    length = None if topk_length is None else topk_length.clamp(0, topk).to(torch.int32).contiguous().numpy()
    return Inputs(
        problem,
        with_heads(array(q)),
        array(kv),
        with_heads(array(o)),
        with_heads(array(dO)),
        with_heads(statistics, np.inf),
        np.pad(array(index), [(0, 0), (0, slots)], constant_values=-1),
        length,
    )


def array(tensor: torch.Tensor) -> Array:
    """A CPU tensor as a C-contiguous array, bf16 as `ml_dtypes.bfloat16`; of its memory where that fits."""
    whole = tensor.detach().contiguous()
    if whole.dtype == torch.bfloat16:
        return whole.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return whole.numpy()


def tensor(values: Array) -> torch.Tensor:
    """An array, of bf16 too, as a tensor of its own."""
    if values.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(values.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(np.array(values))
