// A tensor-memory load without the header that has it.
#include <cute/layout.hpp>
#ifdef RIGHT
#include <cute/atom/copy_traits_sm100.hpp>
#endif

namespace wrong {

__global__ void not_included() {
  using Load = cute::SM100_TMEM_LOAD_32dp32b16x;
  static_assert(sizeof(Load) > 0);
}

}  // namespace wrong
