// A tensor map whose contiguous stride is the number 1, which the types do not know.
#include "common.cuh"

namespace wrong {

inline auto tma_dynamic_stride(bf16 const* at) {
#ifdef RIGHT
  auto g = make_tensor(make_gmem_ptr(at), make_layout(make_shape(512, 576), make_stride(576, _1{})));
#else
  auto g = make_tensor(make_gmem_ptr(at), make_layout(make_shape(512, 576), make_stride(576, 1)));
#endif
  auto s = tile_to_shape(UMMA::Layout_K_SW128_Atom<bf16>{}, Shape<_64, _64>{});
  return make_tma_copy(SM90_TMA_LOAD{}, g, s, Shape<_64, _64>{}, _1{});
}

}  // namespace wrong
