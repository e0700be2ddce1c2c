// 16-byte copies of a tile whose threads hold four 2-byte elements each.
#include "common.cuh"

namespace wrong {

__global__ void vector_too_wide(bf16 const* from, void* to) {
  auto g = make_tensor(make_gmem_ptr(from), Layout<Shape<_4>, Stride<_1>>{});
  auto s = make_tensor(make_smem_ptr(static_cast<bf16*>(to)), Layout<Shape<_4>, Stride<_1>>{});
#ifdef RIGHT
  using Vector = uint64_t;
#else
  using Vector = uint128_t;
#endif
  copy(Copy_Atom<UniversalCopy<Vector>, bf16>{}, g, s);
}

}  // namespace wrong
