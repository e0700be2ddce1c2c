"""Captures PyTorch's attention backward on a card: inputs, lse and gradients of each backend as dumps.

    python benchmarks/silicon/torch_dumps.py OUT [--device cuda] [--seconds 60]

Writes a tar per backend (a .safetensors per problem, names of `tileproof tensors --convention torch`) and a
manifest into the folder OUT. Every backend and dtype has a process of its own, which a crash or the time
limit ends alone. Needs torch only.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import subprocess
import sys
import tarfile
import tempfile

BACKENDS = ("flash", "efficient", "cudnn", "math")
# name: b, h, h_kv, m, n, d, causal, scale (None: 1 / sqrt(d))
SHAPES = {
    "plain": (1, 2, 2, 200, 200, 64, False, None),
    "causal": (1, 2, 2, 256, 256, 128, True, None),
    "grouped": (1, 4, 2, 130, 130, 64, True, None),
    "unequal": (2, 1, 1, 100, 300, 64, False, 0.3),
    "long": (1, 1, 1, 1024, 1024, 64, True, None),
}


def write_safetensors(path, tensors):
    """The dtypes and bytes as they are; no package but torch."""
    import torch

    codes = {torch.bfloat16: "BF16", torch.float16: "F16", torch.float32: "F32", torch.float64: "F64"}
    header, blobs, at = {}, [], 0
    for name, value in tensors.items():
        value = value if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=torch.float64)
        value = value.detach().cpu().contiguous()
        blob = ctypes.string_at(value.data_ptr(), value.numel() * value.element_size())
        header[name] = {
            "dtype": codes[value.dtype],
            "shape": list(value.shape),
            "data_offsets": [at, at + len(blob)],
        }
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + b"".join(blobs))


def forward(backend, q, k, v, causal, scale):
    """o and the backend's own lse, if it returns it."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    aten = torch.ops.aten
    if backend == "flash":
        o, lse, *_ = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False, scale=scale)
        return o, lse
    if backend == "efficient":
        o, lse, *_ = aten._scaled_dot_product_efficient_attention(
            q, k, v, None, True, 0.0, causal, scale=scale
        )
        return o, lse
    if backend == "cudnn":
        o, lse, *_ = aten._scaled_dot_product_cudnn_attention(
            q, k, v, None, True, 0.0, causal, False, scale=scale
        )
        return o, lse
    grouped = q.shape[1] != k.shape[1]
    with sdpa_kernel(SDPBackend.MATH):
        o = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=causal, scale=scale, enable_gqa=grouped
        )
    return o, None


def float64_lse(q, k, causal, scale):
    import torch

    k = k.double().repeat_interleave(q.shape[1] // k.shape[1], 1)
    logits = q.double() @ k.transpose(-1, -2) * scale
    if causal:
        seen = torch.full(logits.shape[-2:], True, device=q.device).tril()
        logits = logits.masked_fill(~seen, -math.inf)
    return torch.logsumexp(logits, -1).float()


def capture(backend, dtype, shape, device, path):
    import torch

    b, h, h_kv, m, n, d, causal, scale = SHAPES[shape]
    scale = d**-0.5 if scale is None else scale
    torch.manual_seed(sorted(SHAPES).index(shape))
    kind = {"bf16": torch.bfloat16, "f16": torch.float16}[dtype]
    q, k, v = (
        torch.randn(b, heads, length, d).to(kind).to(device).requires_grad_()
        for heads, length in ((h, m), (h_kv, n), (h_kv, n))
    )
    dO = torch.randn(b, h, m, d).to(kind).to(device)
    o, lse = forward(backend, q, k, v, causal, scale)
    dq, dk, dv = torch.autograd.grad(o, (q, k, v), dO)
    right = float64_lse(q.detach(), k.detach(), causal, scale)
    row = {"lse": "own" if lse is not None else "float64"}
    if lse is None:
        lse = right
    lse = lse.detach().float()
    if lse.dim() == 4:  # cuDNN: [b, h, m, 1]
        lse = lse.squeeze(-1)
    lse = lse[..., :m]  # efficient: padded rows
    row["largest difference of lse from float64"] = float((lse - right).abs().max())
    write_safetensors(
        path,
        {
            "query": q, "key": k, "value": v, "out": o, "grad_out": dO, "logsumexp": lse,
            "scale": scale, "is_causal": float(causal),
            "grad_query": dq, "grad_key": dk, "grad_value": dv,
        },
    )  # fmt: skip
    return row


def child(backend, dtype, device, folder):
    for shape in SHAPES:
        name = f"{backend}-{dtype}-{shape}"
        try:
            row = capture(backend, dtype, shape, device, os.path.join(folder, f"{name}.safetensors"))
        except Exception as error:
            row = {"error": f"{type(error).__name__}: {str(error).splitlines()[0][:300]}"}
        print(json.dumps({name: row}), flush=True)


def facts(device):
    import torch

    found = {"torch": torch.__version__, "cuda": torch.version.cuda, "python": sys.version.split()[0]}
    if device == "cuda":
        found["card"] = torch.cuda.get_device_name()
        found["capability"] = list(torch.cuda.get_device_capability())
        found["cudnn"] = torch.backends.cudnn.version()
        smi = "nvidia-smi --query-gpu=driver_version --format=csv,noheader"
        found["driver"] = subprocess.run(smi.split(), capture_output=True, text=True).stdout.strip()
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=60.0, help="of a backend and dtype")
    parser.add_argument("--only", nargs=2, metavar=("BACKEND", "DTYPE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only:
        child(*given.only, given.device, given.out)
        return
    os.makedirs(given.out, exist_ok=True)
    manifest = {"facts": facts(given.device), "dumps": {}, "processes": {}}
    for backend in BACKENDS:
        with tempfile.TemporaryDirectory() as folder:
            for dtype in ("bf16", "f16"):
                command = [sys.executable, __file__, folder, "--device", given.device]
                command += ["--only", backend, dtype]
                try:
                    ran = subprocess.run(command, capture_output=True, text=True, timeout=given.seconds)
                    said, ended = ran.stdout, ran.returncode
                    if ended:
                        ended = f"exit {ended}: {ran.stderr[-400:]}"
                except subprocess.TimeoutExpired as error:
                    said, ended = (error.stdout or b"").decode(), "time limit"
                manifest["processes"][f"{backend}-{dtype}"] = ended
                for line in said.splitlines():
                    if line.startswith("{"):
                        manifest["dumps"].update(json.loads(line))
            with tarfile.open(os.path.join(given.out, f"{backend}.tar"), "w") as tar:
                for name in sorted(os.listdir(folder)):
                    tar.add(os.path.join(folder, name), arcname=name)
    with open(os.path.join(given.out, "manifest.json"), "w") as file:
        json.dump(manifest, file, indent=1)
    print(json.dumps(manifest, indent=1))


if __name__ == "__main__":
    main()
