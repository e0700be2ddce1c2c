"""What the paper's tables and sentences take from evidence files, the spec and a worked bound."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache

import ml_dtypes
import numpy as np
from tileproof.spec.machine.types import UncheckedObject
from tileproof.spec.page import table
from tileproof.spec.problems.sparse_mla_bwd.stages import STAGES
from tileproof.tools.evidence import read_text

KINDS = ("refuted", "certified", "neither")
APPROXIMATE = "last bits of `ex2.approx`, `lg2.approx`"
MAPS = "tensor maps in the workspace"
# Launches of kernels of others on an H200: the name in the evidence, the kernel, and why bytes differ.
OTHERS = (
    ("ex49", "CUTLASS example 49, GEMM", ""),
    ("50", "CUTLASS example 50, epilogue with swizzle", ""),
    ("55", "CUTLASS example 55, f16 with e4m3", ""),
    ("57", "CUTLASS example 57, grouped GEMM", MAPS),
    ("61", "CUTLASS example 61, top-k and softmax", APPROXIMATE),
    ("62", "CUTLASS example 62, sparse GEMM", ""),
    ("67n", "CUTLASS example 67, fp8, blockwise scales", ""),
    ("68", "CUTLASS example 68, grouped, fp8", MAPS),
    ("69", "CUTLASS example 69, grouped, mixed types", MAPS),
    ("88", "CUTLASS example 88, attention", APPROXIMATE),
    ("flashmla_prefill_576", "FlashMLA sparse forward, d_qk 576", APPROXIMATE),
    ("flashmla_prefill_512", "FlashMLA sparse forward, d_qk 512", APPROXIMATE),
    ("fa3_full", "FlashAttention-3 forward, clusters of 2", APPROXIMATE),
    ("fa3_causal", "FlashAttention-3 forward, causal", APPROXIMATE),
    ("deepgemm", "DeepGEMM fp8", ""),
    ("deepgemm2", "DeepGEMM fp8, multicast", ""),
)

# Happens-before by edge: what it orders, and what it does not order.
EDGES = (
    (
        "program order of a thread",
        "its generic accesses",
        "its asynchronous operations before its later accesses",
    ),
    (
        "`bar`, `barrier.cluster`",
        "what precedes the arrivals, before what follows the waits",
        "with `.relaxed`: memory",
    ),
    (
        "mbarrier arrival, then an acquiring wait for that phase",
        "what precedes the arrival",
        "anything, if the wait's result is unused",
    ),
    (
        "bytes of a copy, then a wait for that phase (8.9.1.1)",
        "the bytes of that copy",
        "other accesses of the thread that issued it",
    ),
    (
        "`tcgen05.commit`, then a wait (9.7.16.6)",
        "the earlier operations of that thread's pipeline, and what precedes the commit",
        "later operations",
    ),
    (
        "`tcgen05.wait::ld`, `::st`",
        "the warp's own loads or stores, for that warp",
        "other warps, without a barrier",
    ),
    (
        "`fence.proxy.async` (8.9.1)",
        "earlier generic accesses, before asynchronous accesses behind the next barrier",
        "accesses of other threads",
    ),
    (
        "`tcgen05.fence::before_thread_sync`, `::after_thread_sync` (9.7.16.6.4)",
        "accesses of tensor memory across threads",
        "shared memory",
    ),
    (
        "bulk-group waits",
        "reads (`.read`) or all accesses of the thread's groups, for that thread",
        "other threads, without a barrier",
    ),
    (
        "release and acquire on memory, `fence.sc` (8.9, 8.10)",
        "as the memory model defines",
        "weak accesses outside the pattern",
    ),
)


@cache
def removed() -> list[UncheckedObject]:
    """The stored outcomes of removing each synchronising instruction."""
    return [json.loads(line) for line in read_text("2026-12-01-removals.jsonl.xz").splitlines()]


def outcomes() -> list[tuple[str, ...]]:
    """Per kernel: instructions removed, refuted, certified, neither."""
    counts = Counter((row["kernel"], row["outcome"]["outcome"]) for row in removed())
    kernels = dict.fromkeys(row["kernel"] for row in removed())
    every = {kernel: [counts[kernel, kind] for kind in KINDS] for kernel in kernels}
    return [(kernel, str(sum(found)), *map(str, found)) for kernel, found in every.items()]


def stages() -> str:
    """The stages of sparse MLA backward: formula, tile and inputs."""
    rows = [
        (name, f"`{stage.formula}`", f"[{', '.join(stage.tile)}]", ", ".join(stage.inputs))
        for name, stage in STAGES.items()
    ]
    return table(("stage", "formula", "tile", "reads"), rows)


def others_on_card() -> str:
    """Kernels of others for Hopper: bytes of a launch on an H200 beside those of the emulator."""
    names = ("2026-11-28-h200-examples.json.xz", "2026-11-28-h200-outside.json.xz")
    launches = {each["name"]: each for name in names for each in json.loads(read_text(name))["launches"]}
    rows = []
    for name, kernel, why in OTHERS:
        buffers = launches[name]["buffers"].values()
        size, differ = (sum(buffer[key] for buffer in buffers) for key in ("bytes", "differ"))
        assert bool(differ) == bool(why), name
        rows.append((kernel, f"{size:,}", f"{differ:,}" + (f": {why}" if why else "")))
    return table(("kernel", "bytes of all buffers", "bytes that differ"), rows)


def worked() -> dict[str, str]:
    """The bound of dQ[0] of one token with four keys, step by step (docs/bounds.md has the same numbers)."""
    bf16 = ml_dtypes.bfloat16
    keys = [[1.0, 0.5, 0.5], [0.0, -1.0, 1.0], [-0.5, 1.0, 0.25], [2.0, 0.0, -0.5]]
    q, k, dO = np.array([[1.0, -0.5, 2.0]], bf16), np.array(keys, bf16), np.array([[1.0, -2.0]], bf16)
    scale, mask = np.float32(0.5), np.full(4, True)
    P = STAGES["P"].bounded(q=q, k=k)
    logits = 0.5 * np.log2(np.e) * P.value[0]
    lse = np.log2(np.exp2(logits).sum(keepdims=True)).astype(np.float32)
    o = (np.exp2(logits - lse) @ k[:, :2].astype(float))[None].astype(bf16)
    S = STAGES["S"].bounded(P=P, lse=lse, mask=mask, sm_scale=scale)
    dP = STAGES["dP"].bounded(dO=dO, v=k[:, :2])
    delta = STAGES["delta"].bounded(o=o, dO=dO)
    dS = STAGES["dS"].bounded(S=S, dP=dP, delta=delta, sm_scale=scale)
    copy = STAGES["dS"].bounded(S=S, dP=dP, delta=delta, sm_scale=scale, copy=True)
    dQ = STAGES["dQ"].bounded(dS=copy, k=k)
    no_delta = STAGES["dS"].exact(S=S.value, dP=dP.value, delta=np.zeros(1), sm_scale=scale)
    moved = abs(float(no_delta[0] @ k[:, 0].astype(float)) - dQ.value[0, 0]) / dQ.errors[0, 0]
    carried = float(copy.errors[0] @ np.abs(k[:, 0].astype(float)))
    row = table(
        ("term", *(f"key {j}" for j in range(4))),
        [
            (name, *(f"{value:.4f} ± {error:.1e}" for value, error in zip(*pair, strict=True)))
            for name, pair in {
                "P": (P.value.ravel(), P.errors.ravel()),
                "S": (S.value.ravel(), S.errors.ravel()),
                "dP": (dP.value.ravel(), dP.errors.ravel()),
                "dS in f32": (dS.value.ravel(), dS.errors.ravel()),
                "dS in bf16": (copy.value.ravel(), copy.errors.ravel()),
            }.items()
        ],
    )
    return {
        "worked": row,
        "dq": f"{dQ.value[0, 0]:.6f}",
        "dq_error": f"{dQ.errors[0, 0]:.1e}",
        "moved": f"{moved:.0f}",
        "carried": f"{carried:.4e}",
        "additions": f"{dQ.errors[0, 0] - carried:.1e}",
    }


def figures() -> dict[str, object]:
    """Numbers and tables of this module by the name that the text gives them."""
    waits = [row["outcome"] for row in removed() if "try_wait" in row["outcome"]["opcode"]]
    totals = Counter(row["outcome"]["outcome"] for row in removed())
    card = json.loads(read_text("2026-11-24-h100-ptx.json.xz"))
    fuzz = json.loads(read_text("2026-11-24-h100-fuzz.json.xz"))
    fuzz_a = json.loads(read_text("2026-11-28-h200-fuzz.json.xz"))
    words = json.loads(read_text("2026-11-28-h200-wgmma.json.xz"))
    layouts = json.loads(read_text("2026-11-28-h200-wgmma-layouts.json.xz"))
    drawn = [json.loads(line) for line in read_text("2026-11-28-false-alarms.jsonl.xz").splitlines()]
    return {
        "stages": stages(),
        "edges": table(("edge", "orders", "does not order"), EDGES),
        "others_on_card": others_on_card(),
        "others": len(OTHERS),
        "others_equal": sum(not why for _, _, why in OTHERS),
        "removals": sum(totals.values()),
        "refuted": totals["refuted"],
        "waits": len(waits),
        "waits_refuted": sum(row["outcome"] == "refuted" for row in waits),
        "certified": totals["certified"],
        "neither": totals["neither"],
        "launches": card["launches"],
        "same": card["verdicts"]["same"],
        "refused": card["verdicts"]["refused"],
        "differs": card["verdicts"]["differs"],
        "failed": card["verdicts"]["failed"],
        "random": fuzz["kernels"],
        "random_same": fuzz["tally"]["same"],
        "random_nan": fuzz["tally"]["same but for NaN"],
        "random_optimiser": fuzz["tally"]["optimiser"],
        "random_a": fuzz_a["kernels"],
        "wgmma_words": words["words"] + layouts["words"],
        "wgmma_differ": words["differ"] + layouts["differ"],
        "right_examples": sum(row["examples"] for row in drawn),
        "right_kernels": len({row["unit"][0] for row in drawn}),
        "right_found": sum(bool(row["found"]) for row in drawn),
        **worked(),
    }
