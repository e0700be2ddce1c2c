"""The example of docs/operator.md with NCCL, a process a card, beside one process on one card.

    python benchmarks/two_cards.py FOLDER

Needs two CUDA cards. Prints the largest difference of dq and of each process's dkv, by how work is split.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import torch
import torch.multiprocessing as processes
from tileproof.spec.machine.types import UncheckedObject

PAGE = Path(__file__).parents[1] / "docs/operator.md"
ON_CARDS = {  # text of the example, and what takes its place
    '"gloo"': '"nccl"',
    "indices, d_v=D_V)": 'indices, d_v=D_V, backend="reference")',
    "return q, kv, torch.randint(-1, ROWS, (TOKENS, TOPK)), dO": (
        "return tuple(x.cuda() for x in (q, kv, torch.randint(-1, ROWS, (TOKENS, TOPK)), dO))"
    ),
}


def example() -> UncheckedObject:
    """The functions of the example, on the current card."""
    (code,) = re.findall(r"```python file=two\.py\n(.*?)```", PAGE.read_text(), re.S)
    for text, other in ON_CARDS.items():
        assert code.count(text) == 1, text
        code = code.replace(text, other)
    names: UncheckedObject = {"__name__": "two"}
    exec(compile(code, "two.py", "exec"), names)
    return names


def work(rank: int, count: int, folder: str) -> None:
    """A process of the example."""
    torch.cuda.set_device(rank)
    example()["work"](rank, count, folder)


def main(folder: str) -> None:
    processes.spawn(work, (2, folder), nprocs=2)
    two = example()
    q, kv, indices, dO = two["inputs"]()
    dq, dkv = two["gradients"](q, kv, indices, dO, lambda kv: kv)
    parts = [torch.load(f"{folder}/{rank}.pt", map_location="cuda:0") for rank in range(2)]
    for name, axis in {"heads": 1, "queries": 0}.items():
        whole = torch.cat([part[name][0] for part in parts], axis)
        off = [f"{float((part[name][1] - dkv).abs().max()):.1e}" for part in parts]
        print(f"{name}: dq {float((whole - dq).abs().max()):.1e}, dkv {' and '.join(off)}")
    print(torch.cuda.get_device_name(0), torch.__version__, "NCCL", torch.cuda.nccl.version())


if __name__ == "__main__":
    main(sys.argv[1])
