"""nvcc's verdict on operand combinations: many per translation unit, each refusal attributed to its row.

Every row is one explicit instantiation on a line of its own, and nvcc names that line in the trail of each
error. A failing class or function is reported once however many rows use it, so the rows without an error
are compiled again until none fails: what remains has really been compiled to PTX.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tileproof.kernels import toolchain
from tileproof.kernels.compile import FLAGS
from tileproof.spec.machine.contracts import MmaForm
from tileproof.spec.machine.errors import TileproofError
from tileproof.tools.operand_constraints.rows import LoadRow, OperandForm, OperandRow

LIMIT = ("-Xcudafe", "--error_limit=100000")
BATCH = 100
TIMEOUT_S = 600
TYPES = {
    "bf16": "cutlass::bfloat16_t",
    "f16": "cutlass::half_t",
    "tf32": "cutlass::tfloat32_t",
    "f32": "float",
    "s32": "int32_t",
    "s8": "int8_t",
    "u8": "uint8_t",
    "e4m3": "cutlass::float_e4m3_t",
    "e5m2": "cutlass::float_e5m2_t",
}
ATOMS = {"none": "INTER", "32B": "SW32", "64B": "SW64", "128B": "SW128", "128B_ATOM_32B": "SW128_32B"}

# CUTLASS 4.2 has the accumulator of the weight-stationary form (tmem_frg_ws) but no atom that uses it: the
# one here is written for this comparison. A in tensor memory is the fragment of the other 1-CTA forms.
PRELUDE = r"""#include <cute/tensor.hpp>
#include <cute/atom/mma_traits_sm100.hpp>
#include <cute/algorithm/gemm.hpp>
using namespace cute;
constexpr auto K_ = UMMA::Major::K;
constexpr auto MN_ = UMMA::Major::MN;

template <class A, class B, class C, int M, int N, UMMA::Major MajorA, UMMA::Major MajorB, bool TmemA>
struct Ws {};

namespace cute {
template <class A, class B, class C, int M, int N, UMMA::Major MajorA, UMMA::Major MajorB, bool TmemA>
struct MMA_Traits<Ws<A, B, C, M, N, MajorA, MajorB, TmemA>> {
  static_assert(sizeof_bits_v<A> == 16 && sizeof_bits_v<B> == 16, "kind::f16 takes 16-bit operands");
  static_assert(!TmemA || MajorA == UMMA::Major::K, "A in TMEM is K-major");
  using ValTypeD = C;
  using ValTypeA = A;
  using ValTypeB = B;
  using ValTypeC = C;
  using FrgTypeA = conditional_t<TmemA, UMMA::tmem_frg_1sm<A, A, UMMA::TmemAllocMode::NonInterleaved>,
                                 UMMA::smem_desc<MajorA>>;
  using FrgTypeB = UMMA::smem_desc<MajorB>;
  using FrgTypeC = UMMA::tmem_frg_ws_1sm<C>;
  using Shape_MNK = Shape<Int<M>, Int<N>, _16>;
  using ThrID = Layout<_1>;
  using ALayout = Layout<Shape<_1, Shape<Int<M>, _16>>, Stride<_0, Stride<_1, Int<M>>>>;
  using BLayout = Layout<Shape<_1, Shape<Int<N>, _16>>, Stride<_0, Stride<_1, Int<N>>>>;
  using CLayout = Layout<Shape<_1, Shape<Int<M>, Int<N>>>, Stride<_0, Stride<_1, Int<M>>>>;
  template <class TD, class LD, class TA, class LA, class TB, class LB, class TC, class LC>
  CUTE_HOST_DEVICE constexpr friend void mma_unpack(MMA_Traits const&, Tensor<TD, LD>& d,
                                                    Tensor<TA, LA> const& a, Tensor<TB, LB> const& b,
                                                    Tensor<TC, LC> const&) {
    uint32_t idesc = uint32_t(UMMA::make_instr_desc<A, B, C, M, N, MajorA, MajorB>());
    uint64_t desc_b = b[0];
    if constexpr (TmemA) {
      asm volatile("{.reg .pred p; setp.ne.u32 p, 1, 0;\n"
                   "tcgen05.mma.ws.cta_group::1.kind::f16 [%0], [%1], %2, %3, p, 0;}" ::"r"(
                       raw_pointer_cast(d.data())), "r"(raw_pointer_cast(a.data())), "l"(desc_b), "r"(idesc));
    } else {
      uint64_t desc_a = a[0];
      asm volatile("{.reg .pred p; setp.ne.u32 p, 1, 0;\n"
                   "tcgen05.mma.ws.cta_group::1.kind::f16 [%0], %1, %2, %3, p, 0;}" ::"r"(
                       raw_pointer_cast(d.data())), "l"(desc_a), "l"(desc_b), "r"(idesc));
    }
  }
};
}  // namespace cute

template <class Atom, class MN, class K>
using Tile_ = decltype(tile_to_shape(Atom{}, Shape<MN, K>{}));
template <class L>
using Turned_ = decltype(composition(
    L{}, make_layout(make_shape(size<1>(L{}), size<0>(L{})), make_stride(size<0>(L{}), _1{}))));

template <class T, class L>
struct Smem {
  template <class Mma>
  __device__ static auto tensor(Mma const&) {
    extern __shared__ __align__(1024) char smem[];
    return make_tensor(make_smem_ptr(reinterpret_cast<T*>(smem)), L{});
  }
  template <class Mma>
  __device__ static auto a(Mma const& mma) { return mma.get_slice(_0{}).partition_fragment_A(tensor(mma)); }
  template <class Mma>
  __device__ static auto b(Mma const& mma) { return mma.get_slice(_0{}).partition_fragment_B(tensor(mma)); }
};
template <class T, class L>
struct Gmem {
  template <class Mma>
  __device__ static auto tensor(Mma const&) {
    return make_tensor(make_gmem_ptr(static_cast<T*>(nullptr)), L{});
  }
  template <class Mma>
  __device__ static auto a(Mma const& mma) { return mma.get_slice(_0{}).partition_fragment_A(tensor(mma)); }
  template <class Mma>
  __device__ static auto b(Mma const& mma) { return mma.get_slice(_0{}).partition_fragment_B(tensor(mma)); }
};
template <class T, class Atom, class MN, class K>
struct Cut {
  template <class S>
  __device__ static auto tensor(S const& shape) {
    extern __shared__ __align__(1024) char smem[];
    return make_tensor(make_smem_ptr(reinterpret_cast<T*>(smem)), UMMA::tile_to_mma_shape(Atom{}, shape));
  }
  template <class Mma>
  __device__ static auto a(Mma const& mma) {
    return mma.make_fragment_A(tensor(partition_shape_A(mma, Shape<MN, K>{})));
  }
  template <class Mma>
  __device__ static auto b(Mma const& mma) {
    return mma.make_fragment_B(tensor(partition_shape_B(mma, Shape<MN, K>{})));
  }
};
// A in tensor memory: the atom's own fragment for its shape.
template <class S>
struct Tmem {
  template <class Mma>
  __device__ static auto a(Mma const& mma) { return mma.make_fragment_A(partition_shape_A(mma, S{})); }
};

template <int Row, class Atom, class A, class B, class C>
__global__ void row() {
  auto mma = make_tiled_mma(Atom{});
  Tensor a = A::a(mma);
  Tensor b = B::b(mma);
  Tensor c = partition_fragment_C(mma, C{});
  gemm(mma, a, b, c);
}

template <int Row, class Atom, class Op, class C>
__global__ void load() {
  auto mma = make_tiled_mma(Atom{});
  Tensor c = partition_fragment_C(mma, C{});
  auto tiled = make_tmem_copy(Op{}, c);
  auto mine = tiled.get_slice(threadIdx.x);
  Tensor to = make_tensor<float>(shape(mine.partition_D(c)));
  copy(tiled, mine.partition_S(c), to);
}
"""
LOADS = {
    "32x32b": "32dp32b",
    "16x64b": "16dp64b",
    "16x128b": "16dp128b",
    "16x256b": "16dp256b",
    "16x32bx2": "16dp32b",
}


@dataclass(frozen=True)
class NvccVerdict:
    """Whether nvcc compiles a row to PTX; where it does not, the first error that names it."""

    compiles: bool
    error: str = ""


def command() -> list[str]:
    """The nvcc command of a batch, without paths of this machine."""
    return ["nvcc", *FLAGS, *LIMIT, "-I<nvidia-cutlass>/source/include", "rows.cu"]


def verdicts(
    rows: Sequence[OperandRow | LoadRow],
    *,
    batch: int = BATCH,
    progress: Callable[[str], None] = lambda text: None,
) -> list[NvccVerdict]:
    """nvcc's verdict on each row, in order.

    Rows that the contracts expect to fail the same way are spread over the batches, because only the first
    of them shows; that changes how often nvcc runs, never a verdict.
    """
    found: dict[int, NvccVerdict] = {}
    expected_to_fail = [any(m.at == "compile" for m in row.misfits()) for row in rows]
    good = [i for i, fails in enumerate(expected_to_fail) if not fails]
    bad = [i for i, fails in enumerate(expected_to_fail) if fails]
    batches = [good[i : i + batch] for i in range(0, len(good), batch)]
    count = -(-len(bad) // batch)
    batches += [bad[i::count] for i in range(count)]
    for number, chosen in enumerate(batches):
        pending = list(chosen)
        rounds = 0
        while pending:
            errors = compile_rows({i: rows[i] for i in pending})
            rounds += 1
            if not errors:
                found |= dict.fromkeys(pending, NvccVerdict(True))
                break
            found |= {i: NvccVerdict(False, text) for i, text in errors.items()}
            pending = [i for i in pending if i not in errors]
        progress(f"batch {number + 1} of {len(batches)}: {len(chosen)} rows, {rounds} compilations")
    return [found[i] for i in range(len(rows))]


def source(rows: dict[int, OperandRow | LoadRow]) -> tuple[str, dict[int, int]]:
    """The translation unit, and line -> row."""
    lines = PRELUDE.splitlines()
    at: dict[int, int] = {}
    for index, row in rows.items():
        lines.append(f"template __global__ void {_instance(index, row)}();")
        at[len(lines)] = index
    return "\n".join(lines) + "\n", at


def _instance(index: int, row: OperandRow | LoadRow) -> str:
    form = row.form
    if isinstance(row, LoadRow):
        operation = f"SM100_TMEM_LOAD_{LOADS[row.shape]}{row.repeat}x"
        return f"load<{index}, {_atom(form)}, {operation}, Shape<Int<{form.m}>, Int<{form.n}>>>"
    a, b = _operand(row.a, form), _operand(row.b, form)
    c = f"Shape<Int<{row.c[0] * form.cta_group}>, Int<{row.c[1]}>>"
    return f"row<{index}, {_atom(form)}, {a}, {b}, {c}>"


def compile_rows(rows: dict[int, OperandRow | LoadRow]) -> dict[int, str]:
    """Row -> its first error, of the rows whose line an error names; empty when all compiled to PTX."""
    text, at = source(rows)
    tools = toolchain.find()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.cu"
        path.write_text(text)
        output = Path(folder) / "rows.ptx"
        made = [str(tools.nvcc), *FLAGS, *LIMIT, f"-I{tools.cutlass_include}", "-o", str(output), str(path)]
        try:
            done = subprocess.run(made, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise TileproofError("the compiler did not finish", where="nvcc", found=str(error)) from error
        entries = output.read_text().count(".entry") if output.exists() and not done.returncode else 0
    errors = attribute(done.stdout + done.stderr, at)
    if bool(errors) != bool(done.returncode) or (not errors and entries != len(rows)):
        raise TileproofError(
            "nvcc's output cannot be attributed to the rows",
            where="rows.cu",
            expected=f"{len(rows)} entries or errors at lines of rows",
            found=f"exit {done.returncode}, {entries} entries: {(done.stdout + done.stderr).strip()[-600:]}",
        )
    return errors


_ERROR = re.compile(r"^(?P<place>\S*?\(\d+\)): (?:catastrophic )?error(?: #[\w-]+)?: (?P<text>.*)$")
_OTHER = re.compile(r"^\S*?\(\d+\): (?:warning|remark)\b")
_LINE = re.compile(r"at line (\d+) of \S*rows\.cu|^\S*rows\.cu\((\d+)\)", re.MULTILINE)


def attribute(log: str, at: dict[int, int]) -> dict[int, str]:
    """Row -> first error text, from the lines of the translation unit that each error names."""
    errors: dict[int, str] = {}
    text, block = "", [""]
    for line in [*log.splitlines(), "(0): error: end"]:
        match = _ERROR.match(line)
        if not match and not _OTHER.match(line):
            block.append(line)
            continue
        if text:
            for pair in _LINE.findall("\n".join(block)):
                number = int(pair[0] or pair[1])
                if number in at:
                    errors.setdefault(at[number], text)
        text, block = (match["text"] if match else ""), [line]
    return errors


def _atom(form: MmaForm) -> str:
    types = ", ".join(TYPES[t] for t in (form.a_type, form.b_type, form.c_type))
    arguments = f"{types}, {form.m}, {form.n}, {form.a_major}_, {form.b_major}_"
    source_of_a = "TS" if form.a_space == "tmem" else "SS"
    if form.ws:
        return f"Ws<{arguments}, {'true' if form.a_space == 'tmem' else 'false'}>"
    family = "TF32" if form.kind == "tf32" else "F16BF16"
    pair = "_2x1SM" if form.cta_group == 2 else ""
    return f"SM100_MMA_{family}{pair}_{source_of_a}<{arguments}>"


def _operand(operand: OperandForm, form: MmaForm) -> str:
    dtype = TYPES[operand.dtype]
    if operand.how == "raw":
        assert operand.bits is not None
        layout = f"Layout<{_tuple(operand.shape, 'Shape')}, {_tuple(operand.stride, 'Stride')}>"
        b, m, s = operand.bits
        if b:
            flag = f"smem_ptr_flag_bits<sizeof_bits_v<{dtype}>>"
            layout = f"ComposedLayout<Swizzle<{b}, {m}, {s}>, {flag}, {layout}>"
        return f"{'Gmem' if operand.space == 'gmem' else 'Smem'}<{dtype}, {layout}>"
    assert operand.extents is not None
    mn, k = operand.extents
    if operand.how == "tmem":
        return f"Tmem<Shape<Int<{mn * form.cta_group}>, Int<{k}>>>"
    atom = f"UMMA::Layout_{operand.major}_{ATOMS[operand.swizzle]}_Atom<{dtype}>"
    if operand.how == "cut":
        return f"Cut<{dtype}, {atom}, Int<{mn * form.cta_group}>, Int<{k}>>"
    layout = f"Tile_<{atom}, Int<{mn}>, Int<{k}>>"
    return f"Smem<{dtype}, {f'Turned_<{layout}>' if operand.transposed else layout}>"


def _tuple(value: object, name: str) -> str:
    if isinstance(value, tuple):
        return f"{name}<{', '.join(_tuple(item, name) for item in value)}>"
    return f"Int<{value}>"
