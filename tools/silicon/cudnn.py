"""Which calls of cuDNN's attention end their process, and how far the others are off: one process per call.

    python -m tileproof.tools.silicon.cudnn evidence.json.xz

The operators (`_cudnn_attention_forward`, `_backward`) with each argument varied, then sizes, then the public
function under `sdpa_kernel`. Errors are the largest against float64 autograd, over the largest value.
`--scan SECONDS` calls them on many drawn problems, made smaller at random, and names those that end it.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from tileproof.spec.machine.types import UncheckedObject
from tileproof.tools import evidence

if TYPE_CHECKING:
    import torch
    from tileproof.spec.problems.dense_attention_bwd.case import DenseCase

MODULE = "tileproof.tools.silicon.cudnn"
AT_ONCE = 14
MIN_SCALE = 1e-3  # errors are over the largest value, or this
SCAN_STEPS = 10
PLAIN: UncheckedObject = {
    "b": 1, "h": 1, "h_kv": 1, "m": 64, "n": 64, "d": 64, "d_v": 64, "form": "bf16", "bias": "",
    "causal": False, "shift": 0.0, "philox": "own", "lse": "own", "layout": "bmhd", "call": "operator",
    "deterministic": False, "only": "", "times": 1,
}  # fmt: skip
ONE_QUERY: UncheckedObject = {"m": 1, "n": 128}
# What is varied of the plain call.
TRIES: dict[str, UncheckedObject] = {
    "plain": {},
    "plain, f16": {"form": "f16"},
    "plain, f32": {"form": "f32"},
    "no Philox seed and offset": {"philox": "none"},
    "an empty Philox seed and offset": {"philox": "empty"},
    "an empty bias": {"bias": "empty"},
    "lse [b, h, m, 1]": {"lse": "column"},
    "[b, h, m, d] in memory": {"layout": "bhmd"},
    "_scaled_dot_product_cudnn_attention": {"call": "sdp operator"},
    "a bias of 0": {"bias": "zero"},
    "a bias of 0, low logits": {"bias": "zero", "shift": 120.0},
    "a bias of 0, low logits, 128": {"bias": "zero", "shift": 120.0, "m": 128, "n": 128},
    "low logits": {"shift": 120.0},
    "a bias of 0, low logits, 100": {"bias": "zero", "shift": 120.0, "m": 100, "n": 100},
    "a row without a key in the bias": {"bias": "blind"},
    "causal, fewer queries": {"causal": True, "m": 40},
    "causal, more queries": {"causal": True, "n": 40},
    "grouped heads": {"h": 4, "h_kv": 2},
    "a value head of its own": {"d_v": 128},
    "8 queries and keys, 16 columns": {"m": 8, "n": 8, "d": 16, "d_v": 16},
    "65 queries, 63 keys, 32 columns": {"m": 65, "n": 63, "d": 32, "d_v": 32},
    **{f"{d} columns": {"d": d, "d_v": d} for d in (8, 24, 40, 72, 96, 128, 136, 160, 192, 256)},
    **{f"{n} keys": {"n": n} for n in (1, 2, 7, 8)},
    **{f"one query, {n} keys": {"m": 1, "n": n} for n in (1, 8, 63, 128)},
    **{f"one query, one key, {n} times": {"m": 1, "n": 1, "times": n} for n in (2, 3)},
    "one query, one key, public, 3 times": {"m": 1, "n": 1, "times": 3, "call": "public"},
    "one query, forward only": {**ONE_QUERY, "only": "forward"},
    "one query, two heads": {**ONE_QUERY, "h": 2, "h_kv": 2},
    "one query, two heads, low logits": {**ONE_QUERY, "h": 2, "h_kv": 2, "shift": 120.0},
    "one query, two heads over one": {**ONE_QUERY, "h": 2},
    "one query, two batches": {**ONE_QUERY, "b": 2},
    "one query, deterministic": {**ONE_QUERY, "deterministic": True},
    "one query, a bias": {**ONE_QUERY, "bias": "zero"},
    "one query, causal": {**ONE_QUERY, "causal": True},
    "two queries": {"m": 2, "n": 128},
    **{
        f"public, {name}": {"call": "public", **more}
        for name, more in {
            "bf16": {},
            "f16": {"form": "f16"},
            "f32": {"form": "f32"},
            "one query": ONE_QUERY,
            "one query, two heads": {**ONE_QUERY, "h": 2, "h_kv": 2},
            "causal": {"causal": True},
            "a mask": {"bias": "zero"},
            "a mask, low logits": {"bias": "zero", "shift": 120.0},
            "grouped heads": {"h": 4, "h_kv": 2},
            "256 columns": {"d": 256, "d_v": 256},
            "one key": {"n": 1},
        }.items()
    },
}


def inputs(
    a: UncheckedObject,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """q, k, v, dO ``[b, h, m, d]`` and bias ``[b, h, m, n]`` or None."""
    import torch

    torch.manual_seed(0)
    form = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[a["form"]]
    heads = {"q": (a["m"], a["h"], a["d"]), "k": (a["n"], a["h_kv"], a["d"])}
    heads |= {"v": (a["n"], a["h_kv"], a["d_v"]), "dO": (a["m"], a["h"], a["d_v"])}
    made = []
    for m, h, d in heads.values():
        x = torch.randn(a["b"], m, h, d, device="cuda").to(form).transpose(1, 2)
        made.append(x.contiguous() if a["layout"] == "bhmd" else x)
    if a["shift"]:
        made[0][..., 0], made[1][..., 0] = 16.0, -a["shift"] * a["d"] ** 0.5 / 16
    bias = None
    if a["bias"] in ("zero", "blind"):
        bias = torch.zeros(a["b"], a["h"], a["m"], a["n"], device="cuda", dtype=form)
        if a["bias"] == "blind":
            bias[:, :, 3] = -torch.inf
    q, k, v, dO = made
    return q, k, v, dO, bias


def wanted(
    a: UncheckedObject,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dO: torch.Tensor,
    bias: torch.Tensor | None,
) -> UncheckedObject:
    """O, LSE and the gradients by float64 autograd; rows without a key give 0."""
    import torch

    q64, k64, v64 = (x.double().detach().requires_grad_() for x in (q, k, v))
    wide = (x.repeat_interleave(a["h"] // a["h_kv"], dim=1) for x in (k64, v64))
    keys, values = wide
    logits = q64 @ keys.mT * a["d"] ** -0.5
    if bias is not None:
        logits = logits + bias.double()
    if a["causal"]:
        seen = torch.ones(a["m"], a["n"], dtype=torch.bool, device="cuda").tril()
        logits = logits.masked_fill(~seen, -torch.inf)
    rows = torch.isfinite(logits).any(-1, keepdim=True)
    S = torch.softmax(torch.where(rows, logits, torch.zeros_like(logits)), -1) * rows
    o = S @ values
    torch.autograd.backward([o], [dO.double()])
    return {"O": o, "LSE": torch.logsumexp(logits, -1), "dQ": q64.grad, "dK": k64.grad, "dV": v64.grad}


def found(
    a: UncheckedObject,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dO: torch.Tensor,
    bias: torch.Tensor | None,
) -> UncheckedObject:
    """What the call gives."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    scale = a["d"] ** -0.5
    if a["call"] == "public":
        q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            o = torch.nn.functional.scaled_dot_product_attention(
                q, k, v, attn_mask=bias, is_causal=a["causal"], enable_gqa=a["h"] != a["h_kv"]
            )
            torch.autograd.backward([o], [dO])
        return {"O": o, "dQ": q.grad, "dK": k.grad, "dV": v.grad}
    aten, sizes = torch.ops.aten, (a["m"], a["n"])
    given = torch.empty(0, device="cuda", dtype=q.dtype) if a["bias"] == "empty" else bias
    if a["call"] == "operator":
        own = aten._cudnn_attention_forward(
            q, k, v, bias, None, None, *sizes, True, 0.0, a["causal"], False, scale=scale
        )
        backward = aten._cudnn_attention_backward
    else:
        own = aten._scaled_dot_product_cudnn_attention(
            q, k, v, bias, True, 0.0, a["causal"], False, scale=scale
        )
        backward = aten._scaled_dot_product_cudnn_attention_backward
    torch.cuda.synchronize()
    print("forward done", flush=True)
    forward = {"O": own[0], "LSE": own[1].reshape(a["b"], a["h"], a["m"])}
    if a["only"] == "forward":
        return forward
    philox: UncheckedObject = {
        "own": (own[6], own[7]),
        "none": (None, None),
        "empty": (torch.empty(0, device="cuda"),) * 2,
    }
    lse = own[1].reshape(a["b"], a["h"], a["m"], 1) if a["lse"] == "column" else own[1]
    gradients = backward(
        dO,
        q,
        k,
        v,
        own[0],
        lse,
        *philox[a["philox"]],
        given,
        None,
        None,
        *sizes,
        0.0,
        a["causal"],
        scale=scale,
    )
    torch.cuda.synchronize()
    print("backward done", flush=True)
    return forward | dict(zip(("dQ", "dK", "dV"), gradients, strict=True))


def run_kernel(name: str) -> None:
    """Makes one call, and prints how far it is off."""
    import faulthandler

    import torch

    faulthandler.enable()
    a = {**PLAIN, **TRIES[name]}
    torch.use_deterministic_algorithms(a["deterministic"])
    arrays = inputs(a)
    print("inputs done", flush=True)
    off = {}
    right = wanted(a, *arrays)
    for number in range(a["times"] - 1):
        try:
            found(a, *arrays)
        except RuntimeError as said:
            print(f"call {number}: {said}", flush=True)
    for stage, value in found(a, *arrays).items():
        exact = right[stage]
        same = torch.isfinite(exact)
        error = (value.double() - exact).abs()[same].max() / exact[same].abs().max().clamp(min=MIN_SCALE)
        off[stage] = float(error)
    print(json.dumps({"error": off}), flush=True)


def tried(name: str) -> UncheckedObject:
    """What came of one call."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", MODULE, "-", name],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    except subprocess.TimeoutExpired:
        return {"ended": "no answer in 120 s"}
    lines = done.stdout.splitlines()
    result: UncheckedObject = {"varied": TRIES[name], "code": done.returncode}
    if lines and lines[-1].startswith("{"):
        return result | json.loads(lines[-1])
    said = [line for line in done.stderr.splitlines() if line.strip()]
    fault = [line for line in said if line.startswith("Fatal") or "tools/silicon/cudnn.py" in line]
    return result | {"last": lines[-1:], "said": fault if done.returncode < 0 else said[-2:]}


def scan(seconds: float, seed: int) -> UncheckedObject:
    """Calls on drawn problems that were made smaller: how many, which ended the process and in what operator,
    and whether they do so alone in a new process.
    """
    import random
    import time

    from tileproof.kernels.host.torch_cuda.worker import OperatorEnded, Raised, Worker
    from tileproof.spec.problems.dense_attention_bwd.generator import DenseCases

    ends, ended, raised = time.monotonic() + seconds, dict[str, str](), dict[str, str]()
    counts = [0] * AT_ONCE

    def calls(number: int) -> None:
        rng, own = random.Random(seed * AT_ONCE + number), Worker()
        form = ("bf16", "f16")[number % 2]
        generator = DenseCases(form)
        while time.monotonic() < ends:
            case = drawn_case(rng, form)
            for _ in range(rng.randrange(SCAN_STEPS)):
                smaller = list(generator.smaller(case))
                case = rng.choice(smaller) if smaller else case
            counts[number] += 1
            try:
                own.call("cudnn", case.inputs())
            except OperatorEnded as error:
                ended[case.as_json()] = str(error)
            except Raised as error:
                raised.setdefault(str(error)[:200], case.as_json())
        own.close()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(calls, range(AT_ONCE)))

    def alone(text: str) -> bool:
        from tileproof.spec.problems.dense_attention_bwd.case import DenseCase

        own = Worker()
        try:
            own.call("cudnn", DenseCase.from_json(text).inputs())
        except OperatorEnded:
            return True
        except Raised:
            pass
        own.close()
        return False

    first = sorted(ended, key=len)[:AT_ONCE]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        again = dict(zip(first, pool.map(alone, first), strict=True))
    return {"calls": sum(counts), "ended": ended, "ended alone": again, "raised": raised}


def drawn_case(rng: random.Random, form: str) -> DenseCase:
    """A problem of small sizes, one query more often than not."""
    from tileproof.spec.problems.dense_attention_bwd.case import DenseCase

    m = rng.choice((1, 1, 1, 2, 3, 8, 17, 64, 65, 129))
    n = rng.choice((1, 2, 3, 4, 8, 15, 16, 17, 33, 63, 64, 65, 127, 128, 129))
    d = rng.choice((8, 16, 24, 32, 40, 64, 72, 96, 128, 160, 192, 256))
    causal = rng.random() < 0.5
    return DenseCase(
        form, rng.choice((1, 1, 2)), m, n, rng.choice((1, 1, 2)), rng.choice((1, 1, 2)), d,
        rng.choice((d, d, 8, 64, 256)), right=0 if causal else None, bias=rng.random() < 0.3,
        align=rng.choice(("top left", "bottom right")), seed=rng.randrange(100),
    )  # fmt: skip


def main() -> None:
    """All tries or those whose name has a word, and a scan; or one try in this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output")
    parser.add_argument("name", nargs="?")
    parser.add_argument("--only", default="", help="tries whose name has this word")
    parser.add_argument("--scan", type=float, default=0.0, help="seconds")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.name:
        run_kernel(given.name)
        return
    names = [name for name in TRIES if given.only in name]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = dict(zip(names, pool.map(tried, names), strict=True))
    from tileproof.tools.silicon.attention_by_hand import facts

    words = ["evidence.json.xz" if word == given.output else word for word in sys.argv[1:]]
    whole = {"command": f"python -m {MODULE} {' '.join(words)}", **facts(), "tries": results}
    if given.scan:
        whole["scan"] = scan(given.scan, given.seed)
    evidence.write_json(Path(given.output), whole)
    for name, result in results.items():
        off = {stage: f"{error:.1e}" for stage, error in result.get("error", {}).items()}
        print(name, "|", off or (result.get("code"), result.get("last"), result.get("said")))
    print(json.dumps(whole.get("scan"), indent=1))


if __name__ == "__main__":
    main()
