"""Single problems on PyTorch's attention operators, each called several times in a process of its own.

    python -m tileproof.tools.silicon.attention_probes evidence.json.xz [--seconds N]

For what ends a process, never ends, or raises where the operator takes the problem: what each of `PROBES`
does.
Launches block, so that an error is raised in the operator that made it. Needs torch and a card.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tileproof.kernels.host.torch_cuda.worker import OperatorEnded, Raised, Worker
from tileproof.spec.machine.types import UncheckedObject
from tileproof.spec.problems.dense_attention_bwd.case import DenseCase
from tileproof.tools import evidence
from tileproof.tools.silicon.attention_by_hand import facts

TIMES = 4
# Operator, rest of the case: packed sequences of which one has no queries, or one in all.
SEQUENCES: tuple[tuple[tuple[int, int], ...], ...] = (
    ((1, 97),), ((0, 3), (1, 97)), ((1, 97), (0, 3)), ((0, 3), (1, 1)), ((1, 1),), ((1, 2), (1, 2)),
    ((2, 97),), ((0, 3), (2, 97)), ((0, 3), (3, 9)), ((1, 3), (0, 97)), ((0, 3), (5, 97)), ((1, 0), (1, 97)),
)  # fmt: skip
MORE = (
    ("cudnn", DenseCase("f16", d_qk=40, d_v=24, packed=((0, 3), (1, 97)))),
    ("cudnn", DenseCase("f16", d_qk=40, d_v=24, packed=((1, 97),))),
    ("cudnn", DenseCase("f16", d_qk=8, d_v=8, packed=((0, 3), (1, 97)))),
    ("efficient", DenseCase("f16", d_qk=40, d_v=24, scale=1.0, packed=((0, 3), (1, 97)))),
    ("efficient", DenseCase("bf16", h_kv=2, d_qk=16, packed=((0, 26), (128, 93)))),
    ("efficient", DenseCase("bf16", h_kv=2, d_qk=16, packed=((128, 93), (0, 26)))),
    ("efficient", DenseCase("bf16", h_kv=2, d_qk=16, packed=((1, 26), (128, 93)))),
    ("efficient", DenseCase("bf16", h_kv=2, d_qk=16, packed=((0, 93), (128, 93)))),
    ("efficient", DenseCase("bf16", d_qk=64, d_v=64, packed=((0, 4096), (128, 64)))),
    ("efficient", DenseCase("bf16", d_qk=64, d_v=64, packed=((0, 26), (128, 93)))),
)
PROBES = (
    *(("cudnn", DenseCase("f16", packed=sequence)) for sequence in SEQUENCES),
    *(("efficient", DenseCase("f16", packed=sequence)) for sequence in SEQUENCES),
    *MORE,
)


def probed(operator: str, case: DenseCase, seconds: float) -> dict[str, int]:
    """How often each thing comes of `TIMES` calls; what never ends is not called again."""
    worker, found = Worker(seconds=seconds), Counter[str]()
    inputs = case.inputs()
    for _ in range(TIMES):
        try:
            worker.call(operator, inputs)
            found["an answer"] += 1
        except Raised as error:
            found[f"{error.kind} in {error.at}: {error.text.splitlines()[0]}"[:300]] += 1
        except OperatorEnded as error:
            found[str(error)] += 1
            if "does not end" in str(error):
                break
    worker.close()
    return dict(found)


def main() -> None:
    """Writes OUTPUT."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--seconds", type=float, default=30.0, help="for a call")
    parser.add_argument("--jobs", type=int, default=8)
    given = parser.parse_args()
    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
    with ThreadPoolExecutor(given.jobs) as pool:
        found = list(pool.map(lambda probe: probed(probe[0], probe[1], given.seconds), PROBES))
    result: UncheckedObject = facts()
    result["probes"] = [
        {"operator": operator, "case": case.as_json(), "calls": what}
        for (operator, case), what in zip(PROBES, found, strict=True)
    ]
    evidence.write_json(given.output, result)
    for row in result["probes"]:
        print(row["operator"], row["case"], row["calls"])


if __name__ == "__main__":
    main()
