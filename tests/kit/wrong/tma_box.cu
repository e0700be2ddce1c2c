// The tile of a tensor map and the layout of its shared memory have different sizes.
#include "common.cuh"

namespace wrong {

inline auto tma_box(bf16 const* at) {
  auto g = make_tensor(make_gmem_ptr(at), make_layout(make_shape(512, 576), make_stride(576, _1{})));
  auto s = tile_to_shape(UMMA::Layout_K_SW128_Atom<bf16>{}, Shape<_64, _64>{});
#ifdef RIGHT
  return make_tma_copy(SM90_TMA_LOAD{}, g, s, Shape<_64, _64>{}, _1{});
#else
  return make_tma_copy(SM90_TMA_LOAD{}, g, s, Shape<_128, _64>{}, _1{});
#endif
}

}  // namespace wrong
