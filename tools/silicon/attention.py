"""PyTorch's attention kernels on a card, many problems each, judged by the bounds of their plans.

    python -m tileproof.tools.silicon.attention evidence.json [NAME ...] [--examples N] [--seconds N]

Each kernel runs in a process of its own, so that a fault ends one only. Every example runs: failing ones are
put together by stage, and the smallest of each is made smaller and explained. Needs torch and no engine.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tileproof.conformance.check import property as engine
from tileproof.conformance.check.left_out import not_judged
from tileproof.conformance.check.run import KernelUnderTest, run_case
from tileproof.conformance.check.under_test import on_own_driver
from tileproof.conformance.drivers.result import RunSchedule
from tileproof.conformance.drivers.spoiled import Spoiled
from tileproof.conformance.judge.compare import StageScore
from tileproof.conformance.problems.generators import smaller
from tileproof.kernels.host.torch_cuda import card
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems.dense_attention_bwd import philox
from tileproof.spec.problems.dense_attention_bwd.case import DenseCase
from tileproof.spec.problems.dense_attention_bwd.inputs import Dropout

MODULE = "tileproof.tools.silicon.attention"
SHRINK_SECONDS = 20.0  # of a kernel, over the kinds of failure
PARTS = 5
# Shape, seed and offset of the fills that are compared.
FILLS = (((1, 1, 3, 5), 0, 0), ((2, 3, 17, 33), 7, 8), ((1, 2, 64, 66), 2**40 + 3, 4096))
BLOCK_FILLS = (
    ((1, 1, 8, 8), 0, 0, 0.5),
    ((2, 3, 70, 130), 7, 8, 0.1),
    ((1, 2, 200, 300), 2**40 + 3, 4096, 0.875),
)
WHEN = RunSchedule()


def judged(
    name: str, examples: int, seed: int, seconds: float, part: tuple[int, int] = (0, 1)
) -> dict[str, Any]:
    """One kernel: what was compared of each stage, what failed, what is refused and not judged.

    `part` (i, n): every nth problem, from the ith on.
    """
    target = kernel(name)
    try:
        under_test = on_own_driver(target, target.variants[0])
    except TileproofError as error:
        return {"kernel": name, "refused": str(error)}
    plan, began = under_test.plan(), time.monotonic()
    runs = [*engine.edge_runs(plan, "early", seed), *engine.drawn(plan, "early", seed, examples)]
    runs = runs[part[0] :: part[1]]
    scores: dict[str, StageScore] = {}
    failing: dict[str, list[Any]] = {}
    refused: dict[str, list[str]] = {}
    done = 0
    for case, _ in runs:
        if time.monotonic() - began > seconds:
            break
        verdict = run_case(under_test, case, WHEN, explain=False)
        done += 1
        for stage, score in verdict.scores.items():
            scores.setdefault(stage, StageScore()).add(score)
        if verdict.findings:
            first = verdict.findings[0]
            if first.code == "host-fault":
                refused.setdefault(first.message[:160], []).append(case.as_json())
                continue
            what = f"{first.kind} {first.stage or first.code}, {condition(case)}"
            failing.setdefault(what, []).append(case)
    return {
        "kernel": name,
        "examples": done,
        "seconds": round(time.monotonic() - began, 1),
        "stages": {
            stage: {"elements": s.elements, "exact": s.exact, "worst": s.worst, "unbounded": s.unbounded}
            for stage, s in scores.items()
        },
        "refuses": dict(plan.refuses),
        "controls": _controls(name) if part[0] == 0 else {},
        "not_judged": list(not_judged(plan, under_test.driver, False)),
        "raised": {said: {"examples": len(cases), "one": cases[0]} for said, cases in refused.items()},
        "failing": {
            what: _smallest(under_test, cases, SHRINK_SECONDS / len(failing))
            for what, cases in failing.items()
        },
    }


def condition(case: Any) -> str:
    """What marks a case among those that fail, in words."""
    p = case.problem
    limited = p.mask.left is not None or p.mask.right is not None
    marks = []
    if any(one.m == 0 or one.n == 0 for one in p.sequences):
        marks.append("a sequence without queries or keys")
    elif p.packed is not None:
        marks.append("packed sequences")
    if limited and p.mask.align == "bottom right" and any(one.m > one.n for one in p.sequences):
        marks.append("more queries than keys, limits from the bottom right")
    elif limited and any(one.m < one.n for one in p.sequences):
        marks.append("more keys than queries, with limits")
    return ", ".join([*marks, *(["low logits"] if case.values == "low" else [])]) or "other"


def _controls(name: str) -> dict[str, bool]:
    """Whether each output is found when it is a twentieth too large."""
    target = kernel(name)
    under_test = on_own_driver(target, target.variants[0])
    form = next((form for form in ("f16", "f32") if name.endswith(form)), "bf16")
    case, found = DenseCase(form, m=40, n=50), {}
    for stage in under_test.plan().stages:
        spoiled = replace(under_test, driver=Spoiled(stage))
        findings = run_case(spoiled, case, WHEN, explain=False).findings
        found[stage] = any(one.stage == stage for one in findings)
    return found


def _smallest(under_test: KernelUnderTest, cases: list[Any], seconds: float) -> dict[str, Any]:
    """How many fail so, the smallest of them made smaller, and what is wrong with it."""
    ends = time.monotonic() + seconds
    case = min(cases, key=lambda one: one.problem.m * one.problem.n * one.problem.h * one.problem.d_qk)
    kind = run_case(under_test, case, WHEN, explain=False).findings
    looking = bool(kind)
    while looking and time.monotonic() < ends:
        looking = False
        for other in smaller(under_test.plan(), case):
            found = run_case(under_test, other, WHEN, explain=False).findings
            if found and found[0].stage == kind[0].stage:
                case, looking = other, True
                break
            if time.monotonic() > ends:
                break
    found = run_case(under_test, case, WHEN).findings
    return {
        "examples": len(cases),
        "cases": [one.as_json() for one in cases[:8]],
        "smallest": case.as_json(),
        "findings": [one.lines() for one in found[:4]],
    }


def same_dropout() -> dict[str, Any]:
    """Torch's own fill of the memory-efficient kernel's random numbers against the spec's Philox."""
    import torch

    found = {}
    for shape, seed, offset in FILLS:
        theirs = torch.empty(shape, device="cuda")
        torch.ops.aten._fill_mem_eff_dropout_mask_(theirs, 0.5, seed, offset)
        mine = philox.uniform(philox.words(seed, offset, int(np.prod(shape)))).reshape(shape)
        kept = theirs.cpu().numpy()
        found[str(shape)] = {
            "equal": bool((kept == mine).all()),
            "same_side_of_a_half": int(((kept > 0.5) == (mine > 0.5)).sum()),
            "elements": int(kept.size),
        }
    return found


def same_block_dropout() -> dict[str, Any]:
    """What torch's flash kernel dropped, by the sign of its debug mask, against the spec's bytes."""
    import torch

    found = {}
    for (b, h, m, n), seed, offset, p in BLOCK_FILLS:
        q, k, v = (torch.randn(b, x, h, 32, device="cuda").half() for x in (m, n, n))
        generator = torch.cuda.default_generators[torch.cuda.current_device()]
        generator.manual_seed(seed)
        generator.set_offset(offset)
        out = torch.ops.aten._flash_attention_forward(q, k, v, None, None, m, n, p, False, True)
        theirs = ~torch.signbit(out[4][:, :, :m, :n]).cpu().numpy()
        mine = Dropout(p, seed, offset, True).kept((b, h, m, n))
        found[f"{(b, h, m, n)}, p {p}"] = {"alike": int((theirs == mine).sum()), "elements": int(mine.size)}
    return found


def by_hand() -> dict[str, Any]:
    """What was found, by hand: the public function with a lower-right bias, a bias gradient over memory that
    held 7, and a window as wide as the keys; each with the largest error against float64, over rows that see
    a key, or the number of elements that were not written.
    """
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.attention.bias import causal_lower_right

    found: dict[str, Any] = {}
    torch.manual_seed(0)

    def error(o: Any, q: Any, k: Any, v: Any, right: int) -> float:
        m, n = q.shape[-2], k.shape[-2]
        seen = torch.ones(m, n, dtype=torch.bool, device="cuda").tril(n - m + right)
        logits = (q.double() @ k.double().mT * q.shape[-1] ** -0.5).masked_fill(~seen, -torch.inf)
        rows = seen.any(-1)
        wanted = torch.softmax(logits, -1) @ v.double()
        return float((o - wanted)[..., rows, :].abs().max())

    for m, n in ((3, 2), (80, 33), (33, 80)):
        q, k, v = (torch.randn(1, 1, x, 32, device="cuda") for x in (m, n, n))
        with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
            o = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(m, n))
        found[f"causal_lower_right({m}, {n}), f32"] = error(o, q, k, v, 0)
    limits: Any
    for m, n, w in ((16, 8, 8), (16, 8, 7), (8, 16, 16)):
        q, k, v = (torch.randn(1, x, 1, 32, device="cuda").half() for x in (m, n, n))
        limits = {"window_size_left": -1, "window_size_right": w}
        out = torch.ops.aten._flash_attention_forward(q, k, v, None, None, m, n, 0.0, False, False, **limits)
        o, q, k, v = (x.transpose(1, 2) for x in (out[0], q, k, v))
        found[f"flash, {m} queries, {n} keys, right {w}"] = error(o, q, k, v, w)
    q, k, v = (torch.randn(1, x, 1, 32, device="cuda") for x in (16, 256, 256))
    bias = torch.zeros(1, 1, 16, 256, device="cuda")
    out = torch.ops.aten._efficient_attention_forward(q, k, v, bias, None, None, 16, 256, 0.0, 1, True)
    more = (bias, out[0], None, None, 16, 256, out[1], 0.0, out[2], out[3], 1, True)
    for held in (7.0, -3.0):
        dO = torch.randn_like(out[0])
        spoil = [torch.full((16 * 256,), held, device="cuda") for _ in range(64)]
        del spoil
        dB = torch.ops.aten._efficient_attention_backward(dO, q, k, v, *more)[3]
        found[f"dB, keys that no query sees, memory held {held}"] = int((dB[..., 128:] == held).sum())
    return found


def facts() -> dict[str, Any]:
    """The card and its software."""
    import torch

    return {
        "date": datetime.date.today().isoformat(),
        "card": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
        "numpy": np.__version__,
    }


def _parts(name: str) -> int:
    """Processes for a kernel: an operator that makes a plan for every problem's sizes is slow."""
    return PARTS if "cudnn" in name else 1


def _together(one: dict[str, Any], two: dict[str, Any]) -> dict[str, Any]:
    """Two parts of one kernel's results."""
    if "stages" not in one or "stages" not in two:
        return one | {"other part": two}
    stages = {}
    for stage in one["stages"] | two["stages"]:
        a, b = (part["stages"].get(stage) or {} for part in (one, two))
        counts = {word: a.get(word, 0) + b.get(word, 0) for word in ("elements", "exact", "unbounded")}
        stages[stage] = counts | {"worst": max(a.get("worst", 0), b.get("worst", 0))}
    failing = dict(one["failing"])
    for what, rows in two["failing"].items():
        first = failing.get(what)
        failing[what] = rows if first is None else first | {"examples": first["examples"] + rows["examples"]}
    raised = dict(one["raised"])
    for said, rows in two["raised"].items():
        first = raised.get(said)
        raised[said] = rows if first is None else first | {"examples": first["examples"] + rows["examples"]}
    return one | {
        "examples": one["examples"] + two["examples"],
        "seconds": max(one["seconds"], two["seconds"]),
        "stages": stages,
        "failing": failing,
        "raised": raised,
    }


def main() -> None:
    """Judges the kernels named (all of them) side by side, and writes the evidence."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--examples", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--one", action="store_true", help="in this process")
    given = parser.parse_args()
    if given.one:
        result = judged(given.names[0], given.examples, given.seed, given.seconds, (given.part, given.parts))
        given.output.write_text(json.dumps(result))
        return
    names = given.names or list(card.targets())
    options = [f"--{word}={getattr(given, word)}" for word in ("examples", "seed", "seconds")]
    running = {
        (name, part): subprocess.Popen(
            [
                *(sys.executable, "-m", MODULE, f"{given.output}.{name}.{part}", name, "--one", *options),
                *(f"--part={part}", f"--parts={_parts(name)}"),
            ],
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
        )
        for name in names
        for part in range(_parts(name))
    }
    # An evidence names no folder of the machine that made it.
    words = [given.output.name if word == str(given.output) else word for word in sys.argv[1:]]
    whole: dict[str, Any] = {"command": " ".join(words), "kernels": {}}
    for (name, part), process in running.items():
        path = Path(f"{given.output}.{name}.{part}")
        _, said = process.communicate()
        ended = {"kernel": name, "ended": process.returncode, "said": said.splitlines()[-6:]}
        one = json.loads(path.read_text()) if path.exists() else ended
        other = whole["kernels"].get(name)
        whole["kernels"][name] = one if other is None else _together(other, one)
        path.unlink(missing_ok=True)
    try:
        whole |= facts() | {"dropout": same_dropout(), "by hand": by_hand()}
        whole["dropout by block"] = same_block_dropout()
    except Exception as error:  # what was judged is worth more than this
        whole["facts"] = f"{type(error).__name__}: {error}"
    given.output.write_text(json.dumps(whole, indent=1) + "\n")
    for name, one in whole["kernels"].items():
        failing = {what: rows["examples"] for what, rows in one.get("failing", {}).items()}
        raised = {said: rows["examples"] for said, rows in one.get("raised", {}).items()}
        wrong = failing or one.get("refused", one.get("said", ""))
        print(name, one.get("examples", ""), one.get("seconds", ""), wrong, raised or "")
        print("  refuses", one.get("refuses"))


if __name__ == "__main__":
    main()
