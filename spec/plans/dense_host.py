"""Plans of dense attention kernels that are host functions: only their outputs can be observed."""

from __future__ import annotations

from tileproof.spec.plan import KernelPlan, OutputObservation, WarpRole
from tileproof.spec.problems.dense_attention_bwd.problem import DenseAttentionBwd

OUTPUTS = {
    "delta": "[b, h, m]",
    "dB": "[b, h, m, n]",
    "dQ": "[b, h, m, d_qk]",
    "dK": "[b, h_kv, n, d_qk]",
    "dV": "[b, h_kv, n, d_v]",
}
TILES = ("P", "S", "D", "dD", "dP", "dS")
BLOCK = (32, 48)  # queries and keys of a block: two sizes, so that one taken for the other is seen


HOST = WarpRole("host", 0, 1, (0,), "calls the function")


def blocked(name: str, problem: DenseAttentionBwd, parts: tuple[str, ...] = ()) -> KernelPlan:
    """The plan of the blocked implementation, whose every stage is an output; `parts` of dQ too."""
    tiles = tuple(OutputObservation(stage, stage, "[b, h, m, n]") for stage in TILES)
    whole = tuple(OutputObservation(stage, stage, axes) for stage, axes in OUTPUTS.items())
    shown = tuple(OutputObservation(part, part, OUTPUTS["dQ"]) for part in parts)
    return KernelPlan(
        name=name,
        problem=problem,
        block=BLOCK[0],
        cluster=1,
        threads=32,
        roles=(HOST,),
        smem_bytes=0,
        stages=("delta", *TILES, "dB", *parts, "dQ", "dK", "dV"),
        observations=(*tiles, *whole, *shown),
        shape=(("n", BLOCK[1], 1),),
    )


def outputs_only(
    name: str,
    problem: DenseAttentionBwd,
    refuses: tuple[tuple[str, str], ...],
    unordered: tuple[str, ...] = (),
    more: tuple[str, ...] = (),
) -> KernelPlan:
    """The plan of an operator that shows its gradients, and O and LSE of its forward; `more` stages too."""
    shown = {"LSE": "[b, h, m]", "O": "[b, h, m, d_v]"}
    shown |= {stage: OUTPUTS[stage] for stage in (*more, "dQ", "dK", "dV")}
    return KernelPlan(
        name=name,
        problem=problem,
        block=64,
        cluster=1,
        threads=32,
        roles=(HOST,),
        smem_bytes=0,
        stages=("LSE", "O", *more, "dQ", "dK", "dV"),
        unseen=("delta", "P", "W", "WZ", "S", "D", "dD", "dP", "dS"),
        observations=tuple(OutputObservation(stage, stage, axes) for stage, axes in shown.items()),
        refuses=refuses,
        unordered=unordered,
    )
