"""Changes of the spec that a test of tests/spec or tests/reference must find.

A change replaces text of one file of `spec/`, which stands there once. `tests` are the files that are run
against the changed copy (`tests.kit.spec_change_runs`). Tests that compare generated pages with the spec are
left out: who changes the spec renews its pages.
"""

from __future__ import annotations

from dataclasses import dataclass

CONSTANTS = ("tests/spec/test_constants.py",)
OPERATIONS = ("tests/spec/test_operations.py",)
NUMERICS = ("tests/spec/test_numerics.py",)
STAGES = ("tests/spec/test_stages.py",)
ROUNDING = ("tests/reference/test_rounding.py",)
ORACLE = ("tests/reference/test_oracle.py",)
TILES = ("tests/spec/test_tiles.py", "tests/reference/test_sparse_mla_tiles.py")
PROBLEM = ("tests/spec/test_problem.py",)
TENSOR_CORE = ("tests/spec/test_tensor_core.py",)
TERMS = ("tests/spec/test_terms.py",)

_ATTENTION = "problems/attention.py"
_MLA = "problems/sparse_mla_bwd"
_ELEMENTWISE = "arithmetic/operations/elementwise.py"
_FUNCTIONS = "arithmetic/operations/functions.py"
_PRODUCTS = "arithmetic/operations/products.py"


@dataclass(frozen=True)
class Change:
    """`old` stands once in `file` (a path in spec/) and becomes `new`."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def _constant(name: str, old: str, new: str) -> Change:
    return Change(f"{name} = {new}", "numerics.py", f"\n{name} = {old}\n", f"\n{name} = {new}\n", CONSTANTS)


CHANGES: tuple[Change, ...] = (
    # Formulas.
    Change("dS adds delta", _ATTENTION, "m.sub(dP, m.column(delta))", "m.add(dP, m.column(delta))", STAGES),
    Change(
        "P is negative",
        _ATTENTION,
        "return m.matmul(q, m.transpose(k))",
        "return m.neg(m.matmul(q, m.transpose(k)))",
        STAGES,
    ),
    Change("S without log2(e)", _ATTENTION, "m.mul(sm_scale, log2_e(m), P)", "m.mul(sm_scale, P)", STAGES),
    Change(
        "lse is added",
        _ATTENTION,
        "m.sub(m.mul(sm_scale, log2_e(m), P), m.column(lse))",
        "m.add(m.mul(sm_scale, log2_e(m), P), m.column(lse))",
        STAGES,
    ),
    Change(
        "dKV without S^T dO",
        f"{_MLA}/stages.py",
        "m.accumulate(m.matmul(m.transpose(dS), q), m.transpose(S), dO)",
        "m.matmul(m.transpose(dS), q)",
        STAGES,
    ),
    Change(
        "log2(e) is that of f16", "numerics.py", "LOG2_E = math.log2(math.e)", "LOG2_E = 1.4423828125", ORACLE
    ),
    Change(
        "the forward's logits without log2(e)",
        f"{_MLA}/forward.py",
        "(p.sm_scale * LOG2_E)",
        "p.sm_scale",
        ORACLE,
    ),
    Change(
        "D subtracts beta C",
        "problems/gemm/stages.py",
        "m.add(m.mul(alpha, product), m.mul(beta, C))",
        "m.sub(m.mul(alpha, product), m.mul(beta, C))",
        ("tests/reference/test_gemm_tiles.py",),
    ),
    # Rounding points.
    Change(
        "operands are not rounded",
        _ATTENTION,
        "operand=m.round_to(OPERAND, value)",
        "operand=value",
        ROUNDING,
    ),
    Change(
        "outputs are not rounded", _ATTENTION, "output=m.round_to(OPERAND, value)", "output=value", ROUNDING
    ),
    Change(
        "dS reads the rounded S",
        _ATTENTION,
        "def dS(m: Arithmetic, S: AsF32,",
        "def dS(m: Arithmetic, S: AsOperand,",
        STAGES,
    ),
    Change(
        "dKV reads dS in f32",
        f"{_MLA}/stages.py",
        "S: AsOperand, dO: AsOperand, dS: AsOperand, q: AsOperand) -> AnyTerm:",
        "S: AsOperand, dO: AsOperand, dS: AsF32, q: AsOperand) -> AnyTerm:",
        STAGES,
    ),
    Change(
        "a polynomial without the rounding of its steps",
        "arithmetic/forms.py",
        "return self.approximation + rounding",
        "return self.approximation",
        ("tests/spec/problems/test_mla_rounding.py",),
    ),
    Change(
        "sm_scale is applied twice at the end",
        f"{_MLA}/stages.py",
        "m.mul(sm_scale, m.matmul(dS, k))",
        "m.mul(sm_scale, sm_scale, m.matmul(dS, k))",
        ("tests/spec/problems/test_mla_rounding.py",),
    ),
    Change(
        "round_to truncates",
        "arithmetic/forms.py",
        "BF16: round_bf16,",
        "BF16: lambda x: round_bf16(x * (1 - 2.0**-9)),",
        ROUNDING,
    ),
    Change(
        "held: the lower end alone",
        "arithmetic/terms.py",
        "for sign in (-1.0, 1.0)",
        "for sign in (-1.0, -1.0)",
        TERMS,
    ),
    Change(
        "f32 ends are rounded inward",
        "arithmetic/terms.py",
        "near < x if sign > 0 else near > x",
        "near > x if sign > 0 else near < x",
        TERMS,
    ),
    # Constants, doubled and halved.
    _constant("U_F64", "2.0**-53", "2.0**-52"),
    _constant("U_F32", "2.0**-24", "2.0**-23"),
    _constant("U_F32", "2.0**-24", "2.0**-25"),
    _constant("U_F32_RZ", "2.0**-23", "2.0**-22"),
    _constant("U_F32_RZ", "2.0**-23", "2.0**-24"),
    _constant("U_BF16", "2.0**-8", "2.0**-7"),
    _constant("U_BF16", "2.0**-8", "2.0**-9"),
    _constant("U_F16", "2.0**-11", "2.0**-10"),
    _constant("EX2_RELATIVE", "2.0**-22", "2.0**-20"),
    _constant("EX2_RELATIVE", "2.0**-22", "2.0**-21"),
    _constant("EX2_RELATIVE", "2.0**-22", "2.0**-23"),
    _constant("LG2_ERROR", "2.0**-22", "2.0**-21"),
    _constant("LG2_ERROR", "2.0**-22", "2.0**-23"),
    _constant("DIV_RELATIVE", "2.0**-22", "2.0**-21"),
    _constant("SQRT_RELATIVE", "2.0**-23", "2.0**-24"),
    _constant("RSQRT_RELATIVE", "2.0**-22.9", "2.0**-21.9"),
    _constant("TANH_RELATIVE", "2.0**-11", "2.0**-10"),
    _constant("F32_TINY", "2.0**-149", "2.0**-148"),
    _constant("F32_MIN_NORMAL", "2.0**-126", "2.0**-127"),
    _constant("BF16_TINY", "2.0**-133", "2.0**-132"),
    _constant("F16_TINY", "2.0**-24", "2.0**-25"),
    _constant("F16_MAX", "65504.0", "65536.0"),
    Change(
        "EX2_RELATIVE four times, in exp2 alone",
        _FUNCTIONS,
        "relative, reduced = (EX2_RELATIVE, 0.0)",
        "relative, reduced = (4 * EX2_RELATIVE, 0.0)",
        OPERATIONS,
    ),
    # Dropped error terms.
    Change(
        "exp2: no spread of the operand",
        _FUNCTIONS,
        "(spread * (1 + relative) + relative + 4 * U_F64)",
        "(relative + 4 * U_F64)",
        OPERATIONS,
    ),
    Change(
        "exp2: nothing is flushed",
        _FUNCTIONS,
        "+ 4 * U_F64) + F32_MIN_NORMAL\n",
        "+ 4 * U_F64)\n",
        TERMS,
    ),
    Change(
        "log: the product's rounding",
        _FUNCTIONS,
        "return approximate + gamma(2, U_F32) * (size + approximate)",
        "return approximate",
        TERMS,
    ),
    Change(
        "div: the divisor's error",
        _ELEMENTWISE,
        "(a.error + np.abs(value) * b.error) / least",
        "a.error / least",
        OPERATIONS,
    ),
    Change(
        "mul: the factors' errors",
        _ELEMENTWISE,
        "error = carried + rounded * magnitude + F32_TINY * follow",
        "error = rounded * magnitude + F32_TINY * follow",
        TERMS,
    ),
    Change(
        "mul: its roundings",
        _ELEMENTWISE,
        "error = carried + rounded * magnitude + F32_TINY * follow",
        "error = carried + F32_TINY * follow",
        TERMS,
    ),
    Change(
        "mul: underflow",
        _ELEMENTWISE,
        "error = carried + rounded * magnitude + F32_TINY * follow",
        "error = carried + rounded * magnitude",
        TERMS,
    ),
    Change(
        "add: its rounding",
        _ELEMENTWISE,
        "rounded = (U_F32 + U_F64) * size\n",
        "rounded = 0.0 * size\n",
        TERMS,
    ),
    Change(
        "matmul: the second operand's error",
        _PRODUCTS,
        "carried = carried + np.abs(a.value) @ b.errors",
        "carried = carried + 0.0",
        TERMS,
    ),
    Change(
        "sum: the roundings to f32",
        "arithmetic/terms.py",
        "error = relative * self.magnitude\n",
        "error = 0.0 * self.magnitude\n",
        ROUNDING,
    ),
    Change(
        "sum: underflow",
        "arithmetic/terms.py",
        "error += n * F32_TINY + self.carried",
        "error += self.carried",
        TERMS,
    ),
    Change(
        "scatter: the tiles' own errors",
        "numerics.py",
        "bound = np.asarray(tile_bounds, dtype=np.float64) + relative * total",
        "bound = relative * total",
        TERMS,
    ),
    Change(
        "scatter: flushed subnormals",
        "numerics.py",
        "+ relative * total + n * F32_MIN_NORMAL",
        "+ relative * total",
        TERMS,
    ),
    # Exactness and overflow.
    Change(
        "sums of 25 bits are exact",
        "arithmetic/terms.py",
        "self.magnitude <= self.unit * 2.0**24",
        "self.magnitude <= self.unit * 2.0**25",
        TERMS,
    ),
    Change(
        "only sums of 23 bits are exact",
        "arithmetic/terms.py",
        "self.magnitude <= self.unit * 2.0**24",
        "self.magnitude <= self.unit * 2.0**23",
        TERMS,
    ),
    Change(
        "exact sums below f32's range",
        "arithmetic/terms.py",
        "fits &= (self.unit >= F32_TINY) & (self.magnitude <= F32_MAX)",
        "fits &= self.magnitude <= F32_MAX",
        TERMS,
    ),
    Change(
        "rows of 25 bits are exact",
        "arithmetic/sums.py",
        "unit * 2.0**24",
        "unit * 2.0**25",
        TERMS,
    ),
    Change(
        "nothing overflows",
        "arithmetic/terms.py",
        "np.isfinite(error) & (largest <= F32_MAX)",
        "np.isfinite(error)",
        TERMS,
    ),
    Change(
        "x + 0 is rounded",
        _ELEMENTWISE,
        "if not (a.magnitude_bound.all() and b.magnitude_bound.all()):",
        "if False:",
        TERMS,
    ),
    Change(
        "any factor multiplies exactly",
        _ELEMENTWISE,
        "abs(np.frexp(term.value)[0]) == 0.5",
        "abs(np.frexp(term.value)[0]) >= 0.5",
        TERMS,
    ),
    Change(
        "subnormal operands keep their exponent",
        "arithmetic/terms.py",
        "np.maximum(self.magnitude_bound, F32_MIN_NORMAL))",
        "self.magnitude_bound)",
        TERMS,
    ),
    # Tiles and keys.
    Change(
        "dKV's axes",
        f"{_MLA}/stages.py",
        '"B_TOPK", "d_qk", symbol=',
        '"d_qk", "B_TOPK", symbol=',
        STAGES,
    ),
    Change(
        "heads of the other CTA",
        f"{_MLA}/tiling.py",
        "slice(cta * each, (cta + 1) * each)",
        "slice((ctas - 1 - cta) * each, (ctas - cta) * each)",
        TILES,
    ),
    Change(
        "the last k-block is forgotten",
        f"{_MLA}/tiling.py",
        "-(-(topk if given is None else min(max(int(given[token]), 0), topk)) // b_topk)",
        "(topk if given is None else min(max(int(given[token]), 0), topk)) // b_topk",
        TILES,
    ),
    Change(
        "index 0 is no key",
        f"{_MLA}/inputs.py",
        "(index >= 0) & (index < p.s_kv)",
        "(index > 0) & (index < p.s_kv)",
        PROBLEM,
    ),
    Change(
        "index s_kv is a key",
        f"{_MLA}/inputs.py",
        "(index >= 0) & (index < p.s_kv)",
        "(index >= 0) & (index <= p.s_kv)",
        PROBLEM,
    ),
    Change(
        "slot topk_length counts",
        f"{_MLA}/inputs.py",
        "np.arange(p.topk)[None, :] < lengths",
        "np.arange(p.topk)[None, :] <= lengths",
        PROBLEM,
    ),
    Change(
        "a negative length is not clamped",
        f"{_MLA}/inputs.py",
        "np.clip(inputs.topk_length.astype(np.int64), 0, p.topk)",
        "np.abs(inputs.topk_length.astype(np.int64))",
        PROBLEM,
    ),
    Change(
        "rows that are no key are gathered",
        f"{_MLA}/tiling.py",
        "mask = keys_of(inputs, token)[cols]\n    rows",
        "mask = inputs.indices[token, cols] >= 0\n    rows",
        TILES,
    ),
    # The tensor core.
    Change(
        "three bits of alignment",
        "machine/tensor_core.py",
        "\nEXTRA_BITS = 2\n",
        "\nEXTRA_BITS = 3\n",
        TENSOR_CORE,
    ),
    Change(
        "blocks of 8 products", "machine/tensor_core.py", "\nK_BLOCK = 16\n", "\nK_BLOCK = 8\n", TENSOR_CORE
    ),
)
