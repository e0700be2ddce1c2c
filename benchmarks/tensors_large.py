"""Memory and time of `tileproof tensors` on a dump of 4,096 tokens, 128 heads and topk 2048.

    python benchmarks/tensors_large.py FOLDER [--tokens 64]

Writes FOLDER/large.safetensors (2.3 GB: the inputs, and a dq that is right for the tokens that are compared),
compares it, and prints the largest memory of the process: its own, and with the pages of the file that are
mapped. Linux only: it reads /proc.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

TOKENS, HEADS, D_QK, D_V, ROWS, TOPK = 4096, 128, 576, 512, 8192, 2048
SCALE = 192**-0.5
SEED = 1


def write(path: Path, compared: int) -> None:
    """The dump; o and dq are those of the kernel for the tokens that `--tokens` and `--seed` choose."""
    torch.manual_seed(0)
    kv = torch.randn(ROWS, D_QK).bfloat16()
    q, dO = torch.randn(TOKENS, HEADS, D_QK).bfloat16(), torch.randn(TOKENS, HEADS, D_V).bfloat16()
    o, dq, lse = torch.zeros_like(dO), torch.zeros_like(q), torch.empty(TOKENS, HEADS)
    indices = torch.stack([torch.randperm(ROWS)[:TOPK] for _ in range(TOKENS)]).int()
    order = np.random.default_rng(SEED).permutation(TOKENS)
    drawn = [int(token) for token in order if token not in (0, TOKENS - 1)][: max(compared - 2, 0)]
    right = {0, TOKENS - 1, *drawn}
    for token in range(TOKENS):
        k = kv[indices[token].long()]
        wide = torch.float64 if token in right else torch.float32
        k = k.to(wide)
        logits = q[token].to(wide) @ k.T * SCALE
        base_e = torch.logsumexp(logits, 1)
        lse[token] = base_e / np.log(2)
        if token not in right:
            continue
        S = torch.exp2(logits / np.log(2) - lse[token].double()[:, None])
        o[token] = ((logits - base_e[:, None]).exp() @ k[:, :D_V]).bfloat16()
        delta = (o[token].double() * dO[token].double()).sum(1, keepdim=True)
        dS = S * (dO[token].double() @ k[:, :D_V].T - delta) * SCALE
        dq[token] = (dS.bfloat16().double() @ k).bfloat16()
    named = {"q": q, "kv": kv, "o": o, "dO": dO, "lse": lse, "indices": indices, "dq": dq}
    save_file({**named, "sm_scale": torch.tensor(SCALE, dtype=torch.float64)}, path)


def memory(pid: int) -> tuple[int, int]:
    """MB of a process and of those that it started: their own memory, and all that is resident."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return 0, 0
    said = dict(line.split(":", 1) for line in lines)
    own, resident = (
        int(said[name].split()[0]) // 1024 if name in said else 0 for name in ("RssAnon", "VmRSS")
    )
    for child in children:
        more = memory(int(child))
        own, resident = own + more[0], resident + more[1]
    return own, resident


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokens", type=int, default=64)
    given = parser.parse_args()
    path = given.folder / "large.safetensors"
    if not path.exists():
        write(path, given.tokens)
    command = [sys.executable, "-m", "tileproof", "tensors", str(path), "--problem", "sparse_mla_bwd"]
    command += ["--tokens", str(given.tokens), "--seed", str(SEED)]
    began, own, resident = time.monotonic(), 0, 0
    running = subprocess.Popen(command)
    while running.poll() is None:
        now = memory(running.pid)
        own, resident = max(own, now[0]), max(resident, now[1])
        time.sleep(0.05)
    print(f"own memory {own} MB, resident {resident} MB, {time.monotonic() - began:.0f} s")
    return running.returncode


if __name__ == "__main__":
    sys.exit(main())
