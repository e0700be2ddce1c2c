"""Numeric variants of the blocked dense attention in torch."""

from __future__ import annotations

from numeric.variant import NumericVariant

B, SPLIT, WIDE = "blocked", "blocked-split", "blocked-split-f32"
FILE = "tileproof.kernels.host.blocked.kernel"
BF16, F16 = ".bfloat16().float()", ".half().float()"


def _near(x: str, bits: int) -> str:
    half, mask = 2 ** (23 - bits), -(2 ** (24 - bits))
    return f"((({x}).contiguous().view(torch.int32) + {half}) & {mask}).view(torch.float32)"


def _cut(x: str, bits: int) -> str:
    return f"(({x}).contiguous().view(torch.int32) & {-(2 ** (24 - bits))}).view(torch.float32)"


def _made(
    id: str, title: str, text: str, replacement: str, right: str = "", kernel: str = B
) -> NumericVariant:
    return NumericVariant(kernel, f"host-{id}", title, ((FILE, text, replacement),), right)


_DELTA, _P, _DD = "(o * dO).sum(dim=-1)", "P = q[i] @ k[j].T", "dD = dO[i] @ v[j].T"
_POWER, _GRADIENT = "torch.exp2(exponent), 0.0)", "gradient = S * (dP - delta[i][:, None])"
_NARROW = "return lambda x: x.to(narrow).float()"
_SPLIT_SUM = "dQ = dQ + part"
VARIANTS = (
    _made("delta-bf16", "delta in bf16", _DELTA, f"{_DELTA}{BF16}"),
    _made("delta-16-bits", "delta of 16 bits", _DELTA, _near(_DELTA, 16)),
    _made("delta-20-bits", "delta of 20 bits", _DELTA, _near(_DELTA, 20)),
    _made("delta-products-bf16", "products of delta in bf16", _DELTA, f"(o * dO){BF16}.sum(dim=-1)"),
    _made("p-bf16", "P in bf16", _P, f"P = (q[i] @ k[j].T){BF16}"),
    _made("p-tf32", "P in tf32", _P, f"P = {_near('q[i] @ k[j].T', 11)}"),
    _made("p-20-bits", "P of 20 bits", _P, f"P = {_near('q[i] @ k[j].T', 20)}"),
    _made("log2e-1.4427", "log2(e) = 1.4427", "LOG2_E = math.log2(math.e)", "LOG2_E = 1.4427"),
    _made("log2e-1.44269", "log2(e) = 1.44269", "LOG2_E = math.log2(math.e)", "LOG2_E = 1.44269"),
    _made(
        "log2e-1.442695",
        "log2(e) = 1.442695",
        "LOG2_E = math.log2(math.e)",
        "LOG2_E = 1.442695",
        right="2^-25 from log2(e): below the rounding of its product with sm_scale",
    ),
    _made(
        "scale-f16",
        "sm_scale in f16",
        "torch.tensor(p.sm_scale).float()",
        "torch.tensor(p.sm_scale).half().float()",
    ),
    _made(
        "lse-bf16",
        "lse in bf16",
        "lse = torch.tensor(inputs.lse[sequence.batch, head, sequence.queries])",
        f"lse = torch.tensor(inputs.lse[sequence.batch, head, sequence.queries]){BF16}",
    ),
    _made(
        "bias-20-bits",
        "the bias times log2(e) of 20 bits",
        "bias[i, j] * LOG2_E",
        _near("bias[i, j] * LOG2_E", 20),
    ),
    _made("exp2-f16", "the exponent in f16", _POWER, f"torch.exp2(exponent{F16}), 0.0)"),
    _made("exp2-20-bits", "S of 20 bits", _POWER, f"{_near('torch.exp2(exponent)', 20)}, 0.0)"),
    _made("exp2-cut-22", "S cut to 22 bits", _POWER, f"{_cut('torch.exp2(exponent)', 22)}, 0.0)"),
    _made("exp2-e", "e^x of the exponent times ln 2", _POWER, "torch.exp(exponent * math.log(2.0)), 0.0)"),
    _made("dd-bf16", "dD in bf16", _DD, f"dD = (dO[i] @ v[j].T){BF16}"),
    _made("ds-s-bf16", "dS made of S in bf16", _GRADIENT, f"gradient = S{BF16} * (dP - delta[i][:, None])"),
    _made(
        "ds-difference-tf32",
        "the difference in tf32",
        _GRADIENT,
        f"gradient = S * {_near('dP - delta[i][:, None]', 11)}",
    ),
    _made("ds-distributed", "S dP - S delta", _GRADIENT, "gradient = S * dP - S * delta[i][:, None]"),
    _made(
        "narrow-cut",
        "operands cut off",
        _NARROW,
        "return lambda x: (x.contiguous().view(torch.int32) & -65536).view(torch.float32)",
    ),
    _made(
        "narrow-16-bits-first",
        "operands of 16 bits first",
        _NARROW,
        f"return lambda x: {_near('x', 16)}.to(narrow).float()",
    ),
    _made(
        "narrow-f16-first", "operands through f16", _NARROW, "return lambda x: x.half().to(narrow).float()"
    ),
    _made(
        "dv-bf16",
        "sums of dV in bf16",
        "dV[j] += D_operand.T @ dO[i]",
        f"dV[j] = (dV[j] + D_operand.T @ dO[i]){BF16}",
    ),
    _made(
        "dk-tf32",
        "sums of dK in tf32",
        "dK[j] += dS_operand.T @ q[i]",
        f"dK[j] = {_near('dK[j] + dS_operand.T @ q[i]', 11)}",
    ),
    _made(
        "dq-bf16",
        "sums of dQ in bf16",
        "parts[split, i] += dS_operand @ k[j]",
        f"parts[split, i] = (parts[split, i] + dS_operand @ k[j]){BF16}",
    ),
    _made("dv-wide", "dV made of D before it is rounded", "dV[j] += D_operand.T", "dV[j] += D.T"),
    _made(
        "rescale-bf16",
        "1 / (1 - p) in bf16",
        "torch.tensor(p.dropout.rescale).float()",
        "torch.tensor(p.dropout.rescale).bfloat16().float()",
    ),
    _made(
        "p-order",
        "P by columns from the end",
        _P,
        "P = q[i].flip(-1) @ k[j].flip(-1).T",
        right="the plan states no order of the sums",
    ),
    _made(
        "ds-scale-first",
        "sm_scale before the difference",
        "dS = gradient * scale",
        "dS = (S * scale) * (dP - delta[i][:, None])",
        right="the plan states no order of the factors",
    ),
    _made("split-bf16", "the sum of the runs in bf16", _SPLIT_SUM, f"dQ = (dQ + part){BF16}", kernel=SPLIT),
    _made(
        "split-order",
        "the last run is added first",
        "for part in parts[1 : p.splits]:",
        "for part in reversed(parts[1 : p.splits]):",
        kernel=WIDE,
    ),
)
